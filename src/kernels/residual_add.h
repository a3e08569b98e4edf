#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "addnorm/norm.h"
#include "kernels/check.h"
#include "kernels/dropout.h"

namespace addnorm {

/// Throws unless branch, dropout and the factors fit x.
template <typename T>
void check_residual_add(std::string_view where, const ResidualAdd<T>& add) {
  const auto& x = add.x;
  check_shape(where, "x", x, x.rows, x.cols);  // the stride
  check_optional_shape(where, "branch", add.branch, x.rows, x.cols);
  check_optional_length(where, "skip", add.skip.vector, x.cols);
  check_optional_length(where, "gain", add.gain.vector, x.cols);
  require(add.dropout.probability >= 0 && add.dropout.probability < 1,
          "{}: the dropout probability is {}, must be at least 0 and below 1", where,
          add.dropout.probability);
}

/// Calls body(i, factor) for the columns of row r, with dropout's factor (1 without dropout).
template <typename T, typename Body>
void for_each_kept(const ResidualAdd<T>& add, std::size_t r, const Body& body) {
  const std::size_t cols = add.x.cols;
  if (!add.dropout.active()) {
    for (std::size_t i = 0; i < cols; ++i) body(i, T{1});
    return;
  }
  std::array<T, 64> factors;
  for (std::size_t begin = 0; begin < cols; begin += factors.size()) {
    const std::size_t count = std::min(factors.size(), cols - begin);
    dropout_factors<T>(add.dropout, r * cols + begin, std::span(factors).first(count));
    for (std::size_t i = 0; i < count; ++i) body(begin + i, factors[i]);
  }
}

/// s = skip ⊙ x + gain ⊙ dropout(branch) for row r.
template <typename T>
void residual_add_row(const ResidualAdd<T>& add, std::size_t r, T* s) {
  const T* x = add.x.row(r).data();
  const std::size_t cols = add.x.cols;
  if (add.branch.empty()) {
    for (std::size_t i = 0; i < cols; ++i) s[i] = add.skip[i] * x[i];
    return;
  }
  const T* f = add.branch.row(r).data();
  // 0·Inf is NaN, but a stack without residual does not look at x.
  const bool without_x = add.skip.vector.empty() && add.skip.constant == 0;
  if (add.dropout.active() || !add.skip.vector.empty() || !add.gain.vector.empty()) {
    for_each_kept(add, r, [&](std::size_t i, T kept) {
      const T from_x = without_x ? T{0} : add.skip[i] * x[i];
      s[i] = from_x + add.gain[i] * (kept * f[i]);
    });
    return;
  }
  const T skip = add.skip.constant;
  const T gain = add.gain.constant;
  if (skip == 1 && gain == 1) {
    for (std::size_t i = 0; i < cols; ++i) s[i] = x[i] + f[i];
  } else if (without_x) {
    for (std::size_t i = 0; i < cols; ++i) s[i] = gain * f[i];
  } else {
    for (std::size_t i = 0; i < cols; ++i) s[i] = skip * x[i] + gain * f[i];
  }
}

}  // namespace addnorm
