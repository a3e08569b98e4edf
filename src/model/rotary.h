#pragma once

#include <cstddef>
#include <vector>

#include "model/config.h"

namespace addnorm::model {

/// What turns in each head of queries and keys.
struct RotaryForm {
  std::vector<double> frequencies;  ///< of pairs of features
  double gain = 1;                  ///< of the features that turn
  double score_gain = 1;            ///< of scores, in DeepSeek's YaRN
  std::size_t longest = 0;          ///< sequences for which this holds; 0: all
};

/// What a family has where its files do not say, and how it calls it.
struct RotaryDefaults {
  double base = 10'000;
  double share = 1;  ///< of a head's features, which turn
  const char* base_key = "rope_theta";
  const char* share_key = "partial_rotary_factor";
};

/// As a config.json says, of the layers that see everything: by rope_theta and rope_scaling, or all
/// in rope_parameters, which newer files have, by the kind of layer where there are several. Scaled
/// are they as "linear", "llama3" (Llama 3.1), "yarn" (Peng et al. 2023), and, for sequences that
/// are not longer than those of the first training, "dynamic" and "longrope" (Ding et al. 2024).
RotaryForm read_rotary(const Config& config, const RotaryDefaults& defaults, std::size_t d_head);

/// Of the layers that see a window, which never are scaled in older files.
RotaryForm read_window_rotary(const Config& config, const RotaryDefaults& defaults,
                              std::size_t d_head);

}  // namespace addnorm::model
