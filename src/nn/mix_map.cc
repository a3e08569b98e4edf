#include "nn/mix_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/require.h"

namespace addnorm::nn {
namespace {

using Map = MixForm::Map;

/// DeepSeek-V4's constants: ε of every denominator, the number of Sinkhorn's iterations, and the
/// offset that keeps a above 0.
constexpr double kEpsilon = 1e-6;
constexpr std::size_t kIterations = 20;

template <typename V>
V sigmoid(V x) {
  return 1 / (1 + std::exp(-x));
}

/// Numbers that share a sum: `count` of them, at distance `step`.
struct Set {
  std::size_t first, count, step;

  std::size_t end() const { return first + count * step; }
};

/// Returns the k-th set of numbers that a step of Sinkhorn's iteration divides by their sum. Steps
/// alternate between rows and columns and begin with rows.
Set divided(std::size_t step, std::size_t k, std::size_t to, std::size_t from) {
  return step % 2 == 1 ? Set{k * from, from, 1} : Set{k, to, from};
}

template <typename V>
void softmax(std::span<const V> logits, std::span<V> out, const Set& set) {
  V largest = logits[set.first];
  for (std::size_t k = 1; k < set.count; ++k) {
    largest = std::max(largest, logits[set.first + k * set.step]);
  }
  V sum = 0;
  for (std::size_t k = 0; k < set.count; ++k) {
    const std::size_t i = set.first + k * set.step;
    out[i] = std::exp(logits[i] - largest);
    sum += out[i];
  }
  for (std::size_t k = 0; k < set.count; ++k) out[set.first + k * set.step] /= sum;
}

/// Computes d_in for out = softmax(in).
template <typename V>
void softmax_backward(std::span<const V> out, std::span<const V> d_out, std::span<V> d_in,
                      const Set& set) {
  V inner = 0;
  for (std::size_t k = 0; k < set.count; ++k) {
    const std::size_t i = set.first + k * set.step;
    inner += out[i] * d_out[i];
  }
  for (std::size_t k = 0; k < set.count; ++k) {
    const std::size_t i = set.first + k * set.step;
    d_in[i] = out[i] * (d_out[i] - inner);
  }
}

template <typename V>
V sum_of(std::span<const V> values, const Set& set) {
  V sum = 0;
  for (std::size_t k = 0; k < set.count; ++k) sum += values[set.first + k * set.step];
  return sum;
}

}  // namespace

template <typename V>
MixMap<V>::MixMap(Map map, std::size_t to, std::size_t from)
    : map_(map), to_(to), from_(from), logits_(logits_of(map, to, from)) {
  if (map == Map::kSinkhorn || map == Map::kPermutations) {
    require(to == from, "mix: {} × {} numbers are to be doubly stochastic, must be square", to,
            from);
  }
  if (map != Map::kPermutations) return;
  std::vector<std::size_t> order(from);
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    permutations_.push_back(order);
  } while (std::ranges::next_permutation(order).found);
}

template <typename V>
std::size_t MixMap<V>::logits_of(Map map, std::size_t to, std::size_t from) {
  if (map != Map::kPermutations) return to * from;
  std::size_t permutations = 1;
  for (std::size_t k = 2; k <= from; ++k) permutations *= k;
  return permutations;
}

template <typename V>
void MixMap<V>::forward(std::span<const V> logits, std::span<V> numbers) const {
  switch (map_) {
    case Map::kNone:
      std::ranges::copy(logits, numbers.begin());
      return;
    case Map::kSigmoid:
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        numbers[k] = sigmoid(logits[k]) + static_cast<V>(kEpsilon);
      }
      return;
    case Map::kTwoSigmoid:
      for (std::size_t k = 0; k < numbers.size(); ++k) numbers[k] = 2 * sigmoid(logits[k]);
      return;
    case Map::kSoftmax:
      for (std::size_t i = 0; i < to_; ++i) softmax<V>(logits, numbers, {i * from_, from_, 1});
      return;
    case Map::kSinkhorn: {
      const Trace trace = sinkhorn(logits);
      std::ranges::copy(trace.view().row(trace.rows() - 1), numbers.begin());
      return;
    }
    case Map::kPermutations: {
      std::vector<V> weights(logits.size());
      softmax<V>(logits, weights, {0, logits.size(), 1});
      std::ranges::fill(numbers, V{0});
      for (std::size_t p = 0; p < weights.size(); ++p) {
        for (std::size_t i = 0; i < to_; ++i) {
          numbers[i * from_ + permutations_[p][i]] += weights[p];
        }
      }
      return;
    }
  }
}

template <typename V>
void MixMap<V>::backward(std::span<const V> logits, std::span<const V> numbers,
                         std::span<const V> d_numbers, std::span<V> d_logits) const {
  switch (map_) {
    case Map::kNone:
      std::ranges::copy(d_numbers, d_logits.begin());
      return;
    case Map::kSigmoid:
    case Map::kTwoSigmoid:
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        const V s = sigmoid(logits[k]);
        d_logits[k] = (map_ == Map::kSigmoid ? 1 : 2) * s * (1 - s) * d_numbers[k];
      }
      return;
    case Map::kSoftmax:
      for (std::size_t i = 0; i < to_; ++i) {
        softmax_backward<V>(numbers, d_numbers, d_logits, {i * from_, from_, 1});
      }
      return;
    case Map::kSinkhorn:
      sinkhorn_backward(logits, d_numbers, d_logits);
      return;
    case Map::kPermutations: {
      std::vector<V> weights(logits.size()), d_weights(logits.size());
      softmax<V>(logits, weights, {0, logits.size(), 1});
      for (std::size_t p = 0; p < weights.size(); ++p) {
        for (std::size_t i = 0; i < to_; ++i) {
          d_weights[p] += d_numbers[i * from_ + permutations_[p][i]];
        }
      }
      softmax_backward<V>(weights, d_weights, d_logits, {0, logits.size(), 1});
      return;
    }
  }
}

/// A is the transpose of DeepSeek-V4's comb: number (to, from) of A is comb[from, to]. So the
/// softmax over a row of comb is one over a column of A, the numbers that leave a lane.
template <typename V>
typename MixMap<V>::Trace MixMap<V>::sinkhorn(std::span<const V> logits) const {
  const V epsilon = static_cast<V>(kEpsilon);
  Trace trace(2 * kIterations, numbers());
  const std::span<V> first = trace.view().row(0);
  for (std::size_t j = 0; j < from_; ++j) softmax<V>(logits, first, {j, to_, from_});
  for (V& number : first) number += epsilon;
  for (std::size_t step = 1; step < trace.rows(); ++step) {
    const std::span<const V> last = trace.view().row(step - 1);
    const std::span<V> next = trace.view().row(step);
    for (std::size_t k = 0; k < from_; ++k) {
      const Set set = divided(step, k, to_, from_);
      const V sum = sum_of<V>(last, set) + epsilon;
      for (std::size_t i = set.first; i < set.end(); i += set.step) next[i] = last[i] / sum;
    }
  }
  return trace;
}

template <typename V>
void MixMap<V>::sinkhorn_backward(std::span<const V> logits, std::span<const V> d_numbers,
                                  std::span<V> d_logits) const {
  const V epsilon = static_cast<V>(kEpsilon);
  Trace trace = sinkhorn(logits);
  std::vector<V> d(d_numbers.begin(), d_numbers.end());
  for (std::size_t step = trace.rows() - 1; step > 0; --step) {
    const std::span<const V> last = trace.view().row(step - 1), next = trace.view().row(step);
    for (std::size_t k = 0; k < from_; ++k) {
      const Set set = divided(step, k, to_, from_);
      const V sum = sum_of<V>(last, set) + epsilon;
      V inner = 0;
      for (std::size_t i = set.first; i < set.end(); i += set.step) inner += d[i] * next[i];
      for (std::size_t i = set.first; i < set.end(); i += set.step) d[i] = (d[i] - inner) / sum;
    }
  }
  const std::span<V> first = trace.view().row(0);
  for (V& number : first) number -= epsilon;
  for (std::size_t j = 0; j < from_; ++j) {
    softmax_backward<V>(first, d, d_logits, {j, to_, from_});
  }
}

template class MixMap<float>;
template class MixMap<double>;

}  // namespace addnorm::nn
