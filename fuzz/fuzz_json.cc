#include "fuzz.h"
#include "io/json.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& text) { addnorm::io::parse_json(text, "file"); });
}
