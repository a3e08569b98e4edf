#include "cli/completion.h"

#include <algorithm>

namespace addnorm::cli {

Takes takes(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Takes::kNothing;
  std::string type = option.get_type_name();
  if (type.empty()) type = option.get_name(true);
  if (type.find('|') != type.npos) return Takes::kWords;
  if (type == "FILE" || type == "RUN" || type == "TARGET") return Takes::kFiles;
  return type == "DIR" ? Takes::kFolders : Takes::kAnything;
}

bool takes_several(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::string words_of(const CLI::Option& option) {
  std::string words = option.get_type_name();
  std::ranges::replace(words, '|', ' ');
  return words;
}

std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_snames()) flags.push_back('-' + name);
  for (const std::string& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::string escape(const std::string& text, std::string_view characters) {
  std::string escaped;
  for (const char c : text) {
    if (characters.find(c) != characters.npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace addnorm::cli
