#include "fuzz.h"
#include "io/npy.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz(data, size,
       [](const std::string& bytes) { addnorm::io::parse_npy_integers(bytes, "file"); });
  return fuzz(data, size, [](const std::string& bytes) { addnorm::io::parse_npy(bytes, "file"); });
}
