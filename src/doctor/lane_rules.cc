#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/places.h"
#include "doctor/rules.h"

/// Streams of several lanes: a site reads a row of them and leaves X′ = A·X + b ⊗ f. What A and b
/// are is a model's own choice; these rules know what no model chooses, and what mHC says of
/// itself.

namespace addnorm::doctor {
namespace {

/// Of a coefficient: float32 leaves 1e-5 where lanes differ by a percent, bfloat16 some percent.
constexpr double kCoefficientTolerance = 0.05;

/// Of a row's or column's sum in mHC: of single matrices with wide logits, 20 steps of Sinkhorn
/// leave up to 0.08.
constexpr double kUnbalanced = 0.1;

/// Where a branch is written into the lanes: the sum of each, of which the first has what is of
/// all.
struct LaneSite {
  Site site;
  std::vector<const probe::ProfileEntry*> lanes;
};

std::vector<LaneSite> lane_sites(const Subject& subject) {
  std::vector<LaneSite> sites;
  for_sums(subject, [&](const probe::ProfileEntry& sum) {
    if (!is_of_lanes(sum)) return;
    Site site = sum.site;
    site.lane = 0;
    if (sites.empty() || sites.back().site != site) sites.push_back({site, {}});
    sites.back().lanes.push_back(&sum);
  });
  return sites;
}

/// The largest |member − offset| of a site's lanes; NaN where none is known.
double largest(const LaneSite& site, double probe::ProfileEntry::*member, double offset = 0) {
  double most = Subject::kUnknown;
  for (const probe::ProfileEntry* lane : site.lanes) {
    most = std::fmax(most, std::abs(lane->*member - offset));
  }
  return most;
}

Finding lane_finding(const Site& site, std::string_view rule) {
  return {.rule = rule, .site = site, .where = place_text(site)};
}

/// One finding for the stream where all sites have it, else one for each that has.
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

/// The sites of which a condition holds.
template <typename Condition>
std::vector<LaneSite> those(const std::vector<LaneSite>& sites, const Condition& condition) {
  std::vector<LaneSite> found;
  std::ranges::copy_if(sites, std::back_inserter(found), condition);
  return found;
}

/// "0.61, 1.02, 1.37" of each lane.
std::string list(const LaneSite& site, double probe::ProfileEntry::*member) {
  std::string text;
  for (const probe::ProfileEntry* lane : site.lanes) {
    text += fmt::format("{}{:.2f}", text.empty() ? "" : ", ", lane->*member);
  }
  return text;
}

}  // namespace

void find_folded_lanes(const Subject& subject, Findings& findings) {
  std::vector<const probe::ProfileEntry*> folds;
  for (const probe::ProfileEntry& entry : last_entries(subject.profile)) {
    if (entry.site.point == Point::kX && entry.lanes_folded > 0) folds.push_back(&entry);
  }
  if (folds.empty()) return;
  Finding finding{
      .rule = "lanes-not-kept",
      .because = "lanes that go on from one sublayer to the next, from the embedding to the end",
      .fix =
          "expand before the first layer and fold after the last one; within the layers pass the "
          "lanes on",
      .measured = static_cast<double>(folds.size()),
      .expected = 0};
  if (folds.size() > 1 && folds.size() + 1 >= subject.profile.model.n_layers) {
    finding.where = "residual stream";
    finding.what = fmt::format(
        "the lanes are folded to one row and expanded again {} times: so it is one stream",
        folds.size());
    findings.push_back(finding);
    return;
  }
  finding.severity = Severity::kSuspicious;
  for (const probe::ProfileEntry* fold : folds) {
    finding.site = fold->site;
    finding.where = place_text(fold->site);
    finding.what = "reads lanes that are copies of one row, to which those before were folded";
    findings.push_back(finding);
  }
}

void find_lanes_without_parts(const Subject& subject, Findings& findings) {
  const std::vector<LaneSite> sites = lane_sites(subject);
  const std::size_t written = std::ranges::count_if(sites, [](const LaneSite& site) {
    return largest(site, &probe::ProfileEntry::write) > kCoefficientTolerance;
  });
  for (const LaneSite& site : sites) {
    const double carried = largest(site, &probe::ProfileEntry::carry_size);
    const double write = largest(site, &probe::ProfileEntry::write);
    if (carried < kCoefficientTolerance) {
      Finding finding = lane_finding(site.site, "residual-missing");
      finding.what =
          fmt::format("no lane is carried on: no row of A is longer than {:.2g}", carried);
      finding.because = "X′ = A·X + b ⊗ f";
      finding.fix = "add what the carry makes of the lanes to what is written";
      finding.measured = carried;
      findings.push_back(std::move(finding));
    } else if (write < 1e-3 && 2 * written > sites.size()) {
      Finding finding = lane_finding(site.site, "branch-missing");
      finding.severity = Severity::kSuspicious;  // b may be learned
      finding.what = fmt::format("the branch is written into no lane: b is at most {:.2g}", write);
      finding.because = "X′ = A·X + b ⊗ f, as in most other sublayers";
      finding.fix =
          "write the branch's output into the lanes: look at b, and at what it multiplies";
      finding.measured = write;
      findings.push_back(std::move(finding));
    }
  }
}

void find_turned_carries(const Subject& subject, Findings& findings) {
  const std::vector<LaneSite> told = those(lane_sites(subject), [](const LaneSite& site) {
    return !std::isnan(site.lanes.front()->carry_transposed);
  });
  const auto is_turned = [](const LaneSite& site) {
    return site.lanes.front()->carry_transposed > 0.5;
  };
  const auto turned = static_cast<std::size_t>(std::ranges::count_if(told, is_turned));
  const bool is_usual = 2 * turned > told.size();
  const std::size_t others = is_usual ? told.size() - turned : turned;
  if (others == 0 || 3 * others > told.size()) return;  // no way round is usual
  for (const LaneSite& site : told) {
    if (is_turned(site) == is_usual) continue;
    Finding finding = lane_finding(site.site, "carry-transposed");
    finding.what = fmt::format("the lanes are mixed by {} of the computed coefficients",
                               is_usual ? "the tensor itself" : "the transpose");
    finding.because =
        fmt::format("{}, as in the {} other sublayers where that can be told",
                    is_usual ? "its transpose" : "the tensor itself", told.size() - others);
    finding.fix = "look at the order of the indices: X′_i = Σ_j A_ij·X_j";
    findings.push_back(std::move(finding));
  }
}

namespace {

Finding unbalanced(const LaneSite& site) {
  const bool rows = largest(site, &probe::ProfileEntry::carry_in, 1) > kUnbalanced;
  const bool columns = largest(site, &probe::ProfileEntry::carry_out, 1) > kUnbalanced;
  Finding finding = lane_finding(site.site, "carry-not-stochastic");
  finding.what = fmt::format(
      "the carry's {} sum to {}{}", rows ? "rows" : "columns",
      list(site, rows ? &probe::ProfileEntry::carry_in : &probe::ProfileEntry::carry_out),
      rows == columns ? ", and its columns neither to 1"
      : rows          ? ", and not to 1"
                      : ", and its rows to 1");
  finding.because = "rows and columns of mHC's carry sum to 1 (Xie et al. 2025)";
  finding.fix =
      "divide by the sums of rows and by those of columns in turn, over two axes of the "
      "exponentials, about 20 times";
  finding.measured = std::fmax(largest(site, &probe::ProfileEntry::carry_in, 1),
                               largest(site, &probe::ProfileEntry::carry_out, 1));
  finding.expected = 0;
  return finding;
}

Finding halved(const LaneSite& site) {
  Finding finding = lane_finding(site.site, "write-scale");
  finding.severity = Severity::kSuspicious;
  finding.measured = site.lanes.front()->write_gate;
  finding.expected = 2;
  finding.what = fmt::format("the branch is written times {:.2g}·σ", finding.measured);
  finding.because = "b = 2σ of mHC, which is 1 for a logit of 0 (Xie et al. 2025)";
  finding.fix = "write 2 * torch.sigmoid(…)";
  return finding;
}

bool is_16_bits(const std::string& dtype) {
  return dtype == "bfloat16" || dtype == "float16";
}

Finding rounded(const LaneSite& site) {
  Finding finding = lane_finding(site.site, "coefficients-rounded");
  const bool is_choice = is_16_bits(site.lanes.front()->dtype);  // the stream is in 16 bits too
  finding.severity = is_choice ? Severity::kNote : Severity::kSuspicious;
  finding.what = fmt::format("the carry is computed in {}", site.lanes.front()->coefficients);
  finding.because =
      "mHC computes its coefficients in float32: products of many carries keep their "
      "size only if each keeps its sums";
  finding.fix = "cast to float32 before the exponentials, and switch autocast off there";
  return finding;
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
        const bool is_carried =
            largest(site, &probe::ProfileEntry::carry_size) > kCoefficientTolerance;
        return is_carried && (largest(site, &probe::ProfileEntry::carry_in, 1) > kUnbalanced ||
                              largest(site, &probe::ProfileEntry::carry_out, 1) > kUnbalanced);
      },
      unbalanced);
  judge(
      [](const LaneSite& site) {
        return std::abs(site.lanes.front()->write_gate - 1) < kCoefficientTolerance;
      },
      halved);
  judge([](const LaneSite& site) { return is_16_bits(site.lanes.front()->coefficients); }, rounded);
}

namespace {

/// Whether a γ has moved: where none is known nobody can say.
bool is_trained(const Subject& subject) {
  return std::ranges::any_of(last_entries(subject.profile), [](const probe::ProfileEntry& entry) {
    return entry.site.point == Point::kGamma && entry.std > 0;
  });
}

}  // namespace

void find_equal_lanes(const Subject& subject, Findings& findings) {
  constexpr double kAlike = 1e-5;
  const std::vector<LaneSite> sites = lane_sites(subject);
  double spread = Subject::kUnknown, gradients = Subject::kUnknown;
  for (const LaneSite& site : sites) {
    spread = std::fmax(spread, largest(site, &probe::ProfileEntry::lane_spread));
    gradients = std::fmax(gradients, site.lanes.front()->grad_spread);
  }
  if (sites.size() < 2 || !(spread <= kAlike) || !findings.empty()) return;
  const bool is_trapped = is_trained(subject) && gradients < 1e-4;
  findings.push_back(
      {.rule = "lanes-alike",
       .severity = is_trapped ? Severity::kSuspicious : Severity::kNote,
       .where = "residual stream",
       .what = fmt::format("all {} lanes are the same after every sublayer{}",
                           sites.front().lanes.size(),
                           is_trapped ? ", and so are their gradients, after training" : ""),
       .because =
           is_trapped
               ? "lanes that are read and written alike have the same gradients, and so stay "
                 "one lane"
               : "lanes differ once a sublayer writes more into one than into another",
       .fix =
           "let sublayers read other lanes at first (lane l mod n), or write them by other factors",
       .measured = spread});
}

}  // namespace addnorm::doctor
