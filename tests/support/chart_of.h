#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "report/chart.h"

namespace addnorm {

/// Returns a chart of one curve over 0, 1, …
inline report::Chart chart_of(std::vector<double> y,
                              report::AxisScale scale = report::AxisScale::kLinear) {
  report::Series series{.name = "curve", .x = {}, .y = std::move(y)};
  for (std::size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i));
  return {.title = "Title",
          .x = {.label = "step"},
          .y = {.label = "loss", .scale = scale},
          .series = {series}};
}

}  // namespace addnorm
