#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum SublayerKind;

TEST(FileRules, ListThreeTensorsAndTheirNumber) {
  const auto said = [](std::vector<std::string> unused) {
    return findings_of(find_unread_tensors, {.unused = std::move(unused)}).at(0).what;
  };
  EXPECT_EQ(said({"a"}), "a tensor has no place in the recipe: a");
  EXPECT_EQ(said({"a", "b"}), "2 tensors have no place in the recipe: a, b");
  EXPECT_EQ(said({"a", "b", "c"}), "3 tensors have no place in the recipe: a, b, c");
  EXPECT_EQ(said({"a", "b", "c", "d"}), "4 tensors have no place in the recipe: a, b, c, …");
}

TEST(FileRules, SayWhichLayersWereRun) {
  const auto noted = [](std::size_t run) {
    Subject subject;
    subject.profile.model.n_layers = 6;
    subject.unknown_part = "routed experts";
    subject.layers_run = run;
    return findings_of(note_layers_not_run, subject).at(0);
  };
  EXPECT_EQ(noted(0).what, "none of 6 layers was run");
  EXPECT_THAT(noted(0).because, HasSubstr("the model has routed experts"));
  EXPECT_THAT(noted(0).fix, HasSubstr("only the γ"));
  EXPECT_EQ(noted(1).what, "layer 0 of 6 layers was run");
  EXPECT_EQ(noted(2).what, "layers 0 to 1 of 6 were run");
  EXPECT_THAT(noted(1).because, HasSubstr("the others have routed experts"));
  EXPECT_THAT(noted(1).fix, HasSubstr("of the other layers"));
}

TEST(FileRules, AllowAFamilysEpsilonAFactorOfFifty) {
  const auto judged = [](const char* family, double eps) {
    Subject subject;
    subject.profile.model.model_type = family;
    subject.profile.model.eps = eps;
    return first_found(find_unusual_epsilon, subject);
  };
  for (const double usual : {1e-12 * 49, 1e-12 / 49, 0.0}) EXPECT_EQ(judged("bert", usual), "");
  for (const double other : {1e-12 * 51, 1e-12 / 51})
    EXPECT_EQ(judged("bert", other), "epsilon-unusual");
  for (const double usual : {1e-5 * 49, 1e-6 / 49}) EXPECT_EQ(judged("llama", usual), "");
  for (const double other : {1e-5 * 51, 1e-6 / 51})
    EXPECT_EQ(judged("llama", other), "epsilon-unusual");
  EXPECT_EQ(judged("opt", 1), "") << "no ε of the family is known";
}

/// A model with `count` norms like the first γ, and others like the second.
Subject with_gains(GammaForm form, std::size_t count, const ProfileEntry& gamma,
                   std::size_t others = 0, const ProfileEntry& other = {}) {
  Subject subject;
  subject.profile.model.gamma_form = form;
  for (std::size_t i = 0; i < count + others; ++i) {
    subject.profile.entries.push_back(i < count ? gamma : other);
    subject.profile.entries.back().site = {i, kAttention, Point::kGamma, NormSlot::kBefore};
  }
  return subject;
}

TEST(FileRules, SeeGainsOfOneWhereOneIsAdded) {
  const auto judged = [](const ProfileEntry& gamma, std::size_t others = 0) {
    return first_found(
        find_gains_stored_otherwise,
        with_gains(GammaForm::kOnePlus, 3, gamma, others, {.mean = 0, .std = 0.1, .min = -0.1}));
  };
  EXPECT_EQ(judged({.mean = 1, .std = 0.1, .min = 0.1}), "gamma-form");
  EXPECT_EQ(judged({.mean = 1, .std = 0.1, .min = 0.1}, 1), "") << "one norm that is different";
  for (const double mean : {0.81, 1.19})
    EXPECT_EQ(judged({.mean = mean, .std = 0.1, .min = 0.1}), "gamma-form") << mean;
  for (const double mean : {0.79, 1.21})
    EXPECT_EQ(judged({.mean = mean, .std = 0.1, .min = 0.1}), "") << mean;
  EXPECT_EQ(judged({.mean = 1, .std = 0.29, .min = 0.1}), "gamma-form");
  EXPECT_EQ(judged({.mean = 1, .std = 0.31, .min = 0.1}), "");
  EXPECT_EQ(judged({.mean = 1, .std = 0.1, .min = 0}), "");
  EXPECT_EQ(first_found(find_gains_stored_otherwise, with_gains(GammaForm::kOnePlus, 0, {})), "");
}

TEST(FileRules, SeeGainsAroundZeroInMostNorms) {
  const ProfileEntry zero{.mean = 0.09, .std = 0.1, .min = -0.1};
  const ProfileEntry one{.mean = 1, .std = 0.1, .min = 0.7};
  const auto judged = [&](std::size_t count, std::size_t others, const ProfileEntry& gamma) {
    return first_found(find_gains_stored_otherwise,
                       with_gains(GammaForm::kPlain, count, gamma, others, one));
  };
  EXPECT_EQ(judged(3, 3, zero), "");
  EXPECT_EQ(judged(4, 2, zero), "gamma-form");
  EXPECT_EQ(judged(4, 2, {.mean = 0.11, .std = 0.1, .min = -0.1}), "");
  EXPECT_EQ(judged(4, 2, {.mean = 0.09, .std = 0.1, .min = 0}), "");
  const auto judged_fitted = [&](std::size_t count, std::size_t others) {
    Subject subject = with_gains(GammaForm::kPlain, count, zero, others, one);
    subject.profile.entries.push_back({.site = {0, kAttention, Point::kBefore}});
    subject.profile.entries.back().norm = probe::NormFit{.divisor = sound_divisor()};
    return first_found(find_gains_stored_otherwise, subject);
  };
  EXPECT_EQ(judged_fitted(2, 4), "");
  EXPECT_EQ(judged_fitted(3, 3), "gain-around-zero");
  EXPECT_THAT(
      findings_of(find_gains_stored_otherwise, with_gains(GammaForm::kPlain, 4, zero))[0].what,
      "the γ of 4 of 4 norms lie around 0");
  EXPECT_THAT(
      findings_of(find_gains_stored_otherwise, with_gains(GammaForm::kOnePlus, 4, one))[0].what,
      "the γ of 4 of 4 norms lie around 1");
}

TEST(FileRules, SeeALayerWithTheWeightsOfTheOneBefore) {
  const auto repeated = [](double rms, std::vector<std::string> modules = {}) {
    Subject subject;
    subject.profile.model = {.n_layers = 3, .layer_modules = std::move(modules)};
    for (const std::size_t layer : {0, 1, 2}) {
      ProfileEntry& weight =
          at(subject, {layer, kAttention, Point::kWeight, NormSlot::kNone, Projection::kQuery});
      weight.rms = layer == 2 ? 2 * rms : rms;
      weight.mean = weight.abs_max = 1;
    }
    return findings_of(find_repeated_layers, subject);
  };
  EXPECT_THAT(words_of(repeated(1)), ElementsAre("repeated-layer, layer 1"));
  EXPECT_EQ(repeated(1)[0].what, "all its weights equal those of layer 0");
  EXPECT_THAT(repeated(0), IsEmpty());
  EXPECT_THAT(repeated(1, {"a", "a", "b"}), IsEmpty()) << "one module that is called again";
  EXPECT_THAT(words_of(repeated(1, {"a", "b", "b"})), ElementsAre("repeated-layer, layer 1"));
}

TEST(FileRules, CompareALossWithThatOfGuessing) {
  Subject subject{.chance_loss = 4, .alternatives = {{"1 + γ instead of γ", 100}}};
  subject.loss = 1.019 * 4;
  EXPECT_EQ(first_found(find_guessing, subject), "");
  subject.loss = 1.021 * 4;
  EXPECT_EQ(first_found(find_guessing, subject), "worse-than-guessing");
}

TEST(FileRules, NameARecipeWithAMuchSmallerLoss) {
  const auto judged = [](double loss, double other, double chance = 10) {
    return first_found(
        find_better_recipe,
        {.loss = loss, .chance_loss = chance, .alternatives = {{"1 + γ instead of γ", other}}});
  };
  EXPECT_EQ(judged(4, 0.951 * 4), "");
  EXPECT_EQ(judged(4, 0.949 * 4), "another-recipe");
  EXPECT_EQ(judged(0.5, 0.5 - 0.049), "");
  EXPECT_EQ(judged(0.5, 0.5 - 0.051), "another-recipe");
  EXPECT_EQ(judged(4, 2, 1.9), "") << "no better than guessing";
}

}  // namespace
}  // namespace addnorm::doctor
