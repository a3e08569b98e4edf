#include <cstdio>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/manual.h"
#include "cli/options.h"

namespace addnorm::cli {
namespace {

using Writer = std::string (*)(const CLI::App& program);

}  // namespace

std::vector<const CLI::App*> visible_commands(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); });
}

// Hidden: the build runs it, and installs what it prints.
Command manual_command(CLI::App& program) {
  const auto write = std::make_shared<Writer>();
  CLI::App* app = program.add_subcommand("manual", "Print the man page, or completion for a shell");
  add_choice<Writer>(*app, "FORM", *write,
                     {{"man", man_page},
                      {"bash", bash_completion},
                      {"fish", fish_completion},
                      {"zsh", zsh_completion}},
                     "what to print")
      ->required();
  app->group("");
  return {app, [write, &program] {
            std::fputs((*write)(program).c_str(), stdout);
            return kDone;
          }};
}

}  // namespace addnorm::cli
