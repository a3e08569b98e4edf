#include "io/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/require.h"

namespace addnorm::io {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  const fs::path folder = fs::temp_directory_path();
  path_ = (folder / "addnorm-XXXXXX").string();
  if (::mkdtemp(path_.data()) != nullptr) return;
  const char* reason = std::strerror(errno);
  fail(fmt::format("{}: no folder can be created there: {}", folder.string(), reason));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace addnorm::io
