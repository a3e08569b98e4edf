#include "lab/stack_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "addnorm/error.h"

namespace addnorm::lab {
namespace {

theory::WideStack wide_stack(const std::string& placement) {
  return {.placements = parse_placements(placement, 3), .tokens = 8, .d_model = 256, .d_ff = 512};
}

/// Returns second moments over many draws, at theory's sites.
theory::StackMoments mean_moments(const std::vector<StackProfile>& profiles,
                                  theory::StackMoments mean) {
  const double part = 1 / static_cast<double>(profiles.size());
  for (theory::SiteMoments& m : mean.sites) {
    m.value = m.gradient = {};
    for (const StackProfile& profile : profiles) {
      const probe::ProfileEntry* entry = probe::find_entry(profile.entries, m.site);
      const double power = entry->rms * entry->rms;
      m.value.power += part * power;
      m.value.overlap += part * power * entry->token_cosine;
      m.gradient.power += part * entry->grad_rms * entry->grad_rms;
    }
  }
  for (std::size_t l = 0; l < mean.down_gradient.size(); ++l) {
    mean.down_gradient[l] = 0;
    for (const StackProfile& s : profiles) mean.down_gradient[l] += part * s.down_gradient[l];
  }
  return mean;
}

/// Returns the ratio; 1 if both are 0, because an unread lane has no gradient.
double ratio(double measured, double predicted) {
  return measured == 0 && predicted == 0 ? 1 : measured / predicted;
}

void expect_as_predicted(const theory::WideStack& stack) {
  constexpr double kTolerance = 0.12;
  const theory::StackMoments want = theory::predict(stack, {1, 0}, {1, 0});
  const theory::StackMoments have = mean_moments(profile_stacks(stack, 0, 12), want);
  for (std::size_t i = 0; i < want.sites.size(); ++i) {
    const theory::SiteMoments& w = want.sites[i];
    const theory::SiteMoments& h = have.sites[i];
    SCOPED_TRACE("layer " + std::to_string(w.site.layer) + " sublayer " +
                 std::to_string(int(w.site.sublayer)) + " point " +
                 std::to_string(int(w.site.point)));
    EXPECT_NEAR(ratio(h.value.power, w.value.power), 1, kTolerance);
    EXPECT_NEAR(h.value.cosine(), w.value.cosine(), kTolerance);
    EXPECT_NEAR(ratio(h.gradient.power, w.gradient.power), 1, 2 * kTolerance);
  }
  for (std::size_t l = 0; l < want.down_gradient.size(); ++l) {
    EXPECT_NEAR(ratio(have.down_gradient[l], want.down_gradient[l]), 1, 3 * kTolerance) << l;
  }
}

TEST(StackProfile, IsAsMeanFieldTheorySaysWithEveryPlacement) {
  for (const Placement& placement : placements()) {
    // ReZero's branches initially have no gradient; Admin's skips are profiled.
    if (placement.name == "rezero" || placement.name == "admin") continue;
    if (!theory::covers(placement)) continue;
    SCOPED_TRACE(placement.name);
    expect_as_predicted(wide_stack(std::string(placement.name)));
  }
}

TEST(StackProfile, IsOfPlacementsThatTheoryCovers) {
  for (const char* name : {"highway", "stochastic-depth", "frac"}) {
    EXPECT_FALSE(theory::covers(find_placement(name))) << name;
    EXPECT_THROW(theory::predict(wide_stack(name), {1, 0}, {1, 0}), Error) << name;
  }
}

TEST(StackProfile, IsAsMeanFieldTheorySaysWithEveryInitialization) {
  for (const Initialization initialization : kInitializations) {
    SCOPED_TRACE(to_string(initialization));
    theory::WideStack stack = wide_stack("pre/post");
    stack.initialization = initialization;
    expect_as_predicted(stack);
  }
}

TEST(StackProfile, IsAsMeanFieldTheorySaysWithNormsThatSquash) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kDyT, NormKind::kDerf}) {
    for (const char* placement : {"pre", "post", "sandwich"}) {
      SCOPED_TRACE(std::string(to_string(kind)) + ", " + placement);
      theory::WideStack stack = wide_stack(placement);
      stack.norm.kind = kind;
      expect_as_predicted(stack);
    }
  }
  theory::WideStack lanes = wide_stack("hyper");
  lanes.norm.kind = NormKind::kDyT;
  EXPECT_THROW(theory::predict(lanes, {1, 0}, {1, 0}), Error);
}

TEST(StackProfile, IsEvaluatedWithEveryBranch) {
  const auto measured = [](const char* placement) {
    std::vector<double> numbers;
    for (const probe::ProfileEntry& entry : profile_stack(wide_stack(placement), 0).entries) {
      numbers.push_back(entry.rms);
      if (!std::isnan(entry.grad_rms)) numbers.push_back(entry.grad_rms);
    }
    return numbers;
  };
  EXPECT_EQ(measured("stochastic-depth"), measured("pre"));
}

TEST(StackProfile, IsNotWhenABugIsInIt) {
  const theory::WideStack stack = wide_stack("pre");
  const Site last{2, SublayerKind::kFeedForward, Point::kSum};
  const double sound = theory::predict(stack, {1, 0}, {1, 0}).at(last).value.power;
  for (const char* name : {"no-residual", "residual-twice", "norm-missing", "one-plus-gamma"}) {
    const StackProfile profile = profile_stack(stack, 0, &find_silent_bug(name));
    const double rms = probe::find_entry(profile.entries, last)->rms;
    EXPECT_GT(std::abs(rms * rms / sound - 1), 0.3) << name;
  }
}

}  // namespace
}  // namespace addnorm::lab
