#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "nn/probe.h"

namespace addnorm {

enum class Severity {
  kBroken,      ///< computes something else than its recipe says
  kSuspicious,  ///< what a sound network does not show, but may have reasons for
  kNote,        ///< worth knowing; no defect
};

/// What a rule has seen, where, and what it expected.
struct Finding {
  std::string_view rule;  ///< its name
  Severity severity = Severity::kBroken;
  Site site;            ///< where it is worst
  std::string where;    ///< "layer 3, attention"; "all norms"
  std::string what;     ///< in a sentence, with its numbers
  std::string because;  ///< the expectation and where it comes from
  std::string fix;
  double measured = std::numeric_limits<double>::quiet_NaN();  ///< NaN: no single number
  double expected = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace addnorm
