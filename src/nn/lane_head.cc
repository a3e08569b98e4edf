#include "addnorm/nn/lane_head.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "base/require.h"
#include "gemm/gemm.h"
#include "kernels/activation.h"
#include "nn/lane_mix.h"

namespace addnorm {
namespace {

constexpr double kEpsilon = 1e-6;  // ε of N, as in DeepSeek-V4

}  // namespace

template <typename V>
LaneHead<V>::LaneHead(MixForm::Source source, const MixWeights& hidden) : source_(source) {
  if (hidden.rows == 0) return;
  require(!lane_by_lane(), "lanes: a hidden layer is of one source for all numbers, not of lanes");
  hidden_ = Parameter<V>(hidden.rows, hidden.cols, ParameterRole::kWeight);
}

/// Returns one lane's part of a matrix with all weights or all products.
template <typename V>
template <typename T>
MatrixView<T> LaneHead<V>::weights_of(MatrixView<T> all, std::size_t lane,
                                      std::size_t features) const {
  return all.block(0, lane_by_lane() ? 0 : lane * features, all.rows, features);
}
template <typename V>
template <typename T>
MatrixView<T> LaneHead<V>::products_of(MatrixView<T> all, std::size_t lane) {
  const std::size_t count = map().value.rows();
  return all.block(0, lane_by_lane() ? lane * count : 0, all.rows, count);
}

/// Returns 1 if a product with this lane is added to that of the lane before, else 0.
template <typename V>
V LaneHead<V>::adds_products(std::size_t lane) const {
  return V(!lane_by_lane() && lane > 0);
}

template <typename V>
template <typename T>
MixInputs<T> LaneHead<V>::inputs(std::size_t first, MatrixView<T> products,
                                 MatrixView<T> reciprocals) const {
  return {products, reciprocals, first, weight_.value.rows()};
}

template <typename V>
void LaneHead<V>::gather_weights(const Mixes& mixes) {
  std::size_t rows = 0;
  for (LaneCoefficients<V>* mix : mixes) rows += mix->weight().value.rows();
  weight_.value.resize(rows, mixes.front()->weight().value.cols());
  V* to = weight_.value.data();
  for (LaneCoefficients<V>* mix : mixes) to = std::ranges::copy(mix->weight().value.flat(), to).out;
}

template <typename V>
void LaneHead<V>::forward(const Mixes& mixes, const Lanes<const V>& lanes) {
  gather_weights(mixes);
  multiply(lanes);
  if (!hidden_.empty()) hide();
  std::size_t first = 0;
  for (LaneCoefficients<V>* mix : mixes) {
    mix->forward(inputs<const V>(first, products_, reciprocals()));
    first += mix->weight().value.rows();
  }
}

template <typename V>
void LaneHead<V>::multiply(const Lanes<const V>& lanes) {
  const std::size_t rows = lanes.front().rows, features = lanes.front().cols;
  const std::size_t norms = lane_by_lane() ? lanes.size() : 1;
  const Matrix<V>& weight = map().value;
  products_.resize(rows, norms * weight.rows());
  reciprocals_.resize(rows, norms);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    gemm::gemm<V>({.a = lanes[i],
                   .b = weights_of(weight.view(), i, features),
                   .transpose_b = gemm::Transpose::kYes,
                   .c = products_of(products_.view(), i),
                   .beta = adds_products(i)});
  }
  parallel_for(rows, row_grain(lanes.size() * features), [&](std::size_t r) {
    const std::span<V> sums = reciprocals_.view().row(r);
    std::ranges::fill(sums, V{0});
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      sums[norm_of(i)] += nn::dot<V>(lanes[i].row(r), lanes[i].row(r));
    }
    for (V& sum : sums) {
      sum = 1 / std::sqrt(sum / static_cast<V>(weight.cols()) + static_cast<V>(kEpsilon));
    }
  });
}

/// Replaces the products by those of the weights with the hidden units.
template <typename V>
void LaneHead<V>::hide() {
  const std::size_t rows = products_.rows(), units = products_.cols();
  sums_.resize(rows, units);
  units_.resize(rows, units);
  ones_.resize(rows, 1);
  ones_.fill(1);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < units; ++k) sums_(r, k) = products_(r, k) * reciprocals_(r, 0);
  }
  kernels::activate<V>(kernels::Activation::kGelu, sums_, units_);
  products_.resize(rows, weight_.value.rows());
  gemm::gemm<V>(
      {.a = units_, .b = weight_.value, .transpose_b = gemm::Transpose::kYes, .c = products_});
}

template <typename V>
void LaneHead<V>::backward(const Mixes& mixes, const Lanes<const V>& lanes,
                           const Lanes<V>& d_lanes) {
  const std::size_t rows = products_.rows();
  Matrix<V> d_products(rows, products_.cols()), d_reciprocals(rows, reciprocals_.cols());
  weight_.gradient.resize(weight_.value.rows(), weight_.value.cols());
  weight_.gradient.fill(0);
  std::size_t first = 0;
  for (LaneCoefficients<V>* mix : mixes) {
    mix->backward(inputs<const V>(first, products_, reciprocals()),
                  inputs<V>(first, d_products, d_reciprocals));
    first += mix->weight().value.rows();
  }
  if (!hidden_.empty()) hide_backward(d_products, d_reciprocals);
  multiply_backward(lanes, d_lanes, d_products, d_reciprocals);
  const V* of_mix = weight_.gradient.data();
  for (LaneCoefficients<V>* mix : mixes) {
    for (V& gradient : mix->weight().gradient.flat()) gradient += *of_mix++;
  }
}

/// Replaces the gradients of products and norms after the hidden layer by those of the source.
template <typename V>
void LaneHead<V>::hide_backward(Matrix<V>& d_products, Matrix<V>& d_reciprocals) {
  const std::size_t rows = units_.rows(), units = units_.cols();
  gemm::gemm<V>(
      {.a = d_products, .transpose_a = gemm::Transpose::kYes, .b = units_, .c = weight_.gradient});
  Matrix<V> d_units(rows, units);
  gemm::gemm<V>({.a = d_products, .b = weight_.value, .c = d_units});
  kernels::activate_backward<V>(kernels::Activation::kGelu, {sums_, d_units, d_units});
  d_reciprocals.fill(0);
  for (std::size_t r = 0; r < rows; ++r) {
    const V reciprocal = reciprocals_(r, 0);
    for (std::size_t k = 0; k < units; ++k) {
      d_reciprocals(r, 0) += d_units(r, k) * sums_(r, k) / reciprocal;
      d_units(r, k) *= reciprocal;
    }
  }
  d_products = std::move(d_units);
}

template <typename V>
void LaneHead<V>::multiply_backward(const Lanes<const V>& lanes, const Lanes<V>& d_lanes,
                                    MatrixView<const V> d_products,
                                    MatrixView<const V> d_reciprocals) {
  const std::size_t rows = d_products.rows, features = lanes.front().cols;
  Parameter<V>& weight = map();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const MatrixView<const V> d = products_of(d_products, i);
    gemm::gemm<V>({.a = d,
                   .transpose_a = gemm::Transpose::kYes,
                   .b = lanes[i],
                   .c = weights_of(weight.gradient.view(), i, features),
                   .beta = 1});
    gemm::gemm<V>(
        {.a = d, .b = weights_of(weight.value.view(), i, features), .c = d_lanes[i], .beta = 1});
  }
  // Adds the gradient through 1/√(mean of squares + ε).
  parallel_for(rows, row_grain(lanes.size() * features), [&](std::size_t r) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const V reciprocal = reciprocals_(r, norm_of(i));
      const V factor = -d_reciprocals(r, norm_of(i)) * reciprocal * reciprocal * reciprocal /
                       static_cast<V>(weight.value.cols());
      const std::span<const V> values = lanes[i].row(r);
      const std::span<V> gradient = d_lanes[i].row(r);
      for (std::size_t c = 0; c < values.size(); ++c) gradient[c] += factor * values[c];
    }
  });
}

template class LaneHead<float>;
template class LaneHead<double>;

}  // namespace addnorm
