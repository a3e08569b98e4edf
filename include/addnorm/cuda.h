#pragma once

/// \file
/// The same kernels on an NVIDIA GPU of compute capability 9.0 or 10.x: the calls take the structs
/// of norm.h and lanes.h, with views of device memory. They check their arguments, start kernels on
/// `stream` and return; they neither wait nor allocate.
///
/// LayerNorm and RMSNorm, of up to 65,536 features, in float, BFloat16, Float16, and float with
/// BFloat16 or Float16 (norm.h). A row has the same bits in any batch, and the gradients of
/// parameters have the same bits in every run; neither depends on the GPU. The residual sum has the
/// CPU's bits. Statistics are summed in float64, gradients in float32 within a thread; both differ
/// from the CPU by rounding.
///
/// In a build without CUDA (ADDNORM_CUDA=OFF) available() is false, and the other functions throw
/// Error.

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "addnorm/lanes.h"
#include "addnorm/norm.h"
#include "addnorm/types.h"

struct CUstream_st;

namespace addnorm::cuda {

/// cudaStream_t; null: the default stream.
using StreamHandle = CUstream_st*;

/// Fails to compile unless a GPU's kernels have these types.
template <typename Stream, typename Branch>
constexpr bool check_storage() {
  static_assert(
      kIsStorage<Stream, Branch> && !std::is_same_v<Stream, double>,
      "addnorm::cuda: <Stream, Branch> must be one of <float, float>, <BFloat16, BFloat16>, "
      "<Float16, Float16>, <float, BFloat16>, <float, Float16>");
  return true;
}

/// Whether this build has the kernels, and the current device runs them.
ADDNORM_API bool available();

/// norm.h's add_norm_forward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_forward(const NormOptions& options,
                                  const AddNormForward<Stream, Branch>& args,
                                  StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void add_norm_forward(const NormOptions&, const AddNormForward<Stream, Branch>&,
                      StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// norm.h's add_norm_backward; d_gamma and d_beta are summed in the pass that writes dx.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void add_norm_backward(const NormOptions& options,
                                   const AddNormBackward<Stream, Branch>& args,
                                   StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void add_norm_backward(const NormOptions&, const AddNormBackward<Stream, Branch>&,
                       StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// How many values the workspace of add_norm_backward must hold at least, for d_gamma or d_beta.
ADDNORM_API std::size_t add_norm_workspace(std::size_t rows, std::size_t features);

/// lanes.h's lanes_forward: of 2 or 4 lanes of x and as many of X′, at most one of F, at most one
/// read, and up to 16,384 features.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_forward(const LanesForward<Stream, Branch>& args,
                               StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void lanes_forward(const LanesForward<Stream, Branch>&, StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// lanes.h's lanes_backward, likewise.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_backward(const LanesBackward<Stream, Branch>& args,
                                StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void lanes_backward(const LanesBackward<Stream, Branch>&, StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// How many values the workspace of lanes_backward must hold at least, where any parameter's
/// gradient is wanted.
ADDNORM_API std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features);

}  // namespace addnorm::cuda
