#include "doctor/alternatives.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/find_named.h"

namespace addnorm::doctor {
namespace {

bool is_rms(const model::Recipe& recipe) {
  return recipe.block.norm.kind == NormKind::kRms;
}

bool is(const model::Recipe& recipe, FeedForwardKind kind) {
  return recipe.block.feed_forward == kind;
}

template <FeedForwardKind kKind>
void set_feed_forward(model::Recipe& recipe) {
  recipe.block.feed_forward = kKind;
}

/// Replaces the rotary frequencies by θ^(−i/n) for another θ.
std::vector<double> frequencies(double base, const AttentionForm& form) {
  return form.rope.empty() ? form.rope : rope_frequencies(base, 2 * form.rope.size());
}

template <int kBase>
bool turns_otherwise(const model::Recipe& recipe) {
  return std::ranges::any_of(recipe.attention, [](const AttentionForm& form) {
    return form.rope != frequencies(kBase, form);
  });
}

template <int kBase>
void set_rope(model::Recipe& recipe) {
  for (AttentionForm& form : recipe.attention) form.rope = frequencies(kBase, form);
}

constexpr RecipeVariant kVariants[] = {
    {"LayerNorm instead of RMSNorm", is_rms,
     [](model::Recipe& recipe) { recipe.block.norm.kind = NormKind::kLayer; }},
    {"RMSNorm instead of LayerNorm",
     [](const model::Recipe& recipe) { return recipe.block.norm.kind == NormKind::kLayer; },
     [](model::Recipe& recipe) { recipe.block.norm.kind = NormKind::kRms; }},
    {"1 + γ instead of γ",
     [](const model::Recipe& recipe) { return recipe.block.norm.gamma_form == GammaForm::kPlain; },
     [](model::Recipe& recipe) { recipe.set_gamma_form(GammaForm::kOnePlus); }},
    {"γ instead of 1 + γ",
     [](const model::Recipe& recipe) {
       return recipe.block.norm.gamma_form == GammaForm::kOnePlus;
     },
     [](model::Recipe& recipe) { recipe.set_gamma_form(GammaForm::kPlain); }},
    {"a larger ε, 1e-5",
     [](const model::Recipe& recipe) { return recipe.block.norm.epsilon < 0.99e-5; },
     [](model::Recipe& recipe) { recipe.set_epsilon(1e-5); }},
    {"a smaller ε, 1e-6",
     [](const model::Recipe& recipe) { return recipe.block.norm.epsilon > 1.01e-6; },
     [](model::Recipe& recipe) { recipe.set_epsilon(1e-6); }},
    {"embeddings multiplied by √d_model",
     [](const model::Recipe& recipe) { return recipe.embedding_scale == 1; },
     [](model::Recipe& recipe) { recipe.embedding_scale = std::sqrt(double(recipe.d_model())); }},
    {"unscaled embeddings", [](const model::Recipe& recipe) { return recipe.embedding_scale != 1; },
     [](model::Recipe& recipe) { recipe.embedding_scale = 1; }},
    {"GELU instead of SiLU",
     [](const model::Recipe& recipe) { return is(recipe, FeedForwardKind::kSwiGlu); },
     set_feed_forward<FeedForwardKind::kGeGluTanh>},
    {"SiLU instead of GELU",
     [](const model::Recipe& recipe) { return is(recipe, FeedForwardKind::kGeGluTanh); },
     set_feed_forward<FeedForwardKind::kSwiGlu>},
    {"GELU instead of ReLU",
     [](const model::Recipe& recipe) { return is(recipe, FeedForwardKind::kRelu); },
     set_feed_forward<FeedForwardKind::kGelu>},
    {"a RoPE base of 10,000", turns_otherwise<10'000>, set_rope<10'000>},
    {"a RoPE base of 500,000", turns_otherwise<500'000>, set_rope<500'000>},
    {"a RoPE base of 1,000,000", turns_otherwise<1'000'000>, set_rope<1'000'000>},
};

}  // namespace

const RecipeVariant& find_variant(std::string_view change) {
  return find_named(std::span<const RecipeVariant>(kVariants), "recipe", change,
                    &RecipeVariant::change);
}

void try_alternatives(const std::string& path, const model::Recipe& recipe, const Tokens& tokens,
                      Subject& subject) {
  if (std::isnan(subject.loss)) return;
  for (const RecipeVariant& variant : kVariants) {
    if (!variant.fits(recipe)) continue;
    OpenedModel other = open_model(path, variant.apply);
    const double loss = loss_on(other.model, tokens);
    if (std::isfinite(loss)) subject.alternatives.push_back({variant.change, loss});
  }
}

}  // namespace addnorm::doctor
