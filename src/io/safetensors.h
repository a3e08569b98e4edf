#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/tensor.h"

namespace addnorm::io {

/// What a safetensors file holds.
struct Safetensors : TensorFile {
  std::map<std::string, std::string> metadata;  ///< __metadata__
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
