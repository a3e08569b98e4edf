#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/figure.h"

namespace addnorm::testing {

/// Returns the claims that the measurement refutes.
inline std::vector<std::string> denied(const lab::FigureResult& result) {
  std::vector<std::string> claims;
  for (const lab::Check& check : result.checks) {
    if (check.verdict() != lab::Verdict::kOutside) continue;
    claims.push_back(check.claim.text() + ": " + std::to_string(check.measured) + " " +
                     check.detail.text());
  }
  return claims;
}

/// Runs the figure with these options, and its defaults for missing ones.
inline lab::FigureResult run_figure(std::string_view name, const lab::FigureOptions& options) {
  const lab::Figure& figure = lab::find_figure(name);
  return figure.run(lab::complete(figure, options));
}

}  // namespace addnorm::testing
