#pragma once

#include <cstddef>
#include <span>

#include "addnorm/nn/attention.h"
#include "addnorm/view.h"

namespace addnorm {

enum class Rotation { kForward, kBack };

/// The rotated features in each head of `d_head` features: the first 2·frequencies.size().
struct Rotary {
  std::span<const double> frequencies;
  std::size_t d_head;
  RotaryPairs pairs = RotaryPairs::kHalves;
  double gain = 1;
};

/// Rotary position embedding (Su et al. 2021, eq. 34) in place. The rows of x are the tokens of one
/// sequence from `place` on. In each head, pair i is rotated by the angle place·frequencies[i] and
/// multiplied by the gain. kBack rotates in the other direction with the same gain, which is the
/// gradient.
template <typename T>
void rotate(const Rotary& rotary, std::size_t place, Rotation direction, MatrixView<T> x);

}  // namespace addnorm
