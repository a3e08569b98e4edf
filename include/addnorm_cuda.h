#ifndef ADDNORM_CUDA_H
#define ADDNORM_CUDA_H

/// \file
/// Add & Norm on an NVIDIA GPU for C and every language that can call C: the functions of
/// addnorm/cuda.h, with the structs of addnorm.h. The results are bit for bit the same.
///
///     if (addnorm_cuda_supports(0, features, 0) != ADDNORM_OK) puts(addnorm_cuda_last_error());
///     addnorm_add_norm_forward_args args = {.size = sizeof args, .rows = rows, …};
///     if (addnorm_cuda_add_norm_forward(&args, stream) != ADDNORM_OK) …
///
/// Pointers to values are pointers to the current device's memory. The structs themselves, a skip
/// or gain of one value, and the norm are read from host memory during the call. `threads` is
/// ignored. The rules of addnorm.h hold for shapes, strides, alignment and overlaps.
///
/// A call checks its arguments, starts kernels on `stream`, a cudaStream_t, and returns. NULL is
/// the default stream. The call allocates no device memory, copies nothing and waits for nothing,
/// so a CUDA graph can capture it. All memory must stay valid until the kernels end, and errors of
/// running kernels are found by CUDA's own functions.
///
/// ADDNORM_F64 and other norms than LayerNorm and RMSNorm are errors. addnorm/cuda.h has the limits
/// of features and lanes.
///
/// In a build without CUDA (ADDNORM_CUDA=OFF) all functions fail. The wheel addnorm-cuda has these
/// functions in a library of its own.

// NOLINTBEGIN(modernize-*, readability-identifier-naming): this is C

#include "addnorm.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Fails with the reason unless a device can run the kernels. `device` is CUDA's number, `features`
/// the width of rows, and `lanes` is 2, 4, or 0 for add_norm. Whether the build has code for the
/// device is checked only for the current device.
ADDNORM_API addnorm_status addnorm_cuda_supports(int32_t device, size_t features, size_t lanes);

/// Returns the error message of this thread's last failed call, like addnorm_last_error().
ADDNORM_API const char* addnorm_cuda_last_error(void);
/// Returns the library's version, "1.2.3".
ADDNORM_API const char* addnorm_cuda_version(void);

/// addnorm_add_norm_forward on the GPU.
ADDNORM_API addnorm_status addnorm_cuda_add_norm_forward(const addnorm_add_norm_forward_args* args,
                                                         void* stream);
/// addnorm_add_norm_backward on the GPU. Its workspace has addnorm_cuda_add_norm_workspace()
/// values.
ADDNORM_API addnorm_status
addnorm_cuda_add_norm_backward(const addnorm_add_norm_backward_args* args, void* stream);
/// Writes into `values` the least number of values of the workspace, for d_gamma or d_beta.
ADDNORM_API addnorm_status addnorm_cuda_add_norm_workspace(size_t rows, size_t features,
                                                           size_t* values);

/// addnorm_lanes_forward on the GPU. x has 2 or 4 lanes and X′ as many, F at most one, y at most
/// one.
ADDNORM_API addnorm_status addnorm_cuda_lanes_forward(const addnorm_lanes_forward_args* args,
                                                      void* stream);
/// addnorm_lanes_backward on the GPU, with the limits of addnorm_cuda_lanes_forward. Its workspace
/// has addnorm_cuda_lanes_workspace() values.
ADDNORM_API addnorm_status addnorm_cuda_lanes_backward(const addnorm_lanes_backward_args* args,
                                                       void* stream);
/// Writes into `values` the least number of values of the workspace, for the gradient of any
/// parameter.
ADDNORM_API addnorm_status addnorm_cuda_lanes_workspace(size_t rows, size_t lanes, size_t features,
                                                        size_t* values);

#ifdef __cplusplus
}
#endif

// NOLINTEND(modernize-*, readability-identifier-naming)

#endif
