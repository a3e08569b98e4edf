#pragma once

/// \file The kernels of norm.h and lanes.h on an NVIDIA GPU of compute capability 8.x, 9.0 or 10.x.
/// The calls take the same structs, with views of device memory. They check their arguments, start
/// kernels on `stream` and return; they neither wait nor allocate, and can be captured in a graph.
///
/// LayerNorm and RMSNorm take up to 65,536 features, or 16,384 on 8.x, in float, BFloat16, Float16,
/// and float with BFloat16 or Float16 (norm.h). A row has the same bits in any batch, and the
/// gradients of parameters have the same bits in every run. Neither depends on the GPU, except that
/// 8.x adds up in another order than 9.0 and 10.x: rows beyond 4,096 features in backward, lanes
/// beyond 2,048, and the gradients of all parameters. The residual sum has the CPU's bits.
/// Statistics are summed in float64, gradients in float32 within a thread; both differ from the CPU
/// by rounding.
///
/// The code for 8.x and 10.x is compiled and was never run.
///
/// In a build without CUDA (ADDNORM_CUDA=OFF) available() returns false, and the other functions
/// throw Error.

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

/// Fails to compile unless the GPU kernels support these types.
template <typename Stream, typename Branch>
constexpr bool check_storage() {
  static_assert(
      kIsStorage<Stream, Branch> && !std::is_same_v<Stream, double>,
      "addnorm::cuda: <Stream, Branch> must be one of <float, float>, <BFloat16, BFloat16>, "
      "<Float16, Float16>, <float, BFloat16>, <float, Float16>");
  return true;
}

/// Returns whether this build has the kernels and the current device can run them.
ADDNORM_API bool available();
/// Throws an Error with the reason unless a device can run the kernels. `device` is CUDA's number,
/// `features` the width of rows, and `lanes` is 2, 4, or 0 for add_norm. Whether the build has code
/// for the device is checked only for the current device.
ADDNORM_API void check_support(int device, std::size_t features, std::size_t lanes = 0);

/// add_norm_forward of norm.h on the GPU.
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
/// add_norm_backward of norm.h on the GPU; d_gamma and d_beta are summed in the pass that writes
/// dx.
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
/// Returns the least number of values for the workspace of add_norm_backward, for d_gamma or
/// d_beta.
ADDNORM_API std::size_t add_norm_workspace(std::size_t rows, std::size_t features);

/// lanes_forward of lanes.h on the GPU. x has 2 or 4 lanes and X′ as many, F at most one, y at most
/// one. The largest number of features is 16,384, or 8,192 on compute capability 8.x.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_forward(const LanesForward<Stream, Branch>& args,
                               StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void lanes_forward(const LanesForward<Stream, Branch>&, StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// lanes_backward of lanes.h on the GPU, with the limits of lanes_forward.
template <typename Stream, typename Branch = Stream>
ADDNORM_API void lanes_backward(const LanesBackward<Stream, Branch>& args,
                                StreamHandle stream = nullptr);
/// \cond
template <std::same_as<double> Stream, typename Branch = Stream>
void lanes_backward(const LanesBackward<Stream, Branch>&, StreamHandle = nullptr) {
  static_assert(check_storage<Stream, Branch>());
}
/// \endcond
/// Returns the least number of values for the workspace of lanes_backward if any parameter's
/// gradient is wanted.
ADDNORM_API std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features);

}  // namespace addnorm::cuda
