#include "io/file.h"
#include "io/json.h"

namespace addnorm::io {

Json read_json(const std::string& file) {
  return parse_json(read_file(file, kMostJsonBytes), file);
}

}  // namespace addnorm::io
