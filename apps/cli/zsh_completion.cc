#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/manual.h"

namespace addnorm::cli {
namespace {

constexpr const char* kChoice = R"( \
    '1: :->command' '*:: :->arguments'
  if [[ $state == command ]]; then
    _describe command commands
    return
  fi
  case $words[1] in
)";

std::string zsh_quote(const std::string& text) {
  return '\'' + CLI::detail::find_and_replace(text, "'", "'\\''") + '\'';
}

std::string action(const CLI::Option& option) {
  switch (takes(option)) {
    case Takes::kWords:
      return fmt::format("({})", words_of(option));
    case Takes::kFiles:
      return "_files";
    case Takes::kFolders:
      return "_files -/";
    default:
      return " ";
  }
}

/// Returns the option in the notation of _arguments: '--flag[meaning]:what:action',
/// '*:meaning:action'.
std::string specification(const CLI::Option& option) {
  const std::string meaning = escape(option.get_description(), "[]:\\");
  const std::string many = takes_several(option) ? "*" : "";
  if (option.get_positional()) return zsh_quote(many + ':' + meaning + ':' + action(option));
  std::string text;
  for (const std::string& flag : flags_of(option)) {
    std::string one = fmt::format("{}{}[{}]", many, flag, meaning);
    if (takes(option) != Takes::kNothing) {  // "*-*": up to the next flag
      one += fmt::format("{}:{}:{}", many.empty() ? "" : ":*-*", flag, action(option));
    }
    text += (text.empty() ? "" : " ") + zsh_quote(one);
  }
  return text;
}

std::string specifications(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options({})) {
    text += " \\\n      " + specification(*option);
  }
  return text;
}

}  // namespace

std::string zsh_completion(const CLI::App& program) {
  std::string names, cases;
  for (const CLI::App* command : visible_commands(program)) {
    names += "    " + zsh_quote(command->get_name() + ':' + command->get_description()) + '\n';
    cases += "    " + command->get_name() + ") _arguments" + specifications(*command) + " ;;\n";
  }
  return "#compdef addnorm\n"
         "_addnorm() {\n"
         "  local curcontext=$curcontext state line\n"
         "  local -a commands=(\n" +
         names + "  )\n  _arguments -C" + specifications(program) + kChoice + cases +
         "  esac\n}\n_addnorm \"$@\"\n";
}

}  // namespace addnorm::cli
