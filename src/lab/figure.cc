#include "lab/figure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "addnorm/nn/placement.h"
#include "base/find_named.h"
#include "base/require.h"
#include "io/json.h"

namespace addnorm::lab {

Verdict Check::verdict() const {
  if (!unmet.empty()) return Verdict::kNotApplicable;
  return low <= measured && measured <= high ? Verdict::kInside : Verdict::kOutside;
}

Verdict FigureResult::verdict() const {
  auto any = [&](Verdict v) {
    return std::ranges::any_of(checks, [v](const Check& c) { return c.verdict() == v; });
  };
  if (any(Verdict::kOutside)) return Verdict::kOutside;
  return any(Verdict::kInside) ? Verdict::kInside : Verdict::kNotApplicable;
}

const Figure& find_figure(std::string_view name) {
  return find_named(figures(), "figure", name);
}

namespace {

void check_count(const char* flag, std::size_t value, std::size_t least, std::size_t most) {
  require(least <= value && value <= most, "{} is {}, must be from {} to {}", flag, value, least,
          most);
}

void check_layers(const Figure& figure, std::size_t own, const std::vector<std::size_t>& given) {
  for (const std::size_t layers : given) check_count("--layers", layers, 1, figure.most_layers);
  require(own > 1 || given.size() == 1, "--layers: {} takes one number", figure.name);
  require(own == 1 || given.size() > 1,
          "--layers: {} compares depths; expected two or more, such as 3,6", figure.name);
  require(std::ranges::is_sorted(given, std::less_equal<>()),
          "--layers: {} is not in increasing order", fmt::join(given, ","));
}

void check_placements(const FigureOptions& options) {
  for (const std::string& placement : options.placements) {
    require(std::ranges::count(options.placements, placement) == 1,
            "--placement: {} is given twice", placement);
    with_prefix("--placement: ", [&] {
      for (const std::size_t layers : options.layers) parse_placements(placement, layers);
    });
  }
}

std::string written(std::size_t value) {
  return fmt::to_string(value);
}
template <typename T>
std::string written(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

constexpr FigureOption kOptions[] = {
    {"--layers", "layers", &FigureOptions::layers,
     "number of blocks; several numbers where a figure compares depths"},
    {"--width", "width", &FigureOptions::width, "d_model"},
    {"--seeds", "seeds", &FigureOptions::seeds, "number of random networks of each kind"},
    {"--placement", "placements", &FigureOptions::placements,
     "placements to measure, separated by commas"}};

}  // namespace

std::span<const FigureOption> figure_options() {
  return kOptions;
}

bool FigureOption::is_set(const FigureOptions& options) const {
  return std::visit([&](auto m) { return options.*m != FigureOptions().*m; }, member);
}

void FigureOption::copy(const FigureOptions& from, FigureOptions& to) const {
  std::visit([&](auto m) { to.*m = from.*m; }, member);
}

std::string FigureOption::text(const FigureOptions& options) const {
  return std::visit([&](auto m) { return written(options.*m); }, member);
}

namespace {

using io::Json;

template <typename T>
void read(const std::string& key, const Json& value, T& option) {
  require(io::fits<T>(value), "{}: is {}; expected {}", key, io::excerpt(value),
          std::is_same_v<T, std::string> ? "a name"
          : std::is_integral_v<T>        ? "a whole number ≥ 0"
                                         : "a list of such values");
  value.get_to(option);
}

}  // namespace

FigureOptions read_options(const Json& object) {
  FigureOptions options;
  for (const auto& item : object.items()) {
    const std::string& key = item.key();
    const Json& value = item.value();
    const auto option = std::ranges::find(kOptions, key, &FigureOption::key);
    if (option != std::end(kOptions)) {
      std::visit([&](auto member) { read(key, value, options.*member); }, option->member);
    } else if (key == "seed") {
      read(key, value, options.seed);
    } else {
      require(key == "bug", "\"{}\" is not an option of figures", key);
      std::string bug;
      read(key, value, bug);
      if (!bug.empty()) options.bug = &find_silent_bug(bug);
    }
  }
  return options;
}

Json options_json(const Figure& figure, const FigureOptions& options) {
  const FigureOptions own = figure.defaults();
  Json json = Json::object();
  for (const FigureOption& option : kOptions) {
    if (!option.is_set(own)) continue;
    std::visit([&](auto member) { json[std::string(option.key)] = options.*member; },
               option.member);
  }
  json["seed"] = options.seed;
  if (figure.trains && !options.text.empty()) json["text_bytes"] = options.text.size();
  if (options.bug != nullptr) json["bug"] = options.bug->name;
  return json;
}

FigureOptions complete(const Figure& figure, FigureOptions options) {
  const FigureOptions own = figure.defaults();
  for (const FigureOption& option : kOptions) {
    const bool is_given = option.is_set(options);
    require(!is_given || option.is_set(own), "{}: {} has no such option", option.flag, figure.name);
    if (!is_given) option.copy(own, options);
  }
  if (!own.layers.empty()) check_layers(figure, own.layers.size(), options.layers);
  if (own.width != 0) check_count("--width", options.width, 16, 1024);
  if (own.seeds != 0) check_count("--seeds", options.seeds, 1, 1000);
  check_placements(options);
  return options;
}

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPanelErrors = 4;  // allowed error of a measured mean, in standard errors

/// Returns √(Σ(v − mean)²/(n − 1)/n) of the draws at i.
double standard_error(const std::vector<std::vector<double>>& draws, std::size_t i, double mean) {
  if (draws.size() < kLeastSeeds) return kNan;
  double squares = 0;
  for (const std::vector<double>& draw : draws) squares += (draw[i] - mean) * (draw[i] - mean);
  const double n = static_cast<double>(draws.size());
  return std::sqrt(squares / (n - 1) / n);
}

/// The allowed range and the value at one point.
struct CurvePoint {
  double x, value, error, low, middle, high;
  bool is_alone = false;  ///< whether it is the only common point of the curves

  /// Returns the distance of `at` from the middle, relative to the distance of the limit on its
  /// side.
  double distance(double at) const {
    if (at == middle) return 0;
    const double part =
        at > middle ? (at - middle) / (high - middle) : (middle - at) / (middle - low);
    return std::isnan(part) ? std::numeric_limits<double>::infinity() : part;
  }
  bool is_certain() const { return error <= 2 * std::min(high - middle, middle - low); }
};

/// Returns the value moved toward the middle by its error, at most onto it. Positive values are
/// moved by a factor, so that a huge value stays huge even if its seeds differ a lot.
double toward(double middle, double value, double error) {
  if (!std::isfinite(value) || error == 0) return value;
  const bool by_factor = value > 0 && middle > 0;
  const double factor = 1 + error / value;
  if (value > middle) return std::max(middle, by_factor ? value / factor : value - error);
  return std::min(middle, by_factor ? value * factor : value + error);
}

}  // namespace

Series mean_curve(std::string name, std::vector<double> x,
                  const std::vector<std::vector<double>>& draws) {
  Series curve{std::move(name), std::move(x), {}};
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    double sum = 0;
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    for (const std::vector<double>& draw : draws) {
      sum += draw.at(i);
      low = std::min(low, draw[i]);
      high = std::max(high, draw[i]);
    }
    if (std::isnan(sum)) low = high = sum;
    curve.y.push_back(sum / static_cast<double>(draws.size()));
    curve.low.push_back(low);
    curve.high.push_back(high);
    curve.error.push_back(standard_error(draws, i, curve.y.back()));
  }
  return curve;
}

Series rms_curve(std::string name, std::vector<double> x,
                 const std::vector<std::vector<double>>& squares) {
  Series curve = mean_curve(std::move(name), std::move(x), squares);
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    curve.error[i] /= 2 * std::sqrt(curve.y[i]);  // d√m = dm/(2√m)
    for (auto* values : {&curve.y, &curve.low, &curve.high}) (*values)[i] = std::sqrt((*values)[i]);
  }
  return curve;
}

Series within(std::string name, std::vector<double> x, std::vector<double> y,
              const std::vector<double>& tolerance) {
  Series curve{std::move(name), std::move(x), std::move(y)};
  for (std::size_t i = 0; i < curve.y.size(); ++i) {
    curve.low.push_back(curve.y[i] - tolerance.at(i));
    curve.high.push_back(curve.y[i] + tolerance.at(i));
  }
  return curve;
}

Series within_factor(std::string name, std::vector<double> x, std::vector<double> y,
                     double factor) {
  Series curve{std::move(name), std::move(x), std::move(y)};
  for (const double v : curve.y) {
    curve.low.push_back(v / factor);
    curve.high.push_back(v * factor);
  }
  return curve;
}

namespace {

/// Returns the points that both curves have; throws an Error if there are none.
std::vector<CurvePoint> common_points(const Series& measured, const Series& predicted) {
  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < predicted.x.size(); ++i) {
    const auto at = std::ranges::find(measured.x, predicted.x[i]);
    if (at == measured.x.end() || std::isnan(predicted.low[i])) continue;
    const auto m = static_cast<std::size_t>(at - measured.x.begin());
    const double low = predicted.low[i];
    const double high = predicted.high[i];
    points.push_back({.x = predicted.x[i],
                      .value = measured.y[m],
                      .error = measured.error.empty() ? 0 : kPanelErrors * measured.error[m],
                      .low = low,
                      .middle = predicted.y.empty() ? (low + high) / 2 : predicted.y[i],
                      .high = high});
  }
  if (points.size() == 1) points[0].is_alone = true;
  require(!points.empty(), "nothing was measured where '{}' is predicted", predicted.name);
  return points;
}

/// Records the point if no earlier point was farther.
void note(const CurvePoint& point, double distance, const Message& value, Check& check) {
  if (distance < check.measured || (distance == check.measured && !check.detail.empty())) return;
  check.measured = distance;
  check.detail = point.is_alone
                     ? msg("measured {}, allowed {:.4g} to {:.4g}", value, point.low, point.high)
                     : msg("farthest at {:g}: {}, allowed {:.4g} to {:.4g}", point.x, value,
                           point.low, point.high);
}

}  // namespace

Check check_curve(Message claim, Message source, const Series& measured, const Series& predicted) {
  Check check{.claim = std::move(claim), .source = std::move(source), .high = 1};
  for (const CurvePoint& p : common_points(measured, predicted)) {
    note(p, p.distance(p.value), Message::number(fmt::format("{:.4g}", p.value)), check);
  }
  return check;
}

Message too_few_seeds() {
  return msg("a mean needs at least {} seeds", kLeastSeeds);
}

Check check_mean(Message claim, Message source, const Series& measured, const Series& predicted) {
  Check check{.claim = std::move(claim), .source = std::move(source), .high = 1};
  std::size_t judged = 0;
  std::vector<CurvePoint> points = common_points(measured, predicted);
  // Among points moved onto the middle, the one with the more distant value comes first.
  std::ranges::stable_sort(points, std::greater<>(),
                           [](const CurvePoint& p) { return p.distance(p.value); });
  for (const CurvePoint& p : points) {
    const double distance = p.distance(toward(p.middle, p.value, p.error));
    if (distance <= 1 && !p.is_certain()) continue;
    ++judged;
    note(p, distance, msg("{:.4g} ± {:.2g}", p.value, p.error), check);
  }
  const auto has_no_error = [](const CurvePoint& p) {
    return std::isfinite(p.value) && std::isnan(p.error);
  };
  if (std::ranges::any_of(points, has_no_error)) {
    check.unmet = too_few_seeds();
  } else if (judged == 0) {
    check.unmet = msg("the seeds differ by more than the tolerance");
  } else if (judged < points.size()) {
    check.detail = msg("{}; {} of {} points are too uncertain to judge", check.detail,
                       points.size() - judged, points.size());
  }
  return check;
}

}  // namespace addnorm::lab
