#include "nn/norm.h"

#include "base/require.h"

namespace addnorm {

template <typename T>
Norm<T>::Norm(const NormOptions& options, std::size_t features, Affine affine) : options_(options) {
  require(options.kind != NormKind::kInstance,
          "norm: an instance norm of tokens is not possible, each channel of a token is one value");
  const T identity = options.gamma_form == GammaForm::kOnePlus ? T{0} : T{1};
  if (affine != Affine::kNone) {
    gamma_ = Parameter<T>(1, features, ParameterRole::kNorm, identity);
  }
  if (affine == Affine::kGammaBeta) beta_ = Parameter<T>(1, features, ParameterRole::kNorm);
  if (options.kind == NormKind::kBatch) {
    running_mean_.assign(features, T{0});
    running_variance_.assign(features, T{1});
  }
}

template <typename T>
bool Norm<T>::of_rows() const {
  return options_.kind == NormKind::kLayer || options_.kind == NormKind::kRms;
}

template <typename T>
void Norm<T>::forward(const ResidualAdd<T>& add, MatrixView<T> sum, MatrixView<T> y,
                      const Pass<T>& pass) {
  if (of_rows()) {
    statistics_.resize(add.x.rows);
    add_norm_forward<T>(options_, {.add = add,
                                   .sum = sum,
                                   .gamma = gamma_.value.flat(),
                                   .beta = beta_.value.flat(),
                                   .y = y,
                                   .statistics = statistics_});
    return;
  }
  MatrixView<const T> s = add.x;
  if (!sum.empty()) {
    residual_add(add, sum);
    s = sum;
  }
  forward_channels(s, y, pass);
}

template <typename T>
void Norm<T>::forward_channels(MatrixView<const T> s, MatrixView<T> y, const Pass<T>& pass) {
  require(s.contiguous() && y.contiguous(), "norm: a batch or group norm needs contiguous rows");
  const TensorView<const T> x{s.data, s.rows, s.cols, 1};
  Matrix<T>& workspace = pass.scratch->norm;
  workspace.resize(1, channel_norm_workspace(options_, x));
  statistics_.resize(channel_norm_sets(options_, x));
  const ChannelNormForward<T> args{.x = x,
                                   .gamma = gamma_.value.flat(),
                                   .beta = beta_.value.flat(),
                                   .y = {y.data, y.rows, y.cols, 1},
                                   .statistics = statistics_,
                                   .workspace = workspace.flat()};
  const RunningStatistics<T> running{running_mean_, running_variance_};
  if (options_.kind != NormKind::kBatch) {
    channel_norm_forward(options_, args);
  } else if (pass.mode == Mode::kEvaluation) {
    running_to_norm_statistics<T>(options_, running, statistics_);
    batch_norm_evaluate(options_, args);
  } else {
    channel_norm_forward(options_, args);
    update_running_statistics<T>(options_, s.rows, statistics_, running);
  }
}

template <typename T>
void Norm<T>::backward(const Backward& args, const Pass<T>& pass) {
  if (!of_rows()) return backward_channels(args, pass);
  Matrix<T>& workspace = pass.scratch->norm;
  workspace.resize(1, add_norm_workspace(args.s.rows, args.s.cols));
  add_norm_backward<T>(options_, {.s = args.s,
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

template <typename T>
void Norm<T>::backward_channels(const Backward& args, const Pass<T>& pass) {
  require(args.s.contiguous() && args.dy.contiguous(),
          "norm: a batch or group norm needs contiguous rows");
  const auto [rows, cols] = std::pair{args.s.rows, args.s.cols};
  const TensorView<const T> x{args.s.data, rows, cols, 1};
  Matrix<T>& workspace = pass.scratch->norm;
  Matrix<T>& dx = pass.scratch->d_normed;
  workspace.resize(1, channel_norm_workspace(options_, x));
  dx.resize(rows, cols);
  const ChannelNormBackward<T> channels{.x = x,
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
    residual_add<T>({.x = dx}, args.dx);
  } else {
    residual_add<T>({.x = args.d_residual, .branch = dx, .skip = args.skip}, args.dx);
  }
}

template <typename T>
void Norm<T>::tell(Site site, MatrixView<const T> s, const Pass<T>& pass) const {
  if (pass.probe == nullptr || !of_rows()) return;
  Matrix<T> means(s.rows, 1);
  Matrix<T> deviations(s.rows, 1);
  Matrix<T> normalized(s.rows, s.cols);
  for (std::size_t r = 0; r < s.rows; ++r) {
    means(r, 0) = statistics_[r].mean();
    deviations(r, 0) = statistics_[r].deviation();
  }
  NormOptions plain = options_;
  plain.output_scale = 1;
  add_norm_forward<T>(plain, {.add = {.x = s}, .y = normalized});
  site.point = Point::kMean;
  pass.probe->forward(site, means);
  site.point = Point::kDeviation;
  pass.probe->forward(site, deviations);
  site.point = Point::kNormalized;
  pass.probe->forward(site, normalized);
}

template <typename T>
void Norm<T>::list_parameters(const std::string& prefix, ParameterList<T>& list) {
  list_parameter(list, prefix + ".gamma", gamma_);
  list_parameter(list, prefix + ".beta", beta_);
}

template class Norm<float>;
template class Norm<double>;

}  // namespace addnorm
