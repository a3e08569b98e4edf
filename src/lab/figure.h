#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lab/chart.h"
#include "lab/silent_bug.h"

/// A figure of the lab: what was measured, what theory predicts of it, and whether they agree.

namespace addnorm::lab {

/// A chart before its series have colours.
struct Panel {
  std::string title;
  Axis x, y;
  std::string caption;
  std::vector<Series> measured = {};
  std::vector<Series> predicted = {};  ///< of the measured curve of that name, if there is one
  std::vector<HeatMap> maps = {};      ///< instead of curves
  std::string value = {};              ///< what their colours mean
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
  std::string_view flag;  ///< "--layers"
  std::string_view key;   ///< of JSON: "layers"
  std::variant<std::vector<std::size_t> FigureOptions::*, std::size_t FigureOptions::*,
               std::vector<std::string> FigureOptions::*>
      member;
  std::string_view meaning;

  bool is_set(const FigureOptions& options) const;  ///< not empty, not 0
  void copy(const FigureOptions& from, FigureOptions& to) const;
  std::string text(const FigureOptions& options) const;  ///< as the flag takes it
};
/// Layers, width, seeds, placements. A figure has those that its defaults have.
std::span<const FigureOption> figure_options();

/// From a JSON object with keys of figure_options(), "seed" and "bug"; an Error for any other.
FigureOptions read_options(const nlohmann::ordered_json& object);

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

/// What the figure can be asked, as JSON.
nlohmann::ordered_json options_json(const Figure& figure, const FigureOptions& options);

/// The options, with the figure's own for what is empty or 0; an Error that begins with the flag
/// for what it cannot run.
FigureOptions complete(const Figure& figure, FigureOptions options);

/// The curve of the means of `draws`, which have one value for each x.
Series mean_curve(std::string name, std::vector<double> x,
                  const std::vector<std::vector<double>>& draws);
/// The same of √mean, where the values are squares.
Series rms_curve(std::string name, std::vector<double> x,
                 const std::vector<std::vector<double>>& squares);
/// From y − tolerance to y + tolerance.
Series within(std::string name, std::vector<double> x, std::vector<double> y,
              const std::vector<double>& tolerance);
/// From y/factor to y·factor.
Series within_factor(std::string name, std::vector<double> x, std::vector<double> y, double factor);

/// Whether the curve is between low and high at every x of both. What is measured is its largest
/// distance from what is predicted, in parts of the distance that is allowed: from 0 to 1.
Check check_curve(std::string claim, std::string source, const Series& measured,
                  const Series& predicted);
/// The same of an expected value: a mean over seeds is inside if it is so give or take four
/// standard errors. Where these exceed twice what is allowed it is not judged; not applicable if
/// that is so everywhere, or of fewer than four seeds.
Check check_mean(std::string claim, std::string source, const Series& measured,
                 const Series& predicted);

}  // namespace addnorm::lab
