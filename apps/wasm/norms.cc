// Norms, forward and backward, on float32 and float64. Options come as an array of float64, in the
// order that the comment here and web/packages/addnorm/src/norms.ts both have.

#include <cstddef>
#include <span>
#include <vector>

#include "addnorm/norm.h"
#include "wasm/module.h"
#include "wasm/norm_options.h"

namespace addnorm {
namespace {

/// An (N, C, S) tensor; layer and RMS norms see N rows of C·S features. γ and β are one for each
/// feature there, one for each channel elsewhere. A null pointer: absent.
struct Shape {
  std::size_t samples, channels, positions;

  std::size_t features() const { return channels * positions; }
  std::size_t size() const { return samples * features(); }
  std::size_t gammas(const NormOptions& options) const {
    return normalizes_rows(options.kind) ? features() : channels;
  }
  std::size_t sets(const NormOptions& options) const {
    return norm_sets(options, samples, features(), positions);
  }
  std::size_t workspace(const NormOptions& options) const {
    return norm_workspace(options, samples, features(), positions);
  }
  template <typename T>
  MatrixView<T> matrix(T* data) const {
    if (data == nullptr) return {};
    return {data, samples, features()};
  }
};

template <typename T>
std::span<T> optional_span(T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size};
}

/// The pointers of one forward; `sum`, `gamma`, `beta` and `branch` may be absent.
template <typename T>
struct Forward {
  const T *x, *branch, *gamma, *beta;
  T *sum, *y;
};

/// s = x + branch, y = norm(s). With a branch, a norm of channels wants `sum`.
template <typename T>
std::vector<NormStatistics<T>> forward(const NormOptions& options, const Shape& shape,
                                       const Forward<T>& f) {
  std::vector<NormStatistics<T>> statistics(shape.sets(options));
  std::vector<T> workspace(shape.workspace(options));
  add_norm_forward<T>(options, {.add = {.x = shape.matrix(f.x), .branch = shape.matrix(f.branch)},
                                .sum = shape.matrix(f.sum),
                                .gamma = optional_span(f.gamma, shape.gammas(options)),
                                .beta = optional_span(f.beta, shape.gammas(options)),
                                .y = shape.matrix(f.y),
                                .statistics = statistics,
                                .positions = shape.positions,
                                .workspace = workspace});
  return statistics;
}

/// The means of all sets, their variances, their deviations.
template <typename T>
void write_statistics(const std::vector<NormStatistics<T>>& sets, T* out) {
  for (const NormStatistics<T>& s : sets) *out++ = s.mean();
  for (const NormStatistics<T>& s : sets) *out++ = s.variance / s.scale / s.scale;
  for (const NormStatistics<T>& s : sets) *out++ = s.deviation();
}

/// The pointers of one backward; `gamma` and `d_residual` may be absent. γ's and β's gradients are
/// added to.
template <typename T>
struct Backward {
  const T *x, *gamma, *dy, *d_residual;
  T *dx, *d_gamma, *d_beta;
};

/// The gradients of x, γ and β from dy and from what came past the norm, by a forward first.
template <typename T>
void backward(const NormOptions& options, const Shape& shape, const Backward<T>& b) {
  std::vector<T> y(shape.size());
  const auto statistics = forward<T>(options, shape, {.x = b.x, .y = y.data()});
  std::vector<T> workspace(shape.workspace(options));
  add_norm_backward<T>(options, {.s = shape.matrix(b.x),
                                 .statistics = statistics,
                                 .gamma = optional_span(b.gamma, shape.gammas(options)),
                                 .dy = shape.matrix(b.dy),
                                 .d_residual = shape.matrix(b.d_residual),
                                 .dx = shape.matrix(b.dx),
                                 .d_gamma = optional_span(b.d_gamma, shape.gammas(options)),
                                 .d_beta = optional_span(b.d_beta, shape.gammas(options)),
                                 .workspace = workspace,
                                 .positions = shape.positions});
}

}  // namespace

// clang-format off
#define ADDNORM_EXPORT_NORM(suffix, T)                                                          \
  ADDNORM_EXPORT(norm_forward_##suffix) void norm_forward_##suffix(                             \
      const double* options, std::size_t samples, std::size_t channels, std::size_t positions,  \
      const T* x, const T* branch, const T* gamma, const T* beta, T* sum, T* y,                 \
      T* statistics) {                                                                          \
    const auto sets = forward<T>(norm_options(options), {samples, channels, positions},         \
                                 {x, branch, gamma, beta, sum, y});                             \
    if (statistics != nullptr) write_statistics(sets, statistics);                              \
  }                                                                                             \
  ADDNORM_EXPORT(norm_backward_##suffix) void norm_backward_##suffix(                           \
      const double* options, std::size_t samples, std::size_t channels, std::size_t positions,  \
      const T* x, const T* gamma, const T* dy, const T* d_residual, T* dx, T* d_gamma,          \
      T* d_beta) {                                                                              \
    backward<T>(norm_options(options), {samples, channels, positions},                          \
                {x, gamma, dy, d_residual, dx, d_gamma, d_beta});                               \
  }
// clang-format on
ADDNORM_EXPORT_NORM(f32, float)
ADDNORM_EXPORT_NORM(f64, double)

/// How many sets of values have statistics of their own.
ADDNORM_EXPORT(norm_sets)
std::size_t norm_sets(const double* options, std::size_t samples, std::size_t channels,
                      std::size_t positions) {
  return Shape{samples, channels, positions}.sets(norm_options(options));
}

}  // namespace addnorm
