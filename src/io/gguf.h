#pragma once

#include <map>
#include <string>

#include "io/json.h"
#include "io/tensor.h"

namespace addnorm::io {

/// What a GGUF file holds, of version 2 or 3 (the format of llama.cpp: docs/gguf.md of
/// github.com/ggml-org/ggml). Shapes have the slowest size first, so a matrix is out × in.
struct Gguf : TensorFile {
  /// Numbers, texts, true and false, and lists of these. A number of float32 is the shortest
  /// decimal that gives it: 1e-5, not 9.99999974e-06. Lists longer than 4096, as tokenizers have,
  /// are null.
  std::map<std::string, Json> metadata;
};

/// Maps a GGUF file into memory and checks all of its header: counts and lengths against the bytes
/// that are there, before anything of that size is made; the tensors lie within the file, aligned
/// and without overlap, and each has the bytes that its shape takes. Throws Error, in one line with
/// the file, the place and what was expected. Of a model in several files (split.count), `file` is
/// the first, and the tensors are those of all.
Gguf read_gguf(const std::string& file);

/// The same of the bytes of a file; `file` is for messages.
Gguf parse_gguf(std::string bytes, const std::string& file);

}  // namespace addnorm::io
