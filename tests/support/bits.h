#pragma once

/// The bits that every machine must produce (docs/numerics.md), as two numbers for each type of
/// storage: for norms, and for streams of several lanes. They cover forward and backward of random
/// values.

#include <cstdint>
#include <string_view>
#include <vector>

#include "addnorm/lanes.h"

namespace addnorm::testing {

/// FNV-1a of all bytes.
class Digest {
 public:
  template <typename T>
  void add(const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) {
      value_ = (value_ ^ bytes[i]) * 0x100000001B3;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

/// Returns values that need no library: `centre` ± up to 1.
template <typename T>
std::vector<T> values(std::size_t count, std::uint32_t seed, float centre) {
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    seed = 1664525 * seed + 1013904223;  // Numerical Recipes' generator
    result.emplace_back(centre + (static_cast<float>(seed >> 8) / (1 << 23) - 1));
  }
  return result;
}

template <typename S, typename B>
void add_case(const NormOptions& options, std::size_t rows, std::size_t cols, float probability,
              Digest& digest) {
  const std::size_t size = rows * cols;
  const std::vector<S> x = values<S>(size, 1, 100), d_residual = values<S>(size, 2, 0);
  const std::vector<B> branch = values<B>(size, 3, 0), dy = values<B>(size, 4, 0);
  const std::vector<float> gamma = values<float>(cols, 5, 1), beta = values<float>(cols, 6, 0);
  std::vector<S> sum(size), dx(size);
  std::vector<B> y(size);
  std::vector<float> d_gamma(cols), d_beta(cols), workspace(add_norm_workspace(rows, cols));
  std::vector<NormStatistics<float>> statistics(rows);
  const bool has_beta = options.kind == NormKind::kLayer;
  const Dropout dropout{.probability = probability, .seed = 7};
  const auto view = [&](auto& of) { return MatrixView{of.data(), rows, cols}; };
  add_norm_forward(options, AddNormForward<S, B>{.add = {view(x), view(branch), {}, {}, dropout},
                                                 .sum = view(sum),
                                                 .gamma = gamma,
                                                 .beta = has_beta ? beta : std::span<const float>{},
                                                 .y = view(y),
                                                 .statistics = statistics});
  add_norm_backward(options, AddNormBackward<S, B>{.s = view(sum),
                                                   .statistics = statistics,
                                                   .gamma = gamma,
                                                   .dy = view(dy),
                                                   .d_residual = view(d_residual),
                                                   .dx = view(dx),
                                                   .d_gamma = d_gamma,
                                                   .d_beta = has_beta ? d_beta : std::span<float>{},
                                                   .workspace = workspace});
  digest.add(sum);
  digest.add(y);
  digest.add(statistics);
  digest.add(dx);
  digest.add(d_gamma);
  digest.add(d_beta);
}

template <typename S, typename B>
std::uint64_t norms_digest_of() {
  Digest digest;
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const std::size_t cols : {1, 7, 16, 31, 64, 100, 768, 1025, 4096, 16385}) {
      for (const std::size_t rows : {1, 5, 18}) {
        add_case<S, B>({.kind = kind}, rows, cols, 0, digest);
      }
      add_case<S, B>({.kind = kind, .epsilon_at = EpsilonAt::kDeviation}, 3, cols, 0, digest);
      add_case<S, B>({.kind = kind, .gamma_form = GammaForm::kOnePlus}, 3, cols, 0.25F, digest);
    }
  }
  return digest.value();
}

template <typename S, typename B>
void add_lanes_case(std::size_t lanes, std::size_t rows, std::size_t cols, bool per_row,
                    Digest& digest) {
  const std::size_t size = rows * cols;
  const std::size_t mix_rows = per_row ? rows : 1;
  const std::vector<S> x = values<S>(size * lanes, 1, 1), d_sum = values<S>(size * lanes, 2, 0);
  const std::vector<B> branch = values<B>(size, 3, 0), dy = values<B>(size, 4, 0);
  const std::vector<float> gamma = values<float>(cols, 5, 1);
  const std::vector<float> carry = values<float>(mix_rows * lanes * lanes, 6, 0);
  const std::vector<float> write = values<float>(mix_rows * lanes, 7, 1), read = write;
  std::vector<S> sum(x.size()), dx(x.size());
  std::vector<B> y(size), d_branch(size);
  std::vector<float> d_carry(carry.size()), d_write(write.size()), d_read(read.size());
  std::vector<float> d_gamma(cols), workspace(lanes_workspace(rows, lanes, cols));
  std::vector<NormStatistics<float>> statistics(rows);
  const auto stream = [&](auto& of) { return LanesView{of.data(), rows, lanes, cols}; };
  const auto single = [&](auto& of) { return LanesView{of.data(), rows, 1, cols}; };
  const auto mix = [&](auto& of) { return MatrixView{of.data(), mix_rows, of.size() / mix_rows}; };
  const LanesForward<S, B> forward{.x = stream(x),
                                   .branch = single(branch),
                                   .carry = mix(carry),
                                   .write = mix(write),
                                   .sum = stream(sum),
                                   .read = mix(read),
                                   .norm = NormOptions{.kind = NormKind::kRms},
                                   .gamma = gamma,
                                   .y = single(y),
                                   .statistics = statistics};
  lanes_forward(forward);
  lanes_backward(LanesBackward<S, B>{.forward = forward,
                                     .d_sum = stream(d_sum),
                                     .dy = single(dy),
                                     .dx = stream(dx),
                                     .d_branch = single(d_branch),
                                     .d_carry = mix(d_carry),
                                     .d_write = mix(d_write),
                                     .d_read = mix(d_read),
                                     .d_gamma = d_gamma,
                                     .workspace = workspace});
  digest.add(sum), digest.add(y), digest.add(statistics), digest.add(dx), digest.add(d_branch);
  digest.add(d_carry), digest.add(d_write), digest.add(d_read), digest.add(d_gamma);
}

template <typename S, typename B>
std::uint64_t lanes_digest_of() {
  Digest digest;
  for (const std::size_t lanes : {1, 3, 4, 16}) {
    for (const std::size_t cols : {1, 31, 64, 100, 1025}) {
      for (const bool per_row : {false, true})
        add_lanes_case<S, B>(lanes, 18, cols, per_row, digest);
    }
  }
  return digest.value();
}

struct Bits {
  std::string_view storage;
  std::uint64_t norms = 0, lanes = 0;

  bool operator==(const Bits&) const = default;
};
template <typename S, typename B>
Bits bits_of(std::string_view storage) {
  return {storage, norms_digest_of<S, B>(), lanes_digest_of<S, B>()};
}
inline std::vector<Bits> bits_of_this_machine() {
  return {bits_of<float, float>("float32"), bits_of<BFloat16, BFloat16>("bfloat16"),
          bits_of<Float16, Float16>("float16"), bits_of<float, BFloat16>("float32 and bfloat16"),
          bits_of<float, Float16>("float32 and float16")};
}
// These change exactly when the arithmetic of the kernels changes.
inline std::vector<Bits> bits_of_every_machine() {
  return {{"float32", 0xA9CDE3D2C4936657, 0x028871281B1C3F90},
          {"bfloat16", 0x4B40BEB031F9C73D, 0x6854F772E8DD24FA},
          {"float16", 0xAA4E721104D06FB5, 0x0EEAE505E1A12C0B},
          {"float32 and bfloat16", 0x6A7EB1B5D385B4BA, 0x7B50DCFDBF92AEAC},
          {"float32 and float16", 0xA65F53A22300A093, 0x383074348FF4071F}};
}

}  // namespace addnorm::testing
