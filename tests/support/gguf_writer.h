#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace addnorm::testing {

/// Returns a number in GGUF's format.
template <typename T>
std::string gguf_bytes(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
inline std::string gguf_text(std::string_view text) {
  return gguf_bytes<std::uint64_t>(text.size()) + std::string(text);
}

/// Writes a GGUF file, or an invalid one.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::size_t alignment = 32;  ///< between tensors

  /// `type` is the number of a metadata type.
  void add(std::string_view key, std::uint32_t type, const std::string& value) {
    metadata_ += gguf_text(key) + gguf_bytes(type) + value;
    ++keys_;
  }
  void add(std::string_view key, std::uint32_t value) { add(key, 4, gguf_bytes(value)); }
  void add(std::string_view key, float value) { add(key, 6, gguf_bytes(value)); }
  void add(std::string_view key, bool value) { add(key, 7, std::string(1, value ? '\1' : '\0')); }
  void add(std::string_view key, const char* value) { add(key, 8, gguf_text(value)); }

  /// `sizes` has the fastest size first; `type` is ggml's number, 0 for F32.
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& sizes,
                  std::uint32_t type, const std::string& bytes) {
    add_entry(name, sizes, type, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  }
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& sizes,
                  const std::vector<float>& values) {
    add_tensor(name, sizes, 0,
               {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  /// Adds only the entry of a tensor.
  void add_entry(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                 std::uint64_t offset) {
    table_ += gguf_text(name) + gguf_bytes(static_cast<std::uint32_t>(sizes.size()));
    for (const std::uint64_t size : sizes) table_ += gguf_bytes(size);
    table_ += gguf_bytes(type) + gguf_bytes(offset);
    ++tensors_;
  }

  std::string bytes() const {
    std::string all = "GGUF" + gguf_bytes(version) + gguf_bytes(tensors_) + gguf_bytes(keys_) +
                      metadata_ + table_;
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data_;
  }

 private:
  std::uint64_t keys_ = 0, tensors_ = 0;
  std::string metadata_, table_, data_;
};

}  // namespace addnorm::testing
