#include "kernels/simd/backward_loops.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename S, typename B>
void rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args, const Plan& plan,
                   std::size_t begin, std::size_t end, GradientMode mode, Arithmetic<S>* d_gamma,
                   Arithmetic<S>* d_beta) {
  const BackwardLoops<S, B> loops(options, args, plan, mode, d_gamma, d_beta);
  loops.run(begin, end);
  loops.finish(d_gamma, d_beta);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

#define ADDNORM_INSTANTIATE(S, B)                                                            \
  template void rows_backward(const NormOptions&, const AddNormBackward<S, B>&, const Plan&, \
                              std::size_t begin, std::size_t end, GradientMode,              \
                              Arithmetic<S>* d_gamma, Arithmetic<S>* d_beta);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
