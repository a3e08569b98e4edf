#include "model/family_facts.h"

#include <gtest/gtest.h>

#include "model/recipe.h"

namespace addnorm::model {
namespace {

TEST(FamilyFacts, AreKnownOfEveryFamilyWithARecipe) {
  for (const std::string_view family : families()) {
    const FamilyFacts facts = family_facts(family);
    EXPECT_EQ(facts.name, family);
    EXPECT_TRUE(facts.norm && facts.gamma_form) << family;
    EXPECT_TRUE(facts.epsilons[0] > 0 && facts.epsilons[1] > 0) << family;
  }
}

TEST(FamilyFacts, SetTheNormsOfARecipe) {
  const auto recipe = [](std::string_view family) {
    return parse_recipe_as(family, R"({"vocab_size": 11, "hidden_size": 8, "num_attention_heads": 1,
      "num_hidden_layers": 1, "intermediate_size": 6})",
                           "config.json");
  };
  EXPECT_EQ(recipe("gpt_neox").block.norm.kind, NormKind::kLayer);
  EXPECT_EQ(recipe("gemma").block.norm.kind, NormKind::kRms);
  EXPECT_EQ(recipe("gemma").block.norm.gamma_form, GammaForm::kOnePlus);
  EXPECT_EQ(recipe("qwen3").attention[0].norm.kind, NormKind::kRms);
}

TEST(FamilyFacts, OfAnUnknownFamilyAreUnknown) {
  const FamilyFacts facts = family_facts("mamba");
  EXPECT_FALSE(facts.norm || facts.gamma_form || facts.epsilons[0] > 0);
  EXPECT_TRUE(facts.has_scaled_scores);
  for (const char* name : {"t5", "umt5", "codet5p", "gpt_neo"}) {
    EXPECT_FALSE(family_facts(name).has_scaled_scores) << name;
  }
}

}  // namespace
}  // namespace addnorm::model
