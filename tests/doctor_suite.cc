// The doctor before networks that somebody has broken, and before sound ones. Nobody tells it which
// is which: golden/profiles/index.json is read by this test alone.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "doctor/diagnose.h"
#include "io/file.h"

namespace addnorm {
namespace {

const std::string kProfiles = ADDNORM_SOURCE_DIR "/tests/golden/profiles/";

/// The rule that must see a bug.
const std::map<std::string, std::string> kRuleOf = {
    {"norm_over_stream", "norm-over-stream"},
    {"residual_missing", "residual-missing"},
    {"residual_twice", "residual-twice"},
    {"depth_scale_lost", "depth-scale"},
    {"layer_norm_for_rms_norm", "norm-kind"},
    {"rms_norm_for_layer_norm", "norm-kind"},
    {"gamma_plain_for_one_plus", "gamma-form"},
    {"gamma_one_plus_for_plain", "gamma-form"},
    {"eps_outside", "epsilon-place"},
    {"eps_1e-12", "epsilon-size"},
    {"eps_1e-6", "epsilon-size"},
    {"eps_1e-5", "epsilon-size"},
    {"half_precision", "rounded-statistics"},
    {"final_norm_missing", "final-norm"},
    {"projections_not_scaled", "unscaled-projection"},
    {"logits_grow", "attention-logits-grow"},
};

bool is_defect(const Finding& finding) {
  return finding.severity != Severity::kNote;
}

Subject subject_of(const std::string& file) {
  return {.name = file, .profile = parse_profiles(read_file(kProfiles + file), file).at(0)};
}

std::string list(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    text += fmt::format("    {} ({}): {}; expected {}\n", f.rule, f.where, f.what, f.because);
  }
  return text;
}

TEST(DoctorSuite, FindsPlantedBugsInTheirPlaceAndNothingInSoundNetworks) {
  const auto index = nlohmann::ordered_json::parse(read_file(kProfiles + "index.json"));
  std::size_t sound = 0, planted = 0;
  std::set<std::string> bugs;
  fmt::print("{:52} {:26} {:10} {}\n", "network", "planted", "where", "found");
  for (const auto& [file, truth] : index.items()) {
    const std::string bug = truth["bug"];
    std::vector<Finding> findings = diagnose(subject_of(file));
    std::erase_if(findings, [](const Finding& f) { return !is_defect(f); });
    const std::string where =
        truth["layer"].is_null() ? "all" : fmt::format("layer {}", truth["layer"].get<int>());
    fmt::print("{:52} {:26} {:10} {}\n", file, bug, bug == "sound" ? "" : where,
               findings.empty() ? std::string("nothing")
                                : fmt::format("{} × {}, {}", findings.size(), findings[0].rule,
                                              findings[0].where));
    if (bug == "sound") {
      ++sound;
      EXPECT_TRUE(findings.empty()) << file << "\n" << list(findings);
      continue;
    }
    ++planted;
    bugs.insert(bug);
    const std::string& rule = kRuleOf.at(bug);
    EXPECT_FALSE(findings.empty()) << file << ": nothing found, expected " << rule;
    for (const Finding& f : findings) {
      EXPECT_EQ(f.rule, rule) << file << "\n" << list(findings);
      if (!truth["layer"].is_null()) {
        EXPECT_EQ(f.site.layer, truth["layer"].get<std::size_t>()) << file;
      }
      if (truth["sublayer"].is_null()) continue;
      EXPECT_EQ(f.site.sublayer == SublayerKind::kAttention, truth["sublayer"] == "attention")
          << file << ": " << f.where;
    }
  }
  fmt::print("{} sound networks, {} with one of {} bugs\n", sound, planted, bugs.size());
  EXPECT_GE(sound, 30u);
  EXPECT_EQ(bugs.size(), kRuleOf.size());
}

}  // namespace
}  // namespace addnorm
