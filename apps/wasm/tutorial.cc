// The tutorial's module: norms, placements, sessions. Options come as arrays of float64, in the
// order that each comment here and web/src/kernels/ both have.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "addnorm/nn/placement.h"
#include "addnorm/norm.h"
#include "base/require.h"
#include "wasm/module.h"
#include "wasm/session.h"

namespace addnorm {
namespace {

/// From [kind, ε, ε at, variance, form of γ, groups], the enumerations as their places.
NormOptions norm_options(const double* choice) {
  return {.kind = static_cast<NormKind>(choice[0]),
          .epsilon = choice[1],
          .epsilon_at = static_cast<EpsilonAt>(choice[2]),
          .variance = static_cast<Variance>(choice[3]),
          .gamma_form = static_cast<GammaForm>(choice[4]),
          .groups = static_cast<std::size_t>(choice[5])};
}

/// An (N, C, S) tensor; layer and RMS norms see N rows of C·S features. γ and β are one for each
/// feature there, one for each channel elsewhere. A null pointer: absent.
struct Shape {
  std::size_t samples, channels, positions;

  std::size_t features() const { return channels * positions; }
  std::size_t size() const { return samples * features(); }
  std::size_t sets(const NormOptions& options) const {
    return of_rows(options) ? samples : channel_norm_sets<float>(options, tensor<float>(nullptr));
  }
  std::size_t gammas(const NormOptions& options) const {
    return of_rows(options) ? features() : channels;
  }
  template <typename T>
  MatrixView<T> matrix(T* data) const {
    if (data == nullptr) return {};
    return {data, samples, features()};
  }
  template <typename T>
  TensorView<T> tensor(T* data) const {
    return {data, samples, channels, positions};
  }
  static bool of_rows(const NormOptions& options) {
    return options.kind == NormKind::kLayer || options.kind == NormKind::kRms;
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
  const ResidualAdd<T> add{.x = shape.matrix(f.x), .branch = shape.matrix(f.branch)};
  const std::span<const T> gamma = optional_span(f.gamma, shape.gammas(options));
  const std::span<const T> beta = optional_span(f.beta, shape.gammas(options));
  if (Shape::of_rows(options)) {
    add_norm_forward<T>(options, {.add = add,
                                  .sum = shape.matrix(f.sum),
                                  .gamma = gamma,
                                  .beta = beta,
                                  .y = shape.matrix(f.y),
                                  .statistics = statistics});
    return statistics;
  }
  const TensorView<const T> x = shape.tensor(f.branch == nullptr ? f.x : f.sum);
  if (f.branch != nullptr) residual_add(add, shape.matrix(f.sum));
  std::vector<T> workspace(channel_norm_workspace(options, x));
  channel_norm_forward<T>(options, {.x = x,
                                    .gamma = gamma,
                                    .beta = beta,
                                    .y = shape.tensor(f.y),
                                    .statistics = statistics,
                                    .workspace = workspace});
  return statistics;
}

/// Mean, variance and deviation of each set.
template <typename T>
void write_statistics(const std::vector<NormStatistics<T>>& sets, double* out) {
  for (const NormStatistics<T>& s : sets) {
    *out++ = s.mean();
    *out++ = s.variance / s.scale / s.scale;
    *out++ = s.deviation();
  }
}

/// The pointers of one backward; `gamma` may be absent. γ's and β's gradients are added to.
template <typename T>
struct Backward {
  const T *x, *gamma, *dy;
  T *dx, *d_gamma, *d_beta;
};

/// The gradients of x, γ and β from dy, by a forward first.
template <typename T>
void backward(const NormOptions& options, const Shape& shape, const Backward<T>& b) {
  std::vector<T> y(shape.size());
  const auto statistics = forward<T>(options, shape, {.x = b.x, .y = y.data()});
  const auto gamma = optional_span(b.gamma, shape.gammas(options));
  const auto d_gamma = optional_span(b.d_gamma, shape.gammas(options));
  const auto d_beta = optional_span(b.d_beta, shape.gammas(options));
  if (Shape::of_rows(options)) {
    std::vector<T> workspace(add_norm_workspace(shape.samples, shape.features()));
    add_norm_backward<T>(options, {.s = shape.matrix(b.x),
                                   .statistics = statistics,
                                   .gamma = gamma,
                                   .dy = shape.matrix(b.dy),
                                   .dx = shape.matrix(b.dx),
                                   .d_gamma = d_gamma,
                                   .d_beta = d_beta,
                                   .workspace = workspace});
    return;
  }
  std::vector<T> workspace(channel_norm_workspace(options, shape.tensor(b.x)));
  channel_norm_backward<T>(options, {.x = shape.tensor(b.x),
                                     .statistics = statistics,
                                     .gamma = gamma,
                                     .dy = shape.tensor(b.dy),
                                     .dx = shape.tensor(b.dx),
                                     .d_gamma = d_gamma,
                                     .d_beta = d_beta,
                                     .workspace = workspace});
}

/// "name\tused by\tbefore\tinside\tafter\tskip\tgain\tbefore's scale\tinitial gain\tfinal norm\n"
/// for each placement; slots are 0 or 1, factors are formulas, a learned one with "learned "
/// before.
std::string placement_table() {
  const auto factor = [](const ResidualFactor& f) {
    switch (f.form) {
      case ResidualFactor::Form::kConstant:
        return std::string(f.initial.formula);
      case ResidualFactor::Form::kLearnedScalar:
        return fmt::format("learned scalar {}", f.initial.formula);
      case ResidualFactor::Form::kLearnedVector:
        return fmt::format("learned vector {}", f.initial.formula);
    }
    return std::string();
  };
  std::string table;
  for (const Placement& p : placements()) {
    table += fmt::format("{}\t{}\t{:d}\t{:d}\t{:d}\t{}\t{}\t{}\t{}\t{:d}\n", p.name, p.used_by,
                         p.before == Slot::kNorm, p.inside == Slot::kNorm, p.after == Slot::kNorm,
                         factor(p.skip), factor(p.gain), p.before_scale.formula,
                         p.initial_gain.formula, p.final_norm == Slot::kNorm);
  }
  return table;
}

}  // namespace

// clang-format off
#define ADDNORM_EXPORT_NORM(suffix, T)                                                          \
  ADDNORM_EXPORT(norm_forward_##suffix) void norm_forward_##suffix(                             \
      const double* options, std::size_t samples, std::size_t channels, std::size_t positions,  \
      const T* x, const T* branch, const T* gamma, const T* beta, T* sum, T* y,                 \
      double* statistics) {                                                                     \
    const auto sets = forward<T>(norm_options(options), {samples, channels, positions},         \
                                 {x, branch, gamma, beta, sum, y});                             \
    if (statistics != nullptr) write_statistics(sets, statistics);                              \
  }                                                                                             \
  ADDNORM_EXPORT(norm_backward_##suffix) void norm_backward_##suffix(                           \
      const double* options, std::size_t samples, std::size_t channels, std::size_t positions,  \
      const T* x, const T* gamma, const T* dy, T* dx, T* d_gamma, T* d_beta) {                  \
    backward<T>(norm_options(options), {samples, channels, positions},                          \
                {x, gamma, dy, dx, d_gamma, d_beta});                                           \
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

/// Every placement as a line of text; valid until the next call.
ADDNORM_EXPORT(placement_lines) const char* placement_lines() {
  static std::string table;
  table = placement_table();
  return table.c_str();
}

// A Session trains one model on one text; see session.h for the options' order.

ADDNORM_EXPORT(session_create)
Session* session_create(const double* arrangement, const double* options, const char* text,
                        std::size_t bytes) {
  return std::make_unique<Session>(block_placement(arrangement), session_options(options),
                                   std::string(text, bytes))
      .release();
}
ADDNORM_EXPORT(session_destroy) void session_destroy(Session* session) {
  const std::unique_ptr<Session> owner(session);
}
ADDNORM_EXPORT(session_parameters) std::size_t session_parameters(Session* session) {
  return session->parameters();
}
/// Stream RMS, gradient RMS and token cosine, layers + 1 values each; returns the loss.
ADDNORM_EXPORT(session_measure) double session_measure(Session* session, double* by_layer) {
  return session->measure(by_layer);
}
ADDNORM_EXPORT(session_step) double session_step(Session* session) {
  return session->step();
}
ADDNORM_EXPORT(session_validate) double session_validate(Session* session, std::size_t batches) {
  return session->validate(batches);
}
ADDNORM_EXPORT(session_unigram_loss) double session_unigram_loss(Session* session) {
  return session->unigram_loss();
}

}  // namespace addnorm
