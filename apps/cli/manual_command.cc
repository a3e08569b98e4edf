#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/manual.h"
#include "cli/options.h"

namespace addnorm::cli {
namespace {

struct Form {
  std::string_view name;
  std::string (*write)(const CLI::App& program);
};
constexpr Form kForms[] = {{"man", man_page},
                           {"bash", bash_completion},
                           {"fish", fish_completion},
                           {"zsh", zsh_completion},
                           {"names", names_json}};

}  // namespace

std::vector<const CLI::App*> visible_commands(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); });
}

// A hidden command: the build runs it and installs its output.
Command manual_command(CLI::App& program) {
  const auto form = std::make_shared<const Form*>();
  CLI::App* app = program.add_subcommand(
      "manual", "Print the man page, completion for a shell, or all names as JSON");
  std::vector<std::string_view> names;
  for (const Form& one : kForms) names.push_back(one.name);
  add_choice(
      *app, "FORM", names, [form](std::size_t place) { *form = &kForms[place]; }, "what to print")
      ->required();
  app->group("");
  return {app, [form, &program] {
            std::fputs((*form)->write(program).c_str(), stdout);
            return kDone;
          }};
}

}  // namespace addnorm::cli
