#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "doctor/finding.h"
#include "doctor/subject.h"

/// The rules, grouped by their subject; diagnose.cc lists them in order, with the names of their
/// findings. docs/doctor.md describes them.

namespace addnorm::doctor {

using Findings = std::vector<Finding>;

/// A rule adds its findings in the subject; none if its measurements are missing. `findings` has
/// those of the rules before it, in the order of diagnose.cc.
using Rule = void(const Subject& subject, Findings& findings);

/// A rule with the names of its findings; unused names are empty.
struct RuleRow {
  Rule* find;
  std::array<std::string_view, 6> names;
};

/// Returns the table of all rules, in the order of a report.
std::span<const RuleRow> rule_table();

// residual_rules.cc: sums compared with s = skip·x + gain·f, and their gradients
Rule find_wrong_sums, find_detached_parts, find_wrong_inputs, find_unexplained_sums;

// lane_rules.cc: streams of several lanes
Rule find_folded_lanes, find_wrong_sums_of_lanes, find_turned_carries, find_wrong_mhc,
    find_equal_lanes;

// norm_rules.cc: the kind of a norm, its axis and its γ
Rule find_wrong_norm_axis, find_wrong_statistics, find_wrong_norm_kind, find_wrong_gamma_form,
    find_dead_gains, find_overflowing_norms, find_wrong_modulations;

// divisor_rules.cc: the ε of a norm, and other errors of its divisor
Rule find_wrong_epsilon, note_large_epsilon, find_wrong_divisors, find_rounded_statistics,
    find_lost_depth_scale;

// norm_place_rules.cc: the places that have a norm
Rule find_misplaced_norms, find_missing_final_norm;

// peer_rules.cc: a place that differs from the same place in all other layers
Rule find_changed_streams, find_gated_streams, find_odd_sums, find_odd_epsilon, find_odd_scales;

// signal_rules.cc: the signals and gradients in the network
Rule find_not_finite, find_growing_scores, find_idle_sublayers, note_massive_activations,
    note_stream_growth;

// initialization_rules.cc: the network before the first step
Rule find_lost_gradients, find_collapsed_tokens, find_unscaled_projections;

// run_rules.cc: a run's settings and its losses
Rule find_stopped_training, find_loss_spikes, find_rising_loss, find_stalled_training,
    find_missing_warm_up;

// file_rules.cc: the contents of the files
Rule find_unread_tensors, note_unreadable_tensors, note_layers_not_run, find_unusual_epsilon,
    find_gains_stored_otherwise, find_second_head, find_repeated_layers, find_guessing,
    find_better_recipe;

// behaviour_rules.cc: effects of a change, expected or not
Rule find_misbehaviour;
std::vector<std::string_view> behaviour_rule_names();  // unsorted, with repetitions

}  // namespace addnorm::doctor
