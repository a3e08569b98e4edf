#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/tensor.h"

namespace addnorm::io {

/// The contents of a safetensors file.
struct Safetensors : TensorFile {
  std::map<std::string, std::string> metadata;  ///< __metadata__
};

/// Maps a safetensors file into memory and checks its whole header. The tensors must lie within the
/// file, one after the other, without overlap or holes, and each must have the bytes of its shape.
Safetensors read_safetensors(const std::string& file);

/// Like read_safetensors(), but from bytes; `file` appears in messages.
Safetensors parse_safetensors(std::string bytes, const std::string& file);

/// Writes a safetensors file with the tensors in the given order, completely or not at all
/// (write_file).
void write_safetensors(const std::string& file, const std::vector<StoredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Returns the bytes of a safetensors file with the tensors in the given order.
std::string to_safetensors(const std::vector<StoredTensor>& tensors,
                           const std::map<std::string, std::string>& metadata = {});

}  // namespace addnorm::io
