#include "cli/own_files.h"

#include <system_error>

#include "base/require.h"

namespace addnorm::cli {

std::filesystem::path own_files() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  require(!error, "the program's own files: /proc/self/exe, by which they are found: {}",
          error.message());
  return program.parent_path().parent_path() / "share/addnorm";
}

}  // namespace addnorm::cli
