#pragma once

/// The storage types of matrices on a device.
#define ADDNORM_FOR_CUDA_STORAGES(use)                                                 \
  use(float, float) use(BFloat16, BFloat16) use(Float16, Float16) use(float, BFloat16) \
      use(float, Float16)

/// Instantiates the functions of addnorm/cuda.h for one pair of types.
#define ADDNORM_INSTANTIATE_CUDA(S, B)                                                             \
  template void add_norm_forward(const NormOptions&, const AddNormForward<S, B>&, StreamHandle);   \
  template void add_norm_backward(const NormOptions&, const AddNormBackward<S, B>&, StreamHandle); \
  template void lanes_forward(const LanesForward<S, B>&, StreamHandle);                            \
  template void lanes_backward(const LanesBackward<S, B>&, StreamHandle);
