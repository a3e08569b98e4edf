#pragma once

/// References for tests: the kernels as plain float64 loops that follow the textbook. Backward
/// applies the chain rule through deviation, variance and mean, one step at a time. It shares no
/// code with the kernels.

#include <cstddef>
#include <optional>
#include <vector>

#include "addnorm/norm.h"
#include "kernels/activation.h"

namespace addnorm::kernels::reference {

using Values = std::vector<double>;

/// (N, C, S) values in PyTorch's order; rows of features are (rows, features, 1).
struct Shape {
  std::size_t samples = 0;
  std::size_t channels = 0;
  std::size_t positions = 1;

  std::size_t size() const { return samples * channels * positions; }
};

/// A norm of any kind and its arguments.
struct Norm {
  NormOptions options;
  Shape shape;
  Values x;
  Values gamma;  ///< one for each channel; empty: 1
  Values beta;   ///< one for each channel; empty: 0
  double alpha = 0.5;
  double shift = 0;
};

/// mean, variance and deviation have one value for each set that is normalized together; kDyT and
/// kDerf have none.
struct NormOutput {
  Values y;
  Values mean;
  Values variance;  ///< without ε; kRms: the mean square
  Values deviation;
};
NormOutput norm_forward(const Norm& norm);

struct NormGradients {
  Values dx;
  Values d_gamma;
  Values d_beta;
  double d_alpha = 0;
  double d_shift = 0;
};
NormGradients norm_backward(const Norm& norm, const Values& dy);

/// The epilogue of a norm of rows: y = (norm(s) ⊙ act(z)) ⊙ (1 + scale) + shift, or norm(s ⊙
/// act(z)) in place of norm(s) ⊙ act(z). norm.x is s.
struct Epilogue {
  Norm norm;
  Values z;  ///< one for each value; empty: no gate
  GateFunction function = GateFunction::kSilu;
  GatePlace place = GatePlace::kAfterNorm;
  std::size_t samples = 1;
  Values scale;  ///< samples × features; empty: 0
  Values shift;  ///< samples × features; empty: 0
};
Values epilogue_forward(const Epilogue& epilogue);

/// d_scale and d_shift have the shapes of scale and shift, also if these are empty.
struct EpilogueGradients {
  Values ds, dz, d_gamma, d_beta, d_scale, d_shift;
};
EpilogueGradients epilogue_backward(const Epilogue& epilogue, const Values& dy);

/// s = skip ⊙ x + gain ⊙ branch; skip and gain hold one value, or one for each feature.
struct ResidualAdd {
  Values x;
  Values branch;
  Values skip = {1};
  Values gain = {1};
  std::size_t features = 1;
};
Values residual_add(const ResidualAdd& add);

/// Lanes, rows × lanes × features: X′ = A·X + B·(mask ⊙ F), y = norm(R·X′). Each row has its own
/// mixes.
struct Lanes {
  std::size_t rows = 0;
  std::size_t features = 0;
  std::size_t x_lanes = 0;       ///< n
  std::size_t branch_lanes = 0;  ///< q
  std::size_t made_lanes = 0;    ///< n′
  std::size_t reads = 0;         ///< k
  Values x, branch;
  Values mask;  ///< dropout's factors, one for each value of the branch
  Values carry, write, read;
  std::optional<NormOptions> norm;
  Values gamma, beta;
};
struct LanesOutput {
  Values sum;
  Values y;
};
LanesOutput lanes_forward(const Lanes& lanes);

/// Gradients with the shapes of X, F, A, B, R, γ and β.
struct LanesGradients {
  Values dx, d_branch, d_carry, d_write, d_read, d_gamma, d_beta;
};
LanesGradients lanes_backward(const Lanes& lanes, const Values& d_sum, const Values& dy);

/// Softmax of the scores whose `blocked` entry is false; the others are 0.
Values softmax(const Values& scores, const std::vector<bool>& blocked);

/// The function in long double, whose central differences are exact enough to test float64.
long double activation(Activation activation, long double x);

}  // namespace addnorm::kernels::reference
