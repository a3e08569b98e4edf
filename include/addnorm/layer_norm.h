#pragma once

/// \file
/// Short calls of LayerNorm, RMSNorm and Add & Norm, for matrices of one type with γ and β. Each
/// calls add_norm_forward or add_norm_backward of addnorm/norm.h, which have all options.
///
///     layer_norm(x, gamma, beta, y);                            // y = norm(x)
///     add_layer_norm(x, branch, gamma, beta, sum, y);           // sum = x + branch, y = norm(sum)
///     add_layer_norm<BFloat16>(x, branch, gamma, beta, sum, y);
///
/// x, branch, sum, y and their gradients are rows × features. γ, β and their gradients have one
/// value for each feature. `statistics`, one for each row, are forward's output for backward; they
/// may be absent if there is no backward. sum may be x or branch; y may be x or branch, but not
/// sum. `threads` is the number of threads, as in addnorm/norm.h.

#include <type_traits>

#include "addnorm/norm.h"

namespace addnorm {

/// The gradients of γ and β, to which backward adds, and a workspace of add_norm_workspace()
/// values.
template <typename V>
struct NormGradients {
  std::span<V> gamma = {};      ///< empty: not wanted
  std::span<V> beta = {};       ///< empty: not wanted
  std::span<V> workspace = {};  ///< needed if γ's or β's gradient is wanted
};

namespace short_calls {

// Argument types. T is not deduced from them, so matrices convert to views.

template <typename T>
using In = MatrixView<const std::type_identity_t<T>>;  ///< a matrix that is read
template <typename T>
using Out = MatrixView<std::type_identity_t<T>>;  ///< a matrix that is written
template <typename T>
using Values = std::span<const Arithmetic<std::type_identity_t<T>>>;  ///< γ or β
template <typename T>
using Statistics = std::span<NormStatistics<Arithmetic<std::type_identity_t<T>>>>;  ///< written
template <typename T>
using StatisticsIn =
    std::span<const NormStatistics<Arithmetic<std::type_identity_t<T>>>>;  ///< backward's input
template <typename T>
using Gradients = NormGradients<Arithmetic<std::type_identity_t<T>>>;  ///< of γ and β

/// \cond
// Calls add_norm_forward and add_norm_backward; errors begin with `name`.
template <typename T>
ADDNORM_API void forward(const char* name, const NormOptions& options,
                         const AddNormForward<T>& args, std::size_t threads);
template <typename T>
ADDNORM_API void backward(const char* name, const NormOptions& options,
                          const AddNormBackward<T>& args, std::size_t threads);
template <typename T>
void backward(const char* name, NormKind kind, In<T> s, StatisticsIn<T> statistics, Values<T> gamma,
              In<T> dy, In<T> d_residual, Out<T> dx, const Gradients<T>& gradients,
              std::size_t threads) {
  backward<T>(name, {.kind = kind},
              {.s = s,
               .statistics = statistics,
               .gamma = gamma,
               .dy = dy,
               .d_residual = d_residual,
               .dx = dx,
               .d_gamma = gradients.gamma,
               .d_beta = gradients.beta,
               .workspace = gradients.workspace},
              threads);
}
/// \endcond

}  // namespace short_calls

/// sum = x + branch, y = γ ⊙ (sum − mean)/√(variance + ε) + β, by rows (Ba et al. 2016).
template <typename T = float>
void add_layer_norm(short_calls::In<T> x, short_calls::In<T> branch, short_calls::Values<T> gamma,
                    short_calls::Values<T> beta, short_calls::Out<T> sum, short_calls::Out<T> y,
                    short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5,
                    std::size_t threads = 0) {
  short_calls::forward<T>("add_layer_norm", {.epsilon = epsilon},
                          {.add = {.x = x, .branch = branch},
                           .sum = sum,
                           .gamma = gamma,
                           .beta = beta,
                           .y = y,
                           .statistics = statistics},
                          threads);
}
/// y = LayerNorm(x), as in add_layer_norm.
template <typename T = float>
void layer_norm(short_calls::In<T> x, short_calls::Values<T> gamma, short_calls::Values<T> beta,
                short_calls::Out<T> y, short_calls::Statistics<T> statistics = {},
                double epsilon = 1e-5, std::size_t threads = 0) {
  short_calls::forward<T>(
      "layer_norm", {.epsilon = epsilon},
      {.add = {.x = x}, .gamma = gamma, .beta = beta, .y = y, .statistics = statistics}, threads);
}

/// sum = x + branch, y = γ ⊙ sum/√(mean of sum² + ε), by rows (Zhang and Sennrich 2019).
template <typename T = float>
void add_rms_norm(short_calls::In<T> x, short_calls::In<T> branch, short_calls::Values<T> gamma,
                  short_calls::Out<T> sum, short_calls::Out<T> y,
                  short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5,
                  std::size_t threads = 0) {
  short_calls::forward<T>("add_rms_norm", {.kind = NormKind::kRms, .epsilon = epsilon},
                          {.add = {.x = x, .branch = branch},
                           .sum = sum,
                           .gamma = gamma,
                           .y = y,
                           .statistics = statistics},
                          threads);
}
/// y = RMSNorm(x), as in add_rms_norm.
template <typename T = float>
void rms_norm(short_calls::In<T> x, short_calls::Values<T> gamma, short_calls::Out<T> y,
              short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5,
              std::size_t threads = 0) {
  short_calls::forward<T>("rms_norm", {.kind = NormKind::kRms, .epsilon = epsilon},
                          {.add = {.x = x}, .gamma = gamma, .y = y, .statistics = statistics},
                          threads);
}

/// dx = d_residual + the gradient of s through LayerNorm, where forward normalized s. dy is the
/// gradient of y, and d_residual is the gradient of s along other paths. dx may be s, dy or
/// d_residual.
template <typename T = float>
void add_layer_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                             short_calls::Values<T> gamma, short_calls::In<T> dy,
                             short_calls::In<T> d_residual, short_calls::Out<T> dx,
                             const short_calls::Gradients<T>& gradients = {},
                             std::size_t threads = 0) {
  short_calls::backward<T>("add_layer_norm_backward", NormKind::kLayer, s, statistics, gamma, dy,
                           d_residual, dx, gradients, threads);
}
/// dx = the gradient of s through LayerNorm, as in add_layer_norm_backward without d_residual.
template <typename T = float>
void layer_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                         short_calls::Values<T> gamma, short_calls::In<T> dy,
                         short_calls::Out<T> dx, const short_calls::Gradients<T>& gradients = {},
                         std::size_t threads = 0) {
  short_calls::backward<T>("layer_norm_backward", NormKind::kLayer, s, statistics, gamma, dy, {},
                           dx, gradients, threads);
}
/// dx = d_residual + the gradient of s through RMSNorm, as in add_layer_norm_backward.
template <typename T = float>
void add_rms_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                           short_calls::Values<T> gamma, short_calls::In<T> dy,
                           short_calls::In<T> d_residual, short_calls::Out<T> dx,
                           const short_calls::Gradients<T>& gradients = {},
                           std::size_t threads = 0) {
  short_calls::backward<T>("add_rms_norm_backward", NormKind::kRms, s, statistics, gamma, dy,
                           d_residual, dx, gradients, threads);
}
/// dx = the gradient of s through RMSNorm, as in add_rms_norm_backward without d_residual.
template <typename T = float>
void rms_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                       short_calls::Values<T> gamma, short_calls::In<T> dy, short_calls::Out<T> dx,
                       const short_calls::Gradients<T>& gradients = {}, std::size_t threads = 0) {
  short_calls::backward<T>("rms_norm_backward", NormKind::kRms, s, statistics, gamma, dy, {}, dx,
                           gradients, threads);
}

}  // namespace addnorm
