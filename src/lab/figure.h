#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/silent_bug.h"

/// A figure of the lab: what was measured, what theory predicts of it, and whether they agree.

namespace addnorm::lab {

/// Values over x; NaN is a gap. Measured: y is the mean over seeds, with its standard error, low
/// and high are the seeds' extremes. Predicted: y is what theory says, or empty, and low to high is
/// what counts as agreement.
struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low = {};
  std::vector<double> high = {};
  std::vector<double> error = {};
};

enum class Spacing { kLinear, kLog };
struct PanelAxis {
  std::string label;
  Spacing spacing = Spacing::kLinear;
  std::vector<std::string> names =
      {};  ///< of the places 0, 1, …: no numbers but things side by side
};
struct Panel {
  std::string title;
  PanelAxis x, y;
  std::string caption;
  std::vector<Curve> measured = {};
  std::vector<Curve> predicted = {};  ///< of the measured curve of that name, if there is one
};

enum class Verdict { kInside, kOutside, kNotApplicable };
constexpr std::array<std::string_view, 3> names_of(Verdict) {
  return {"inside", "outside", "not applicable"};
}

/// What theory or the literature says, as a number that the measurement must keep between two
/// others.
struct Check {
  std::string claim;
  std::string source;
  double measured = 0;
  double low = 0;
  double high = 0;
  std::string detail = {};  ///< of a curve: where it is farthest from what is predicted
  std::string unmet = {};   ///< which assumption of the claim does not hold; empty: all do

  Verdict verdict() const;
};

struct FigureResult {
  std::vector<Panel> panels;
  std::vector<Check> checks;

  /// kOutside if one check is, kInside if one is and none outside.
  Verdict verdict() const;
};

/// What can be asked of a figure; each has its own defaults.
struct FigureOptions {
  std::vector<std::size_t> layers;  ///< one depth, or several to compare
  std::size_t width = 0;
  std::size_t seeds = 0;   ///< 0: the figure shows a single draw
  std::uint64_t seed = 0;  ///< the first, of any figure; the others follow
  std::vector<std::string> placements;
  std::string text;                ///< what is trained on
  const SilentBug* bug = nullptr;  ///< put into what is measured; theory does not know of it
};

/// An option that some figures have and others not.
struct FigureOption {
  std::string_view flag;
  bool (*is_set)(const FigureOptions& options);  ///< not empty, not 0
  void (*copy)(const FigureOptions& from, FigureOptions& to);
  std::string (*text)(const FigureOptions& options);  ///< as the flag takes it
};
/// Layers, width, seeds, placements. A figure has those that its defaults have.
std::span<const FigureOption> figure_options();

inline constexpr std::size_t kLeastText = 4096;  ///< bytes, of what is trained on

struct Figure {
  std::string_view name;
  std::string_view title;
  std::string_view question;
  std::string_view source;
  FigureOptions (*defaults)();  ///< what is empty or 0, but for `seed`, is no option of it
  std::size_t most_layers = 0;
  bool trains = false;  ///< reads a text
  FigureResult (*run)(const FigureOptions& options);
};

std::span<const Figure> figures();
/// The figure with this name; an Error that lists the names if there is none.
const Figure& find_figure(std::string_view name);

/// The options, with the figure's own for what is empty or 0; an Error that begins with the flag
/// for what it cannot run.
FigureOptions complete(const Figure& figure, FigureOptions options);

/// The curve of the means of `draws`, which have one value for each x.
Curve mean_curve(std::string name, std::vector<double> x,
                 const std::vector<std::vector<double>>& draws);
/// The same of √mean, where the values are squares.
Curve rms_curve(std::string name, std::vector<double> x,
                const std::vector<std::vector<double>>& squares);
/// From y − tolerance to y + tolerance.
Curve within(std::string name, std::vector<double> x, std::vector<double> y,
             const std::vector<double>& tolerance);
/// From y/factor to y·factor.
Curve within_factor(std::string name, std::vector<double> x, std::vector<double> y, double factor);

/// Whether the curve is between low and high at every x of both. What is measured is its largest
/// distance from what is predicted, in parts of the distance that is allowed: from 0 to 1.
Check check_curve(std::string claim, std::string source, const Curve& measured,
                  const Curve& predicted);
/// The same of an expected value: a mean over seeds is inside if it is so give or take four
/// standard errors. Where these exceed twice what is allowed it is not judged; not applicable if
/// that is so everywhere, or of fewer than four seeds.
Check check_mean(std::string claim, std::string source, const Curve& measured,
                 const Curve& predicted);

}  // namespace addnorm::lab
