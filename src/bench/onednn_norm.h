#pragma once

#include <functional>
#include <vector>

#include "bench/job.h"

namespace addnorm::bench {

/// The memory of a benchmark, which our kernels and oneDNN's share.
struct Arrays {
  std::vector<void*> matrices;     ///< in the order of Kernel::matrices()
  float* scale_shift = nullptr;    ///< γ, then β
  float* d_scale_shift = nullptr;  ///< their gradients
};

/// Returns the job with oneDNN: add, then LayerNorm; LayerNorm's backward, then add. Empty if
/// oneDNN has no such norm or type, or is not in the build.
#ifdef ADDNORM_ONEDNN
std::function<void()> onednn_norm(const Job& job, const Arrays& arrays);
#else
inline std::function<void()> onednn_norm(const Job& /*job*/, const Arrays& /*arrays*/) {
  return {};
}
#endif

}  // namespace addnorm::bench
