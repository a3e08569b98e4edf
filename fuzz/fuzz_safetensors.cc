#include "fuzz.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& bytes) {
    const addnorm::io::Safetensors file = addnorm::io::parse_safetensors(bytes, "file");
    for (const addnorm::io::StoredTensor& tensor : file.tensors)
      addnorm::io::tensor_values<float>(tensor);
  });
}
