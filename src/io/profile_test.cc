#include "io/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "addnorm/error.h"

namespace addnorm::io {
namespace {

std::vector<nlohmann::json> parse_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST(Profile, BeginsWithWhatIsKnownOfTheModel) {
  const auto lines = parse_lines(profile_json_lines({.d_model = 8, .placement = "pre"}, {}));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["addnorm_profile"], 1);
  EXPECT_EQ(lines[0]["model"]["d_model"], 8);
  EXPECT_EQ(lines[0]["model"]["placement"], "pre");
}

TEST(Profile, KnowsWhatTheCodeCallsItsLayers) {
  const ProfileModel model{.layer_modules = {"encoder.layer.0", "encoder.layer.1"}};
  EXPECT_EQ(parse_profiles(profile_header(model), "file").at(0).model.layer_modules,
            model.layer_modules);
  for (const char* wrong : {"3", R"("encoder")", "[1]"}) {
    const std::string header =
        R"({"addnorm_profile":1,"model":{"layer_modules":)" + std::string(wrong) + "}}\n";
    EXPECT_THROW(parse_profiles(header, "file"), Error) << wrong;
  }
}

TEST(Profile, KnowsTheNormsOfEachStack) {
  const ProfileModel model{.norm = NormKind::kLayer,
                           .eps = 1e-5,
                           .stacks = {{2, {NormKind::kRms, 1e-6, GammaForm::kOnePlus}}}};
  const ProfileModel read = parse_profiles(profile_header(model), "file").at(0).model;
  EXPECT_EQ(read.stacks, model.stacks);
  EXPECT_EQ(read.norm_at(1), (DeclaredNorm{NormKind::kLayer, 1e-5, {}}));
  EXPECT_EQ(read.norm_at(2), model.stacks[0].norm);
  for (const char* wrong : {"3", "[1]", R"([{"eps":"small"}])"}) {
    const std::string header =
        R"({"addnorm_profile":1,"model":{"stacks":)" + std::string(wrong) + "}}\n";
    EXPECT_THROW(parse_profiles(header, "file"), Error) << wrong;
  }
}

TEST(Profile, HasOneLineForEachEntryAndNoKeyForTheUnknown) {
  const std::vector<probe::ProfileEntry> entries{
      {.step = 2, .site = {3, SublayerKind::kAttention, Point::kSum}, .rms = 1.5},
      {.site = {0, SublayerKind::kFeedForward, Point::kMean, NormSlot::kBefore}, .grad_rms = 0.5},
      {.site = {12, SublayerKind::kHead, Point::kOutput}}};
  const auto lines = parse_lines(profile_json_lines({}, entries));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(
      lines[1],
      (nlohmann::json{
          {"step", 2}, {"layer", 3}, {"sublayer", "attention"}, {"point", "sum"}, {"rms", 1.5}}));
  EXPECT_EQ(lines[2], (nlohmann::json{{"step", 0},
                                      {"layer", 0},
                                      {"sublayer", "feed_forward"},
                                      {"norm", "before"},
                                      {"point", "mean"},
                                      {"grad_rms", 0.5}}));
  EXPECT_EQ(lines[3], (nlohmann::json{{"step", 0}, {"sublayer", "head"}, {"point", "output"}}));
}

TEST(Profile, ReadsTheFitsThatItHasWritten) {
  const SublayerKind attention = SublayerKind::kAttention;
  const probe::DivisorFit divisor{.divisor = 1, .deviation = 2, .eps_in_variance = 3, .slope = 4};
  const std::vector<probe::ProfileEntry> entries{
      {.site = {0, attention, Point::kX}, .input = {{.from_left = 2, .lanes_folded = 1}}},
      {.site = {0, attention, Point::kScores}, .entropy = 0.5},
      {.site = {0, attention, Point::kSum},
       .sum = {{.from_x = 1, .unexplained = 0.1}},
       .lane = {{.carry_in = 1, .write = 0.2, .lanes_lost = 2, .coefficients = "float32"}}},
      {.site = {0, attention, Point::kAfter},
       .norm = {{.unexplained = 0, .divisor = divisor, .statistic = "rms", .power = 2}}}};
  const std::string text = profile_json_lines({}, entries);
  const auto read = parse_profiles(text, "file").at(0).entries;
  EXPECT_EQ(profile_json_lines({}, read), text);
  EXPECT_EQ(read[0].input->from_left, 2);
  EXPECT_FALSE(read[0].input->from_left_norm);
  EXPECT_EQ(read[1].entropy, 0.5);
  EXPECT_EQ(read[2].sum->unexplained, 0.1);
  EXPECT_EQ(read[2].lane->coefficients, "float32");
  EXPECT_EQ(read[2].lane->lanes_lost, 2);
  EXPECT_FALSE(read[2].norm);
  EXPECT_EQ(read[3].norm->divisor->slope, 4);
  EXPECT_FALSE(read[3].sum);
}

TEST(Profile, HasNoFitWithoutAllOfItsPlainNumbers) {
  const std::string header = profile_header({});
  const auto entry = [&](const std::string& line) {
    return parse_profiles(header + line + "\n", "file").at(0).entries.at(0);
  };
  const auto norm = entry(
      R"({"layer":0,"sublayer":"attention","point":"before","divisor":1,"scale":1,"centred":0})");
  EXPECT_EQ(norm.norm->centred, 0);
  EXPECT_FALSE(norm.norm->divisor);
  const auto lane =
      entry(R"({"layer":0,"sublayer":"attention","point":"sum","carry_in":1,"unexplained":0.5})");
  EXPECT_FALSE(lane.lane);
  EXPECT_EQ(lane.sum->unexplained, 0.5);
}

TEST(Profile, SaysHowMuchWasMeasured) {
  const std::string header = R"({"addnorm_profile":1,"model":{},"coverage":)";
  const auto coverage = [&](const std::string& json) {
    return parse_profiles(header + json + "}\n", "file").at(0).coverage;
  };
  const Coverage some = coverage(
      R"({"sums":[7,8],"left_out":[{"where":"layer 3","why":"it has no name"},{}],"norms":[0,2]})");
  ASSERT_EQ(some.counts.size(), 2U);
  EXPECT_EQ(some.counts[0].what, "sums");
  EXPECT_EQ(some.counts[0].measured, 7U);
  EXPECT_EQ(some.counts[1].found, 2U);
  ASSERT_EQ(some.left_out.size(), 2U);
  EXPECT_EQ(some.left_out[0].where + ": " + some.left_out[0].why, "layer 3: it has no name");
  EXPECT_TRUE(parse_profiles("{\"addnorm_profile\":1}\n", "file").at(0).coverage.counts.empty());
  for (const char* wrong : {"3", "[]", R"({"sums":[1]})", R"({"sums":[1,2,3]})",
                            R"({"sums":[-1,2]})", R"({"sums":"8"})", R"({"left_out":3})",
                            R"({"left_out":[3]})", R"({"left_out":[{"why":3}]})"}) {
    EXPECT_THROW(coverage(wrong), Error) << wrong;
  }
}

TEST(Profile, ReadsTheChecksThatItHasWritten) {
  const std::vector<Check> checks{{.name = "eval-noise", .value = 0},
                                  {.step = 3,
                                   .name = "future-leak",
                                   .value = 0.1,
                                   .limit = 1e-5,
                                   .where = "layers.2",
                                   .declared = "it is trained on the next token",
                                   .detail = "it reads up to 1 token ahead and 4 tokens back"}};
  const std::string text = check_lines(checks);
  EXPECT_EQ(text.substr(0, text.find('\n')), R"({"step":0,"check":"eval-noise","value":0.0})");
  const std::vector<Profile> profiles = parse_profiles(profile_header({}) + text, "file");
  ASSERT_EQ(profiles.size(), 1U);
  ASSERT_EQ(profiles[0].checks.size(), 2U);
  EXPECT_TRUE(std::isnan(profiles[0].checks[0].limit));
  EXPECT_EQ(profiles[0].checks[1], checks[1]);
  EXPECT_TRUE(profiles[0].entries.empty());
}

TEST(Profile, RefusesChecksWithoutAValue) {
  const std::string header = profile_header({});
  EXPECT_THROW(parse_profiles(header + R"({"check":"eval-noise"})" + "\n", "file"), Error);
  EXPECT_THROW(parse_profiles(header + R"({"check":"eval-noise","value":"much"})" + "\n", "file"),
               Error);
  EXPECT_THROW(parse_profiles(header + R"({"check":7,"value":1})" + "\n", "file"), Error);
}

}  // namespace
}  // namespace addnorm::io
