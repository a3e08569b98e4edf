/// The bits that every machine must give (docs/numerics.md), as one number for each type of
/// storage. instruction_set_test.cc compares the instruction sets of one machine; this also
/// compares machines.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "addnorm/norm.h"

namespace addnorm::kernels {
namespace {

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

/// Values that need no library: `centre` plus or minus up to 1.
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
std::uint64_t digest_of() {
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

// Where the arithmetic of the kernels changes, and only there, these change too.
TEST(SameBits, AreThoseOfEveryMachine) {
  EXPECT_EQ((digest_of<float, float>()), 0xA9CDE3D2C4936657);
  EXPECT_EQ((digest_of<BFloat16, BFloat16>()), 0x4B40BEB031F9C73D);
  EXPECT_EQ((digest_of<Float16, Float16>()), 0xAA4E721104D06FB5);
  EXPECT_EQ((digest_of<float, BFloat16>()), 0x6A7EB1B5D385B4BA);
  EXPECT_EQ((digest_of<float, Float16>()), 0xA65F53A22300A093);
}

}  // namespace
}  // namespace addnorm::kernels
