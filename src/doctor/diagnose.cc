#include "doctor/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/consequences.h"
#include "doctor/rules.h"

namespace addnorm::doctor {
namespace {

// In the order of a report. A rule also sees the findings of the rules before it, so that one cause
// is one entry: find_equal_lanes yields to all findings on streams and lanes, and find_odd_epsilon,
// find_odd_scales and find_odd_sums yield to those at the same norm or sum.
constexpr RuleRow kRules[] = {
    // streams and lanes
    {find_wrong_sums,
     {"residual-missing", "residual-twice", "residual-factor", "branch-factor", "sublayer-input",
      "norm-over-stream"}},
    {find_detached_parts, {"residual-detached", "branch-detached", "gradient-factor"}},
    {find_unexplained_sums, {"sum-unexplained", "not-understood"}},
    {find_wrong_inputs, {"sublayer-input"}},
    {find_changed_streams, {"stream-changed"}},
    {find_gated_streams, {"stream-gated"}},
    {find_folded_lanes, {"lanes-not-kept"}},
    {find_wrong_sums_of_lanes, {"residual-missing", "branch-missing", "branch-factor"}},
    {find_turned_carries, {"carry-transposed"}},
    {find_wrong_mhc, {"carry-not-stochastic", "write-scale", "coefficients-rounded"}},
    {find_equal_lanes, {"lanes-alike"}},
    // norms
    {find_wrong_norm_axis, {"norm-axis"}},
    {find_wrong_statistics, {"norm-kind", "norm-power"}},
    {find_wrong_norm_kind, {"norm-kind"}},
    {find_wrong_gamma_form, {"gamma-form"}},
    {find_wrong_epsilon, {"epsilon-place", "epsilon-size"}},
    {find_overflowing_norms, {"norm-overflow"}},
    {find_wrong_modulations, {"modulation-around-zero"}},
    {find_rounded_statistics, {"rounded-statistics"}},
    {find_wrong_divisors, {"variance-divisor"}},
    {find_odd_epsilon, {"epsilon-odd"}},
    {find_odd_scales, {"norm-scale-odd"}},
    {find_odd_sums, {"sum-odd"}},
    {find_misplaced_norms, {"norm-misplaced"}},
    {find_lost_depth_scale, {"depth-scale"}},
    {find_missing_final_norm, {"final-norm"}},
    {find_dead_gains, {"dead-norm"}},
    // before the first step
    {find_lost_gradients, {"gradient-vanishes", "gradient-explodes"}},
    {find_collapsed_tokens, {"tokens-collapse"}},
    {find_unscaled_projections, {"unscaled-projection"}},
    // training
    {find_stopped_training, {"training-stopped"}},
    {find_stalled_training, {"training-stalls"}},
    {find_rising_loss, {"loss-rises"}},
    {find_loss_spikes, {"loss-spikes"}},
    {find_missing_warm_up, {"warm-up-missing"}},
    // files
    {find_unread_tensors, {"unread-tensors"}},
    {find_second_head, {"second-head"}},
    {find_repeated_layers, {"repeated-layer"}},
    {find_guessing, {"worse-than-guessing"}},
    {find_better_recipe, {"another-recipe"}},
    {find_unusual_epsilon, {"epsilon-unusual"}},
    {find_gains_stored_otherwise, {"gamma-form", "gain-around-zero"}},
    // signals and behaviour
    {find_not_finite, {"not-finite"}},
    {find_growing_scores, {"attention-saturated", "attention-logits-grow"}},
    {find_idle_sublayers, {"idle-sublayer"}},
    {find_misbehaviour, {}},  // behaviour_rule_names()
    // notes
    {note_large_epsilon, {"epsilon-large"}},
    {note_massive_activations, {"massive-activations"}},
    {note_stream_growth, {"stream-growth"}},
    {note_unreadable_tensors, {"type-not-read"}},
    {note_layers_not_run, {"layers-not-run"}},
};

/// Replaces the layer's number by the module's name if the network has several stacks:
/// "decoder.layer.3.cross_attn, norm before it" instead of "layer 9, attention, norm before it".
void name_place(const io::ProfileModel& model, Finding& finding) {
  const Site& site = *finding.site;
  const bool is_attention = site.sublayer == SublayerKind::kAttention;
  const auto& modules = is_attention ? model.attention_modules : model.feed_forward_modules;
  const std::string number = place_text(site);
  if (site.layer >= modules.size() || modules[site.layer].empty() ||
      !finding.where.starts_with(number))
    return;
  const std::string& module = modules[site.layer];
  const char* sublayer = is_attention ? ", attention" : ", feed-forward";
  const std::string name = module == finding.module ? module + sublayer : module;
  finding.where.replace(0, number.size(), name);
}

}  // namespace

std::span<const RuleRow> rule_table() {
  return kRules;
}

std::vector<Finding> find_all(const Subject& subject) {
  std::vector<Finding> findings;
  for (const RuleRow& rule : kRules) rule.find(subject, findings);
  const std::vector<std::string>& modules = subject.profile.model.layer_modules;
  for (Finding& finding : findings) {
    const std::optional<Site>& site = finding.site;
    if (site && site->sublayer == SublayerKind::kFinalNorm &&
        site->layer < subject.profile.model.n_layers) {
      finding.where = fmt::format("final norm behind layer {}", site->layer);
    }
    if (site && site->in_layer() && site->layer < modules.size()) {
      finding.module = modules[site->layer];
      name_place(subject.profile.model, finding);
    }
  }
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

std::vector<Finding> diagnose(const Subject& subject) {
  std::vector<Finding> findings = find_all(subject);
  fold_consequences(findings, subject.profile.model.layer_modules);
  return findings;
}

}  // namespace addnorm::doctor
