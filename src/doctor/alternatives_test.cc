#include "doctor/alternatives.h"

#include <gtest/gtest.h>

namespace addnorm::doctor {
namespace {

TEST(Alternatives, OfEpsilonDifferFromTheRecipeByMoreThanOnePercent) {
  struct Case {
    const char* change;
    double epsilon, fits, does_not;
  };
  for (const auto& [change, epsilon, fits, does_not] :
       {Case{"a larger ε, 1e-5", 1e-5, 0.98e-5, 0.995e-5},
        {"a smaller ε, 1e-6", 1e-6, 1.02e-6, 1.005e-6}}) {
    const RecipeVariant& variant = find_variant(change);
    model::Recipe recipe;
    recipe.block.norm.epsilon = does_not;
    EXPECT_FALSE(variant.fits(recipe)) << change;
    recipe.block.norm.epsilon = fits;
    EXPECT_TRUE(variant.fits(recipe)) << change;
    variant.apply(recipe);
    EXPECT_EQ(recipe.block.norm.epsilon, epsilon);
    EXPECT_FALSE(variant.fits(recipe)) << change;
  }
}

/// Each change fits the recipe that its opposite makes, and no other one.
TEST(Alternatives, FitTheRecipesThatTheyChange) {
  const char* const pairs[][2] = {
      {"LayerNorm instead of RMSNorm", "RMSNorm instead of LayerNorm"},
      {"1 + γ instead of γ", "γ instead of 1 + γ"},
      {"GELU instead of SiLU", "SiLU instead of GELU"},
  };
  for (const auto& [one, other] : pairs) {
    for (const auto& [first, second] : {std::pair(one, other), std::pair(other, one)}) {
      model::Recipe recipe;
      find_variant(first).apply(recipe);
      EXPECT_FALSE(find_variant(first).fits(recipe)) << first;
      EXPECT_TRUE(find_variant(second).fits(recipe)) << second;
    }
  }
}

TEST(Alternatives, ScaleEmbeddingsByTheRootOfTheirWidth) {
  model::Recipe recipe;
  recipe.embedding_scale = 1;
  const RecipeVariant& scaled = find_variant("embeddings multiplied by √d_model");
  const RecipeVariant& unscaled = find_variant("unscaled embeddings");
  EXPECT_TRUE(scaled.fits(recipe));
  EXPECT_FALSE(unscaled.fits(recipe));
  recipe.embedding_scale = 8;
  EXPECT_FALSE(scaled.fits(recipe));
  EXPECT_TRUE(unscaled.fits(recipe));
  unscaled.apply(recipe);
  EXPECT_EQ(recipe.embedding_scale, 1);
}

TEST(Alternatives, SetTheBaseOfRotaryFrequencies) {
  model::Recipe recipe;
  recipe.attention = {{.rope = rope_frequencies(10'000, 8)}};
  EXPECT_FALSE(find_variant("a RoPE base of 10,000").fits(recipe));
  const RecipeVariant& other = find_variant("a RoPE base of 500,000");
  EXPECT_TRUE(other.fits(recipe));
  other.apply(recipe);
  EXPECT_EQ(recipe.attention[0].rope, rope_frequencies(500'000, 8));
}

}  // namespace
}  // namespace addnorm::doctor
