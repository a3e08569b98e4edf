#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "run/run_config.h"

namespace addnorm::cli {

/// The flags of settings(), and the record of the given ones.
class SettingFlags {
 public:
  /// Adds a flag for each setting that `wanted` selects; help shows its value in `defaults`.
  void add_to(CLI::App& app, const run::RunConfig& defaults,
              const std::function<bool(const run::Setting&)>& wanted);

  /// valid for settings whose flag was given
  const run::RunConfig& given() const { return given_; }
  bool gives(std::string_view name) const;
  /// Applies the given flags.
  void apply(run::RunConfig& config) const;

 private:
  run::RunConfig given_;
  std::vector<std::pair<const run::Setting*, const CLI::Option*>> options_;
};

}  // namespace addnorm::cli
