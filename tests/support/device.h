#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "addnorm/cuda.h"
#include "addnorm/float16.h"
#include "addnorm/view.h"
#include "kernels/cuda/error.h"

namespace addnorm::testing {

/// Whether the current device supports rows of `features` values, for add_norm or for 2 or 4 lanes.
inline bool device_supports(std::size_t features, std::size_t lanes = 0) {
  int device = 0;
  kernels::cuda::check(cudaGetDevice(&device));
  try {
    cuda::check_support(device, features, lanes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// An array in the memory of the device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    void* memory = nullptr;
    kernels::cuda::check(cudaMalloc(&memory, size * sizeof(T) + 1));
    data_ = static_cast<T*>(memory);
    kernels::cuda::check(cudaMemset(data_, 0xFF, size * sizeof(T)));  // NaN, in every type
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    *this = values;
  }
  DeviceArray(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  void operator=(const std::vector<T>& values) {
    kernels::cuda::check(
        cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    kernels::cuda::check(
        cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }
  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<T> span() const { return {data_, size_}; }
  MatrixView<T> matrix(std::size_t rows, std::size_t cols) const { return {data_, rows, cols}; }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

/// Converts any type of storage; to_double() does not support 16-bit types.
template <typename T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<float>(value));
  return result;
}

/// The types of a stream and a branch.
template <typename S, typename B>
struct Storage {
  using Stream = S;
  using Branch = B;
};
using DeviceStorages =
    ::testing::Types<Storage<float, float>, Storage<BFloat16, BFloat16>, Storage<Float16, Float16>,
                     Storage<float, BFloat16>, Storage<float, Float16>>;

}  // namespace addnorm::testing
