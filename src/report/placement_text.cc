#include "report/placement_text.h"

#include <fmt/ranges.h>

#include <vector>

namespace addnorm::report {
namespace {

std::string head(std::string_view name, std::string_view used_by, std::string_view source) {
  std::string text = fmt::format("{:26}{}", name, used_by);
  if (!source.empty()) text += fmt::format(" ({})", source);
  return text + '\n';
}

std::string line(const std::vector<std::string>& parts) {
  return fmt::format("    {}\n", fmt::join(parts, ";  "));
}

/// Returns `of` after the slot's norm.
std::string normalized(Slot slot, const std::string& of) {
  if (slot == Slot::kNothing) return of;
  return fmt::format("{}({})", slot == Slot::kUnit ? "unit" : "norm", of);
}

/// Returns `of` with a factor before it, unless that is 1.
std::string scaled(const ResidualFactor& factor, const std::string& of) {
  const std::string_view formula = factor.initial.formula;
  if (factor.form != ResidualFactor::Form::kConstant) {
    const bool magnitudes = factor.form == ResidualFactor::Form::kLearnedMagnitudes;
    return fmt::format("{0}learned, {1}{2}·{3}", magnitudes ? "|" : "(", formula,
                       magnitudes ? "|" : ")", of);
  }
  if (formula == "0") return "";
  return formula == "1" ? of : fmt::format("{}·{}", formula, of);
}

std::string added(const Placement& p) {
  switch (p.update) {
    case Update::kBranch:
      return "f";
    case Update::kDifference:
      return "(f - z)";
    case Update::kGated:
      return "σ(W·z + b)·(f - z)";
    case Update::kOrthogonal:
      return "(f - its part along z)";
  }
  return {};
}

std::string what_is_read(const Placement& p) {
  const LaneForm& lanes = p.lanes;
  if (!lanes.several()) return "x";
  return fmt::format("a·{}", lanes.reads_carried              ? "A·X"
                             : lanes.last_lane == Slot::kNorm ? "R(X)"
                                                              : "X");
}

std::string formulas(const Placement& p) {
  std::vector<std::string> parts;
  if (p.entry != Slot::kNothing) {
    parts.push_back(fmt::format("begins with {} = {}", p.lanes.several() ? "x_0" : "x",
                                normalized(p.entry, "embedding")));
  }
  const std::string z = what_is_read(p);
  const bool scales = p.before_scale.formula != "1";
  const std::string h =
      (scales ? fmt::format("{}·", p.before_scale.formula) : "") + normalized(p.before, z);
  const std::string branch = p.sublayers == Sublayers::kParallel
                                 ? fmt::format("attention({0}) + feed_forward({0})", h)
                                 : fmt::format("F({})", h);
  std::string f = normalized(p.inside, branch);
  if (p.inside_gamma.formula != "1")
    f += fmt::format(", γ = {} at the start", p.inside_gamma.formula);
  if (p.lanes.reads({.lanes = 2}) > 1) f += ", one a each for values, keys and queries";
  parts.push_back("f = " + f);
  if (p.lanes.several()) {
    parts.push_back(fmt::format("X' = {}", p.lanes.grows
                                               ? "X with one lane more, or f added to the last"
                                               : fmt::format("A·X + b ⊗ {}", added(p))));
    if (p.after != Slot::kNothing) parts.emplace_back("x'_0 = norm(x'_0)");
  } else {
    const std::string x = scaled(p.skip, "x"), u = scaled(p.gain, added(p));
    parts.push_back("x' = " + normalized(p.after, x.empty() ? u : x + " + " + u));
  }
  if (p.final_norm != Slot::kNothing) parts.emplace_back("final norm");
  return line(parts);
}

std::string lanes_text(const LaneForm& lanes) {
  const std::string count =
      lanes.grows ? "1 lane at first"
      : lanes.least == lanes.most
          ? fmt::format("{} lanes", lanes.usual)
          : fmt::format("{} lanes, or {} to {}", lanes.usual, lanes.least, lanes.most);
  std::vector<std::string> parts{count, fmt::format("a: {}", lanes.read.formula),
                                 fmt::format("A: {}", lanes.carry.formula)};
  if (!lanes.grows) parts.push_back(fmt::format("b: {}", lanes.write.formula));
  const bool norms_last = lanes.last_lane_at_exit == Slot::kNorm;
  parts.push_back(
      fmt::format("at the end: {}{}", lanes.exit.formula, norms_last ? ", of R(X)" : ""));
  std::string text = line(parts);
  if (lanes.splits_features) text += "    lanes are parts of the features, as are z and f\n";
  return text;
}

}  // namespace

std::string placement_text(const Placement& p) {
  std::string text = head(p.name, p.used_by, p.source) + formulas(p);
  if (p.initial_gain.formula != "1") {
    text += fmt::format("    weights × {} at the start\n", p.initial_gain.formula);
  }
  if (p.survival.formula != "1") {
    text += fmt::format("    in training f is kept with probability {}, else 0, per sequence\n",
                        p.survival.formula);
  }
  return p.lanes.several() ? text + lanes_text(p.lanes) : text;
}

std::string mixture_text(const Mixture& m) {
  return head(m.name, m.used_by, m.source) + fmt::format("    {}\n", m.formula);
}

}  // namespace addnorm::report
