#include "doctor/diagnose.h"

#include <algorithm>

#include "doctor/rules.h"

namespace addnorm {
namespace {

constexpr Rule kRules[] = {
    {"residual-sum", "a residual sum that is not skip·x + gain·f", find_wrong_sums},
    {"sum-unexplained", "something in the sum beside stream and branch", find_unexplained_sums},
    {"norm-kind", "LayerNorm where RMSNorm is meant, or the other way round", find_wrong_norm_kind},
    {"gamma-form", "γ where 1 + γ is meant, or the other way round", find_wrong_gamma_form},
    {"epsilon", "ε of another size, or outside the root", find_wrong_epsilon},
    {"rounded-statistics", "mean and variance in half precision", find_rounded_statistics},
    {"depth-scale", "a norm's 1/√l that was lost", find_lost_depth_scale},
    {"final-norm", "no norm behind the last layer", find_missing_final_norm},
    {"dead-norm", "a norm whose gain is 0", find_dead_gains},
    {"gradient-vanishes", "gradients that vanish or explode before training", find_lost_gradients},
    {"tokens-collapse", "tokens that become alike before training", find_collapsed_tokens},
    {"training-stopped", "a run that ended with an infinite value", find_stopped_training},
    {"training-stalls", "a run that learns frequencies and nothing else", find_stalled_training},
    {"loss-rises", "a run whose loss has risen for good", find_rising_loss},
    {"loss-spikes", "a run whose loss jumps", find_loss_spikes},
    {"warm-up-missing", "a deep post-norm stack without warm-up", find_missing_warm_up},
    {"unread-tensors", "weights that the recipe has no place for", find_unread_tensors},
    {"epsilon-unusual", "another ε than published models of the family have", find_unusual_epsilon},
    {"gains-stored-otherwise", "stored γ that look like γ − 1, or do not",
     find_gains_stored_otherwise},
    {"second-head", "a head of its own beside a tied one", find_second_head},
    {"repeated-layer", "two layers of the same weights", find_repeated_layers},
    {"another-recipe", "another recipe by which the weights do better", find_better_recipe},
    {"not-finite", "an infinite value or NaN", find_not_finite},
    {"attention-logits", "attention logits that grow without bound", find_growing_scores},
    {"idle-sublayer", "a branch that adds nothing", find_idle_sublayers},
    {"unscaled-projection", "projections into the stream without 1/√(2N)",
     find_unscaled_projections},
    {"epsilon-large", "norms whose rows vary less than ε", note_large_epsilon},
    {"massive-activations", "features far above the rest", note_massive_activations},
    {"stream-growth", "the stream's growth", note_stream_growth},
};

}  // namespace

std::span<const Rule> rules() {
  return kRules;
}

std::vector<Finding> diagnose(const Subject& subject) {
  std::vector<Finding> findings;
  for (const Rule& rule : kRules) rule.look(subject, findings);
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

}  // namespace addnorm
