#include "kernels/simd/forward_loops.h"
#include "kernels/simd/parts.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename S, typename B>
void rows_forward(const NormOptions& options, const AddNormForward<S, B>& args, const Plan& plan,
                  std::size_t begin, std::size_t end) {
  ForwardLoops<S, B>(options, args, plan).run(begin, end);
  if (plan.stores == Stores::kNonTemporal) hwy::FlushStream();
}

void fill_add_norm_forward(KernelTable& table) {
  for_each_storage([&]<typename S, typename B>() {
    std::get<ForwardRows<S, B>>(table.forward) = &rows_forward<S, B>;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
