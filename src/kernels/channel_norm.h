#pragma once

#include <cstddef>
#include <string_view>

#include "addnorm/norm.h"

/// Batch, instance and group norms: the part of add_norm_forward and add_norm_backward for them.

namespace addnorm::kernels {

template <typename T>
void channel_norm_forward(std::string_view where, const NormOptions& options,
                          const AddNormForward<T>& args);
template <typename T>
void channel_norm_backward(std::string_view where, const NormOptions& options,
                           const AddNormBackward<T>& args);

/// Computes norm_sets(); errors begin with `where`.
std::size_t count_sets(std::string_view where, const NormOptions& options, std::size_t rows,
                       std::size_t features, std::size_t positions);

/// A contiguous (N, C, S) tensor in PyTorch's order: N samples, C channels, S positions each.
struct TensorShape {
  std::size_t samples = 0;
  std::size_t channels = 0;
  std::size_t positions = 1;

  std::size_t size() const { return samples * channels * positions; }
};

struct Sets {
  std::size_t rows = 0;        ///< number of sets; each has one mean and one deviation
  std::size_t runs = 0;        ///< number of channels in one set
  std::size_t run_length = 0;  ///< values of one channel in one set
  std::size_t period = 0;      ///< rows r and r + period have the same channels

  std::size_t cols() const { return runs * run_length; }
  std::size_t channel(std::size_t r, std::size_t run) const { return (r % period) * runs + run; }
};

/// The terms of each row in the gradients of γ and β, samples × channels each. Row r and its run
/// are at index r·runs + run.
template <typename T>
struct ParameterParts {
  MatrixView<T> gamma;
  MatrixView<T> beta;
};

template <typename T>
ParameterParts<T> parameter_parts(const AddNormBackward<T>& args, const Sets& sets) {
  const std::size_t channels = sets.period * sets.runs;
  const std::size_t samples = channels == 0 ? 0 : sets.rows * sets.runs / channels;
  T* end = args.workspace.data() + args.workspace.size();
  return {{end - 2 * samples * channels, samples, channels},
          {end - samples * channels, samples, channels}};
}

/// The arguments and the shape that are common to all sets of a call.
template <typename Args>
struct SetJob {
  const NormOptions& options;
  const Args& args;
  const Sets& sets;
};
template <typename T>
using SetForward = SetJob<AddNormForward<T>>;
template <typename T>
using SetBackward = SetJob<AddNormBackward<T>>;

}  // namespace addnorm::kernels
