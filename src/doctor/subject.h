#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/profile.h"
#include "run/metrics.h"
#include "run/run_config.h"

namespace addnorm::doctor {

using probe::ProfileEntry;

/// Another recipe for the same weights, and its loss.
struct Alternative {
  std::string_view change;  ///< its name for find_variant()
  double loss = 0;          ///< on the same tokens
};

/// A parameter's tensor with an unsupported type.
struct Unreadable {
  std::string tensor;
  std::string_view type;
};

/// The doctor's knowledge of a network: its description, its measurements, and, if its files are
/// available, their contents.
struct Subject {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string name;  ///< of the file or folder
  io::Profile profile;
  std::size_t step = 0;  ///< steps of training before examine() measures, if known
  /// The input, such as "2 × 64 random tokens"; "": another program measured.
  std::string measured_on;
  double loss = kUnknown;  ///< on that input, in nats per token

  // Known from a model's files.
  std::vector<std::string> unused;     ///< tensors that no parameter reads
  std::vector<Unreadable> unreadable;  ///< if there are any, only gains are measured
  std::string unknown_part;            ///< the unsupported part of the layers that are not run
  std::size_t layers_run = 0;     ///< number of first layers that are run, if there is such a part
  bool lacks_final_norm = false;  ///< although the recipe has one
  bool has_two_heads = false;     ///< one tied by the recipe, and a different one
  double chance_loss = kUnknown;  ///< ln vocabulary: the loss of a uniform guess
  std::vector<Alternative> alternatives;  ///< those that were tried

  bool was_run() const { return unreadable.empty() && (unknown_part.empty() || layers_run > 0); }
  bool was_run_whole() const { return unreadable.empty() && unknown_part.empty(); }

  // Known from a run of `addnorm train`.
  std::optional<run::RunConfig> config;  ///< also set for settings without a run
  run::Metrics metrics;
  /// On its text: the loss of a model that knows only the frequencies of bytes.
  double unigram_loss = kUnknown;
};

/// Returns the subject of a profile's text, with one step or several; `name` is that of its file or
/// model.
Subject read_profile_text(const std::string& text, const std::string& name);

/// Returns whether the first measured step precedes training. For a run that is step 0; otherwise
/// every γ must have its initial value, and every β must be 0.
bool is_initial(const Subject& subject);

/// Return the first and the last measured step.
std::size_t first_step(const io::Profile& profile);
std::size_t last_step(const io::Profile& profile);

/// Returns the entries of a step.
std::span<const ProfileEntry> entries_of(const io::Profile& profile, std::size_t step);

inline std::span<const ProfileEntry> last_entries(const io::Profile& profile) {
  return entries_of(profile, last_step(profile));
}

/// Returns the entry at a site in a step, or nullptr.
const ProfileEntry* find_entry(const io::Profile& profile, std::size_t step, const Site& site);

inline const ProfileEntry* last_entry(const Subject& subject, const Site& site) {
  return find_entry(subject.profile, last_step(subject.profile), site);
}

}  // namespace addnorm::doctor
