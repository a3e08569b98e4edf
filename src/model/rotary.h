#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"

namespace addnorm::model {

/// The rotation of each head's queries and keys.
struct RotaryForm {
  std::vector<double> frequencies;  ///< of pairs of features
  double gain = 1;                  ///< factor of the rotated features
  double score_gain = 1;            ///< factor of scores, in DeepSeek's YaRN
  std::size_t longest = 0;          ///< longest sequence for which this is valid; 0: any
};

/// The defaults of a family whose files do not specify its rotation.
struct RotaryDefaults {
  double base = 10'000;
  double share = 1;  ///< share of a head's features that is rotated
  const char* base_key = "rope_theta";
  const char* share_key = "partial_rotary_factor";
};

/// Returns the rotation of layers with full attention, from a config.json. Its keys are rope_theta
/// and rope_scaling, or rope_parameters in newer files, with one entry for each kind of layer if
/// there are several. Supported scalings are "linear", "llama3" (Llama 3.1), "yarn" (Peng et al.
/// 2023), "dynamic" and "longrope" (Ding et al. 2024). The last two only up to the length of the
/// original training.
RotaryForm read_rotary(const Config& config, const RotaryDefaults& defaults, std::size_t d_head);

/// Returns the rotation of layers with a window, which older files never scale.
RotaryForm read_window_rotary(const Config& config, const RotaryDefaults& defaults,
                              std::size_t d_head);

}  // namespace addnorm::model
