#include <string>

#include "addnorm/error.h"
#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using enum SublayerKind;

std::string error_of_profile(const std::string& text) {
  try {
    read_profile_text(text, "run.jsonl");
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Subject, IsOneProfileWithMeasurements) {
  const std::string header = io::profile_header({});
  EXPECT_EQ(error_of_profile(""), "run.jsonl: holds no profile");
  EXPECT_EQ(error_of_profile(header), "run.jsonl: its profile has only its first line");
  EXPECT_EQ(error_of_profile(header + header), "run.jsonl: holds 2 profiles, expected one");
  const std::vector<ProfileEntry> entries{{.site = {0, kAttention, Point::kX}, .rms = 1}};
  EXPECT_EQ(error_of_profile(io::profile_json_lines({}, entries)), "none");
}

TEST(Subject, IsInitialWhereEveryGammaAndBetaHasItsFirstValue) {
  struct Case {
    double mean, std, beta;
    bool is_initial;
  };
  for (const auto& [mean, std, beta, expected] : {Case{1, 0, 0, true},
                                                  {0, 0, 0, true},
                                                  {1, 1e-6, 0, false},
                                                  {1 + 1e-6, 0, 0, false},
                                                  {1e-6, 0, 0, false},
                                                  {1, 0, 1e-6, false}}) {
    Subject subject;
    ProfileEntry& gamma = at(subject, {0, kAttention, Point::kGamma, NormSlot::kBefore});
    gamma.mean = mean;
    gamma.std = std;
    at(subject, {0, kAttention, Point::kBeta, NormSlot::kBefore}).abs_max = beta;
    EXPECT_EQ(is_initial(subject), expected) << mean << " " << std << " " << beta;
  }
  EXPECT_FALSE(is_initial({})) << "no γ is known";
}

TEST(Subject, OfARunIsInitialAtStepZero) {
  Subject subject;
  subject.config.emplace();
  subject.profile.entries = {{.step = 0}, {.step = 9}};
  EXPECT_TRUE(is_initial(subject));
  subject.profile.entries.erase(subject.profile.entries.begin());
  EXPECT_FALSE(is_initial(subject));
}

}  // namespace
}  // namespace addnorm::doctor
