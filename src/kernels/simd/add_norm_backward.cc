#include "kernels/simd/backward_loops.h"
#include "kernels/simd/parts.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename S, typename B>
void rows_backward(const NormOptions& options, const AddNormBackward<S, B>& args, const Plan& plan,
                   std::size_t begin, std::size_t end, Arithmetic<S>* d_gamma,
                   Arithmetic<S>* d_beta) {
  const BackwardLoops<S, B> loops(options, args, plan, d_gamma, d_beta);
  loops.run(begin, end);
  loops.finish(d_gamma, d_beta);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

void fill_add_norm_backward(KernelTable& table) {
  for_each_storage([&]<typename S, typename B>() {
    std::get<BackwardRows<S, B>>(table.backward) = &rows_backward<S, B>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
