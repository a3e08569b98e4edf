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

/// How the values of a tensor are stored.
enum class Dtype {
  // Of safetensors files.
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
  // Of GGUF files alone: blocks of values that share a scale (quantized.h).
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
  // Of those, the ones whose values are not read here.
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
  // Of safetensors files as U8: numbers of 4 bits, two to a byte, and powers of 2 to scale them.
  kF4,
  kF8E8M0,
};

/// How many dtypes safetensors files have: the first ones.
constexpr std::size_t kSafetensorsDtypes = 11;

struct DtypeInfo {
  std::string_view name;
  std::size_t values;  ///< of a block; 1: each stands for itself
  std::size_t bytes;   ///< of a block
};
std::span<const DtypeInfo> dtypes();  ///< in the order of Dtype
const DtypeInfo& info(Dtype dtype);

/// Whether read_values() knows the dtype.
bool is_readable(Dtype dtype);

/// One tensor of a file, in C order; the bytes are somebody else's.
struct StoredTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  std::span<const std::byte> bytes;  ///< little-endian; may stand at any address

  std::size_t count() const;  ///< of values
};

/// The values that are to be written under `name`.
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const float> values);
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const double> values);
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const std::int64_t> values);

/// The tensor's values from `first` on, as many as there is room for, as tensor_values() gives
/// them.
template <typename T>
void read_values(const StoredTensor& tensor, std::size_t first, std::span<T> values);

/// The values of a tensor of any readable dtype as T, float or double: F16 and BF16 exactly, those
/// of blocks in float32, what T cannot hold rounded to nearest.
template <typename T>
std::vector<T> tensor_values(const StoredTensor& tensor);

/// What files of tensors have in common.
struct TensorFile {
  std::string file;                     ///< for messages
  std::vector<StoredTensor> tensors;    ///< in the order of their bytes
  std::shared_ptr<const void> storage;  ///< owns the bytes of the tensors

  const StoredTensor* find(std::string_view name) const;  ///< nullptr where there is none
  const StoredTensor& at(std::string_view name) const;    ///< throws where there is none
};

}  // namespace addnorm::io
