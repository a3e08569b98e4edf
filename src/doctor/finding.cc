#include "doctor/finding.h"

#include <cmath>

namespace addnorm::doctor {

double Finding::badness() const {
  if (std::isnan(measured) || std::isnan(expected)) return 0;
  const bool is_ratio = measured > 0 && expected > 0;
  return is_ratio ? std::abs(std::log(measured / expected)) : std::abs(measured - expected);
}

}  // namespace addnorm::doctor
