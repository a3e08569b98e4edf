#include "doctor/rule_names.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/require.h"

namespace addnorm::doctor {
namespace {

using ::testing::ContainerEq;
using ::testing::StartsWith;
namespace fs = std::filesystem;

const std::string kSource = ADDNORM_SOURCE_DIR;

std::set<std::string> known_names() {
  return {rule_names().begin(), rule_names().end()};
}

/// Adds the first group of each match in a file.
void add_matches(const fs::path& path, const std::regex& pattern, std::set<std::string>& found) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
       match != std::sregex_iterator(); ++match) {
    found.insert(match->str(1));
  }
}

TEST(RuleNames, AreTheLiteralsOfTheRules) {
  std::set<std::string> used;
  for (const auto& file : fs::directory_iterator(kSource + "/src/doctor")) {
    const std::string name = file.path().filename().string();
    if (name.ends_with("_rules.cc") || name == "consequences.cc") {
      add_matches(file.path(), std::regex("\"([a-z]+(?:-[a-z]+)+)\""), used);
    }
  }
  EXPECT_THAT(used, ContainerEq(known_names()));
}

TEST(RuleNames, AreTheHeadingsOfTheDocumentation) {
  std::set<std::string> headings, names;
  const std::regex heading(R"(\*\*([a-z]+-[a-z\-, \n]+?)\.?\*\*)");
  add_matches(kSource + "/docs/doctor.md", heading, headings);
  const std::regex separator(",\\s+");
  for (const std::string& text : headings) {
    names.insert(std::sregex_token_iterator(text.begin(), text.end(), separator, -1), {});
  }
  EXPECT_THAT(names, ContainerEq(known_names()));
}

TEST(RuleNames, AnUnknownNameIsAnErrorWithTheNearestOne) {
  const auto error = [](const std::string& name) -> std::string {
    try {
      check_accepted(std::vector<std::string>{"residual-missing@layer 2, attention", name});
      return "none";
    } catch (const Error& thrown) {
      return thrown.what();
    }
  };
  EXPECT_EQ(error("norm-kind"), "none");
  EXPECT_EQ(error("norm-kind@final norm"), "none");
  EXPECT_EQ(error("residual-mising@layer 2"),
            "\"residual-mising\" is no rule of the doctor; the nearest is residual-missing");
  EXPECT_EQ(error("future_leak"),
            "\"future_leak\" is no rule of the doctor; the nearest is future-leak");
  EXPECT_THAT(error(""), StartsWith("\"\" is no rule of the doctor; the nearest is "));
}

}  // namespace
}  // namespace addnorm::doctor
