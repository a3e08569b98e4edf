#include "cli/output_folder.h"

#include <algorithm>
#include <filesystem>

#include "base/require.h"
#include "io/file.h"

namespace addnorm::cli {

std::vector<std::string> prepare_outputs(const std::string& folder,
                                         const std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  require(!error, "--out: {} cannot be created: {}", folder, error.message());
  std::vector<std::string> files(names.size());
  std::ranges::transform(names, files.begin(), [&](const std::string& name) {
    return (fs::path(folder) / name).string();
  });
  io::check_outputs(files);
  return files;
}

}  // namespace addnorm::cli
