#include <fmt/format.h>

#include "cli/completion.h"
#include "cli/manual.h"

namespace addnorm::cli {
namespace {

std::string fish_quote(const std::string& text) {
  return '\'' + escape(text, "\\'") + '\'';
}

std::string values(const CLI::Option& option) {
  switch (takes(option)) {
    case Takes::kNothing:
      return "";
    case Takes::kAnything:
      return " -x";
    case Takes::kWords:
      return fmt::format(" -x -a '{}'", words_of(option));
    case Takes::kFiles:
      return " -r -F";
    case Takes::kFolders:
      return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

std::string lines(const CLI::App& app, const std::string& condition) {
  std::string script;
  for (const CLI::Option* option : app.get_options({})) {
    std::string names;
    for (const std::string& name : option->get_snames()) names += " -s " + name;
    for (const std::string& name : option->get_lnames()) names += " -l " + name;
    script += fmt::format("complete -c addnorm -n '{}'{}{} -d {}\n", condition, names,
                          values(*option), fish_quote(option->get_description()));
  }
  return script;
}

}  // namespace

std::string fish_completion(const CLI::App& program) {
  std::string script = "complete -c addnorm -f\n" + lines(program, "__fish_use_subcommand");
  for (const CLI::App* command : visible_commands(program)) {
    const std::string name = command->get_name();
    script += fmt::format("complete -c addnorm -n __fish_use_subcommand -a {} -d {}\n", name,
                          fish_quote(command->get_description()));
    script += lines(*command, "__fish_seen_subcommand_from " + name);
  }
  return script;
}

}  // namespace addnorm::cli
