#include "addnorm/nn/norm.h"

#include "base/require.h"
#include "nn/told.h"

namespace addnorm {

template <typename T, typename In, typename Out>
Norm<T, In, Out>::Norm(const NormOptions& options, std::size_t features, Affine affine)
    : options_(options) {
  require(options.kind != NormKind::kInstance,
          "norm: an instance norm of tokens is not possible, each channel of a token is one value");
  require(kOneType || of_rows(), "norm: batch and group norms have no mixed precision");
  const Value identity = options.gamma_form == GammaForm::kOnePlus ? Value{0} : Value{1};
  if (affine != Affine::kNone) {
    gamma_ = Parameter<Value>(1, features, ParameterRole::kNorm, identity);
  }
  if (affine == Affine::kGammaBeta) beta_ = Parameter<Value>(1, features, ParameterRole::kNorm);
  if (options.kind == NormKind::kBatch) {
    running_mean_.assign(features, Value{0});
    running_variance_.assign(features, Value{1});
  }
}

template <typename T, typename In, typename Out>
bool Norm<T, In, Out>::of_rows() const {
  return options_.kind == NormKind::kLayer || options_.kind == NormKind::kRms;
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::forward(const ResidualAdd<In, Out>& add, MatrixView<In> sum,
                               MatrixView<Out> y, const Pass<T>& pass) {
  if (of_rows()) {
    statistics_.resize(add.x.rows);
    add_norm_forward<In, Out>(options_, {.add = add,
                                         .sum = sum,
                                         .gamma = gamma_.value.flat(),
                                         .beta = beta_.value.flat(),
                                         .y = y,
                                         .statistics = statistics_});
    return;
  }
  MatrixView<const In> s = add.x;
  if (!sum.empty()) {
    residual_add<In, Out>(add, sum);
    s = sum;
  }
  forward_channels(s, y, pass);
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::forward_channels(MatrixView<const In> s, MatrixView<Out> y,
                                        const Pass<T>& pass) {
  if constexpr (kOneType) {
    require(s.contiguous() && y.contiguous(), "norm: a batch or group norm needs contiguous rows");
    const TensorView<const Value> x{s.data, s.rows, s.cols, 1};
    Matrix<Value>& workspace = pass.memory().norm;
    workspace.resize(1, channel_norm_workspace(options_, x));
    statistics_.resize(channel_norm_sets(options_, x));
    const ChannelNormForward<Value> args{.x = x,
                                         .gamma = gamma_.value.flat(),
                                         .beta = beta_.value.flat(),
                                         .y = {y.data, y.rows, y.cols, 1},
                                         .statistics = statistics_,
                                         .workspace = workspace.flat()};
    const RunningStatistics<Value> running{running_mean_, running_variance_};
    if (options_.kind != NormKind::kBatch) {
      channel_norm_forward(options_, args);
    } else if (pass.mode == Mode::kEvaluation) {
      running_to_norm_statistics<Value>(options_, running, statistics_);
      batch_norm_evaluate(options_, args);
    } else {
      channel_norm_forward(options_, args);
      update_running_statistics<Value>(options_, s.rows, statistics_, running);
    }
  }
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::backward(const Backward& args, const Pass<T>& pass) {
  if (!of_rows()) return backward_channels(args, pass);
  Matrix<Value>& workspace = pass.memory().norm;
  workspace.resize(1, add_norm_workspace(args.s.rows, args.s.cols));
  add_norm_backward<In, Out>(options_, {.s = args.s,
                                        .statistics = statistics_,
                                        .gamma = gamma_.value.flat(),
                                        .dy = args.dy,
                                        .d_residual = args.d_residual,
                                        .skip = args.skip,
                                        .dx = args.dx,
                                        .d_gamma = gamma_.gradient.flat(),
                                        .d_beta = beta_.gradient.flat(),
                                        .workspace = workspace.flat()});
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::backward_channels(const Backward& args, const Pass<T>& pass) {
  if constexpr (kOneType) {
    require(args.s.contiguous() && args.dy.contiguous(),
            "norm: a batch or group norm needs contiguous rows");
    const auto [rows, cols] = std::pair{args.s.rows, args.s.cols};
    const TensorView<const Value> x{args.s.data, rows, cols, 1};
    Matrix<Value>& workspace = pass.memory().norm;
    Matrix<Value>& dx = pass.memory().d_normed;
    workspace.resize(1, channel_norm_workspace(options_, x));
    dx.resize(rows, cols);
    const ChannelNormBackward<Value> channels{.x = x,
                                              .statistics = statistics_,
                                              .gamma = gamma_.value.flat(),
                                              .dy = {args.dy.data, rows, cols, 1},
                                              .dx = {dx.data(), rows, cols, 1},
                                              .d_gamma = gamma_.gradient.flat(),
                                              .d_beta = beta_.gradient.flat(),
                                              .workspace = workspace.flat()};
    if (options_.kind == NormKind::kBatch && pass.mode == Mode::kEvaluation) {
      batch_norm_evaluate_backward(options_, channels);
    } else {
      channel_norm_backward(options_, channels);
    }
    if (args.d_residual.empty()) {
      residual_add<Value>({.x = dx}, args.dx);
    } else {
      residual_add<Value>({.x = args.d_residual, .branch = dx, .skip = args.skip}, args.dx);
    }
  }
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::tell(Site site, MatrixView<const In> s, const Pass<T>& pass) const {
  if (pass.probe == nullptr || !of_rows()) return;
  Matrix<Value> means(s.rows, 1);
  Matrix<Value> deviations(s.rows, 1);
  Matrix<Out> normalized(s.rows, s.cols);
  for (std::size_t r = 0; r < s.rows; ++r) {
    means(r, 0) = statistics_[r].mean();
    deviations(r, 0) = statistics_[r].deviation();
  }
  NormOptions plain = options_;
  plain.output_scale = 1;
  add_norm_forward<In, Out>(plain, {.add = {.x = s}, .y = normalized});
  site.point = Point::kMean;
  pass.probe->forward(site, means);
  site.point = Point::kDeviation;
  pass.probe->forward(site, deviations);
  site.point = Point::kNormalized;
  pass.probe->forward(site, Told<Out>(normalized));
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  list_parameter(list, prefix, "gamma", gamma_);
  list_parameter(list, prefix, "beta", beta_);
}

template class Norm<float>;
template class Norm<double>;
template class Norm<BFloat16>;
template class Norm<BFloat16, float, BFloat16>;
template class Norm<BFloat16, BFloat16>;

}  // namespace addnorm
