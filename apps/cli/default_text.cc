#include "cli/default_text.h"

#include <array>
#include <cstdio>

#include "base/require.h"
#include "cli/called_program.h"
#include "io/file.h"

namespace addnorm::cli {
namespace {

std::string default_text() {
  std::string text;
  std::FILE* const pipe = ::popen("bible -f Gen1:1-Rev22:21 2>/dev/null", "r");
  if (pipe != nullptr) {
    std::array<char, 65536> chunk;
    for (std::size_t n; (n = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
      text.append(chunk.data(), n);
    }
  }
  const bool is_read = pipe != nullptr && ::pclose(pipe) == 0 && !text.empty();
  require(is_read,
          "--text: the default text cannot be read, the King James Bible by the program `bible`; "
          "install it (apt-get install bible-kjv) or name a file");
  return text;
}

}  // namespace

CLI::Option* add_text(CLI::App& app, std::vector<std::string>& files) {
  return app
      .add_option("--text", files,
                  "text to train on (default: the King James Bible, of Debian's bible-kjv)")
      ->type_name("FILE");
}

std::string text_flag(const std::vector<std::string>& files) {
  std::string flag;
  for (const std::string& file : files)
    flag += (flag.empty() ? " --text " : " ") + shell_word(file);
  return flag;
}

std::string read_text_or_default(const std::vector<std::string>& files) {
  return files.empty() ? default_text() : io::read_text(files);
}

}  // namespace addnorm::cli
