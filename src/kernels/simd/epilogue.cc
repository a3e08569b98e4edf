#include "kernels/simd/epilogue.h"

#include "kernels/constant_block.h"
#include "kernels/simd/gates.h"
#include "kernels/simd/quantize.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

// A row is computed block by block in memory that stays in L1. Each step below reads and writes
// one block. If the whole row shares a computed scale, all blocks are computed before the first is
// quantized; a row that does not fit into the thread's memory is then computed twice.

namespace {

/// to = v ⊙ act(z) for n values; `to` may be `v`.
template <typename F, typename V, typename B>
HWY_NOINLINE void multiply_gate(F, std::size_t n, const V* v, const B* z, V* to) {
  constexpr std::size_t kN = kSmallPack<V>;
  for_each_pack<kN>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    store(load<kN>(v + i, count) * F::value(load<kN>(z + i, count)), to + i, count);
  });
}
template <typename V, typename B>
void multiply_gate(GateFunction function, std::size_t n, const V* v, const B* z, V* to) {
  with_gate(function, [&](auto f) ADDNORM_BODY { multiply_gate(f, n, v, z, to); });
}

/// to = x̂ ⊙ γ + β for n values, which are also added to `sizes`. With kPlain, the scale is 1 and β
/// is absent.
template <bool kPlain, typename V, typename Sizes>
HWY_INLINE void normalize_values(const NormStatistics<V>& statistics, std::size_t n, const V* s,
                                 const V* gamma, const V* beta, V* to, Sizes& sizes) {
  const Normalize<V, kPack, !kPlain> normalize(statistics);
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    Pack<V> y = normalize(load(s + i, count)) * load(gamma + i, count);
    if constexpr (!kPlain) y = y + load(beta + i, count);
    store(y, to + i, count);
    sizes.add(keep(y, count));
  });
}
template <typename Sizes, typename V>
HWY_NOINLINE std::uint32_t normalize_block(bool plain, const NormStatistics<V>& statistics,
                                           std::size_t n, const V* s, const V* gamma, const V* beta,
                                           V* to) {
  Sizes sizes;
  if (plain) {
    normalize_values<true>(statistics, n, s, gamma, beta, to, sizes);
  } else {
    normalize_values<false>(statistics, n, s, gamma, beta, to, sizes);
  }
  return sizes.bits();
}
/// An empty LargestSize, for calls that do not need one.
struct NoSizes {
  template <typename V>
  HWY_INLINE void add(const Pack<V>&) {}
  HWY_INLINE std::uint32_t bits() const { return 0; }
};

/// v = v ⊙ (1 + scale) + shift for n values.
template <typename V>
HWY_NOINLINE void modulate_block(std::size_t n, const V* scale, const V* shift, V* v) {
  const Pack<V> one = set(V{1});
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    const Pack<V> factor = one + load(scale + i, count);
    store(load(v + i, count) * factor + load(shift + i, count), v + i, count);
  });
}

template <typename V, typename T>
HWY_NOINLINE void store_block(std::size_t n, const V* v, bool streams, T* to) {
  for_each_pack(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    const Pack<V> values = load(v + i, count);
    if (streams) {
      store<Stores::kNonTemporal>(values, to + i, count);
    } else {
      store(values, to + i, count);
    }
  });
}

/// s ⊙ act(z) of one row, block by block.
template <typename V, typename B>
struct GatedSum final : Blocks<V> {
  const Blocks<V>& s;
  const GateFunction function;
  const B* const z;

  GatedSum(const Blocks<V>& sum, const Gate<B>& gate, std::size_t r)
      : Blocks<V>(sum.size), s(sum), function(gate.function), z(gate.z.row(r).data()) {}

  /// Computes the block that begins at `begin`.
  void make(std::size_t begin, V* to) const {
    const V* const of_s = s.block(begin);
    multiply_gate(function, HWY_MIN(kBlock, this->size - begin), of_s, z + begin, to);
  }
  const V* block(std::size_t begin) const override {
    V* const values = thread_region<V>(7);
    make(begin, values);
    return values;
  }
};

/// y of one row.
template <typename V, typename B>
class RowOutput {
 public:
  RowOutput(const EpilogueRows<V, B>& rows, std::size_t r, const Blocks<V>& s,
            const NormStatistics<V>& statistics)
      : rows_(rows), r_(r), s_(s), statistics_(statistics) {}

  void write() const {
    const Quantized& quantized = rows_.quantized;
    const bool needs_row = !quantized.empty() && quantized.q8_0.empty() && quantized.block == 0 &&
                           quantized.given_scale == 0;
    const bool keeps_row = needs_row && s_.size <= kStagedFeatures<V>;
    V* const memory = thread_region<V>(6);
    std::uint32_t largest = 0;
    if (needs_row) {
      for_each_block([&](std::size_t begin, std::size_t n) {
        largest = HWY_MAX(largest, measure(begin, n, keeps_row ? memory + begin : memory));
      });
    }
    for_each_block([&](std::size_t begin, std::size_t n) {
      V* const values = keeps_row ? memory + begin : memory;
      if (!keeps_row) make(begin, n, values);
      put(begin, n, values, largest);
    });
  }

 private:
  template <typename Body>
  void for_each_block(const Body& body) const {
    for (std::size_t begin = 0; begin < s_.size; begin += kBlock) {
      body(begin, HWY_MIN(kBlock, s_.size - begin));
    }
  }

  /// Computes the norm's output of n values from column `begin` on.
  template <typename Sizes>
  std::uint32_t normalize(std::size_t begin, std::size_t n, V* to) const {
    const bool plain = !rows_.has_beta && statistics_.scale == 1;
    return normalize_block<Sizes>(plain, statistics_, n, s_.block(begin), rows_.gamma.at(begin, n),
                                  rows_.beta.at(begin, n), to);
  }
  /// Applies the gate after the norm and the modulation to n values from column `begin` on.
  void modulate(std::size_t begin, std::size_t n, V* to) const {
    if (rows_.gate.is(GatePlace::kAfterNorm)) {
      multiply_gate(rows_.gate.function, n, to, rows_.gate.z.row(r_).data() + begin, to);
    }
    const Modulation<V>& modulation = rows_.modulation;
    if (modulation.empty()) return;
    const auto of_sample = [&](const MatrixView<const V>& matrix, const V* absent) {
      return matrix.empty() ? absent : matrix.row(r_ / rows_.rows_of_sample).data() + begin;
    };
    modulate_block(n, of_sample(modulation.scale, zeros<V>()),
                   of_sample(modulation.shift, minus_zeros<V>()), to);
  }
  /// Computes y of n values from column `begin` on.
  void make(std::size_t begin, std::size_t n, V* to) const {
    normalize<NoSizes>(begin, n, to);
    modulate(begin, n, to);
  }
  /// The same. Returns max |y| as LargestSize does.
  std::uint32_t measure(std::size_t begin, std::size_t n, V* to) const {
    if constexpr (std::is_same_v<V, float>) {
      const bool ends = !rows_.gate.is(GatePlace::kAfterNorm) && rows_.modulation.empty();
      if (ends) return normalize<LargestSize>(begin, n, to);
    }
    make(begin, n, to);
    return largest_bits(as_float(n, to), n);
  }

  void put(std::size_t begin, std::size_t n, const V* values, std::uint32_t largest) const {
    if (!rows_.y.empty()) {
      store_block(n, values, rows_.streams, rows_.y.row(r_).data() + begin);
    }
    if (!rows_.unrounded.empty()) {
      store_block(n, values, false, rows_.unrounded.row(r_).data() + begin);
    }
    if (!rows_.quantized.empty()) {
      quantize(rows_.quantized, r_, begin, n, as_float(n, values), largest);
    }
  }

  /// Returns n values in float32.
  static const float* as_float(std::size_t n, const V* values) {
    if constexpr (std::is_same_v<V, float>) {
      return values;
    } else {
      auto* const rounded = thread_region<float>(5);
      for (std::size_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(values[i]);
      return rounded;
    }
  }

  const EpilogueRows<V, B>& rows_;
  const std::size_t r_;
  const Blocks<V>& s_;
  const NormStatistics<V>& statistics_;
};

}  // namespace

template <typename V, typename B>
void write_row(const EpilogueRows<V, B>& rows, std::size_t r, const Blocks<V>& s,
               const NormStatistics<V>& of_s) {
  if (!rows.gate.is(GatePlace::kBeforeNorm)) return RowOutput<V, B>(rows, r, s, of_s).write();
  const auto write = [&](const Blocks<V>& gated) {
    const NormStatistics<V> of_gated = statistics<V>(rows.options, gated);
    if (!rows.statistics.empty()) rows.statistics[r] = of_gated;
    RowOutput<V, B>(rows, r, gated, of_gated).write();
  };
  const GatedSum<V, B> gated(s, rows.gate, r);
  if (s.size > kStagedFeatures<V>) return write(gated);
  V* const memory = thread_region<V>(7);
  for (std::size_t begin = 0; begin < s.size; begin += kBlock) gated.make(begin, memory + begin);
  write(Values<V>(memory, s.size));
}

#define ADDNORM_INSTANTIATE(V, B)                                                       \
  template void write_row(const EpilogueRows<V, B>&, std::size_t r, const Blocks<V>& s, \
                          const NormStatistics<V>&);
ADDNORM_INSTANTIATE(float, float)
ADDNORM_INSTANTIATE(float, BFloat16)
ADDNORM_INSTANTIATE(float, Float16)
#ifndef ADDNORM_TARGET
ADDNORM_INSTANTIATE(double, double)
#endif
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
