#include "fuzz.h"
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& bytes) {
    const addnorm::Safetensors file = addnorm::parse_safetensors(bytes, "file");
    for (const addnorm::StoredTensor& tensor : file.tensors) addnorm::tensor_values<float>(tensor);
  });
}
