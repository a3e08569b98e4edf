#pragma once

#include <map>
#include <string>

#include "io/json.h"
#include "io/tensor.h"

namespace addnorm::io {

/// The contents of a GGUF file, version 2 or 3 (llama.cpp's format: docs/gguf.md of
/// github.com/ggml-org/ggml). Shapes have the slowest size first, so a matrix is out × in.
struct Gguf : TensorFile {
  /// Numbers, texts, true and false, and lists of these. A float32 number is its shortest decimal:
  /// 1e-5, not 9.99999974e-06. Lists longer than 4096, such as those of tokenizers, are null.
  std::map<std::string, Json> metadata;
};

/// Maps a GGUF file into memory and checks its whole header. Counts and lengths are checked against
/// the bytes of the file before memory of that size is allocated. The tensors must lie within the
/// file, aligned and without overlap, and each must have the bytes of its shape. Throws an Error of
/// one line with the file, the place and the expected value. For a model in several files
/// (split.count), `file` is the first, and the result has the tensors of all.
Gguf read_gguf(const std::string& file);

/// Like read_gguf(), but from bytes; `file` appears in messages.
Gguf parse_gguf(std::string bytes, const std::string& file);

}  // namespace addnorm::io
