#include "cli/own_text.h"

#include <algorithm>
#include <filesystem>

#include "base/require.h"
#include "cli/own_files.h"
#include "io/file.h"

namespace addnorm {
namespace {

std::vector<std::string> own_text() {
  namespace fs = std::filesystem;
  const fs::path root = own_files();
  std::vector<std::string> files;
  auto add = [&](const fs::path& file) {
    const std::string extension = file.extension().string();
    if (extension == ".md" || extension == ".h" || extension == ".cc") {
      files.push_back(file.string());
    }
  };
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) add(entry.path());
  for (const char* folder : {"apps", "docs", "include", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder, error)) {
      add(entry.path());
    }
  }
  require(!files.empty(), "--text: the project's own documents are no longer at {}; name a file",
          root.string());
  std::ranges::sort(files);
  return files;
}

}  // namespace

CLI::Option* add_text(CLI::App& app, std::vector<std::string>& files) {
  return app.add_option("--text", files, "text to train on (default: this project's own files)")
      ->type_name("FILE");
}

std::string read_text_or_own(const std::vector<std::string>& files) {
  return read_text(files.empty() ? own_text() : files);
}

}  // namespace addnorm
