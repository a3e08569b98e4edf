#include "addnorm/nn/lane_head.h"

#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "gemm/gemm.h"
#include "nn/lane_mix.h"

namespace addnorm {
namespace {

constexpr double kEpsilon = 1e-6;  // of N, as in DeepSeek-V4

}  // namespace

/// What one lane has of matrices with all weights or all products.
template <typename V>
template <typename T>
MatrixView<T> LaneHead<V>::weights_of(MatrixView<T> all, std::size_t lane,
                                      std::size_t features) const {
  return all.block(0, lane_by_lane() ? 0 : lane * features, all.rows, features);
}
template <typename V>
template <typename T>
MatrixView<T> LaneHead<V>::products_of(MatrixView<T> all, std::size_t lane) const {
  return all.block(0, lane_by_lane() ? lane * weight_.rows() : 0, all.rows, weight_.rows());
}

/// Whether a product with this lane is added to that with the one before.
template <typename V>
V LaneHead<V>::adds_products(std::size_t lane) const {
  return V(!lane_by_lane() && lane > 0);
}

template <typename V>
template <typename T>
MixInputs<T> LaneHead<V>::inputs(std::size_t first, MatrixView<T> products,
                                 MatrixView<T> reciprocals) const {
  return {products, reciprocals, first, weight_.rows()};
}

template <typename V>
void LaneHead<V>::gather_weights(const Mixes& mixes) {
  std::size_t rows = 0;
  for (LaneCoefficients<V>* mix : mixes) rows += mix->weight().value.rows();
  weight_.resize(rows, mixes.front()->weight().value.cols());
  V* to = weight_.data();
  for (LaneCoefficients<V>* mix : mixes) to = std::ranges::copy(mix->weight().value.flat(), to).out;
}

template <typename V>
void LaneHead<V>::forward(const Mixes& mixes, const Lanes<const V>& lanes) {
  const std::size_t rows = lanes.front().rows, features = lanes.front().cols;
  const std::size_t norms = lane_by_lane() ? lanes.size() : 1;
  gather_weights(mixes);
  products_.resize(rows, norms * weight_.rows());
  reciprocals_.resize(rows, norms);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    gemm::gemm<V>({.a = lanes[i],
                   .b = weights_of(weight_.view(), i, features),
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
      sum = 1 / std::sqrt(sum / static_cast<V>(weight_.cols()) + static_cast<V>(kEpsilon));
    }
  });
  std::size_t first = 0;
  for (LaneCoefficients<V>* mix : mixes) {
    mix->forward(inputs<const V>(first, products_, reciprocals_));
    first += mix->weight().value.rows();
  }
}

template <typename V>
void LaneHead<V>::backward(const Mixes& mixes, const Lanes<const V>& lanes,
                           const Lanes<V>& d_lanes) {
  const std::size_t rows = products_.rows(), features = lanes.front().cols;
  Matrix<V> d_products(rows, products_.cols()), d_reciprocals(rows, reciprocals_.cols());
  Matrix<V> d_weight(weight_.rows(), weight_.cols());
  std::size_t first = 0;
  for (LaneCoefficients<V>* mix : mixes) {
    mix->backward(inputs<const V>(first, products_, reciprocals_),
                  inputs<V>(first, d_products, d_reciprocals));
    first += mix->weight().value.rows();
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const MatrixView<const V> d = products_of(d_products.view(), i);
    gemm::gemm<V>({.a = d,
                   .transpose_a = gemm::Transpose::kYes,
                   .b = lanes[i],
                   .c = weights_of(d_weight.view(), i, features),
                   .beta = 1});
    gemm::gemm<V>(
        {.a = d, .b = weights_of(weight_.view(), i, features), .c = d_lanes[i], .beta = 1});
  }
  // Of 1/√(mean of squares + ε).
  parallel_for(rows, row_grain(lanes.size() * features), [&](std::size_t r) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const V reciprocal = reciprocals_(r, norm_of(i));
      const V factor = -d_reciprocals(r, norm_of(i)) * reciprocal * reciprocal * reciprocal /
                       static_cast<V>(weight_.cols());
      const std::span<const V> values = lanes[i].row(r);
      const std::span<V> gradient = d_lanes[i].row(r);
      for (std::size_t c = 0; c < values.size(); ++c) gradient[c] += factor * values[c];
    }
  });
  const V* of_mix = d_weight.data();
  for (LaneCoefficients<V>* mix : mixes) {
    for (V& gradient : mix->weight().gradient.flat()) gradient += *of_mix++;
  }
}

template class LaneHead<float>;
template class LaneHead<double>;

}  // namespace addnorm
