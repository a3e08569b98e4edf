#include "kernels/channel_norm.h"

#include "kernels/simd/gradient.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels {
namespace HWY_NAMESPACE {

/// γ's and β's effective values for the channels of one set.
template <typename V>
struct ChannelAffine {
  const NormOptions& options;
  const V* gamma;  ///< of the set's first channel; null: 1
  const V* beta;   ///< likewise; null: 0

  HWY_INLINE V scale(std::size_t run) const {
    return gamma == nullptr ? static_cast<V>(options.output_scale)
                            : effective_gamma(options, gamma[run]);
  }
  HWY_INLINE V offset(std::size_t run) const {
    return beta == nullptr ? V{0} : beta[run] * static_cast<V>(options.output_scale);
  }
};

/// Calls body(i, count, channels) for the packs of a set. channels(values) returns the pack of
/// values(run) for each value's channel.
template <typename V, typename Body>
HWY_INLINE void for_each_channel_pack(const Sets& sets, const Body& body) {
  if (sets.run_length == 1) {  // features last: neighbouring values have different channels
    for_each_pack(sets.runs, [&](std::size_t i, auto count) ADDNORM_BODY {
      body(i, count, [&](const auto& values) ADDNORM_BODY {
        HWY_ALIGN V each[kPack] = {};
        for (std::size_t l = 0; l < HWY_MIN(kPack, sets.runs - i); ++l) each[l] = values(i + l);
        return load(each, Full());
      });
    });
    return;
  }
  for (std::size_t run = 0; run < sets.runs; ++run) {
    for_each_pack(sets.run_length, [&](std::size_t i, auto count) ADDNORM_BODY {
      body(run * sets.run_length + i, count,
           [&](const auto& values) ADDNORM_BODY { return set(values(run)); });
    });
  }
}

template <typename V>
void normalize_set(const SetForward<V>& f, std::size_t r, const V* x, V* y) {
  NormStatistics<V>& found = f.args.statistics[r];
  if (f.args.statistics_from == StatisticsFrom::kInput) {
    found = statistics(f.options, Values<V>(x, f.sets.cols()));
  }
  const Normalize<V> normalize(found);
  const std::size_t channel = f.sets.channel(r, 0);
  const ChannelAffine<V> affine{f.options, f.args.gamma.empty() ? nullptr : &f.args.gamma[channel],
                                f.args.beta.empty() ? nullptr : &f.args.beta[channel]};
  for_each_channel_pack<V>(f.sets, [&](std::size_t i, auto count,
                                       const auto& channels) ADDNORM_BODY {
    const Pack<V> gamma = channels([&](std::size_t run) ADDNORM_BODY { return affine.scale(run); });
    const Pack<V> beta = channels([&](std::size_t run) ADDNORM_BODY { return affine.offset(run); });
    store(normalize(load(x + i, count)) * gamma + beta, y + i, count);
  });
}

/// Computes the row's terms of the gradients of γ and β.
template <typename V>
void parameter_sums(const SetBackward<V>& b, std::size_t r, const V* x, const V* dy) {
  const ParameterParts<V> parts = parameter_parts(b.args, b.sets);
  const Normalize<V> normalize(b.args.statistics[r]);
  V* d_gamma = b.args.d_gamma.empty() ? nullptr : parts.gamma.data + r * b.sets.runs;
  V* d_beta = b.args.d_beta.empty() ? nullptr : parts.beta.data + r * b.sets.runs;
  const std::size_t length = b.sets.run_length;
  if (length == 1) {
    for_each_pack(b.sets.runs, [&](std::size_t i, auto count) ADDNORM_BODY {
      const Pack<V> d = load(dy + i, count);
      if (d_gamma != nullptr) store(d * normalize(load(x + i, count)), d_gamma + i, count);
      if (d_beta != nullptr) store(d, d_beta + i, count);
    });
    return;
  }
  for (std::size_t run = 0; run < b.sets.runs; ++run) {
    const V* x_run = x + run * length;
    const V* dy_run = dy + run * length;
    if (d_gamma != nullptr) {
      d_gamma[run] = sum<V>(length, [&](std::size_t i, auto count) ADDNORM_BODY {
        return keep(load(dy_run + i, count) * normalize(load(x_run + i, count)), count);
      });
    }
    if (d_beta != nullptr) d_beta[run] = sum<V>(length, Memory<V>{dy_run});
  }
}

/// Computes the sums of a set for dx; g is already γ·dy.
template <typename V>
NormGradient<V> gradient_sums(const SetBackward<V>& b, std::size_t r, const V* x, const V* g) {
  // given statistics do not depend on x
  if (b.args.statistics_from == StatisticsFrom::kGiven) return {};
  const std::size_t n = b.sets.cols();
  const NormStatistics<V>& found = b.args.statistics[r];
  const Normalize<V> normalize(found);
  NormGradient<V> gradient;
  gradient.shift =
      gradient_shift<V>(n, [&](auto count) ADDNORM_BODY { return load<kGradientHead>(g, count); });
  const Pack<V> shift = set(gradient.shift);
  const V total = sum<V>(n, [&](std::size_t i, auto count)
                                ADDNORM_BODY { return keep(load(g + i, count) - shift, count); });
  const V projected = sum<V>(n, [&](std::size_t i, auto count) ADDNORM_BODY {
    return keep((load(g + i, count) - shift) * normalize(load(x + i, count)), count);
  });
  gradient.finish(found, true, total * (V{1} / static_cast<V>(n)),
                  projected * (V{1} / variance_divisor<V>(b.options, n)));
  return gradient;
}

/// Computes dx with g = γ·dy in separate memory, so dx may be x.
template <typename V>
void differentiate_set(const SetBackward<V>& b, std::size_t r, const V* x, const V* dy, V* g,
                       V* dx) {
  parameter_sums(b, r, x, dy);
  const NormStatistics<V>& found = b.args.statistics[r];
  const std::size_t channel = b.sets.channel(r, 0);
  const ChannelAffine<V> affine{b.options, b.args.gamma.empty() ? nullptr : &b.args.gamma[channel],
                                nullptr};
  for_each_channel_pack<V>(b.sets, [&](std::size_t i, auto count,
                                       const auto& channels) ADDNORM_BODY {
    const Pack<V> gamma = channels([&](std::size_t run) ADDNORM_BODY { return affine.scale(run); });
    store(load(dy + i, count) * gamma, g + i, count);
  });
  const NormDerivative<V> derivative(found, gradient_sums(b, r, x, static_cast<const V*>(g)));
  for_each_pack(b.sets.cols(), [&](std::size_t i, auto count) ADDNORM_BODY {
    store(derivative(load(g + i, count), load(x + i, count)), dx + i, count);
  });
}

#define ADDNORM_INSTANTIATE(T)                                                                     \
  template void normalize_set(const SetForward<T>&, std::size_t row, const T* x, T* y);            \
  template void differentiate_set(const SetBackward<T>&, std::size_t row, const T* x, const T* dy, \
                                  T* g, T* dx);
ADDNORM_FOR_TYPES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace HWY_NAMESPACE
}  // namespace addnorm::kernels
HWY_AFTER_NAMESPACE();
