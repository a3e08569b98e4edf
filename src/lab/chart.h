#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

/// What a chart shows. The report draws it (report/svg.h, report/plot.h).

namespace addnorm::lab {

/// How a series looks. A prediction is a wide pale stroke, on which a measured line can lie.
enum class Look { kSolid, kDashed, kPrediction };

/// Values over x: one curve, one band from low to high, or a curve in its band. NaN is a gap.
/// Measured: y is the mean over seeds, with its standard error, low and high are the seeds'
/// extremes. Predicted: y is what theory says, or empty, and low to high is what counts as
/// agreement.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y = {};    ///< one for each x, or none
  std::vector<double> low = {};  ///< the band: one for each x, or none
  std::vector<double> high = {};
  std::vector<double> error = {};
  Look look = Look::kSolid;
  std::optional<int> color = {};  ///< of the theme, with its marker; unset: the place in the chart
};

enum class AxisScale { kLinear, kLog };

struct Axis {
  std::string label;
  AxisScale scale = AxisScale::kLinear;
  std::optional<double> low = {};   ///< where the axis begins; unset: where the data do
  std::optional<double> high = {};  ///< where it ends; what lies beyond is cut off
  /// The least and the largest possible value on a linear y axis: −1 and 1 for cosines.
  std::optional<std::array<double, 2>> bounds = {};
  /// Of the places 0, 1, … instead of numbers: of x, and of a heat map's rows.
  std::vector<std::string> names = {};
};

/// A matrix row by row, the first one on top. Where a row ends early there is nothing.
struct HeatMap {
  std::string name;
  std::vector<std::vector<double>> rows;
};

/// Curves, or heat maps side by side on one scale of colour: their columns stand along x, their
/// rows along y. What says how it reads (what a band is) belongs in its caption.
struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series = {};
  std::vector<HeatMap> maps = {};
  std::string value = {};  ///< what the colours of maps mean
};

}  // namespace addnorm::lab
