#include "cli/own_files.h"

#include <system_error>

namespace addnorm {

std::filesystem::path own_files() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "share/addnorm";
}

}  // namespace addnorm
