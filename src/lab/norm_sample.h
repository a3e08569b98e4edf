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

/// One sublayer, for figures that look at a norm more closely than a stack lets them.

namespace addnorm::lab {

/// Half a unit in the last place of a float32 between 1 and 2.
inline constexpr double kHalfUlp = 0x1p-24;

/// A plan of one layer, post-norm; with a bug what it makes of it.
StackPlan post_norm_plan(const NormOptions& norm, std::size_t d_model,
                         const SilentBug* bug = nullptr);

/// What a probe saw of a residual sum and its norm, in float32 on our kernels.
struct NormSample {
  Matrix<float> x, branch, sum;
  Matrix<float> y;      ///< what leaves
  Matrix<float> d_sum;  ///< the gradient of the sum; empty where none went in
};

/// Rows on their way through the first sublayer of the plan around F and, with a gradient of y,
/// back.
NormSample sample_sublayer(const StackPlan& plan, Sublayer<float>& f, MatrixView<const float> x,
                           MatrixView<const float> dy = {});

/// The same where F is known already: `branch`, or 0, whatever x is.
struct NormSampleArgs {
  MatrixView<const float> x;
  MatrixView<const float> branch = {};
  MatrixView<const float> dy = {};
};
NormSample sample_norm(const StackPlan& plan, const NormSampleArgs& args);

/// ‖∂y/∂s‖ of each row: the gradients that unit vectors give.
std::vector<double> jacobian_norms(const StackPlan& plan, MatrixView<const float> x,
                                   MatrixView<const float> branch = {});

/// A norm of rows that is wrong: each of its steps gives a tensor in float16, as where a network is
/// cast to it whole. Sums alone have float32, as PyTorch's.
void half_norm(const NormOptions& norm, MatrixView<const float> x, MatrixView<float> y);

/// One row of normal values whose own mean and deviation these are, to the precision of float32.
Matrix<float> draw_row(double mean, double deviation, std::size_t features,
                       TorchGenerator& generator);

/// f of each value, which may be a member of it.
template <typename Range, typename F>
auto mapped(const Range& range, const F& f) {
  std::vector<std::decay_t<decltype(std::invoke(f, *std::begin(range)))>> values;
  values.reserve(std::size(range));
  for (const auto& v : range) values.push_back(std::invoke(f, v));
  return values;
}

/// 1, 2, … n.
std::vector<double> count_up(std::size_t n);

/// Of each seed what f(value, generator) gives for each value in turn.
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
