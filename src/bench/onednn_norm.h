#pragma once

#include <functional>
#include <vector>

#include "bench/job.h"

namespace addnorm::bench {

/// The memory of a benchmark, which ours and oneDNN share.
struct Arrays {
  std::vector<void*> matrices;     ///< as Kernel::matrices() names them
  float* scale_shift = nullptr;    ///< γ, then β
  float* d_scale_shift = nullptr;  ///< their gradients
};

/// The job by oneDNN: add, then LayerNorm; LayerNorm's backward, then add. Empty where oneDNN has
/// no such norm or type, or was not built with.
#ifdef ADDNORM_ONEDNN
std::function<void()> onednn_norm(const Job& job, const Arrays& arrays);
#else
inline std::function<void()> onednn_norm(const Job& /*job*/, const Arrays& /*arrays*/) {
  return {};
}
#endif

}  // namespace addnorm::bench
