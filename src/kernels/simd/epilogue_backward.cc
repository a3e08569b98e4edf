#include "kernels/epilogue_backward.h"

#include <algorithm>

#include "kernels/constant_block.h"
#include "kernels/feature_vector.h"
#include "kernels/simd/gates.h"
#include "kernels/simd/row.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {
namespace {

/// act(z) and act′(z) of one block. `slope` may be null. Without z they are 1 and 0.
template <typename F, typename V, typename B>
HWY_NOINLINE void evaluate_gate(F, std::size_t n, const B* z, V* value, V* slope) {
  constexpr std::size_t kN = kSmallPack<V>;
  for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    const Pack<V, kN> at = load<kN>(z + i, count);
    store(F::value(at), value + i, count);
    if (slope != nullptr) store(F::slope(at), slope + i, count);
  });
}
template <typename V, typename B>
void evaluate_gate(const Gate<B>& gate, std::size_t r, std::size_t begin, std::size_t n, V* value,
                   V* slope) {
  if (gate.z.empty()) {
    std::fill_n(value, n, V{1});
    std::fill_n(slope, slope == nullptr ? 0 : n, V{0});
    return;
  }
  const B* const z = gate.z.row(r).data() + begin;
  with_gate(gate.function, [&](auto f) ADDNORM_BODY { evaluate_gate(f, n, z, value, slope); });
}

/// Arrays of kBlock values in the thread's region 7.
template <typename V>
V* scratch(std::size_t index) {
  return thread_region<V>(7) + index * kBlock;
}

}  // namespace

template <typename S, typename B>
void before_norm_backward(const EpilogueChunk<S, B>& chunk) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const AddNormBackward<S, B>& args = chunk.args;
  const EpilogueBackward<S, B>& epilogue = args.epilogue;
  const std::size_t cols = args.s.cols;
  const std::size_t of_sample =
      args.s.rows / HWY_MAX(std::size_t{1}, epilogue.modulation.samples());
  const bool gates_s = epilogue.gate.is(GatePlace::kBeforeNorm);
  FeatureVector<V> gammas = FeatureVector<V>::gamma(chunk.options, args.gamma);
  FeatureVector<V> betas = FeatureVector<V>::beta(chunk.options, epilogue.beta);
  gammas.stage(thread_region<V>(0), cols, false);
  betas.stage(thread_region<V>(1), cols, false);
  V* const act = scratch<V>(0);
  V* const slope = scratch<V>(1);
  V* const unwanted = scratch<V>(2);
  std::fill_n(unwanted, kBlock, V{0});
  for (std::size_t r = chunk.begin; r < chunk.end; ++r) {
    const std::size_t sample = r / of_sample;
    const bool starts = r == chunk.block_begin || r % of_sample == 0;
    const Normalize<V, kN> normalize(args.statistics[r]);
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - begin);
      evaluate_gate(epilogue.gate, r, begin, n, act, gates_s ? nullptr : slope);
      const auto sums = [&](V* all) {
        if (all == nullptr) return unwanted;
        V* const here = all + sample * cols + begin;
        if (starts) std::fill_n(here, n, V{0});
        return here;
      };
      V* const d_scale = sums(chunk.d_scale);
      V* const d_shift = sums(chunk.d_shift);
      const S* const s = args.s.row(r).data() + begin;
      const B* const dy = args.dy.row(r).data() + begin;
      const V* const scale = epilogue.modulation.scale.empty()
                                 ? zeros<V>()
                                 : epilogue.modulation.scale.row(sample).data() + begin;
      B* const dz = gates_s || epilogue.dz.empty() ? nullptr : epilogue.dz.row(r).data() + begin;
      V* const normed = chunk.s + (r - chunk.begin) * cols + begin;
      V* const gradient = chunk.gradient + (r - chunk.begin) * cols + begin;
      const V* const gamma = gammas.at(begin, n);
      const V* const beta = betas.at(begin, n);
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        using P = Pack<V, kN>;
        const auto add = [&](V* to, const P& term)
                             ADDNORM_BODY { store(load<kN>(to + i, count) + term, to + i, count); };
        const P gate = load<kN>(act + i, count);
        P u = load<kN>(s + i, count);
        if (gates_s) u = u * gate;
        store(u, normed + i, count);
        const P out = normalize(u) * load<kN>(gamma + i, count) + load<kN>(beta + i, count);
        const P dy_here = load<kN>(dy + i, count);
        add(d_shift, dy_here);
        const P dm = dy_here * (set<kN>(V{1}) + load<kN>(scale + i, count));
        if (gates_s) {
          add(d_scale, dy_here * out);
          store(dm, gradient + i, count);
        } else {
          add(d_scale, dy_here * (out * gate));
          if (dz != nullptr) store(dm * out * load<kN>(slope + i, count), dz + i, count);
          store(dm * gate, gradient + i, count);
        }
      });
    }
  }
}

template <typename S, typename B>
void after_norm_backward(const EpilogueChunk<S, B>& chunk) {
  using V = Arithmetic<S>;
  constexpr std::size_t kN = kSmallPack<V>;
  const AddNormBackward<S, B>& args = chunk.args;
  const EpilogueBackward<S, B>& epilogue = args.epilogue;
  const std::size_t cols = args.s.cols;
  const bool gates_s = epilogue.gate.is(GatePlace::kBeforeNorm);
  // Without d_residual, an infinite skip must not give NaN.
  FeatureVector<V> skips =
      FeatureVector<V>::scale(args.d_residual.empty() ? Scale<V>{} : args.skip);
  skips.stage(thread_region<V>(0), cols, false);
  V* const act = scratch<V>(0);
  V* const slope = scratch<V>(1);
  for (std::size_t r = chunk.begin; r < chunk.end; ++r) {
    for (std::size_t begin = 0; begin < cols; begin += kBlock) {
      const std::size_t n = HWY_MIN(kBlock, cols - begin);
      if (gates_s) evaluate_gate(epilogue.gate, r, begin, n, act, slope);
      const S* const s = args.s.row(r).data() + begin;
      const S* const past =
          args.d_residual.empty() ? minus_zeros<S>() : args.d_residual.row(r).data() + begin;
      const V* const skip = skips.at(begin, n);
      const V* const gradient = chunk.gradient + (r - chunk.begin) * cols + begin;
      B* const dz = !gates_s || epilogue.dz.empty() ? nullptr : epilogue.dz.row(r).data() + begin;
      S* const dx = args.dx.row(r).data() + begin;
      for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
        using P = Pack<V, kN>;
        P du = load<kN>(gradient + i, count);
        const P around = load<kN>(skip + i, count) * load<kN>(past + i, count);
        if (gates_s) {
          const P dz_here = du * load<kN>(s + i, count) * load<kN>(slope + i, count);
          if (dz != nullptr) store(dz_here, dz + i, count);
          du = du * load<kN>(act + i, count);
        }
        store(around + du, dx + i, count);
      });
    }
  }
}

#define ADDNORM_INSTANTIATE(S, B)                                 \
  template void before_norm_backward(const EpilogueChunk<S, B>&); \
  template void after_norm_backward(const EpilogueChunk<S, B>&);
ADDNORM_FOR_PAIRS(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
