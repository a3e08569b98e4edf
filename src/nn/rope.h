#pragma once

#include <cstddef>
#include <span>

#include "addnorm/view.h"

namespace addnorm {

enum class Rotation { kForward, kBack };

/// Rotary position embedding (Su et al. 2021, eq. 34) in place: in each head of x, whose rows are
/// the tokens of one sequence from `place` on, features i and i + d/2 turn by the angle
/// place·frequencies[i]. kBack turns them back, which is the gradient's way. A head has
/// 2·frequencies.size() features.
template <typename T>
void rotate(std::span<const double> frequencies, std::size_t place, Rotation direction,
            MatrixView<T> x);

}  // namespace addnorm
