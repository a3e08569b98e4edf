#pragma once

#include "addnorm/norm.h"
#include "kernels/argument_memory.h"
#include "kernels/check.h"

namespace addnorm::kernels {

/// Whether s is x, or x + branch.
template <typename S, typename B>
bool is_plain(const ResidualAdd<S, B>& add) {
  return add.skip.is_one() && add.gain.is_one() && add.sample_gain.empty() && !add.dropout.active();
}

/// The rows of each sample of a matrix by sample; all rows if it is absent.
template <typename T>
std::size_t rows_of_sample(const MatrixView<T>& by_sample, std::size_t rows) {
  return by_sample.empty() ? rows : rows / by_sample.rows;
}

/// Throws unless branch, dropout and the factors fit x.
template <typename S, typename B>
void check_residual_add(std::string_view where, const ResidualAdd<S, B>& add) {
  const auto& x = add.x;
  check_shape(where, "x", x, x.rows, x.cols);  // checks the stride
  check_optional_shape(where, "branch", add.branch, x.rows, x.cols);
  check_optional_length(where, "skip", add.skip.vector, x.cols);
  check_optional_length(where, "gain", add.gain.vector, x.cols);
  if (!add.sample_gain.empty()) {
    check_samples(where, "sample_gain", add.sample_gain.rows, x.rows);
    check_shape(where, "sample_gain", add.sample_gain, add.sample_gain.rows, x.cols);
    require(add.gain.is_one(), "{}: there is a sample_gain, so gain must be 1", where);
  }
  require(add.dropout.probability >= 0 && add.dropout.probability < 1,
          "{}: the dropout probability is {}, must be at least 0 and below 1", where,
          add.dropout.probability);
}

/// Adds the inputs of a residual sum to the memory of a call. Returns those that may be
/// overwritten: x and branch.
template <typename S, typename B>
ArgumentMemory::Set read_inputs(const ResidualAdd<S, B>& add, ArgumentMemory& memory) {
  memory.read("skip", add.skip.vector);
  memory.read("gain", add.gain.vector);
  if (!add.sample_gain.empty()) memory.read("sample_gain", add.sample_gain);
  return memory.read("x", add.x) | memory.read("branch", add.branch);
}

}  // namespace addnorm::kernels
