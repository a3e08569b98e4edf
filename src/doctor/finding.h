#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/probe.h"
#include "doctor/places.h"
#include "doctor/subject.h"
#include "model/recipe.h"

namespace addnorm::doctor {

enum class Severity {
  kBroken,      ///< computes something else than its recipe says
  kSuspicious,  ///< unusual in a sound network, but possibly intended
  kNote,        ///< useful to know; no defect
};

/// A fix that can be tried: another setting of a run, or another recipe for a model's weights.
struct Remedy {
  std::string change;  ///< in words: "warm-up 0 → 100"
  std::function<void(run::RunConfig&)> settings = {};
  std::function<void(model::Recipe&)> recipe = {};
};

/// The number that identifies a finding before and after a remedy.
struct Measure {
  std::string name = {};
  std::function<double(const Subject&)> of = {};
  std::function<bool(double)> is_sound = {};  ///< unset: smaller is better
  bool is_initial = false;                    ///< whether it is visible before the first step
};

/// A rule's observation, its place, and the expectation.
struct Finding {
  std::string_view rule;  ///< name of the rule
  Severity severity = Severity::kBroken;
  std::optional<Site> site = {};                      ///< none: the whole network
  std::string where = site ? site_words(*site) : "";  ///< "layer 3, attention"; "all norms"
  std::string module = {};  ///< the code's name of its layer, if the profile has it
  std::string what;         ///< a sentence with its numbers
  std::string because;      ///< the expectation and its source
  std::string fix;
  double measured = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no single number
  double expected = std::numeric_limits<double>::quiet_NaN();
  /// For a norm over wrong axes: the axes that share its statistics, if known.
  std::string shared_axes = {};
  std::vector<std::string> leads_to =
      {};  ///< findings that follow from it: "gradient-missing, h.2.attn"
  std::vector<Remedy> remedies = {};  ///< in the order in which they are tried
  Measure measure = {};               ///< set if there are remedies

  /// Returns the relative size of the error, with which findings of one rule can be compared.
  double badness() const;
};

}  // namespace addnorm::doctor
