#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

/// The contents of a chart. Reports draw it (report/svg.h, report/plot.h), and so does the page
/// (web/src/chapters/lab/panel.tsx).

namespace addnorm::lab {

/// The style of a series. A prediction is a wide pale stroke, on which a measured line can lie.
enum class Look { kSolid, kDashed, kPrediction };

/// Values over x: one curve, one band from low to high, or a curve in its band. NaN is a gap. For
/// measurements, y is the mean over seeds with its standard error, and low and high are the seeds'
/// extremes. For predictions, y is theory's value, or empty, and low to high is the range of
/// agreement.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y = {};    ///< one for each x, or none
  std::vector<double> low = {};  ///< the band: one for each x, or none
  std::vector<double> high = {};
  std::vector<double> error = {};
  Look look = Look::kSolid;
  /// of the theme, with its marker; unset: the series' index in the chart
  std::optional<int> color = {};
};

enum class AxisScale { kLinear, kLog };

struct Axis {
  std::string label;
  AxisScale scale = AxisScale::kLinear;
  std::optional<double> low = {};   ///< beginning of the axis; unset: from the data
  std::optional<double> high = {};  ///< end of the axis; values outside are cut off
  /// The least and the largest possible value on a linear y axis: −1 and 1 for cosines.
  std::optional<std::array<double, 2>> bounds = {};
  /// Names instead of numbers for the positions 0, 1, … on x, or for a heat map's rows.
  std::vector<std::string> names = {};
};

/// A matrix row by row, the first one on top. Rows may have different lengths.
struct HeatMap {
  std::string name;
  std::vector<std::vector<double>> rows;
};

/// Curves, or heat maps side by side on one scale of colour: their columns lie along x, their rows
/// along y. The caption explains how to read it (the meaning of a band).
struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series = {};
  std::vector<HeatMap> maps = {};
  std::string value = {};  ///< the meaning of the maps' colours
};

}  // namespace addnorm::lab
