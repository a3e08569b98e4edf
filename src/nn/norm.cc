#include "addnorm/nn/norm.h"

#include "base/require.h"
#include "nn/observed.h"

namespace addnorm {

template <typename T, typename In, typename Out>
Norm<T, In, Out>::Norm(const NormOptions& options, std::size_t features, Affine affine)
    : options_(options) {
  require(options.kind != NormKind::kInstance,
          "norm: an instance norm of tokens is not possible, each channel of a token is one value");
  require(kOneType || normalizes_rows(options.kind) || squashes(options.kind),
          "norm: batch and group norms have no mixed precision");
  const Value identity = options.gamma_form == GammaForm::kOnePlus ? Value{0} : Value{1};
  const bool one_gamma = affine == Affine::kScalarGamma;
  if (affine != Affine::kNone) {
    gamma_ = Parameter<Value>(1, one_gamma ? 1 : features, ParameterRole::kNorm, identity);
  }
  if (one_gamma) {
    gammas_.resize(1, features);
    d_gammas_.resize(1, features);
  }
  if (affine == Affine::kGammaBeta) beta_ = Parameter<Value>(1, features, ParameterRole::kNorm);
  if (squashes(options.kind)) {
    alpha_ = Parameter<Value>(1, 1, ParameterRole::kNorm, static_cast<Value>(options.alpha));
  }
  if (options.kind == NormKind::kDerf) shift_ = Parameter<Value>(1, 1, ParameterRole::kNorm);
  if (options.kind == NormKind::kBatch) {
    running_mean_.assign(features, Value{0});
    running_variance_.assign(features, Value{1});
  }
}

/// Only BatchNorm differs in evaluation: it normalizes by its running statistics.
template <typename T, typename In, typename Out>
StatisticsFrom Norm<T, In, Out>::statistics_from(const Pass<T>& pass) const {
  const bool evaluates = pass.mode == Mode::kEvaluation && options_.kind == NormKind::kBatch;
  return evaluates ? StatisticsFrom::kGiven : StatisticsFrom::kInput;
}

template <typename T, typename In, typename Out>
std::span<Arithmetic<T>> Norm<T, In, Out>::workspace(const MatrixView<const In>& s,
                                                     const Pass<T>& pass) const {
  Matrix<Value>& memory = pass.memory().norm;
  memory.resize(1, norm_workspace(options_, s.rows, s.cols));
  return memory.flat();
}

/// Returns γ in the kernels' format.
template <typename T, typename In, typename Out>
std::span<const Arithmetic<T>> Norm<T, In, Out>::gamma_of_features() {
  if (gammas_.empty()) return gamma_.value.flat();
  gammas_.fill(gamma_.value(0, 0));
  return gammas_.flat();
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::forward(const ResidualAdd<In, Out>& add, MatrixView<In> sum,
                               MatrixView<Out> y, const Pass<T>& pass) {
  const RunningStatistics<Value> running{running_mean_, running_variance_};
  const StatisticsFrom from = statistics_from(pass);
  const bool over_batch = options_.kind == NormKind::kBatch;
  statistics_.resize(norm_sets(options_, add.x.rows, add.x.cols));
  if (from == StatisticsFrom::kGiven) {
    running_to_norm_statistics<Value>(options_, running, statistics_);
  }
  add_norm_forward<In, Out>(options_,
                            {.add = add,
                             .sum = sum,
                             .gamma = gamma_of_features(),
                             .beta = beta_.value.flat(),
                             .alpha = alpha_.value.flat(),
                             .shift = shift_.value.flat(),
                             .y = y,
                             .statistics = statistics_,
                             .workspace = over_batch ? workspace(add.x, pass) : std::span<Value>(),
                             .statistics_from = from});
  if (options_.kind == NormKind::kBatch && from == StatisticsFrom::kInput) {
    update_running_statistics<Value>(options_, add.x.rows, statistics_, running);
  }
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::backward(const Backward& args, const Pass<T>& pass) {
  const bool one_gamma = !gammas_.empty();
  d_gammas_.fill(0);
  add_norm_backward<In, Out>(options_, {.s = args.s,
                                        .statistics = statistics_,
                                        .gamma = gamma_of_features(),
                                        .alpha = alpha_.value.flat(),
                                        .shift = shift_.value.flat(),
                                        .dy = args.dy,
                                        .d_residual = args.d_residual,
                                        .skip = args.skip,
                                        .dx = args.dx,
                                        .d_gamma = (one_gamma ? d_gammas_ : gamma_.gradient).flat(),
                                        .d_beta = beta_.gradient.flat(),
                                        .d_alpha = alpha_.gradient.flat(),
                                        .d_shift = shift_.gradient.flat(),
                                        .workspace = workspace(args.s, pass),
                                        .statistics_from = statistics_from(pass)});
  for (const Value d : d_gammas_.flat()) gamma_.gradient(0, 0) += d;
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::observe(Site site, MatrixView<const In> s, const Pass<T>& pass) const {
  if (pass.probe == nullptr || !normalizes_rows(options_.kind)) return;
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
  pass.probe->forward(site, Observed<Out>(normalized));
}

template <typename T, typename In, typename Out>
void Norm<T, In, Out>::list_parameters(const std::string& prefix, ParameterList<Value>& list) {
  list_parameter(list, prefix, "gamma", gamma_);
  list_parameter(list, prefix, "beta", beta_);
  list_parameter(list, prefix, "alpha", alpha_);
  list_parameter(list, prefix, "shift", shift_);
}

template class Norm<float>;
template class Norm<double>;
template class Norm<BFloat16>;
template class Norm<BFloat16, float, BFloat16>;
template class Norm<BFloat16, BFloat16>;

}  // namespace addnorm
