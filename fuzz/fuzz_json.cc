#include <cstdlib>

#include "fuzz.h"
#include "io/json.h"

/// A value that was read, written and read again is the same.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz(data, size, [](const std::string& text) {
    const addnorm::io::Json read = addnorm::io::parse_json(text, "file");
    if (addnorm::io::try_parse_json(read.dump()) != read) std::abort();
  });
}
