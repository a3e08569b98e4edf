#include "kernels/epilogue.h"
#include "kernels/simd/epilogue.h"
#include "kernels/simd/forward_loops.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// Computes rows with an epilogue.
template <typename S, typename B>
HWY_NOINLINE void epilogue_rows(const NormOptions& options, const AddNormForward<S, B>& args,
                                const Plan& plan, std::size_t begin, std::size_t end) {
  using V = Arithmetic<S>;
  const ForwardLoops<S, B> loops(options, args, plan);
  const Epilogue<S, B>& epilogue = args.epilogue;
  const EpilogueRows<V, B> rows{
      .options = options,
      .gate = epilogue.gate,
      .modulation = epilogue.modulation,
      .quantized = epilogue.quantized,
      .y = args.y,
      .unrounded = epilogue.unrounded,
      .statistics = args.statistics,
      .gamma = loops.gamma(),
      .beta = loops.beta(),
      .has_beta = !args.beta.empty(),
      .rows_of_sample = rows_of_sample(epilogue.modulation, args.add.x.rows),
      .streams = plan.stores == Stores::kNonTemporal};
  loops.read_rows(begin, end,
                  [&](std::size_t r, const Blocks<V>& s, const NormStatistics<V>& statistics) {
                    write_row(rows, r, s, statistics);
                  });
}

template <typename S, typename B>
void rows_forward(const NormOptions& options, const AddNormForward<S, B>& args, const Plan& plan,
                  std::size_t begin, std::size_t end) {
  if (!kHasEpilogues || args.epilogue.empty()) {
    ForwardLoops<S, B>(options, args, plan).run(begin, end);
  } else if constexpr (kHasEpilogues) {
    epilogue_rows(options, args, plan, begin, end);
  }
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
