#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/placements.h"
#include "doctor/places.h"
#include "doctor/rules.h"

/// Rules over streams of several lanes. A site reads a combination of the lanes and computes X′ =
/// A·X + b ⊗ f. Every model chooses its own A and b. These rules report what no model chooses, and
/// deviations from the definition of mHC.

namespace addnorm::doctor {
namespace {

using probe::LaneFit;
using probe::SumFit;

/// Tolerance of a coefficient. If lanes differ by 1 %, its error is 1e-5 in float32 and a few
/// percent in bfloat16.
constexpr double kCoefficientTolerance = 0.05;

/// A write below this counts as none.
constexpr double kNoWrite = 1e-3;

/// Tolerance of a row or column sum in mHC. For single matrices with wide logits, 20 Sinkhorn steps
/// leave errors up to 0.08.
constexpr double kUnbalanced = 0.1;

/// A place where a branch is written into the lanes.
struct LaneSite {
  Site site;
  std::string dtype;
  std::vector<const LaneFit*> lanes;  ///< in their order

  const LaneFit& first() const { return *lanes.front(); }
};

std::vector<LaneSite> lane_sites(const Subject& subject) {
  std::vector<LaneSite> sites;
  for_point(subject, Point::kSum, [&](const ProfileEntry& sum) {
    if (!sum.lane) return;
    Site site = sum.site;
    site.lane = 0;
    if (sites.empty() || sites.back().site != site) sites.push_back({site, sum.dtype, {}});
    sites.back().lanes.push_back(&*sum.lane);
  });
  return sites;
}

/// Returns the largest |member − offset| of a site's lanes, or nothing if none is known.
template <typename Number>
std::optional<double> largest(const LaneSite& site, Number LaneFit::*member, double offset = 0) {
  std::optional<double> most;
  for (const LaneFit* lane : site.lanes) {
    const std::optional<double> value = lane->*member;
    if (value) most = std::max(most.value_or(0), std::abs(*value - offset));
  }
  return most;
}

/// Returns the largest distance of a lane's sum of coefficients from 1, or 0 if no sum is known.
template <typename Number>
double imbalance(const LaneSite& site, Number LaneFit::*member) {
  return largest(site, member, 1).value_or(0);
}

/// Reports one finding for the whole stream if all sites are wrong, otherwise one for each wrong
/// site.
void report_lanes(const std::vector<LaneSite>& all, const std::vector<LaneSite>& wrong,
                  const std::function<Finding(const LaneSite&)>& finding, Findings& findings) {
  if (wrong.size() > 1 && wrong.size() == all.size()) {
    findings.push_back(finding(wrong.front()));
    findings.back().site.reset();
    findings.back().where = "residual stream";
    findings.back().what += ", as in all other sublayers";
    return;
  }
  for (const LaneSite& site : wrong) findings.push_back(finding(site));
}

/// Returns the sites for which a condition holds.
template <typename Condition>
std::vector<LaneSite> those(const std::vector<LaneSite>& sites, const Condition& condition) {
  std::vector<LaneSite> found;
  std::ranges::copy_if(sites, std::back_inserter(found), condition);
  return found;
}

/// The numbers of all lanes: "0.61, 1.02, 1.37".
template <typename Number>
std::string list(const LaneSite& site, Number LaneFit::*member) {
  std::string text;
  for (const LaneFit* lane : site.lanes) {
    const std::optional<double> value = lane->*member;
    text += fmt::format("{}{:.2f}", text.empty() ? "" : ", ", value.value_or(Subject::kUnknown));
  }
  return text;
}

}  // namespace

void find_folded_lanes(const Subject& subject, Findings& findings) {
  std::vector<const ProfileEntry*> folds;
  for_point(subject, Point::kX, [&](const ProfileEntry& x) {
    if (x.input && x.input->lanes_folded.value_or(0) > 0) folds.push_back(&x);
  });
  if (folds.empty()) return;
  Finding finding{
      .rule = "lanes-not-kept",
      .because =
          "lanes that are carried from each sublayer to the next, from the embedding to the end",
      .fix =
          "expand before the first layer and fold after the last one; within the layers pass the "
          "lanes on",
      .measured = static_cast<double>(folds.size()),
      .expected = 0};
  if (folds.size() > 1 && folds.size() + 1 >= subject.profile.model.n_layers) {
    finding.where = "residual stream";
    finding.what = fmt::format(
        "the lanes are folded to one row and expanded again {} times, so the model has a single "
        "stream",
        folds.size());
    findings.push_back(finding);
    return;
  }
  finding.severity = Severity::kSuspicious;
  for (const ProfileEntry* fold : folds) {
    finding.site = fold->site;
    finding.where = site_words(fold->site);
    finding.what = "reads lanes that are copies of one row: the earlier lanes were folded into it";
    findings.push_back(finding);
  }
}

namespace {

/// A sublayer's placement in the table, and its place.
struct Declared {
  Placement placement;
  Place place;
};

/// Returns the declaration of the sublayer at a site; nothing if the profile names no placement
/// with lanes.
std::optional<Declared> declared_at(const Subject& subject, const Site& site) {
  const io::ProfileModel& model = subject.profile.model;
  const Placements placements = placements_of(model);
  const Placement* here = placement_at(placements, site);
  if (here == nullptr || !here->lanes.several()) return std::nullopt;
  std::optional<Declared> found;
  const std::size_t lanes = here->lanes.grows ? 1 : model.n_lanes;
  for_each_add_norm(*placements, lanes, site.layer + 1,
                    [&](const Placement& placement, const Place& place) {
                      if (place.depth.layer == site.layer + 1 && place.sublayer == site.sublayer)
                        found = {placement, place};
                    });
  return found;
}

/// Whether a sublayer carries lanes into the lane that it changes. Attention Residuals carry none
/// into a lane that they append.
bool carries_into_changed(const Declared& at) {
  const LaneForm& lanes = at.placement.lanes;
  if (lanes.changes(at.place) != Changes::kAppend) return true;
  for (std::size_t from = 0; from < at.place.lanes; ++from)
    if (lanes.carry.base(at.place, 0, from) != 0) return true;
  return false;
}

/// Returns b of a lane, if it is a constant. `lane` counts the lines of a sum.
std::optional<double> constant_write(const Declared& at, std::size_t lane) {
  const LaneForm& lanes = at.placement.lanes;
  if (lanes.changes(at.place) != Changes::kAll) return 1;
  const MixForm& write = lanes.write;
  const bool is_made = write.source != MixForm::Source::kNone && write.made(at.place);
  if (is_made || write.map != MixForm::Map::kNone || lanes.splits_features ||
      write.learned(at.place, lane, 0))
    return std::nullopt;
  return write.base(at.place, lane, 0);
}

Finding lost_lanes(const Subject& subject, const LaneSite& site, double lost) {
  return {.rule = "residual-missing",
          .site = site.site,
          .what = fmt::format("{:.0f} of the lanes before it {} not carried on", lost,
                              lost == 1 ? "is" : "are"),
          .because = "a sublayer appends a lane to all others, or adds to the last one" +
                     by_placement(subject),
          .fix = "pass all earlier lanes on, and add the branch to the last one",
          .measured = lost,
          .expected = 0};
}

/// Compares the write of each lane with the table. A lane with no write at all is judged elsewhere.
void judge_writes(const Subject& subject, Findings& findings) {
  for_sums(subject, [&](const ProfileEntry& sum, const SumFit& fit) {
    if (!sum.lane || std::abs(sum.lane->write.value_or(0)) < kNoWrite || is_unexplained(fit))
      return;
    const std::optional<Declared> at = declared_at(subject, sum.site);
    const std::optional<double> expected =
        at ? constant_write(*at, sum.site.lane) : std::optional<double>();
    if (!expected || std::abs(*sum.lane->write - *expected) <= kCoefficientTolerance) return;
    Site site = sum.site;
    site.lane = 0;
    findings.push_back(
        {.rule = "branch-factor",
         .site = site,
         .what = fmt::format("the branch enters a lane times {:.3g}", *sum.lane->write),
         .because =
             fmt::format("X′ = A·X + b ⊗ f with b = {:.3g}{}", *expected, by_placement(subject)),
         .fix = "check the code between the branch and the sum: a scale, a second add",
         .measured = *sum.lane->write,
         .expected = *expected});
  });
}

}  // namespace

void find_wrong_sums_of_lanes(const Subject& subject, Findings& findings) {
  const std::vector<LaneSite> sites = lane_sites(subject);
  const std::size_t written = std::ranges::count_if(sites, [](const LaneSite& site) {
    return largest(site, &LaneFit::write).value_or(0) > kCoefficientTolerance;
  });
  for (const LaneSite& site : sites) {
    const double carried = *largest(site, &LaneFit::carry_size);
    const std::optional<double> write = largest(site, &LaneFit::write);
    const std::optional<double> lost = site.first().lanes_lost;
    const std::optional<Declared> at = declared_at(subject, site.site);
    if (lost.value_or(0) > 0) {
      findings.push_back(lost_lanes(subject, site, *lost));
    } else if (carried < kCoefficientTolerance && (!lost || (at && carries_into_changed(*at)))) {
      findings.push_back(
          {.rule = "residual-missing",
           .site = site.site,
           .what =
               fmt::format("no lane is carried on: no row of A has a norm above {:.2g}", carried),
           .because = "X′ = A·X + b ⊗ f",
           .fix = "add the carried lanes A·X to what is written",
           .measured = carried});
    } else if (write && *write < kNoWrite && 2 * written > sites.size()) {
      findings.push_back(
          {.rule = "branch-missing",
           .severity = Severity::kSuspicious,  // b may be learned
           .site = site.site,
           .what = fmt::format("the branch is written into no lane: b is at most {:.2g}", *write),
           .because = "X′ = A·X + b ⊗ f, as in most other sublayers",
           .fix = "write the branch's output into the lanes: check b, and what it multiplies",
           .measured = *write});
    }
  }
  judge_writes(subject, findings);
}

void find_turned_carries(const Subject& subject, Findings& findings) {
  const std::vector<LaneSite> known = those(lane_sites(subject), [](const LaneSite& site) {
    return site.first().carry_transposed.has_value();
  });
  const auto is_turned = [](const LaneSite& site) { return *site.first().carry_transposed > 0.5; };
  const auto turned = static_cast<std::size_t>(std::ranges::count_if(known, is_turned));
  const bool is_usual = 2 * turned > known.size();
  const std::size_t others = is_usual ? known.size() - turned : turned;
  if (3 * others > known.size()) return;  // there is no clear majority
  for (const LaneSite& site : known) {
    if (is_turned(site) == is_usual) continue;
    findings.push_back(
        {.rule = "carry-transposed",
         .site = site.site,
         .what = fmt::format("the lanes are mixed by {} of the computed coefficients",
                             is_usual ? "the tensor itself" : "the transpose"),
         .because =
             fmt::format("{}, as in the {} other sublayers where this can be told",
                         is_usual ? "its transpose" : "the tensor itself", known.size() - others),
         .fix = "check the order of the indices: X′_i = Σ_j A_ij·X_j"});
  }
}

namespace {

Finding unbalanced(const LaneSite& site) {
  const double in = imbalance(site, &LaneFit::carry_in);
  const double out = imbalance(site, &LaneFit::carry_out);
  const bool rows = in > kUnbalanced, columns = out > kUnbalanced;
  return {
      .rule = "carry-not-stochastic",
      .site = site.site,
      .what = fmt::format("the carry's {} sum to {}{}", rows ? "rows" : "columns",
                          rows ? list(site, &LaneFit::carry_in) : list(site, &LaneFit::carry_out),
                          rows == columns ? ", and its columns do not sum to 1"
                          : rows          ? ", and not to 1"
                                          : ", and its rows to 1"),
      .because = "rows and columns of mHC's carry sum to 1 (Xie et al. 2025)",
      .fix =
          "divide the exponentials by their row sums and by their column sums, alternating about "
          "20 times",
      .measured = std::max(in, out),
      .expected = 0};
}

Finding halved(const LaneSite& site) {
  const double gate = *site.first().write_gate;
  return {.rule = "write-scale",
          .severity = Severity::kSuspicious,
          .site = site.site,
          .what = fmt::format("the branch is written with the factor {:.2g}·σ", gate),
          .because = "b = 2σ of mHC, which is 1 for a logit of 0 (Xie et al. 2025)",
          .fix = "write 2 * torch.sigmoid(…)",
          .measured = gate,
          .expected = 2};
}

bool is_16_bits(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16";
}

Finding rounded(const LaneSite& site) {
  const bool is_choice = is_16_bits(site.dtype);  // the stream is in 16 bits too
  return {.rule = "coefficients-rounded",
          .severity = is_choice ? Severity::kNote : Severity::kSuspicious,
          .site = site.site,
          .what = fmt::format("the carry is computed in {}", site.first().coefficients),
          .because =
              "mHC computes its coefficients in float32: products of many carries keep their "
              "size only if each keeps its sums",
          .fix = "cast to float32 before the exponentials, and switch autocast off there"};
}

}  // namespace

void find_wrong_mhc(const Subject& subject, Findings& findings) {
  if (subject.profile.model.lane_form != "mhc") return;
  const std::vector<LaneSite> sites = lane_sites(subject);
  const auto judge = [&](const auto& is_wrong, Finding (*finding)(const LaneSite&)) {
    report_lanes(sites, those(sites, is_wrong), finding, findings);
  };
  judge(
      [](const LaneSite& site) {
        return *largest(site, &LaneFit::carry_size) > kCoefficientTolerance &&
               std::max(imbalance(site, &LaneFit::carry_in), imbalance(site, &LaneFit::carry_out)) >
                   kUnbalanced;
      },
      unbalanced);
  judge(
      [](const LaneSite& site) {
        const std::optional<double> gate = site.first().write_gate;
        return gate && std::abs(*gate - 1) < kCoefficientTolerance;
      },
      halved);
  judge([](const LaneSite& site) { return is_16_bits(site.first().coefficients); }, rounded);
}

namespace {

/// Whether a γ has changed since initialization; false if no γ is known.
bool has_trained_gamma(const Subject& subject) {
  return std::ranges::any_of(last_entries(subject.profile), [](const ProfileEntry& entry) {
    return entry.site.point == Point::kGamma && entry.std > 0;
  });
}

}  // namespace

void find_equal_lanes(const Subject& subject, Findings& findings) {
  constexpr double kAlike = 1e-5;
  const std::vector<LaneSite> sites = lane_sites(subject);
  double spread = 0;
  std::optional<double> gradients;
  for (const LaneSite& site : sites) {
    spread = std::max(spread, *largest(site, &LaneFit::lane_spread));
    const std::optional<double> own = site.first().grad_spread;
    if (own) gradients = std::max(gradients.value_or(0), *own);
  }
  if (sites.size() < 2 || spread > kAlike || !findings.empty()) return;
  const bool is_trapped = has_trained_gamma(subject) && gradients && *gradients < 1e-4;
  findings.push_back(
      {.rule = "lanes-alike",
       .severity = is_trapped ? Severity::kSuspicious : Severity::kNote,
       .where = "residual stream",
       .what = fmt::format("all {} lanes are the same after every sublayer{}",
                           sites.front().lanes.size(),
                           is_trapped ? ", and so are their gradients, after training" : ""),
       .because =
           is_trapped
               ? "lanes that are read and written alike have the same gradients, so they stay equal"
               : "lanes differ once a sublayer writes more into one than into another",
       .fix = "let sublayers read different lanes at first (lane l mod n), or write them with "
              "different factors",
       .measured = spread});
}

}  // namespace addnorm::doctor
