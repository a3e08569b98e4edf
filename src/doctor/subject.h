#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/profile.h"
#include "nn/placement.h"

namespace addnorm {

/// What the doctor knows of a network: what it is said to be, what was measured, and, where its
/// files are at hand, what they hold.
struct Subject {
  std::string name;  ///< of the file or folder
  Profile profile;
  std::size_t step = 0;  ///< at which examine() measures: how long the model was trained, if known

  std::vector<std::string> unused;  ///< tensors in the files that no parameter reads
};

/// The placement of each layer, where the profile names one that is known.
std::optional<std::vector<BlockPlacement>> placements_of(const ProfileModel& model);

/// Whether nothing was trained yet: every γ is what norms start with, and every β is 0.
bool is_initial(const Profile& profile);

/// The first step that was measured, and the last.
std::size_t first_step(const Profile& profile);
std::size_t last_step(const Profile& profile);

/// The entry at a site in a step, or nullptr.
const ProfileEntry* find_entry(const Profile& profile, std::size_t step, const Site& site);

}  // namespace addnorm
