#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "run/run_config.h"

namespace addnorm::cli {

/// The flags of settings(), and which of them were given.
class SettingFlags {
 public:
  /// Adds a flag for each setting that `wanted` selects; help shows its value in `defaults`.
  void add_to(CLI::App& app, const run::RunConfig& defaults,
              const std::function<bool(const run::Setting&)>& wanted);

  const run::RunConfig& given() const { return given_; }  ///< where its flag was given
  bool gives(std::string_view name) const;
  /// Changes what the flags say.
  void apply(run::RunConfig& config) const;

 private:
  run::RunConfig given_;
  std::vector<std::pair<const run::Setting*, const CLI::Option*>> options_;
};

}  // namespace addnorm::cli
