#include "kernels/simd/forward_loops.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename S, typename B>
void rows_forward(const NormOptions& options, const AddNormForward<S, B>& args, const Plan& plan,
                  std::size_t begin, std::size_t end) {
  ForwardLoops<S, B>(options, args, plan).run(begin, end);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

#define ADDNORM_INSTANTIATE(S, B)                                                          \
  template void rows_forward(const NormOptions&, const AddNormForward<S, B>&, const Plan&, \
                             std::size_t begin, std::size_t end);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
