/// The residual sum of one row, pack by pack. Included once for each instruction set.

#if defined(ADDNORM_KERNELS_RESIDUAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_RESIDUAL_INL_H
#undef ADDNORM_KERNELS_RESIDUAL_INL_H
#else
#define ADDNORM_KERNELS_RESIDUAL_INL_H
#endif

#include "addnorm/norm.h"
#include "kernels/dropout-inl.h"
#include "kernels/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm {
namespace HWY_NAMESPACE {

enum class Add {
  kNone,     ///< s = x
  kPlain,    ///< s = x + branch
  kGeneral,  ///< s = skip ⊙ x + gain ⊙ dropout(branch), and each part may be absent
};

template <typename V, typename Count>
HWY_INLINE Pack<V> scale_pack(const Scale<V>& scale, std::size_t i, Count count) {
  return scale.vector.empty() ? set(scale.constant) : load(scale.vector.data() + i, count);
}

/// s of row r, rounded to the type in which the stream is stored.
template <typename S, typename B, Add kAdd>
struct ResidualRow {
  using V = Arithmetic<S>;

  const ResidualAdd<S, B>& add;
  const S* x;
  const B* f;
  std::size_t first;  ///< the row's first element, as dropout counts them
  mutable DropoutFactors<V> factors;

  HWY_INLINE ResidualRow(const ResidualAdd<S, B>& a, std::size_t r)
      : add(a),
        x(a.x.row(r).data()),
        f(kAdd != Add::kPlain && a.branch.empty() ? nullptr : a.branch.row(r).data()),
        first(r * a.x.cols),
        factors(a.dropout) {}

  template <std::size_t N = kPack, typename Count>
  HWY_INLINE Pack<V, N> operator()(std::size_t i, Count count) const {
    if constexpr (kAdd == Add::kNone) return exact<N>(i, count);
    return value_of(rounded(exact<N>(i, count), i, count));
  }

  /// s as it is stored.
  template <std::size_t N, typename Count>
  HWY_INLINE Stored<S, N> rounded(const Pack<V, N>& exact, std::size_t i, Count count) const {
    if constexpr (std::is_same_v<S, BFloat16> && !Looped<V> && kAdd == Add::kPlain) {
      return sum_as_stored(exact, x + i, count);
    } else {
      return as_stored(S(), exact);
    }
  }

  /// s before it is rounded.
  template <std::size_t N = kPack, typename Count>
  HWY_INLINE Pack<V, N> exact(std::size_t i, Count count) const {
    if constexpr (kAdd == Add::kNone) {
      return load<N>(x + i, count);
    } else if constexpr (kAdd == Add::kPlain) {
      return load<N>(x + i, count) + load<N>(f + i, count);
    } else {
      static_assert(N == kPack);
      // 0·Inf is NaN, but a stack without residual does not look at x.
      const bool without_x = add.skip.vector.empty() && add.skip.constant == 0 && f != nullptr;
      Pack<V> s = set(V{0});
      if (!without_x) s = scale_pack(add.skip, i, count) * load(x + i, count);
      if (f != nullptr) {
        Pack<V> branch = load(f + i, count);
        if (add.dropout.active()) branch = factors(first + i) * branch;
        s = s + scale_pack(add.gain, i, count) * branch;
      }
      return s;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm
HWY_AFTER_NAMESPACE();

#endif  // the guard for each instruction set
