#pragma once

#include <vector>

#include "doctor/finding.h"
#include "doctor/subject.h"

/// The rules, by what they look at; diagnose.cc has their list. What each one sees: docs/doctor.md.

namespace addnorm::doctor {

using Findings = std::vector<Finding>;

// residual_rules.cc: sums against s = skip·x + gain·f, and the way back
void find_wrong_sums(const Subject& subject, Findings& findings);
void find_detached_parts(const Subject& subject, Findings& findings);
void find_wrong_inputs(const Subject& subject, Findings& findings);
void find_unexplained_sums(const Subject& subject, Findings& findings);

// lane_rules.cc: streams of several lanes
void find_folded_lanes(const Subject& subject, Findings& findings);
void find_lanes_without_parts(const Subject& subject, Findings& findings);
void find_turned_carries(const Subject& subject, Findings& findings);
void find_wrong_mhc(const Subject& subject, Findings& findings);
void find_equal_lanes(const Subject& subject, Findings& findings);

// norm_rules.cc: norms against what the network says they are
void find_wrong_norm_axis(const Subject& subject, Findings& findings);
void find_wrong_statistics(const Subject& subject, Findings& findings);
void find_wrong_norm_kind(const Subject& subject, Findings& findings);
void find_wrong_gamma_form(const Subject& subject, Findings& findings);
void find_wrong_epsilon(const Subject& subject, Findings& findings);
void note_large_epsilon(const Subject& subject, Findings& findings);
void find_wrong_divisors(const Subject& subject, Findings& findings);
void find_misplaced_norms(const Subject& subject, Findings& findings);
void find_rounded_statistics(const Subject& subject, Findings& findings);
void find_lost_depth_scale(const Subject& subject, Findings& findings);
void find_missing_final_norm(const Subject& subject, Findings& findings);
void find_dead_gains(const Subject& subject, Findings& findings);

// peer_rules.cc: a place that differs from the same place in all other layers
void find_changed_streams(const Subject& subject, Findings& findings);
void find_odd_epsilon(const Subject& subject, Findings& findings);

// signal_rules.cc: what passes
void find_not_finite(const Subject& subject, Findings& findings);
void find_growing_scores(const Subject& subject, Findings& findings);
void find_idle_sublayers(const Subject& subject, Findings& findings);
void note_massive_activations(const Subject& subject, Findings& findings);
void note_stream_growth(const Subject& subject, Findings& findings);

// initialization_rules.cc: what stands there before the first step
void find_lost_gradients(const Subject& subject, Findings& findings);
void find_collapsed_tokens(const Subject& subject, Findings& findings);
void find_unscaled_projections(const Subject& subject, Findings& findings);

// run_rules.cc: a run's settings and its losses
void find_stopped_training(const Subject& subject, Findings& findings);
void find_loss_spikes(const Subject& subject, Findings& findings);
void find_rising_loss(const Subject& subject, Findings& findings);
void find_stalled_training(const Subject& subject, Findings& findings);
void find_missing_warm_up(const Subject& subject, Findings& findings);

// file_rules.cc: what the files hold
void find_unread_tensors(const Subject& subject, Findings& findings);
void note_unreadable_tensors(const Subject& subject, Findings& findings);
void note_layers_not_run(const Subject& subject, Findings& findings);
void find_unusual_epsilon(const Subject& subject, Findings& findings);
void find_gains_stored_otherwise(const Subject& subject, Findings& findings);
void find_second_head(const Subject& subject, Findings& findings);
void find_repeated_layers(const Subject& subject, Findings& findings);
void find_guessing(const Subject& subject, Findings& findings);
void find_better_recipe(const Subject& subject, Findings& findings);

// behaviour_rules.cc: what changes when something is changed, and what does not
void find_misbehaviour(const Subject& subject, Findings& findings);

}  // namespace addnorm::doctor
