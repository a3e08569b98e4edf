#include "io/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>

#include "io/json.h"

namespace addnorm::io {
namespace {

/// A key of a line and the member of a record that has its value.
template <typename Record, typename Member = std::optional<double>>
struct Key {
  const char* key;
  Member Record::*member;
};

using probe::DivisorFit;
using probe::InputFit;
using probe::LaneFit;
using probe::NormFit;
using probe::ProfileEntry;
using probe::SumFit;

constexpr Key<ProfileEntry, double> kStatistics[] = {
    {"rms", &ProfileEntry::rms},
    {"mean", &ProfileEntry::mean},
    {"std", &ProfileEntry::std},
    {"min", &ProfileEntry::min},
    {"abs_max", &ProfileEntry::abs_max},
    {"abs_median", &ProfileEntry::abs_median},
    {"peak_feature", &ProfileEntry::peak_feature},
    {"peak_token", &ProfileEntry::peak_token},
    {"grad_rms", &ProfileEntry::grad_rms},
    {"token_cosine", &ProfileEntry::token_cosine},
    {"layer_cosine", &ProfileEntry::layer_cosine},
};
constexpr Key<ProfileEntry, std::string> kEntryTexts[] = {{"dtype", &ProfileEntry::dtype}};
constexpr Key<ProfileEntry> kEntryNumbers[] = {
    {"entropy", &ProfileEntry::entropy},
    {"reads_stream", &ProfileEntry::reads_stream},
    {"gain_at_zero", &ProfileEntry::gain_at_zero},
};
constexpr Key<InputFit> kInputNumbers[] = {
    {"from_left", &InputFit::from_left},
    {"from_left_norm", &InputFit::from_left_norm},
    {"stream_gain", &InputFit::stream_gain},
    {"lanes_folded", &InputFit::lanes_folded},
};
constexpr Key<SumFit> kSumNumbers[] = {
    {"from_x", &SumFit::from_x},
    {"from_before", &SumFit::from_before},
    {"from_branch", &SumFit::from_branch},
    {"from_earlier", &SumFit::from_earlier},
    {"unexplained", &SumFit::unexplained},
    {"grad_to_x", &SumFit::grad_to_x},
    {"grad_to_branch", &SumFit::grad_to_branch},
};
constexpr Key<LaneFit, double> kLaneBasis[] = {
    {"carry_in", &LaneFit::carry_in},
    {"carry_size", &LaneFit::carry_size},
    {"lane_spread", &LaneFit::lane_spread},
};
constexpr Key<LaneFit> kLaneNumbers[] = {
    {"carry_out", &LaneFit::carry_out},
    {"write", &LaneFit::write},
    {"write_gate", &LaneFit::write_gate},
    {"grad_spread", &LaneFit::grad_spread},
    {"carry_transposed", &LaneFit::carry_transposed},
    {"lanes_lost", &LaneFit::lanes_lost},
    {"lanes_detached", &LaneFit::lanes_detached},
};
constexpr Key<LaneFit, std::string> kLaneTexts[] = {{"coefficients", &LaneFit::coefficients}};
constexpr Key<DivisorFit, double> kDivisorBasis[] = {
    {"divisor", &DivisorFit::divisor},
    {"deviation", &DivisorFit::deviation},
    {"eps_in_variance", &DivisorFit::eps_in_variance},
    {"eps_in_variance_spread", &DivisorFit::variance_spread},
    {"eps_in_deviation", &DivisorFit::eps_in_deviation},
    {"eps_in_deviation_spread", &DivisorFit::deviation_spread},
    {"scale", &DivisorFit::scale},
    {"scale_spread", &DivisorFit::scale_spread},
    {"divisor_noise", &DivisorFit::noise},
};
constexpr Key<DivisorFit> kDivisorNumbers[] = {{"divisor_slope", &DivisorFit::slope}};
constexpr Key<NormFit> kNormNumbers[] = {
    {"declared_eps", &NormFit::declared_eps},
    {"unexplained", &NormFit::unexplained},
    {"past_norm", &NormFit::past_norm},
    {"gamma_offset", &NormFit::gamma_offset},
    {"centred", &NormFit::centred},
    {"vanished", &NormFit::vanished},
    {"power", &NormFit::power},
    {"modulation_mean", &NormFit::modulation_mean},
    {"modulation_std", &NormFit::modulation_std},
};
constexpr Key<NormFit, std::string> kNormTexts[] = {
    {"statistics_over", &NormFit::statistics_over},
    {"declared_norm", &NormFit::declared_norm},
    {"statistic", &NormFit::statistic},
};

void put(Json& line, const char* key, double value) {
  if (std::isfinite(value)) line[key] = value;
  if (std::isinf(value)) line["finite"] = false;
}
void put(Json& line, const char* key, const std::optional<double>& value) {
  if (value) put(line, key, *value);
}
void put(Json& line, const char* key, const std::string& text) {
  if (!text.empty()) line[key] = text;
}

template <typename Record, typename Member, std::size_t n>
void put_all(Json& line, const Record& record, const Key<Record, Member> (&keys)[n]) {
  for (const auto& [key, member] : keys) put(line, key, record.*member);
}

void put_fits(Json& line, const ProfileEntry& entry) {
  if (entry.input) put_all(line, *entry.input, kInputNumbers);
  if (entry.sum) put_all(line, *entry.sum, kSumNumbers);
  if (entry.lane) {
    put_all(line, *entry.lane, kLaneBasis);
    put_all(line, *entry.lane, kLaneNumbers);
    put_all(line, *entry.lane, kLaneTexts);
  }
  if (!entry.norm) return;
  put_all(line, *entry.norm, kNormNumbers);
  put_all(line, *entry.norm, kNormTexts);
  if (!entry.norm->divisor) return;
  put_all(line, *entry.norm->divisor, kDivisorBasis);
  put_all(line, *entry.norm->divisor, kDivisorNumbers);
}

Json to_json(const ProfileEntry& entry) {
  const Site& site = entry.site;
  Json line{{"step", entry.step}};
  if (site.in_layer()) {
    line["layer"] = site.layer;
  }
  line["sublayer"] = to_string(site.sublayer);
  if (site.norm != NormSlot::kNone) line["norm"] = to_string(site.norm);
  if (site.projection != Projection::kNone) {
    line["weight"] = to_string(site.projection);
  }
  line["point"] = to_string(site.point);
  if (site.lane > 0) line["lane"] = site.lane;
  put_all(line, entry, kStatistics);
  put_all(line, entry, kEntryNumbers);
  put_fits(line, entry);
  put_all(line, entry, kEntryTexts);
  return line;
}

/// Returns the enumerator that the line names; throws an Error that lists the names.
template <typename Enum>
Enum name_at(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) fail(fmt::format("{} is missing", key));
  return parse<Enum>(key, found->is_string() ? found->get<std::string>() : excerpt(*found));
}
template <typename Enum>
Enum name_at(const Json& line, const char* key, Enum absent) {
  return line.contains(key) ? name_at<Enum>(line, key) : absent;
}

template <typename T>
T value_or(const Json& object, const char* key, T absent) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return absent;
  const char* type = std::is_same_v<T, std::string> ? "a text"
                     : std::is_same_v<T, double>    ? "a number"
                     : std::is_same_v<T, bool>      ? "true or false"
                     : !std::is_arithmetic_v<T>     ? "a list of strings"
                                                    : "a whole number ≥ 0";
  if (!fits<T>(*found)) fail(fmt::format("{} is {}, must be {}", key, excerpt(*found), type));
  return found->get<T>();
}

/// Returns a property of the model; an unknown name leaves it unset.
template <typename Enum>
std::optional<Enum> known_name(const Json& model, const char* key) {
  const auto names = names_of(Enum{});
  const auto place = std::ranges::find(names, value_or(model, key, std::string()));
  if (place == names.end()) return {};
  return static_cast<Enum>(place - names.begin());
}

DeclaredNorm declared_norm(const Json& object) {
  return {.kind = known_name<NormKind>(object, "norm"),
          .eps = value_or(object, "eps", 0.0),
          .gamma_form = known_name<GammaForm>(object, "gamma_form")};
}

std::vector<Stack> stacks_of(const Json& model) {
  const Json list = model.value("stacks", Json::array());
  require(list.is_array(), "stacks is {}, must be a list", excerpt(list));
  std::vector<Stack> stacks;
  for (const Json& stack : list) {
    require(stack.is_object(), "stacks has {}, must have objects", excerpt(stack));
    stacks.push_back({.first_layer = value_or(stack, "first_layer", std::size_t{0}),
                      .norm = declared_norm(stack)});
  }
  return stacks;
}

void put_norm(Json& object, const DeclaredNorm& norm) {
  if (norm.kind) object["norm"] = to_string(*norm.kind);
  if (norm.eps != 0) object["eps"] = norm.eps;
  if (norm.gamma_form) object["gamma_form"] = to_string(*norm.gamma_form);
}

ProfileModel model_of(const Json& header) {
  const Json model = header.value("model", Json::object());
  require(model.is_object(), "model is {}, must be an object", excerpt(model));
  constexpr std::size_t kMostLayers = 1'000;
  const auto layers = value_or(model, "n_layers", std::size_t{0});
  require(layers <= kMostLayers, "n_layers is {}, must be at most {}", layers, kMostLayers);
  const DeclaredNorm norm = declared_norm(model);
  return {
      .d_model = value_or(model, "d_model", std::size_t{0}),
      .n_layers = layers,
      .n_heads = value_or(model, "n_heads", std::size_t{0}),
      .d_ff = value_or(model, "d_ff", std::size_t{0}),
      .placement = value_or(model, "placement", std::string()),
      .n_lanes = value_or(model, "n_lanes", std::size_t{0}),
      .lane_form = value_or(model, "lane_form", std::string()),
      .norm = norm.kind,
      .eps = norm.eps,
      .gamma_form = norm.gamma_form,
      .initialization = known_name<Initialization>(model, "initialization"),
      .architecture = value_or(model, "architecture", std::string()),
      .model_type = value_or(model, "model_type", std::string()),
      .parameters = value_or(model, "parameters", std::size_t{0}),
      .layer_modules = value_or(model, "layer_modules", std::vector<std::string>()),
      .attention_modules = value_or(model, "attention_modules", std::vector<std::string>()),
      .feed_forward_modules = value_or(model, "feed_forward_modules", std::vector<std::string>()),
      .stacks = stacks_of(model),
      .seed = value_or(model, "seed", std::uint64_t{0})};
}

Coverage coverage_of(const Json& header) {
  const Json known = header.value("coverage", Json::object());
  require(known.is_object(), "coverage is {}, must be an object", excerpt(known));
  Coverage coverage;
  for (const auto& [key, value] : known.items()) {
    if (key == "left_out") {
      require(value.is_array(), "left_out is {}, must be a list", excerpt(value));
      for (const Json& part : value) {
        require(part.is_object(), "left_out has {}, must have objects", excerpt(part));
        coverage.left_out.push_back({.where = value_or(part, "where", std::string()),
                                     .why = value_or(part, "why", std::string())});
      }
    } else {
      require(fits<std::vector<std::size_t>>(value) && value.size() == 2,
              "{} is {}, must be two whole numbers, measured and found", key, excerpt(value));
      coverage.counts.push_back({.what = key, .measured = value[0], .found = value[1]});
    }
  }
  return coverage;
}

/// Reads the keys that the line has, and returns their number.
template <typename Record, typename Member, std::size_t n>
std::size_t take(const Json& line, Record& record, const Key<Record, Member> (&keys)[n]) {
  std::size_t found = 0;
  for (const auto& [key, member] : keys) {
    if (!line.contains(key) || line[key].is_null()) continue;
    using Value = std::conditional_t<std::is_same_v<Member, std::string>, std::string, double>;
    record.*member = value_or(line, key, Value());
    ++found;
  }
  return found;
}

/// Reads a fit. A fit without one of its plain numbers, or without any number, is unknown.
void take_fits(const Json& line, ProfileEntry& entry) {
  InputFit input;
  if (take(line, input, kInputNumbers) > 0) entry.input = input;
  if (entry.site.point == Point::kSum) {
    SumFit sum;
    if (take(line, sum, kSumNumbers) > 0) entry.sum = sum;
    LaneFit lane;
    take(line, lane, kLaneNumbers);
    take(line, lane, kLaneTexts);
    if (take(line, lane, kLaneBasis) == std::size(kLaneBasis)) entry.lane = lane;
    return;
  }
  DivisorFit divisor;
  take(line, divisor, kDivisorNumbers);
  NormFit norm;
  const std::size_t found = take(line, norm, kNormNumbers) + take(line, norm, kNormTexts);
  if (take(line, divisor, kDivisorBasis) == std::size(kDivisorBasis)) norm.divisor = divisor;
  if (found > 0 || norm.divisor) entry.norm = norm;
}

ProfileEntry entry_of(const Json& line, const ProfileModel& model) {
  ProfileEntry entry{.step = value_or(line, "step", std::size_t{0})};
  entry.site = {.sublayer = name_at<SublayerKind>(line, "sublayer"),
                .point = name_at<Point>(line, "point"),
                .norm = name_at(line, "norm", NormSlot::kNone),
                .projection = name_at(line, "weight", Projection::kNone),
                .lane = value_or(line, "lane", std::size_t{0})};
  if (entry.site.in_layer() && !line.contains("layer")) fail("there is no layer");
  const bool is_before = entry.site.sublayer == SublayerKind::kEmbedding;
  entry.site.layer = value_or(line, "layer", is_before ? 0 : model.n_layers);
  take(line, entry, kStatistics);
  take(line, entry, kEntryNumbers);
  take(line, entry, kEntryTexts);
  take_fits(line, entry);
  if (!value_or(line, "finite", true)) entry.abs_max = std::numeric_limits<double>::infinity();
  return entry;
}

struct CheckText {
  const char* key;
  std::string Check::*member;
};
constexpr CheckText kCheckTexts[] = {
    {"where", &Check::where},
    {"declared", &Check::declared},
    {"detail", &Check::detail},
};

Json to_json(const Check& check) {
  Json line{{"step", check.step}, {"check", check.name}, {"value", check.value}};
  if (std::isfinite(check.limit)) line["limit"] = check.limit;
  for (const auto& [key, member] : kCheckTexts) {
    if (!(check.*member).empty()) line[key] = check.*member;
  }
  return line;
}

Check check_of(const Json& line) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Check check{.step = value_or(line, "step", std::size_t{0}),
              .name = value_or(line, "check", std::string()),
              .value = value_or(line, "value", kUnknown),
              .limit = value_or(line, "limit", kUnknown)};
  require(!std::isnan(check.value), "there is no value");
  for (const auto& [key, member] : kCheckTexts) check.*member = value_or(line, key, std::string());
  return check;
}

}  // namespace

std::string profile_json_lines(const ProfileModel& model,
                               const std::vector<probe::ProfileEntry>& entries) {
  return profile_header(model) + profile_lines(entries);
}

std::string profile_header(const ProfileModel& model) {
  Json known = Json::object();
  const auto put = [&](const char* key, const auto& value) {
    if (value != std::decay_t<decltype(value)>{}) known[key] = value;
  };
  const auto put_name = [&](const char* key, const auto& value) {
    if (value) known[key] = to_string(*value);
  };
  put("d_model", model.d_model);
  put("n_layers", model.n_layers);
  put("n_heads", model.n_heads);
  put("d_ff", model.d_ff);
  put("placement", model.placement);
  put("n_lanes", model.n_lanes);
  put("lane_form", model.lane_form);
  put_norm(known, {model.norm, model.eps, model.gamma_form});
  put_name("initialization", model.initialization);
  put("architecture", model.architecture);
  put("model_type", model.model_type);
  put("parameters", model.parameters);
  put("layer_modules", model.layer_modules);
  put("attention_modules", model.attention_modules);
  put("feed_forward_modules", model.feed_forward_modules);
  for (const Stack& stack : model.stacks) {
    put_norm(known["stacks"].emplace_back(Json{{"first_layer", stack.first_layer}}), stack.norm);
  }
  known["seed"] = model.seed;
  return Json{{"addnorm_profile", 1}, {"model", known}}.dump() + "\n";
}

std::string profile_lines(const std::vector<probe::ProfileEntry>& entries) {
  std::string lines;
  for (const probe::ProfileEntry& entry : entries) lines += to_json(entry).dump() + "\n";
  return lines;
}

std::string check_lines(const std::vector<Check>& checks) {
  std::string lines;
  for (const Check& check : checks) lines += to_json(check).dump() + "\n";
  return lines;
}

std::vector<Profile> parse_profiles(const std::string& text, const std::string& file) {
  std::vector<Profile> profiles;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const std::string place = fmt::format("{}: line {}", file, ++number);
    const Json object = parse_json(line, place);
    with_prefix(place + ": ", [&] {
      if (object.contains("addnorm_profile")) {
        profiles.push_back({.model = model_of(object), .coverage = coverage_of(object)});
      } else {
        require(!profiles.empty(),
                "a profile begins with a line that has \"addnorm_profile\"; for a run, give its "
                "folder");
        Profile& profile = profiles.back();
        if (object.contains("check")) {
          profile.checks.push_back(check_of(object));
        } else {
          profile.entries.push_back(entry_of(object, profile.model));
        }
      }
    });
  }
  for (Profile& profile : profiles) {
    std::ranges::stable_sort(profile.entries, {}, &probe::ProfileEntry::step);
    std::ranges::stable_sort(profile.checks, {}, &Check::step);
  }
  return profiles;
}

std::string site_text(const Site& site) {
  std::string text;
  if (site.in_layer()) {
    text = fmt::format("layer {}, ", site.layer);
  }
  text += to_string(site.sublayer);
  if (site.norm != NormSlot::kNone) {
    text += fmt::format(", norm {}", to_string(site.norm));
  }
  if (site.projection != Projection::kNone) {
    text += fmt::format(", {}", to_string(site.projection));
  }
  text += fmt::format(", {}", to_string(site.point));
  return site.lane > 0 ? text + fmt::format(", lane {}", site.lane) : text;
}

}  // namespace addnorm::io
