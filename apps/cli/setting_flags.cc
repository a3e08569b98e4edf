#include "cli/setting_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>

#include "cli/options.h"

namespace addnorm::cli {
namespace {

std::string default_text(const run::Setting& setting, const run::RunConfig& defaults) {
  return std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(defaults.*member)>;
        if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          return std::string();
        } else {
          return fmt::format(" ({})", defaults.*member);
        }
      },
      setting.member);
}

CLI::Option* add(CLI::App& app, const run::Setting& setting, const std::string& help,
                 run::RunConfig& given) {
  const std::string flag = fmt::format("--{}", setting.name);
  if (const auto* count = std::get_if<std::uint64_t run::RunConfig::*>(&setting.member)) {
    return add_count(app, flag, given.*(*count), help);
  }
  if (const auto* number = std::get_if<double run::RunConfig::*>(&setting.member)) {
    return add_number(app, flag, given.*(*number), help);
  }
  if (const auto* words =
          std::get_if<std::vector<std::string> run::RunConfig::*>(&setting.member)) {
    return app.add_option(flag, given.*(*words), help)->type_name("FILE");
  }
  const auto word = std::get<std::string run::RunConfig::*>(setting.member);
  CLI::Option* option = app.add_option(flag, given.*word, help);
  if (setting.choices.empty()) {
    return option->type_name(placement_names())->option_text("NAME[/NAME][:N+...]");
  }
  return option->type_name(fmt::format("{}", fmt::join(setting.choices, "|")));
}

}  // namespace

void SettingFlags::add_to(CLI::App& app, const run::RunConfig& defaults,
                          const std::function<bool(const run::Setting&)>& wanted) {
  for (const run::Setting& setting : run::settings()) {
    if (!wanted(setting)) continue;
    const std::string help = std::string(setting.meaning) + default_text(setting, defaults);
    options_.emplace_back(&setting, add(app, setting, help, given_));
  }
}

bool SettingFlags::gives(std::string_view name) const {
  return std::ranges::any_of(
      options_, [&](auto& o) { return o.first->name == name && o.second->count() > 0; });
}

void SettingFlags::apply(run::RunConfig& config) const {
  for (const auto& [setting, option] : options_) {
    if (option->count() == 0) continue;
    std::visit([&](auto member) { config.*member = given_.*member; }, setting->member);
  }
}

}  // namespace addnorm::cli
