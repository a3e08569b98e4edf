#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/nn/placement.h"
#include "io/profile.h"
#include "run/metrics.h"
#include "run/run_config.h"

namespace addnorm::doctor {

using probe::ProfileEntry;

/// Another recipe for the same weights, and how well it does.
struct Alternative {
  std::string_view change;  ///< its name: alternatives() has them
  double loss = 0;          ///< on the same tokens
};

/// A tensor of which a parameter is, and whose type is not read here.
struct Unreadable {
  std::string tensor;
  std::string_view type;
};

/// What the doctor knows of a network: what it is said to be, what was measured, and, where its
/// files are at hand, what they hold.
struct Subject {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string name;  ///< of the file or folder
  io::Profile profile;
  std::size_t step = 0;  ///< at which examine() measures: how long the model was trained, if known
  std::string measured_on;  ///< "2 × 64 random tokens"; "": by somebody else
  double loss = kUnknown;   ///< there, in nats a token

  // Of a model's files.
  std::vector<std::string> unused;        ///< tensors that no parameter reads
  std::vector<Unreadable> unreadable;     ///< with any, gains alone are measured
  std::string unknown_part;               ///< where some layers are not run: what they have
  std::size_t layers_run = 0;             ///< the first ones, where there is such a part
  bool lacks_final_norm = false;          ///< that the recipe has
  bool has_two_heads = false;             ///< one tied by the recipe, and another unlike it
  double chance_loss = kUnknown;          ///< ln vocabulary: who knows nothing
  std::vector<Alternative> alternatives;  ///< that were tried

  bool was_run() const { return unreadable.empty() && (unknown_part.empty() || layers_run > 0); }
  bool was_run_whole() const { return unreadable.empty() && unknown_part.empty(); }

  // Of a run of `addnorm train`.
  std::optional<run::RunConfig> config;  ///< of its settings alone too
  run::Metrics metrics;
  double unigram_loss = kUnknown;  ///< of its text: who knows frequencies of bytes and nothing else
};

/// Of the text of one profile, of one step or of several; `name` is of its file or its model.
Subject read_profile_text(const std::string& text, const std::string& name);

/// The placement of each layer, where the profile names one that is known.
using Placements = std::optional<std::vector<BlockPlacement>>;
Placements placements_of(const io::ProfileModel& model);

/// Whether nothing was trained yet at the first step that was measured: a run's is step 0; else
/// every γ is what norms start with, and every β is 0.
bool is_initial(const Subject& subject);

/// The first step that was measured, and the last.
std::size_t first_step(const io::Profile& profile);
std::size_t last_step(const io::Profile& profile);

/// The entries of a step.
std::span<const ProfileEntry> entries_of(const io::Profile& profile, std::size_t step);

inline std::span<const ProfileEntry> last_entries(const io::Profile& profile) {
  return entries_of(profile, last_step(profile));
}

/// The entry at a site in a step, or nullptr.
const ProfileEntry* find_entry(const io::Profile& profile, std::size_t step, const Site& site);

inline const ProfileEntry* last_entry(const Subject& subject, const Site& site) {
  return find_entry(subject.profile, last_step(subject.profile), site);
}

}  // namespace addnorm::doctor
