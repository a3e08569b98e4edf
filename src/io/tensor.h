#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/shape.h"

namespace addnorm::io {

/// The storage type of a tensor's values.
enum class Dtype {
  // In safetensors files.
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kF8E4M3,
  // Only in GGUF files: blocks of values that share a scale (quantized.h).
  kQ40,
  kQ41,
  kQ50,
  kQ51,
  kQ80,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIQ4NL,
  kIQ4XS,
  // Only in GGUF files: block types whose values cannot be read here.
  kIQ1S,
  kIQ1M,
  kIQ2XXS,
  kIQ2XS,
  kIQ2S,
  kIQ3XXS,
  kIQ3S,
  kTQ10,
  kTQ20,
  kMXFP4,
  // In safetensors files as U8: numbers of 4 bits, two to a byte, and powers of 2 as scales.
  kF4,
  kF8E8M0,
};

/// The number of dtypes in safetensors files; they come first in the enum.
constexpr std::size_t kSafetensorsDtypes = 11;

struct DtypeInfo {
  std::string_view name;
  std::size_t values;  ///< values in a block; 1: no blocks
  std::size_t bytes;   ///< bytes of a block
};
std::span<const DtypeInfo> dtypes();  ///< in the order of Dtype
const DtypeInfo& info(Dtype dtype);

/// Whether read_values() supports the dtype.
bool is_readable(Dtype dtype);

/// One tensor of a file, in C order; it does not own the bytes.
struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< little-endian; at any address

  std::size_t count() const;  ///< number of values
};

/// Returns a tensor with these values, for writing under `name`.
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const float> values);
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const double> values);
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const std::int64_t> values);

/// Reads the tensor's values, beginning with `first`, until `values` is full, with
/// tensor_values()'s conversions.
template <typename T>
void read_values(const StoredTensor& tensor, std::size_t first, std::span<T> values);

/// Returns the values of a tensor of any readable dtype as T, float or double. F16 and BF16 are
/// exact, blocks are computed in float32, and values that T cannot represent are rounded to
/// nearest.
template <typename T>
std::vector<T> tensor_values(const StoredTensor& tensor);

/// The common part of files of tensors.
struct TensorFile {
  std::string file;                     ///< for messages
  std::vector<StoredTensor> tensors;    ///< in the order of their bytes
  std::shared_ptr<const void> storage;  ///< owns the bytes of the tensors

  const StoredTensor* find(std::string_view name) const;  ///< nullptr if there is none
  const StoredTensor& at(std::string_view name) const;    ///< throws an Error if there is none
};

}  // namespace addnorm::io
