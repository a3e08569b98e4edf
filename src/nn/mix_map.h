#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/placement.h"

namespace addnorm::nn {

/// The maps of MixForm, from logits to the to × from numbers of one row's mix, and their backward.
template <typename V>
class MixMap {
 public:
  MixMap(MixForm::Map map, std::size_t to, std::size_t from);

  /// Returns the number of logits for to × from numbers.
  static std::size_t logits_of(MixForm::Map map, std::size_t to, std::size_t from);
  std::size_t logits() const { return logits_; }
  std::size_t numbers() const { return to_ * from_; }

  void forward(std::span<const V> logits, std::span<V> numbers) const;
  /// Computes d_logits from the gradients of the numbers that forward computed from `logits`.
  void backward(std::span<const V> logits, std::span<const V> numbers, std::span<const V> d_numbers,
                std::span<V> d_logits) const;

 private:
  using Trace = Matrix<V>;  // each row: the numbers after a step of Sinkhorn's iteration
  Trace sinkhorn(std::span<const V> logits) const;
  void sinkhorn_backward(std::span<const V> logits, std::span<const V> d_numbers,
                         std::span<V> d_logits) const;

  MixForm::Map map_;
  std::size_t to_, from_, logits_;
  std::vector<std::vector<std::size_t>> permutations_;  // of kPermutations: the `from` of each `to`
};

}  // namespace addnorm::nn
