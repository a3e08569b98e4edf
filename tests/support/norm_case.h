#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "addnorm/norm.h"
#include "kernels/reference.h"
#include "support/compare.h"
#include "support/random.h"

namespace addnorm::testing {

/// The kinds that have statistics.
inline constexpr NormKind kAllKinds[] = {NormKind::kLayer, NormKind::kRms, NormKind::kBatch,
                                         NormKind::kInstance, NormKind::kGroup};

/// Returns every combination of options for one kind, with a visible ε and with none.
inline std::vector<NormOptions> every_option(NormKind kind) {
  std::vector<NormOptions> all;
  for (const double epsilon : {0.25, 0.0}) {
    for (const auto epsilon_at : {EpsilonAt::kVariance, EpsilonAt::kDeviation}) {
      for (const auto variance : {Variance::kPopulation, Variance::kUnbiased}) {
        for (const auto form : {GammaForm::kPlain, GammaForm::kOnePlus}) {
          for (const double output_scale : {1.0, 0.7}) {
            all.push_back({.kind = kind,
                           .epsilon = epsilon,
                           .epsilon_at = epsilon_at,
                           .variance = variance,
                           .gamma_form = form,
                           .groups = kind == NormKind::kGroup ? 2u : 1u,
                           .output_scale = output_scale});
          }
        }
      }
    }
  }
  return all;
}

inline std::string describe(const NormOptions& o) {
  return fmt::format(
      "kind {}, epsilon {} at {}, variance {}, gamma form {}, groups {}, output scale {}",
      static_cast<int>(o.kind), o.epsilon, static_cast<int>(o.epsilon_at),
      static_cast<int>(o.variance), static_cast<int>(o.gamma_form), o.groups, o.output_scale);
}

/// A norm of any kind with random data, all outputs of its forward and backward, and the
/// reference's results. Rows of features have one position. A test changes the members before it
/// makes the calls.
template <typename T>
struct NormCase {
  NormOptions options;
  kernels::reference::Shape shape;
  std::vector<T> x, gamma, beta, dy;
  std::vector<T> alpha, shift, d_alpha, d_shift;  // for kDyT and kDerf
  std::vector<T> y, dx, d_gamma, d_beta, workspace;
  std::vector<NormStatistics<T>> statistics;

  NormCase(const NormOptions& options_, const kernels::reference::Shape& shape_,
           Normal normal = {1, 2})
      : options(options_), shape(shape_) {
    TorchGenerator generator(shape.samples * 1000 + shape.channels);
    x = random_vector<T>(generator, shape.size(), normal);
    dy = random_vector<T>(generator, shape.size());
    gamma = random_vector<T>(generator, shape.channels, {1, 0.3});
    beta = random_vector<T>(generator, shape.channels);
    if (squashes(options.kind)) {
      alpha = {T(0.7)}, shift = {T(-0.3)};
      d_alpha = d_shift = {T(0)};
    }
    y.resize(shape.size());
    dx.resize(shape.size());
    d_gamma.resize(shape.channels);
    d_beta.resize(shape.channels);
    statistics.resize(
        norm_sets(options, shape.samples, shape.channels * shape.positions, shape.positions));
    workspace.resize(
        norm_workspace(options, shape.samples, shape.channels * shape.positions, shape.positions));
  }

  MatrixView<T> matrix(std::vector<T>& values) const {
    return {values.data(), shape.samples, shape.channels * shape.positions};
  }

  AddNormForward<T> forward_args() {
    return {.add = {.x = matrix(x)},
            .gamma = gamma,
            .beta = beta,
            .alpha = alpha,
            .shift = shift,
            .y = matrix(y),
            .statistics = statistics,
            .positions = shape.positions,
            .workspace = workspace};
  }
  AddNormBackward<T> backward_args() {
    return {.s = matrix(x),
            .statistics = statistics,
            .gamma = gamma,
            .alpha = alpha,
            .shift = shift,
            .dy = matrix(dy),
            .dx = matrix(dx),
            .d_gamma = d_gamma,
            .d_beta = d_beta,
            .d_alpha = d_alpha,
            .d_shift = d_shift,
            .workspace = workspace,
            .positions = shape.positions};
  }
  void forward() { add_norm_forward<T>(options, forward_args()); }
  void backward() { add_norm_backward<T>(options, backward_args()); }
  void run() {
    forward();
    backward();
  }

  kernels::reference::Norm reference() const {
    return {options,
            shape,
            to_double(x),
            to_double(gamma),
            to_double(beta),
            alpha.empty() ? options.alpha : double{alpha[0]},
            shift.empty() ? 0 : double{shift[0]}};
  }
  kernels::reference::NormOutput expected() const { return norm_forward(reference()); }
  kernels::reference::NormGradients expected_gradients() const {
    return norm_backward(reference(), to_double(dy));
  }
};

}  // namespace addnorm::testing
