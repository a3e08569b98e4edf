#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/message.h"
#include "lab/chart.h"
#include "lab/silent_bug.h"

/// A figure of the lab: a measurement, the prediction of theory, and whether they agree.

namespace addnorm::lab {

/// A chart before its series have colours. The names in it are ids of messages (base/message.h).
struct Panel {
  Message title;
  Axis x, y;
  Message caption;
  std::vector<Series> measured = {};
  std::vector<Series> predicted = {};  ///< of the measured curves with the same names
  std::vector<HeatMap> maps = {};      ///< instead of curves
  std::string value = {};              ///< the meaning of their colours
};

enum class Verdict { kInside, kOutside, kNotApplicable };
constexpr std::array<std::string_view, 3> names_of(Verdict) {
  return {"inside", "outside", "not applicable"};
}

/// A statement of theory or the literature as a number that must lie between two limits.
struct Check {
  Message claim;
  Message source;
  double measured = 0;
  double low = 0;
  double high = 0;
  Message detail = {};  ///< for a curve: its point farthest from the prediction
  Message unmet = {};   ///< the assumption of the claim that does not hold; empty: all hold

  Verdict verdict() const;
};

struct FigureResult {
  std::vector<Panel> panels;
  std::vector<Check> checks;

  /// Returns kOutside if one check is, else kInside if one is.
  Verdict verdict() const;
};

/// The options of a figure; each figure has its own defaults.
struct FigureOptions {
  std::vector<std::size_t> layers;  ///< one depth, or several for comparison
  std::size_t width = 0;
  std::size_t seeds = 0;   ///< 0: the figure shows a single draw
  std::uint64_t seed = 0;  ///< the first seed of any figure; the others follow
  std::vector<std::string> placements;
  std::string text;                ///< training text
  const SilentBug* bug = nullptr;  ///< bug in the measured network; theory does not know it
};

/// An option that only some figures have.
struct FigureOption {
  std::string_view flag;  ///< "--layers"
  std::string_view key;   ///< key in JSON: "layers"
  std::variant<std::vector<std::size_t> FigureOptions::*, std::size_t FigureOptions::*,
               std::vector<std::string> FigureOptions::*>
      member;
  std::string_view meaning;

  bool is_set(const FigureOptions& options) const;  ///< whether it is neither empty nor 0
  void copy(const FigureOptions& from, FigureOptions& to) const;
  std::string text(const FigureOptions& options) const;  ///< in the flag's format
};
/// The options layers, width, seeds and placements. A figure has those that its defaults set.
std::span<const FigureOption> figure_options();

/// Reads a JSON object with keys of figure_options(), "seed" and "bug"; throws an Error for other
/// keys.
FigureOptions read_options(const nlohmann::ordered_json& object);

inline constexpr std::size_t kLeastText = 4096;  ///< least size of a training text, in bytes

struct Figure {
  std::string_view name;
  std::string_view title;
  std::string_view question;
  std::string_view source;
  /// a default that is empty or 0, except `seed`, means that the figure lacks the option
  FigureOptions (*defaults)();
  std::size_t most_layers = 0;
  bool trains = false;  ///< whether it trains on a text
  FigureResult (*run)(const FigureOptions& options);
};

std::span<const Figure> figures();
/// Returns the figure with this name; throws an Error that lists the names if there is none.
const Figure& find_figure(std::string_view name);

/// Returns the options that the figure has, as JSON.
nlohmann::ordered_json options_json(const Figure& figure, const FigureOptions& options);

/// Fills options that are empty or 0 with the figure's defaults. Throws an Error that begins with
/// the flag for an unsupported value.
FigureOptions complete(const Figure& figure, FigureOptions options);

/// Returns the curve of the means of `draws`, which have one value for each x.
Series mean_curve(std::string name, std::vector<double> x,
                  const std::vector<std::vector<double>>& draws);
/// Returns the curve of √mean; the values of `squares` are squares.
Series rms_curve(std::string name, std::vector<double> x,
                 const std::vector<std::vector<double>>& squares);
/// Returns the band from y − tolerance to y + tolerance.
Series within(std::string name, std::vector<double> x, std::vector<double> y,
              const std::vector<double>& tolerance);
/// Returns the band from y/factor to y·factor.
Series within_factor(std::string name, std::vector<double> x, std::vector<double> y, double factor);

/// The fewest seeds that give a mean a useful spread.
inline constexpr std::size_t kLeastSeeds = 4;
/// Returns why a mean of fewer is not judged.
Message too_few_seeds();

/// Checks that the curve is between low and high at every x of both. The check's value is its
/// largest distance from the prediction, relative to the allowed distance: from 0 to 1.
Check check_curve(Message claim, Message source, const Series& measured, const Series& predicted);
/// The same for an expected value: a mean over seeds is inside if it is within four standard errors
/// of the range. A point whose four standard errors exceed twice the allowed distance is not
/// judged. The check is not applicable if this holds everywhere, or with fewer than
/// kLeastSeeds.
Check check_mean(Message claim, Message source, const Series& measured, const Series& predicted);

}  // namespace addnorm::lab
