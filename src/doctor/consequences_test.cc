#include "doctor/consequences.h"

#include <gmock/gmock.h>

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;

Finding finding(std::string_view rule, std::string where, std::string module = {}) {
  return {.rule = rule, .where = std::move(where), .module = std::move(module)};
}

std::vector<std::string> folded(std::vector<Finding> findings) {
  fold_consequences(findings, {"h.0", "h.1", "h.2", "h.10"});
  std::vector<std::string> names;
  for (const Finding& f : findings) {
    names.push_back(std::string(f.rule) + ", " + f.where);
    for (const std::string& effect : f.leads_to) names.back() += " > " + effect;
  }
  return names;
}

Finding norm_over(std::string axes) {
  Finding norm = finding("norm-axis", "layer 1, attention", "h.1");
  norm.shared_axes = std::move(axes);
  return norm;
}

TEST(Consequences, StandBeneathTheirCause) {
  EXPECT_THAT(folded({finding("future-leak", "output"), norm_over("tokens,features"),
                      finding("norm-kind", "final norm"), finding("padding-leak", "h.1")}),
              ElementsAre("norm-axis, layer 1, attention > future-leak, output > padding-leak, h.1",
                          "norm-kind, final norm"));
}

TEST(Consequences, LeaveLeaksThatANormDoesNotMake) {
  const std::vector<Finding> leaks{finding("future-leak", "output"),
                                   finding("batch-leak", "output")};
  const auto left = [&](const std::string& axes) {
    std::vector<Finding> findings{norm_over(axes)};
    findings.insert(findings.end(), leaks.begin(), leaks.end());
    return folded(findings).size();
  };
  EXPECT_EQ(left(""), 3u);  // of groups of features, maybe
  EXPECT_EQ(left("tokens"), 2u);
  EXPECT_EQ(left("sequences,tokens"), 1u);
  EXPECT_EQ(left("sequences,tokens,features"), 1u);
  EXPECT_EQ(folded({norm_over("tokens"), finding("future-leak", "h.2.attn")}).size(), 2u);
}

TEST(Consequences, OfALayerAreWithinIt) {
  const Finding cause = finding("branch-detached", "layer 1, attention", "h.1");
  EXPECT_THAT(folded({cause, finding("gradient-missing", "h.1.attn")}),
              ElementsAre("branch-detached, layer 1, attention > gradient-missing, h.1.attn"));
  for (const char* elsewhere : {"h.10.attn", "h.2", "h"}) {
    EXPECT_EQ(folded({cause, finding("gradient-missing", elsewhere)}).size(), 2u) << elsewhere;
  }
  Finding sum = finding("residual-missing", "layer 1, attention"), norm = sum;
  norm.rule = "norm-misplaced";
  sum.site = {.layer = 1, .sublayer = SublayerKind::kAttention};
  for (const std::size_t layer : {1, 2}) {
    norm.site = {.layer = layer, .sublayer = SublayerKind::kFeedForward};
    EXPECT_EQ(folded({sum, norm}).size(), layer);
  }
}

TEST(Consequences, OfACutStreamAreInEarlierLayers) {
  Finding cause = finding("residual-detached", "layer 1, attention", "h.1");
  cause.site = {.layer = 1, .sublayer = SublayerKind::kAttention};
  for (const char* before : {"h.1.attn", "h.0", "h.0.mlp.up", "embedding"}) {
    EXPECT_EQ(folded({cause, finding("gradient-missing", before)}).size(), 1u) << before;
  }
  for (const char* after : {"h.2", "h.2.attn", "h.10.mlp", "h"}) {
    EXPECT_EQ(folded({cause, finding("gradient-missing", after)}).size(), 2u) << after;
  }
}

TEST(Consequences, AreNotWorseThanTheirCause) {
  Finding cause = norm_over("tokens");
  cause.severity = Severity::kSuspicious;
  EXPECT_EQ(folded({cause, finding("future-leak", "output")}).size(), 2u);
}

}  // namespace
}  // namespace addnorm::doctor
