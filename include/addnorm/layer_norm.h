#pragma once

/// \file
/// LayerNorm, RMSNorm and Add & Norm in short calls, for matrices of one type whose γ and β are
/// there. Each calls add_norm_forward or add_norm_backward of addnorm/norm.h, which have all
/// options.
///
///     layer_norm(x, gamma, beta, y);                            // y = norm(x)
///     add_layer_norm(x, branch, gamma, beta, sum, y);           // sum = x + branch, y = norm(sum)
///     add_layer_norm<BFloat16>(x, branch, gamma, beta, sum, y);
///
/// x, branch, sum, y and their gradients have rows × features; γ, β and theirs one value for each
/// feature. `statistics`, one for each row, are what backward needs of forward; without a backward
/// they may be absent. sum may be x or branch; y may be x or branch, but not sum.

#include <type_traits>

#include "addnorm/norm.h"

namespace addnorm {

/// What backward needs beside the gradients: where γ's and β's go, added to what is there, and a
/// workspace of add_norm_workspace() values.
template <typename V>
struct NormGradients {
  std::span<V> gamma = {};      ///< empty: not wanted
  std::span<V> beta = {};       ///< empty: not wanted
  std::span<V> workspace = {};  ///< needed where one of them is wanted
};

namespace short_calls {

// What the arguments are. T is not deduced from them, so that matrices become views.

template <typename T>
using In = MatrixView<const std::type_identity_t<T>>;  ///< a matrix that is read
template <typename T>
using Out = MatrixView<std::type_identity_t<T>>;  ///< a matrix that is written
template <typename T>
using Values = std::span<const Arithmetic<std::type_identity_t<T>>>;  ///< γ or β
template <typename T>
using Statistics = std::span<NormStatistics<Arithmetic<std::type_identity_t<T>>>>;  ///< forward's
template <typename T>
using StatisticsIn =
    std::span<const NormStatistics<Arithmetic<std::type_identity_t<T>>>>;  ///< for backward
template <typename T>
using Gradients = NormGradients<Arithmetic<std::type_identity_t<T>>>;  ///< where γ's and β's go

/// \cond
template <typename T>
void forward(const NormOptions& norm, In<T> x, In<T> branch, Values<T> gamma, Values<T> beta,
             Out<T> sum, Out<T> y, Statistics<T> statistics) {
  add_norm_forward<T>(norm, {.add = {.x = x, .branch = branch},
                             .sum = sum,
                             .gamma = gamma,
                             .beta = beta,
                             .y = y,
                             .statistics = statistics});
}
template <typename T>
void backward(NormKind kind, In<T> s, StatisticsIn<T> statistics, Values<T> gamma, In<T> dy,
              In<T> d_sum, Out<T> dx, const Gradients<T>& gradients) {
  add_norm_backward<T>({.kind = kind}, {.s = s,
                                        .statistics = statistics,
                                        .gamma = gamma,
                                        .dy = dy,
                                        .d_residual = d_sum,
                                        .dx = dx,
                                        .d_gamma = gradients.gamma,
                                        .d_beta = gradients.beta,
                                        .workspace = gradients.workspace});
}
/// \endcond

}  // namespace short_calls

/// sum = x + branch, y = γ ⊙ (sum − mean)/√(variance + ε) + β, by rows (Ba et al. 2016).
template <typename T = float>
void add_layer_norm(short_calls::In<T> x, short_calls::In<T> branch, short_calls::Values<T> gamma,
                    short_calls::Values<T> beta, short_calls::Out<T> sum, short_calls::Out<T> y,
                    short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5) {
  short_calls::forward<T>({.epsilon = epsilon}, x, branch, gamma, beta, sum, y, statistics);
}
/// y = LayerNorm(x), as in add_layer_norm.
template <typename T = float>
void layer_norm(short_calls::In<T> x, short_calls::Values<T> gamma, short_calls::Values<T> beta,
                short_calls::Out<T> y, short_calls::Statistics<T> statistics = {},
                double epsilon = 1e-5) {
  add_layer_norm<T>(x, {}, gamma, beta, {}, y, statistics, epsilon);
}

/// sum = x + branch, y = γ ⊙ sum/√(mean of sum² + ε), by rows (Zhang and Sennrich 2019).
template <typename T = float>
void add_rms_norm(short_calls::In<T> x, short_calls::In<T> branch, short_calls::Values<T> gamma,
                  short_calls::Out<T> sum, short_calls::Out<T> y,
                  short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5) {
  short_calls::forward<T>({.kind = NormKind::kRms, .epsilon = epsilon}, x, branch, gamma, {}, sum,
                          y, statistics);
}
/// y = RMSNorm(x), as in add_rms_norm.
template <typename T = float>
void rms_norm(short_calls::In<T> x, short_calls::Values<T> gamma, short_calls::Out<T> y,
              short_calls::Statistics<T> statistics = {}, double epsilon = 1e-5) {
  add_rms_norm<T>(x, {}, gamma, {}, y, statistics, epsilon);
}

/// dx = d_sum + the gradient of s through LayerNorm, where s is what forward normalized, dy the
/// gradient of y and d_sum that of s by any other way. dx may be s, dy or d_sum.
template <typename T = float>
void add_layer_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                             short_calls::Values<T> gamma, short_calls::In<T> dy,
                             short_calls::In<T> d_sum, short_calls::Out<T> dx,
                             const short_calls::Gradients<T>& gradients = {}) {
  short_calls::backward<T>(NormKind::kLayer, s, statistics, gamma, dy, d_sum, dx, gradients);
}
/// dx = the gradient of x through LayerNorm, as in add_layer_norm_backward.
template <typename T = float>
void layer_norm_backward(short_calls::In<T> x, short_calls::StatisticsIn<T> statistics,
                         short_calls::Values<T> gamma, short_calls::In<T> dy,
                         short_calls::Out<T> dx, const short_calls::Gradients<T>& gradients = {}) {
  add_layer_norm_backward<T>(x, statistics, gamma, dy, {}, dx, gradients);
}
/// dx = d_sum + the gradient of s through RMSNorm, as in add_layer_norm_backward.
template <typename T = float>
void add_rms_norm_backward(short_calls::In<T> s, short_calls::StatisticsIn<T> statistics,
                           short_calls::Values<T> gamma, short_calls::In<T> dy,
                           short_calls::In<T> d_sum, short_calls::Out<T> dx,
                           const short_calls::Gradients<T>& gradients = {}) {
  short_calls::backward<T>(NormKind::kRms, s, statistics, gamma, dy, d_sum, dx, gradients);
}
/// dx = the gradient of x through RMSNorm, as in add_layer_norm_backward.
template <typename T = float>
void rms_norm_backward(short_calls::In<T> x, short_calls::StatisticsIn<T> statistics,
                       short_calls::Values<T> gamma, short_calls::In<T> dy, short_calls::Out<T> dx,
                       const short_calls::Gradients<T>& gradients = {}) {
  add_rms_norm_backward<T>(x, statistics, gamma, dy, {}, dx, gradients);
}

}  // namespace addnorm
