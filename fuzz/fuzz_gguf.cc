#include "fuzz.h"
#include "model/gguf_recipe.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& bytes) {
    const addnorm::io::Gguf file = addnorm::io::parse_gguf(bytes, "file");
    for (const addnorm::io::StoredTensor& tensor : file.tensors) {
      if (addnorm::io::is_readable(tensor.dtype)) addnorm::io::tensor_values<float>(tensor);
    }
    addnorm::model::gguf_recipe(file);
  });
}
