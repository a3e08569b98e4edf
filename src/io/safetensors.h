#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/shape.h"

namespace addnorm::io {

/// The types of a safetensors file that are understood.
enum class Dtype { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

/// One tensor of a safetensors file, in C order; the bytes are somebody else's.
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

/// The values of a tensor of any dtype as T, float or double: F16 and BF16 exactly, what T cannot
/// hold rounded to nearest.
template <typename T>
std::vector<T> tensor_values(const StoredTensor& tensor);

/// What a safetensors file holds.
struct Safetensors {
  std::string file;                             ///< for messages
  std::vector<StoredTensor> tensors;            ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< __metadata__
  std::shared_ptr<const void> storage;          ///< owns the bytes of the tensors

  const StoredTensor& at(std::string_view name) const;  ///< throws where there is none
};

/// Maps a safetensors file into memory and checks all of its header: the tensors lie within the
/// file, one after the other, without overlap or holes, and each has the bytes that its shape
/// takes.
Safetensors read_safetensors(const std::string& file);

/// The same of the bytes of a file; `file` is for messages.
Safetensors parse_safetensors(std::string bytes, const std::string& file);

/// Writes a safetensors file with the tensors in the given order, whole or not at all (write_file).
void write_safetensors(const std::string& file, const std::vector<StoredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// The bytes of a safetensors file with the tensors in the given order.
std::string to_safetensors(const std::vector<StoredTensor>& tensors,
                           const std::map<std::string, std::string>& metadata = {});

}  // namespace addnorm::io
