#include "kernels/activation.h"

#include "kernels/simd/gates.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

template <typename V>
inline constexpr V kSqrtHalf = std::numbers::sqrt2_v<V> / 2;
template <typename V>
inline constexpr V kSqrtTwoOverPi = std::numbers::sqrt2_v<V>* std::numbers::inv_sqrtpi_v<V>;

struct Relu {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    const Pack<V, N> zero = set<N>(V{0});
    return if_below(x, zero, zero, x);  // keeps NaN
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& x) {
    const Pack<V, N> zero = set<N>(V{0});
    return if_below(zero, x, set<N>(V{1}), zero);
  }
};

struct Gelu {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    return x * normal_cdf(x);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& x) {
    const V factor = kSqrtHalf<V> * std::numbers::inv_sqrtpi_v<V>;
    const Pack<V, N> density = exp(x * x * set<N>(V(-0.5))) * set<N>(factor);
    return normal_cdf(x) + x * density;
  }

 private:
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> normal_cdf(const Pack<V, N>& x) {
    return erfc(x * set<N>(-kSqrtHalf<V>)) * set<N>(V(0.5));
  }
};

struct GeluTanh {
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> value(const Pack<V, N>& x) {
    return x * gate(x);
  }
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> slope(const Pack<V, N>& x) {
    const Pack<V, N> one = set<N>(V{1});
    const Pack<V, N> far = set<N>(V{64});  // beyond ±64 the gate is 0 or 1
    const Pack<V, N> size = abs(x);
    const Pack<V, N> near = if_below(far, size, far, size);
    const Pack<V, N> of_gate = set<N>(kOuter<V>) * (one + set<N>(V(3 * 0.044715)) * near * near);
    const Pack<V, N> g = gate(x);
    return g + x * g * (one - g) * of_gate;
  }

 private:
  template <typename V>
  static constexpr V kOuter = 2 * kSqrtTwoOverPi<V>;

  /// (1 + tanh(u))/2 = sigmoid(2u) with GPT-2's u.
  template <typename V, std::size_t N>
  static HWY_INLINE Pack<V, N> gate(const Pack<V, N>& x) {
    return sigmoid(set<N>(kOuter<V>) * (x + set<N>(V(0.044715)) * x * x * x));
  }
};

template <typename Use>
HWY_INLINE void with_activation(Activation activation, const Use& use) {
  switch (activation) {
    case Activation::kRelu:
      return use(Relu());
    case Activation::kGelu:
      return use(Gelu());
    case Activation::kGeluTanh:
      return use(GeluTanh());
    case Activation::kSilu:
      return use(Silu());
  }
}

template <typename F, typename V>
HWY_NOINLINE void value_rows(F, const MatrixView<const V>& x, const MatrixView<V>& y) {
  constexpr std::size_t kN = kSmallPack<Arithmetic<V>>;
  for (std::size_t r = 0; r < x.rows; ++r) {
    const V* in = x.row(r).data();
    V* out = y.row(r).data();
    for_each_pack<kN>(x.cols, [&](std::size_t i, auto count) ADDNORM_BODY {
      store(F::value(load<kN>(in + i, count)), out + i, count);
    });
  }
}
template <typename F, typename V>
HWY_NOINLINE void gradient_rows(F, const ActivateBackward<V>& args) {
  constexpr std::size_t kN = kSmallPack<Arithmetic<V>>;
  for (std::size_t r = 0; r < args.x.rows; ++r) {
    const V* in = args.x.row(r).data();
    const V* dy = args.dy.row(r).data();
    V* dx = args.dx.row(r).data();
    for_each_pack<kN>(args.x.cols, [&](std::size_t i, auto count) ADDNORM_BODY {
      store(F::slope(load<kN>(in + i, count)) * load<kN>(dy + i, count), dx + i, count);
    });
  }
}

template <typename V>
void values(Activation activation, const MatrixView<const V>& x, const MatrixView<V>& y) {
  with_activation(activation, [&](auto f) ADDNORM_BODY { value_rows(f, x, y); });
}
template <typename V>
void gradients(Activation activation, const ActivateBackward<V>& args) {
  with_activation(activation, [&](auto f) ADDNORM_BODY { gradient_rows(f, args); });
}

#define ADDNORM_INSTANTIATE(T)                                                            \
  template void values(Activation, const MatrixView<const T>& x, const MatrixView<T>& y); \
  template void gradients(Activation, const ActivateBackward<T>&);
ADDNORM_FOR_TYPES(ADDNORM_INSTANTIATE)
ADDNORM_INSTANTIATE(BFloat16)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
