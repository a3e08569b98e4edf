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
  kSuspicious,  ///< what a sound network does not show, but may have reasons for
  kNote,        ///< worth knowing; no defect
};

/// A fix that can be tried: another setting of a run, or another recipe for a model's weights.
struct Remedy {
  std::string change;  ///< in words: "warm-up 0 → 100"
  std::function<void(run::RunConfig&)> settings = {};
  std::function<void(model::Recipe&)> recipe = {};
};

/// The number by which a finding is known again after a remedy.
struct Measure {
  std::string name = {};
  std::function<double(const Subject&)> of = {};
  std::function<bool(double)> is_sound = {};  ///< unset: less is better
  bool is_initial = false;                    ///< it shows before the first step
};

/// What a rule has seen, where, and what it expected.
struct Finding {
  std::string_view rule;  ///< its name
  Severity severity = Severity::kBroken;
  std::optional<Site> site = {};                      ///< none: the finding is of the whole network
  std::string where = site ? site_words(*site) : "";  ///< "layer 3, attention"; "all norms"
  std::string module = {};  ///< what the code calls its layer, where the profile says it
  std::string what;         ///< in a sentence, with its numbers
  std::string because;      ///< the expectation and where it comes from
  std::string fix;
  double measured = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no single number
  double expected = std::numeric_limits<double>::quiet_NaN();
  std::string shared_by = {};  ///< of a norm over other axes: what shares its statistics, if known
  std::vector<std::string> leads_to =
      {};  ///< findings that follow from it: "gradient-missing, h.2.attn"
  std::vector<Remedy> remedies = {};  ///< that can be tried, in this order
  Measure measure = {};               ///< where there are some

  /// By how much the number is off: findings of one rule can be compared.
  double badness() const;
};

}  // namespace addnorm::doctor
