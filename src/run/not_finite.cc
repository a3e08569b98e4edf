#include "run/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/profile.h"

namespace addnorm::run {

void FirstNotFinite::forward(const Site& site, MatrixView<const float> values) {
  look(site, values, "forward");
}

void FirstNotFinite::backward(const Site& site, MatrixView<const float> gradients) {
  look(site, gradients, "backward");
}

void FirstNotFinite::look(const Site& site, MatrixView<const float> values, const char* way) {
  for (std::size_t r = 0; r < values.rows && !site_; ++r) {
    const auto row = values.row(r);
    if (std::ranges::all_of(row, [](float v) { return std::isfinite(v); })) continue;
    site_ = site;
    way_ = way;
  }
}

std::string FirstNotFinite::description() const {
  if (!site_) return {};
  return fmt::format("first in {} at {}", way_, io::site_text(*site_));
}

}  // namespace addnorm::run
