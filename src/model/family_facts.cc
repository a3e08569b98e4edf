#include "model/family_facts.h"

#include <algorithm>
#include <iterator>

namespace addnorm::model {
namespace {

constexpr auto kLayer = NormKind::kLayer;
constexpr auto kRms = NormKind::kRms;
constexpr auto kPlain = GammaForm::kPlain;
constexpr auto kOnePlus = GammaForm::kOnePlus;

constexpr FamilyFacts kFacts[] = {
    {.name = "gpt2",
     .norm = kLayer,
     .gamma_form = kPlain,
     .epsilons = {1e-5, 1e-5},
     .has_scaled_projections = true},  // Radford et al. 2019
    {"bert", kLayer, kPlain, {1e-12, 1e-12}},
    {"roberta", kLayer, kPlain},
    {"opt", kLayer, kPlain},
    {"phi", kLayer, kPlain},
    {"gpt_neox", kLayer, kPlain, {1e-5, 1e-5}},
    {"llama", kRms, kPlain, {1e-5, 1e-6}},
    {"mistral", kRms, kPlain, {1e-5, 1e-6}},
    {"phi3", kRms, kPlain, {1e-5, 1e-5}},
    {"qwen2", kRms, kPlain, {1e-6, 1e-5}},
    {"qwen3", kRms, kPlain, {1e-6, 1e-6}},
    {"qwen3_next", kRms, kOnePlus, {1e-6, 1e-6}},
    {"gemma", kRms, kOnePlus, {1e-6, 1e-6}},
    {"gemma2", kRms, kOnePlus, {1e-6, 1e-6}},
    {"gemma3", kRms, kOnePlus},
    {"gemma3_text", kRms, kOnePlus, {1e-6, 1e-6}},
    {"olmo2", kRms, kPlain, {1e-6, 1e-5}},
    {"olmo3", kRms, kPlain, {1e-6, 1e-5}},
    {"glm", kRms, kPlain, {1.5625e-7, 1e-5}},
    {"glm4", kRms, kPlain, {1e-5, 1.5625e-7}},
    {"smollm3", kRms, kPlain, {1e-6, 1e-6}},
    {"seed_oss", kRms, kPlain, {1e-6, 1e-6}},
    {"ernie4_5", kRms, kPlain, {1e-5, 1e-5}},
    {"gpt_oss", kRms, kPlain, {1e-5, 1e-5}},
    {"deepseek_v3", kRms, kPlain, {1e-6, 1e-6}},
    {"t5", kRms, kPlain, {1e-6, 1e-6}},
    {.name = "gpt_neo", .has_scaled_scores = false},
    {.name = "minimax", .has_normalized_stream = true},
    {.name = "dory", .has_normalized_stream = true},
    {.name = "phimoe", .has_router_gradient = false},  // SparseMixer, Abdin et al. 2024
};

/// Parts of names of tensors that is_carried_along() recognizes.
constexpr std::string_view kCarriedAlong[] = {
    "attn.bias",
    "attn.masked_bias",
    "rotary_emb",
    "attention.bias",
    "attention.masked_bias",
    "position_ids",
    "lm_head.weight",
    "embed_tokens.weight",
    "pooler.",
    "cls.seq_relationship",
    "cls.predictions.decoder",
    "classifier.",
    "qa_outputs.",
    "score.",
    "rope_freqs",  // in GGUF files; read with the recipe
    "rope_factors_",
};

}  // namespace

FamilyFacts family_facts(std::string_view model_type) {
  const auto* row = std::ranges::find(kFacts, model_type, &FamilyFacts::name);
  FamilyFacts facts = row == std::end(kFacts) ? FamilyFacts{model_type} : *row;
  if (model_type.find("t5") != std::string_view::npos) {  // "mt5", "umt5", "longt5", "codet5p"
    facts.has_scaled_scores = false;
  }
  return facts;
}

bool is_carried_along(std::string_view tensor) {
  constexpr std::string_view kDecoderOfT5 = "decoder.";  // only the encoder is run
  return tensor.starts_with(kDecoderOfT5) ||
         std::ranges::any_of(kCarriedAlong, [&](std::string_view part) {
           return tensor.find(part) != std::string_view::npos;
         });
}

}  // namespace addnorm::model
