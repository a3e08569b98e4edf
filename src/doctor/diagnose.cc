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
constexpr Rule* kRules[] = {
    // streams and lanes
    find_wrong_sums,
    find_detached_parts,
    find_unexplained_sums,
    find_wrong_inputs,
    find_changed_streams,
    find_gated_streams,
    find_folded_lanes,
    find_wrong_sums_of_lanes,
    find_turned_carries,
    find_wrong_mhc,
    find_equal_lanes,
    // norms
    find_wrong_norm_axis,
    find_wrong_statistics,
    find_wrong_norm_kind,
    find_wrong_gamma_form,
    find_wrong_epsilon,
    find_overflowing_norms,
    find_wrong_modulations,
    find_rounded_statistics,
    find_wrong_divisors,
    find_odd_epsilon,
    find_odd_scales,
    find_odd_sums,
    find_misplaced_norms,
    find_lost_depth_scale,
    find_missing_final_norm,
    find_dead_gains,
    // before the first step
    find_lost_gradients,
    find_collapsed_tokens,
    find_unscaled_projections,
    // training
    find_stopped_training,
    find_stalled_training,
    find_rising_loss,
    find_loss_spikes,
    find_missing_warm_up,
    // files
    find_unread_tensors,
    find_second_head,
    find_repeated_layers,
    find_guessing,
    find_better_recipe,
    find_unusual_epsilon,
    find_gains_stored_otherwise,
    // signals and behaviour
    find_not_finite,
    find_growing_scores,
    find_idle_sublayers,
    find_misbehaviour,
    // notes
    note_large_epsilon,
    note_massive_activations,
    note_stream_growth,
    note_unreadable_tensors,
    note_layers_not_run,
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

std::vector<Finding> find_all(const Subject& subject) {
  std::vector<Finding> findings;
  for (Rule* rule : kRules) rule(subject, findings);
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
