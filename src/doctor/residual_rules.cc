#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "doctor/places.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

/// Of a coefficient of the fit. bfloat16 rounds each value to 1 in 256 and leaves 2e-4 of it in a
/// sum over a thousand values; what is wrong is wrong by a whole.
constexpr double kTolerance = 0.05;

/// Of a sum: where more is neither stream nor branch, the factors of these say nothing.
constexpr double kMostUnexplained = 0.02;

bool is_near(double value, double expected) {
  return std::abs(value - expected) <= kTolerance * std::max(1.0, std::abs(expected));
}

std::string formula(const probe::ProfileEntry& sum) {
  std::string text = "s =";
  const auto add = [&](double factor, const char* what) {
    if (std::isnan(factor) || std::abs(factor) < 0.005) return;
    const char* sign = text == "s =" ? (factor < 0 ? " −" : " ") : (factor < 0 ? " − " : " + ");
    text += fmt::format("{}{:.2f}·{}", sign, std::abs(factor), what);
  };
  add(sum.from_x, "x");
  add(sum.from_earlier, "x′");
  add(sum.from_before, "h");
  add(sum.from_branch, "f");
  return text;
}

constexpr std::size_t kLeastSums = 3;  // whose factors the data determine

/// Whether of most sums the stream's part is not known: where a norm reads what a norm gives, both
/// are one.
bool hides_most_streams(const Subject& subject, std::size_t known) {
  std::size_t sums = 0;
  for_sums(subject, [&](const probe::ProfileEntry&) { ++sums; });
  return sums >= 4 && 4 * known <= sums;
}

/// Whether every stream goes into its sum by a factor that is not 1: such models are made so, as
/// those whose x and f are weighted by depth are.
bool scales_every_residual(const Subject& subject) {
  std::size_t sums = 0;
  bool all = true;
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (std::isnan(sum.from_x)) return;
    ++sums;
    all &= std::abs(sum.from_x) > kTolerance && !is_near(sum.from_x, 1);
  });
  return all && (sums >= kLeastSums || hides_most_streams(subject, sums));
}

/// The factor that at least so many of them have; 1 where there is none.
double common_factor(const std::vector<double>& factors, std::size_t least) {
  for (const double factor : factors) {
    const auto alike = std::ranges::count_if(factors, [&](double f) { return is_near(f, factor); });
    if (static_cast<std::size_t>(alike) >= least) return factor;
  }
  return 1;
}

/// The factor by which three quarters of the streams go into their sums, as DeepNorm's α; 1 where
/// there is none.
double usual_skip(const Subject& subject) {
  std::vector<double> factors;
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (std::abs(sum.from_x) > kTolerance) factors.push_back(sum.from_x);
  });
  return factors.size() > kLeastSums ? common_factor(factors, (3 * factors.size() + 3) / 4) : 1;
}

bool takes_norm(const probe::ProfileEntry& sum, double skip) {
  return std::abs(sum.from_x) < kTolerance && !std::isnan(sum.from_before) &&
         is_near(sum.from_before, skip);
}

/// Models whose stream is the norm's output, on purpose.
bool normalizes_its_stream(const io::ProfileModel& model) {
  return model.model_type == "minimax" || model.model_type == "dory";
}

/// The name and the sentence for the stream's part in a sum that is not `skip`. `usual` is what
/// most sums have.
void report_skip(const Subject& subject, const probe::ProfileEntry& sum, double skip, double usual,
                 Findings& findings) {
  Finding finding{.severity = Severity::kBroken,
                  .site = sum.site,
                  .where = place_text(sum.site),
                  .because = fmt::format("s = {:.3g}·x + f{}", skip, by_placement(subject)),
                  .measured = sum.from_x,
                  .expected = skip};
  if (is_near(sum.from_earlier, skip)) {
    finding.rule = "sublayer-input";
    finding.what =
        fmt::format("x′ is added, the stream that the sublayer before has read: {}", formula(sum));
    finding.fix = "add what the sublayer before has left; look for a variable that was not updated";
  } else if (takes_norm(sum, skip)) {
    if (normalizes_its_stream(subject.profile.model)) return;
    finding.rule = "norm-over-stream";
    finding.what =
        fmt::format("the norm's output is added back in place of the stream: {}", formula(sum));
    finding.fix = "keep x before the norm and add that: y = x + F(norm(x)), not h + F(h)";
  } else if (std::abs(sum.from_x) < kTolerance) {
    finding.rule = "residual-missing";
    finding.what = fmt::format("the stream is not added to the branch: {}", formula(sum));
    finding.fix = "add the sublayer's input to its output";
  } else if (is_near(sum.from_x, 2 * skip)) {
    finding.rule = "residual-twice";
    finding.what = fmt::format("the stream is added twice: {}", formula(sum));
    finding.fix = "add it once: in the sublayer or around it, not in both";
  } else {
    finding.rule = "residual-factor";
    const bool is_design = is_near(sum.from_x, usual) || scales_every_residual(subject);
    if (skip == 1 && is_design) finding.severity = Severity::kNote;
    finding.what =
        fmt::format("the stream goes into the sum times {:.3g}: {}", sum.from_x, formula(sum));
    finding.fix = "check the factor of the residual and the code between x and the sum";
  }
  findings.push_back(std::move(finding));
}

/// Whether it is the first sum of a network and has no norm behind it, where others have one: Keel
/// gives that no factor.
bool begins_before_norms(const Subject& subject, Site site) {
  const auto is_after = [](const probe::ProfileEntry& e) { return e.site.point == Point::kAfter; };
  const bool is_first = site.layer == 0 && site.sublayer == SublayerKind::kAttention;
  site.point = Point::kAfter;
  return is_first && std::ranges::any_of(last_entries(subject.profile), is_after) &&
         find_entry(subject.profile, last_step(subject.profile), site) == nullptr;
}

void report_missing_factor(const probe::ProfileEntry& sum, double usual, Findings& findings) {
  findings.push_back({.rule = "residual-factor",
                      .severity = Severity::kBroken,
                      .site = sum.site,
                      .where = place_text(sum.site),
                      .what = fmt::format("the stream goes into the sum times 1: {}", formula(sum)),
                      .because = fmt::format("s = {:.3g}·x + f, as most sublayers", usual),
                      .fix = "multiply the residual as the others do",
                      .measured = sum.from_x,
                      .expected = usual});
}

/// Layers whose feed-forward reads what attention reads (GPT-NeoX): both branches go into one sum,
/// and there is none between them.
std::vector<bool> parallel_layers(const Subject& subject) {
  std::vector<bool> parallel(subject.profile.model.n_layers);
  for (std::size_t l = 0; l < parallel.size(); ++l) {
    const auto x = [&](SublayerKind sublayer) {
      return find_entry(subject.profile, last_step(subject.profile), {l, sublayer, Point::kX});
    };
    const probe::ProfileEntry* one = x(SublayerKind::kAttention);
    const probe::ProfileEntry* other = x(SublayerKind::kFeedForward);
    parallel[l] = one != nullptr && other != nullptr && one->rms == other->rms &&
                  one->mean == other->mean && one->abs_max == other->abs_max;
  }
  return parallel;
}

bool is_in(const std::vector<bool>& layers, const Site& site) {
  return site.layer < layers.size() && layers[site.layer];
}

/// Which of the layers that one module holds it is: a Conformer's block has three.
std::size_t place_in_module(const Subject& subject, std::size_t layer) {
  const std::vector<std::string>& modules = subject.profile.model.layer_modules;
  std::size_t place = 0;
  while (place < layer && layer < modules.size() && modules[layer - place - 1] == modules[layer])
    ++place;
  return place;
}

/// The factor by which most branches of a kind go into their sums, at their place in the module:
/// some models are made with another one than 1, by a residual multiplier, or two feed-forwards of
/// one half. 1 where most have none, or are subtracted.
double usual_gain(const Subject& subject, const Site& site) {
  const std::size_t place = place_in_module(subject, site.layer);
  std::vector<double> here, of_kind;
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (sum.site.sublayer != site.sublayer) return;
    of_kind.push_back(sum.from_branch);
    if (place_in_module(subject, sum.site.layer) == place) here.push_back(sum.from_branch);
  });
  const std::vector<double>& factors = here.size() > 1 ? here : of_kind;
  const double usual = factors.size() > 1 ? common_factor(factors, factors.size() / 2 + 1) : 1;
  return usual > 0 ? usual : 1;
}

/// One part of a sum: what it gives forward, what it gets backward, and what it is if that is
/// nothing.
struct Part {
  const char* symbol;
  double forward, backward;
  const char* rule;
  const char* seen;
};

}  // namespace

void find_wrong_inputs(const Subject& subject, Findings& findings) {
  for_norms(subject, [&](const probe::ProfileEntry& norm) {
    if (!(norm.past_norm > 0)) return;
    Site site = norm.site;
    site.norm = NormSlot::kNone;
    findings.push_back(
        {.rule = "sublayer-input",
         .severity = Severity::kSuspicious,
         .site = site,
         .where = place_text(site),
         .what = fmt::format("{:.0f} of its linear maps {} the stream, not the norm's output",
                             norm.past_norm, norm.past_norm == 1 ? "reads" : "read"),
         .because = "queries, keys and values are all projected from the norm's output",
         .fix = "give the norm's output to all of them: attention(h, h, h)",
         .measured = norm.past_norm,
         .expected = 0});
  });
}

/// A share of ∂x that comes back through norms of small rows is known to some percent.
constexpr double kMostBlurred = 0.1;

void find_detached_parts(const Subject& subject, Findings& findings) {
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    const Part parts[] = {
        {"x", sum.from_x, sum.grad_to_x, "residual-detached",
         "no gradient passes along the residual: layers before learn only through this branch"},
        {"f", sum.from_branch, sum.grad_to_branch, "branch-detached",
         "no gradient reaches the branch: its weights do not learn"}};
    for (const auto& [symbol, forward, backward, rule, seen] : parts) {
      if (std::isnan(forward - backward) || is_near(backward, forward)) continue;
      const bool is_cut = std::abs(backward) < kTolerance;
      if (!is_cut && std::abs(backward - forward) < kMostBlurred * std::abs(forward)) continue;
      const std::string passed = fmt::format("∂{} holds {:.3g}·∂s", symbol, backward);
      findings.push_back(
          {.rule = is_cut ? rule : "gradient-factor",
           .severity = is_cut ? Severity::kBroken : Severity::kSuspicious,
           .site = sum.site,
           .where = place_text(sum.site),
           .what = is_cut ? seen : passed,
           .because = fmt::format("s holds {0:.3g}·{1}, so ∂{1} holds {0:.3g}·∂s", forward, symbol),
           .fix =
               fmt::format("look for detach(), .data or no_grad() between {} and the sum", symbol),
           .measured = backward,
           .expected = forward});
    }
  });
}

void find_wrong_sums(const Subject& subject, Findings& findings) {
  const double common_skip = usual_skip(subject);
  const Placements placements = placements_of(subject.profile.model);
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (sum.unexplained > kMostUnexplained) return;
    const Placement* placement = placement_at(placements, sum.site);
    const Depth depth{sum.site.layer + 1, subject.profile.model.n_layers};
    const std::optional<double> skip = placement ? constant(placement->skip, depth) : 1.0;
    const std::optional<double> gain = placement ? constant(placement->gain, depth) : 1.0;
    const double usual_x = skip == 1 ? common_skip : 1;
    if (skip && !std::isnan(sum.from_x) && !is_near(sum.from_x, *skip)) {
      report_skip(subject, sum, *skip, usual_x, findings);
    } else if (is_near(sum.from_x, 1) && !is_near(usual_x, 1) && !is_near(usual_x, 2) &&
               !begins_before_norms(subject, sum.site)) {
      report_missing_factor(sum, usual_x, findings);
    } else if (gain && !std::isnan(sum.from_branch)) {
      const double usual = *gain == 1 ? usual_gain(subject, sum.site) : *gain;
      const bool is_design = is_near(sum.from_branch, usual);
      if (is_design && is_near(usual, *gain)) return;
      findings.push_back(
          {.rule = "branch-factor",
           .severity = is_design ? Severity::kNote : Severity::kBroken,
           .site = sum.site,
           .where = place_text(sum.site),
           .what = fmt::format("the branch goes into the sum times {:.3g}: {}", sum.from_branch,
                               formula(sum)),
           .because = is_design || usual == *gain
                          ? fmt::format("s = x + {:.3g}·f{}", *gain, by_placement(subject))
                          : fmt::format("s = x + {:.3g}·f, as most sublayers of its kind", usual),
           .fix = "check the code between the branch and the sum: a scale, a second add; declare a "
                  "learned gain to the probe with recipe={\"placement\": \"layerscale\"}",
           .measured = sum.from_branch,
           .expected = is_design ? *gain : usual});
    }
  });
}

namespace {

/// Where most sums are of something else, it is the network that is not understood, and no sum of
/// it is wrong.
bool is_not_understood(const Subject& subject, Findings& findings) {
  std::size_t sums = 0, unexplained = 0;
  double most = 0;
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (is_of_lanes(sum)) return;
    ++sums;
    unexplained += sum.unexplained > kMostUnexplained;
    most = std::max(most, sum.unexplained > kMostUnexplained ? sum.unexplained : 0);
  });
  if (sums < 2 || 2 * unexplained <= sums) return false;
  findings.push_back(
      {.rule = "not-understood",
       .severity = Severity::kNote,
       .where = "residual stream",
       .what =
           fmt::format("{} of {} sums are not skip·x + gain·f: up to {:.0f} % of one is neither "
                       "stream nor branch",
                       unexplained, sums, 100 * most),
       .because = "the doctor knows one stream of the residual sum; it says nothing of others",
       .fix = "name what it should look at: layers=, attention=, feed_forward= of the probe",
       .measured = static_cast<double>(unexplained) / static_cast<double>(sums)});
  return true;
}

}  // namespace

void find_unexplained_sums(const Subject& subject, Findings& findings) {
  using Form = ResidualFactor::Form;
  if (is_not_understood(subject, findings)) return;
  const std::vector<bool> parallel = parallel_layers(subject);
  const Placements placements = placements_of(subject.profile.model);
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    const Placement* placement = placement_at(placements, sum.site);
    const auto is_vector = [](const ResidualFactor& factor) {
      return factor.form == Form::kLearnedVector || factor.form == Form::kLearnedMagnitudes;
    };
    const bool is_learned =
        placement != nullptr && (is_vector(placement->skip) || is_vector(placement->gain));
    if (!(sum.unexplained > kMostUnexplained) || is_learned || is_of_lanes(sum)) return;
    if (is_in(parallel, sum.site)) return;
    findings.push_back(
        {.rule = "sum-unexplained",
         .severity = Severity::kSuspicious,
         .site = sum.site,
         .where = place_text(sum.site),
         .what =
             fmt::format("{:.0f} % of the sum is neither stream nor branch", 100 * sum.unexplained),
         .because = "a residual sum is skip·x + gain·f; rounding to bfloat16 leaves 0.2 %",
         .fix = "look for what else is added, or changed, between the branch and the next norm",
         .measured = sum.unexplained,
         .expected = 0});
  });
}

}  // namespace addnorm::doctor
