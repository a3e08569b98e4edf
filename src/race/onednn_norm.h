#pragma once

#include <functional>
#include <vector>

#include "race/race_job.h"

namespace addnorm::race {

/// The memory of a race, which ours and oneDNN share.
struct RaceArrays {
  std::vector<void*> matrices;     ///< as RaceKernel::matrices() names them
  float* scale_shift = nullptr;    ///< γ, then β
  float* d_scale_shift = nullptr;  ///< their gradients
};

/// The job by oneDNN: add, then LayerNorm; LayerNorm's backward, then add. Empty where oneDNN has
/// no such norm or type.
std::function<void()> onednn_norm(const RaceJob& job, const RaceArrays& arrays);

}  // namespace addnorm::race
