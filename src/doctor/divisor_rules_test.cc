#include <cmath>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using enum SublayerKind;

/// The norm before attention in layer 3, where ε should be 1e-5.
struct NormCase {
  probe::DivisorFit fit;
  std::size_t features = 8;
  std::string dtype = "float32";
  std::string placement = "";
};

Findings findings_of(Rule* rule, const NormCase& norm) {
  Subject subject;
  subject.profile.model = {
      .d_model = norm.features, .n_layers = 4, .placement = norm.placement, .eps = 1e-5};
  ProfileEntry entry{.site = {3, kAttention, Point::kBefore}};
  entry.dtype = norm.dtype;
  entry.norm = probe::NormFit{.divisor = norm.fit};
  subject.profile.entries.push_back(entry);
  return findings_of(rule, subject);
}

std::string first_found(Rule* rule, const NormCase& norm) {
  const Findings findings = findings_of(rule, norm);
  return findings.empty() ? "" : std::string(findings.front().rule);
}

NormCase with_slope(double slope, std::size_t features = 8) {
  NormCase norm{.fit = sound_divisor(), .features = features};
  norm.fit.slope = slope;
  return norm;
}

TEST(DivisorRules, KnowTheSlopesOfAWrongCount) {
  for (const double slope : {8.0 / 7, 7.0 / 8, 8.0, 1.0 / 8}) {
    for (const double sign : {-1.0, 1.0}) {
      const NormCase near = with_slope(slope * (1 + 0.0095 * sign));
      EXPECT_EQ(first_found(find_wrong_divisors, near), "variance-divisor") << slope;
      const NormCase far = with_slope(slope * (1 + 0.0105 * sign));
      EXPECT_EQ(first_found(find_wrong_divisors, far), "") << slope;
    }
  }
  const double known = 100.0 / 99;  // as far from 1 as 1 % of it
  EXPECT_EQ(first_found(find_wrong_divisors, with_slope(known * 1.0048, 100)), "variance-divisor");
  EXPECT_EQ(first_found(find_wrong_divisors, with_slope(known * 1.0053, 100)), "");
}

TEST(DivisorRules, JudgeASlopeOnlyWhereTheFitIsClear) {
  EXPECT_EQ(first_found(find_wrong_divisors, with_slope(1.0021, 500)), "variance-divisor");
  EXPECT_EQ(first_found(find_wrong_divisors, with_slope(1.0019, 500)), "");
  const auto judged = [](const auto& change) {
    NormCase norm = with_slope(8.0 / 7);
    change(norm);
    return first_found(find_wrong_divisors, norm);
  };
  EXPECT_EQ(judged([](NormCase& norm) { norm.fit.noise = 1.9e-3; }), "variance-divisor");
  EXPECT_EQ(judged([](NormCase& norm) { norm.fit.noise = 2.1e-3; }), "");
  EXPECT_EQ(judged([](NormCase& norm) { norm.fit.scale = 1.04; }), "variance-divisor");
  EXPECT_EQ(judged([](NormCase& norm) { norm.fit.scale = 1.06; }), "");
  EXPECT_EQ(judged([](NormCase& norm) { norm.dtype = "bfloat16"; }), "");
  EXPECT_EQ(judged([](NormCase& norm) { norm.dtype = "float16"; }), "");
}

TEST(DivisorRules, NameTheCountOfASlope) {
  const auto said = [](double slope) {
    return findings_of(find_wrong_divisors, with_slope(slope)).at(0).what;
  };
  EXPECT_THAT(said(8.0 / 7 * 1.00095), HasSubstr(" = n/(n − 1) times"));
  EXPECT_THAT(said(8.0 / 7 * 1.00105), Not(HasSubstr(" = ")));
  EXPECT_THAT(said(8 * 1.0095), HasSubstr(" = n times"));
}

TEST(DivisorRules, TellEpsilonBesideTheRootFromEpsilonUnderIt) {
  const probe::DivisorFit beside = [] {
    probe::DivisorFit fit = sound_divisor();
    fit.eps_in_deviation = 1e-5;
    fit.eps_in_variance = fit.variance_spread = 2e-5;
    return fit;
  }();
  struct Case {
    double probe::DivisorFit::*member;
    double beside, unclear;
  };
  const Case cases[] = {
      {&probe::DivisorFit::eps_in_deviation, 1.19e-5, 1.21e-5},
      {&probe::DivisorFit::eps_in_deviation, 0.81e-5, 0.79e-5},
      {&probe::DivisorFit::deviation_spread, 2.9e-6, 3.1e-6},
      {&probe::DivisorFit::divisor, 4.9, 5.1},  // whose square is known to 5e-5, or 5e-6 of it
  };
  for (const auto& [member, is, is_not] : cases) {
    NormCase norm{.fit = beside};
    norm.fit.*member = is;
    EXPECT_EQ(first_found(find_wrong_epsilon, norm), "epsilon-place") << is;
    norm.fit.*member = is_not;
    EXPECT_EQ(first_found(find_wrong_epsilon, norm), "") << is_not;
  }
  NormCase varies{.fit = beside};
  varies.fit.deviation_spread = 2e-6;   // a fifth of its mean …
  varies.fit.variance_spread = 8.1e-6;  // … and more than two fifths
  EXPECT_EQ(first_found(find_wrong_epsilon, varies), "epsilon-place");
  varies.fit.variance_spread = 7.9e-6;
  EXPECT_EQ(first_found(find_wrong_epsilon, varies), "");
}

TEST(DivisorRules, AllowEpsilonAFifthAndItsUncertainty) {
  const auto judged = [](double eps_in_variance, double spread) {
    NormCase norm{.fit = sound_divisor()};
    norm.fit.eps_in_variance = eps_in_variance;
    norm.fit.variance_spread = spread;
    return first_found(find_wrong_epsilon, norm);
  };
  // The resolution of a divisor of 1 is 2e-6.
  EXPECT_EQ(judged(1.39e-5, 0), "");
  EXPECT_EQ(judged(1.41e-5, 0), "epsilon-size");
  EXPECT_EQ(judged(0.61e-5, 0), "");
  EXPECT_EQ(judged(0.59e-5, 0), "epsilon-size");
  EXPECT_EQ(judged(1.49e-5, 1e-6), "");
  EXPECT_EQ(judged(1.51e-5, 1e-6), "epsilon-size");
}

TEST(DivisorRules, JudgeNoEpsilonWithoutADeclaration) {
  Subject subject;
  ProfileEntry& norm = at(subject, 0, kAttention, Point::kBefore);
  norm.norm = probe::NormFit{.divisor = sound_divisor()};
  norm.norm->divisor->eps_in_variance = 0.1;
  EXPECT_EQ(first_found(find_wrong_epsilon, subject), "");
  at(subject, 0, kAttention, Point::kDeviation).rms = 0;
  EXPECT_EQ(first_found(note_large_epsilon, subject), "");
}

TEST(DivisorRules, NoteAnEpsilonAboveTheVariance) {
  Subject subject;
  subject.profile.model.eps = 1e-5;
  ProfileEntry& deviation = at(subject, 0, kAttention, Point::kDeviation);
  deviation.rms = std::sqrt(2.01e-5);  // including ε
  EXPECT_EQ(first_found(note_large_epsilon, subject), "");
  deviation.rms = std::sqrt(1.99e-5);
  EXPECT_EQ(first_found(note_large_epsilon, subject), "epsilon-large");
}

TEST(DivisorRules, KnowTheNoiseOfEachType) {
  struct Case {
    const char* dtype;
    double most;
    const char* because;
  };
  for (const auto& [dtype, most, because] : {Case{"float32", 1e-5, "at most 5e-06"},
                                             {"float16", 3e-3, "at most 2e-03"},
                                             {"bfloat16", 2e-2, "at most 1e-02"}}) {
    NormCase norm{.fit = sound_divisor(), .dtype = dtype};
    norm.fit.noise = 0.99 * most;
    EXPECT_EQ(first_found(find_rounded_statistics, norm), "") << dtype;
    norm.fit.noise = 1.01 * most;
    EXPECT_EQ(first_found(find_rounded_statistics, norm), "rounded-statistics") << dtype;
    EXPECT_THAT(findings_of(find_rounded_statistics, norm).at(0).because, HasSubstr(because));
    norm.fit.noise = 0.049;
    EXPECT_EQ(first_found(find_rounded_statistics, norm), "rounded-statistics") << dtype;
    EXPECT_EQ(first_found(find_wrong_statistics, norm), "") << dtype;
    norm.fit.noise = 0.051;
    EXPECT_EQ(first_found(find_rounded_statistics, norm), "") << dtype;
    EXPECT_EQ(first_found(find_wrong_statistics, norm), "norm-kind") << dtype;
  }
}

TEST(DivisorRules, AllowAScaleByDepthFivePercent) {
  NormCase norm{.fit = sound_divisor(), .placement = "depth-scaled"};
  for (const double ratio : {0.951, 1.049}) {
    norm.fit.scale = 0.5 * ratio;  // 1/√4
    EXPECT_EQ(first_found(find_lost_depth_scale, norm), "") << ratio;
  }
  for (const double ratio : {0.949, 1.051}) {
    norm.fit.scale = 0.5 * ratio;
    EXPECT_EQ(first_found(find_lost_depth_scale, norm), "depth-scale") << ratio;
  }
  EXPECT_EQ(findings_of(find_lost_depth_scale, norm).at(0).because,
            "1/√4 = 0.5, by the placement depth-scaled");
  norm.placement = "pre";
  EXPECT_EQ(first_found(find_lost_depth_scale, norm), "");
}

}  // namespace
}  // namespace addnorm::doctor
