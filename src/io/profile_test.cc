#include "io/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

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

}  // namespace
}  // namespace addnorm::io
