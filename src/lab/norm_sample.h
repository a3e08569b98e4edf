#pragma once

#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/pass.h"
#include "addnorm/torch_generator.h"
#include "lab/figure.h"

/// Samples of one sublayer, for figures that examine a norm in more detail than a stack allows.

namespace addnorm::lab {

/// Half a unit in the last place of a float32 between 1 and 2.
inline constexpr double kHalfUlp = 0x1p-24;

/// Returns a plan of one post-norm layer, changed by the bug if there is one.
StackPlan post_norm_plan(const NormOptions& norm, std::size_t d_model,
                         const SilentBug* bug = nullptr);

/// The values of a residual sum and its norm that a probe observed, in float32 on our kernels.
struct NormSample {
  Matrix<float> x, branch, sum;
  Matrix<float> y;      ///< output of the norm
  Matrix<float> d_sum;  ///< gradient of the sum; empty without a gradient of y
};

/// Runs rows through the first sublayer of the plan, around F, and backward if there is a gradient
/// of y.
NormSample sample_sublayer(const StackPlan& plan, Sublayer<float>& f, MatrixView<const float> x,
                           MatrixView<const float> dy = {});

/// The arguments for a fixed F: its output is `branch`, or 0, for any x.
struct NormSampleArgs {
  MatrixView<const float> x;
  MatrixView<const float> branch = {};
  MatrixView<const float> dy = {};
};
NormSample sample_norm(const StackPlan& plan, const NormSampleArgs& args);

/// Returns ‖∂y/∂s‖ of each row, from the gradients of unit vectors.
std::vector<double> jacobian_norms(const StackPlan& plan, MatrixView<const float> x,
                                   MatrixView<const float> branch = {});

/// A wrong norm of rows: each of its steps outputs a float16 tensor, as in a network that is cast
/// to float16 as a whole. Only sums are in float32, as in PyTorch.
void half_norm(const NormOptions& norm, MatrixView<const float> x, MatrixView<float> y);

/// Returns one row of normal values with exactly this mean and deviation, to the precision of
/// float32.
Matrix<float> draw_row(double mean, double deviation, std::size_t features,
                       TorchGenerator& generator);

/// Returns f of each value; f may be a pointer to a member.
template <typename Range, typename F>
auto mapped(const Range& range, const F& f) {
  std::vector<std::decay_t<decltype(std::invoke(f, *std::begin(range)))>> values;
  values.reserve(std::size(range));
  for (const auto& v : range) values.push_back(std::invoke(f, v));
  return values;
}

/// Returns 1, 2, … n.
std::vector<double> count_up(std::size_t n);

/// Returns, for each seed, f(value, generator) for all values in order.
std::vector<std::vector<double>> draws_of(
    const FigureOptions& options, const std::vector<double>& values,
    const std::function<double(double value, TorchGenerator& generator)>& f);

/// In float64.
double mean(std::span<const float> values);
double mean_product(std::span<const float> a, std::span<const float> b);
double covariance(std::span<const float> a, std::span<const float> b);
double deviation(std::span<const float> values);
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace addnorm::lab
