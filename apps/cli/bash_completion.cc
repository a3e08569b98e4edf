#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/manual.h"

namespace addnorm::cli {
namespace {

// One function with a `case` over "command, word before, last flag".
constexpr const char* kHead = R"(_addnorm() {
  local command=${COMP_WORDS[1]} word=$2 before=$3 flag i
  [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}  # --flag=word
  [[ $word != = ]] || word=
  for ((i = 2; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} != -* ]] || flag=${COMP_WORDS[i]}
  done
  local key="$command $before $flag"
  [[ $word != -* ]] || key=$command
  ((COMP_CWORD > 1)) || key=
  case $key in
)";
constexpr const char* kFoot = R"(  esac
}
_addnorm_offer() {
  [[ $1 == -W ]] || compopt -o filenames
  mapfile -t COMPREPLY < <(compgen "$@" -- "$word")
}
complete -F _addnorm addnorm
)";

std::string offer(const CLI::Option& option) {
  switch (takes(option)) {
    case Takes::kWords:
      return fmt::format("_addnorm_offer -W '{}'", words_of(option));
    case Takes::kFiles:
      return "_addnorm_offer -f";
    case Takes::kFolders:
      return "_addnorm_offer -d";
    default:
      return ":";
  }
}

std::string all_flags(const CLI::App& app) {
  std::string flags;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& flag : flags_of(*option)) flags += ' ' + flag;
  }
  return flags;
}

std::string cases(const CLI::App& command) {
  const std::string& name = command.get_name();
  std::string of_flags, of_arguments;
  for (const CLI::Option* option : command.get_options({})) {
    const std::string flag = option->get_name();
    if (option->get_positional()) {
      of_arguments += fmt::format("    '{} '*) {} ;;\n", name, offer(*option));
    } else if (takes(*option) != Takes::kNothing) {
      of_flags += fmt::format("    '{} {} '*", name, flag);
      if (takes_several(*option)) of_flags += fmt::format(" | '{} '*' {}'", name, flag);
      of_flags += fmt::format(") {} ;;\n", offer(*option));
    }
  }
  return of_flags + of_arguments +
         fmt::format("    '{}'*) _addnorm_offer -W '{}' ;;\n", name, all_flags(command));
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::string names, of_commands;
  for (const CLI::App* command : visible_commands(program)) {
    names += command->get_name() + ' ';
    of_commands += cases(*command);
  }
  return kHead + fmt::format("    '') _addnorm_offer -W '{}{}' ;;\n", names, all_flags(program)) +
         of_commands + kFoot;
}

}  // namespace addnorm::cli
