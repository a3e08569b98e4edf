/// The residual sum, by rows and blocks of columns.

#pragma once

#include "addnorm/norm.h"
#include "kernels/constant_block.h"
#include "kernels/feature_vector.h"
#include "kernels/residual_add.h"
#include "kernels/simd/dropout.h"
#include "kernels/simd/pack.h"
#include "kernels/thread_memory.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// One block of a row of s = skip ⊙ x + gain ⊙ dropout(branch), pack by pack. Without kOptions skip
/// and gain are 1, and there is no dropout.
template <typename S, typename B, bool kOptions>
struct ResidualBlock {
  using V = Arithmetic<S>;

  const S* x;
  const B* branch;  ///< null: s = skip ⊙ x
  const V* skip;    ///< here and below: used only with kOptions
  const V* gain;
  const V* factors;  ///< dropout's factors, or null

  /// Returns s before rounding. With kHasBranch, the branch must not be null.
  template <std::size_t N, bool kHasBranch = false, typename Count>
  HWY_INLINE Pack<V, N> exact(std::size_t i, Count count) const {
    Pack<V, N> s = load<N>(x + i, count);
    if constexpr (kOptions) s = load<N>(skip + i, count) * s;
    if (!kHasBranch && branch == nullptr) return s;
    Pack<V, N> f = load<N>(branch + i, count);
    if constexpr (kOptions) {
      if (factors != nullptr) f = load<N>(factors + i, count) * f;
      f = load<N>(gain + i, count) * f;
    }
    return s + f;
  }
  /// Returns s rounded to its storage type.
  template <std::size_t N, typename Count>
  HWY_INLINE Stored<S, N> rounded(const Pack<V, N>& exact, [[maybe_unused]] std::size_t i,
                                  [[maybe_unused]] Count count) const {
    if constexpr (!kOptions && std::is_same_v<S, BFloat16> && std::is_same_v<B, BFloat16> &&
                  !Looped<V>) {
      return sum_as_stored(exact, x + i, count);
    } else {
      return kernels::HWY_NAMESPACE::rounded<S>(exact, count);
    }
  }
};

/// The residual sums of a call, with the data of their options in the thread's memory.
template <typename S, typename B>
class ResidualRows {
 public:
  using V = Arithmetic<S>;

  /// `region` and the two regions after it belong to this object. Without `options` skip, gain and
  /// dropout are ignored.
  ResidualRows(const ResidualAdd<S, B>& add, bool options, std::size_t region)
      : add_(add),
        skip_(FeatureVector<V>::scale(add.skip)),
        gain_(FeatureVector<V>::scale(add.gain)),
        factors_(thread_region<V>(region + 2)),
        rows_of_sample_(rows_of_sample(add.sample_gain, add.x.rows)),
        // With skip 0, x is ignored: 0·∞ would be NaN.
        ignores_x_(!add.branch.empty() && add.skip.vector.empty() && add.skip.constant == 0) {
    if (!options) return;
    skip_.stage(thread_region<V>(region), add.x.cols, false);
    if (add.sample_gain.empty()) gain_.stage(thread_region<V>(region + 1), add.x.cols, false);
  }

  const ResidualAdd<S, B>& add() const { return add_; }

  /// Returns columns begin … begin + n − 1 of row r, at most kBlock. Valid until the next block is
  /// computed.
  template <bool kOptions>
  HWY_INLINE ResidualBlock<S, B, kOptions> block(std::size_t r, std::size_t begin,
                                                 std::size_t n) const {
    const S* const x = add_.x.data + r * add_.x.stride + begin;
    const B* const branch =
        add_.branch.empty() ? nullptr : add_.branch.data + r * add_.branch.stride + begin;
    if constexpr (!kOptions) {
      return {x, branch, nullptr, nullptr, nullptr};
    } else {
      const V* factors = nullptr;
      if (branch != nullptr && add_.dropout.active()) {
        dropout_factors(add_.dropout, r * add_.x.cols + begin, n, factors_);
        factors = factors_;
      }
      const V* const gain = add_.sample_gain.empty()
                                ? gain_.at(begin, n)
                                : add_.sample_gain.row(r / rows_of_sample_).data() + begin;
      return {ignores_x_ ? zeros<S>() : x, branch, skip_.at(begin, n), gain, factors};
    }
  }

 private:
  const ResidualAdd<S, B> add_;  // a copy: the compiler must assume that stores change the caller's
  FeatureVector<V> skip_, gain_;
  V* factors_;
  std::size_t rows_of_sample_;
  bool ignores_x_;
};

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
