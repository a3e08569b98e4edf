/// The functions of gates, with their slopes.

#pragma once

#include "addnorm/epilogue.h"
#include "kernels/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

struct Identity {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    return x;
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>&) {
    return set<N>(V{1});
  }
};

struct Sigmoid {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    return sigmoid(x);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& x) {
    const Pack<V, N> s = sigmoid(x);
    return s * (set<N>(V{1}) - s);
  }
};

struct Silu {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    return x * sigmoid(x);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& x) {
    const Pack<V, N> one = set<N>(V{1});
    const Pack<V, N> s = sigmoid(x);
    return s * (one + x * (one - s));
  }
};

template <typename Use>
HWY_INLINE void with_gate(GateFunction function, const Use& use) {
  switch (function) {
    case GateFunction::kIdentity:
      return use(Identity());
    case GateFunction::kSigmoid:
      return use(Sigmoid());
    case GateFunction::kSilu:
      return use(Silu());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
