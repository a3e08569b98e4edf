#include "io/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/require.h"

namespace addnorm {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder()
    : path_((fs::temp_directory_path() / "addnorm-XXXXXX").string()) {
  require(::mkdtemp(path_.data()) != nullptr, "{}: no folder can be made there: {}",
          fs::temp_directory_path().string(), std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace addnorm
