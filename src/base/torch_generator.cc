#include "addnorm/torch_generator.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

#include "base/require.h"

namespace addnorm {
namespace {

constexpr std::size_t kBlock = 16;

template <std::size_t n>
float horner(const float (&coefficients)[n], float x) {
  float y = coefficients[0];
  for (std::size_t i = 1; i < n; ++i) y = std::fma(y, x, coefficients[i]);
  return y;
}

// Cephes' logf, sinf and cosf (Moshier 1989), with the operations of PyTorch's AVX2 build
// (avx_mathfun.h, with fused products and sums). They do not use libm, so the bits are the same on
// every machine.
float torch_log(float x) {
  static constexpr float kLog[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                   -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                   2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  int exponent;
  x = std::frexp(x, &exponent);
  if (x < std::numbers::sqrt2_v<float> / 2) {
    x *= 2;
    --exponent;
  }
  x -= 1;
  const float e = static_cast<float>(exponent);
  const float z = x * x;
  const float y = std::fma(horner(kLog, x) * x, z, e * -2.12194440e-4f) - 0.5f * z;
  return std::fma(e, 0.693359375f, x + y);
}

std::pair<float, float> torch_sin_cos(float x) {
  static constexpr float kSin[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  static constexpr float kCos[] = {2.443315711809948e-5f, -1.388731625493765e-3f,
                                   4.166664568298827e-2f};
  // x − octant·π/4, in three parts for precision: the distance from the nearest k·π/2.
  const int octant = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  const float n = static_cast<float>(octant);
  x = std::fma(n, -0.78515625f, x);
  x = std::fma(n, -2.4187564849853515625e-4f, x);
  x = std::fma(n, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float sin = std::fma(horner(kSin, z) * z, x, x);
  float cos = std::fma(horner(kCos, z) * z, z, -0.5f * z) + 1;
  if (octant & 2) std::swap(sin, cos);
  return {octant & 4 ? -sin : sin, (octant + 2) & 4 ? -cos : cos};
}

double torch_log(double x) {
  return std::log(x);
}

std::pair<double, double> torch_sin_cos(double x) {
  return {std::sin(x), std::cos(x)};
}

// Transforms eight pairs of uniform values (j, j + 8) to eight pairs of normal ones.
template <typename T>
void box_muller(std::span<T, kBlock> values, T mean, T deviation) {
  constexpr std::size_t kHalf = kBlock / 2;
  for (std::size_t j = 0; j < kHalf; ++j) {
    const T radius = std::sqrt(-2 * torch_log(1 - values[j]));
    const auto [sin, cos] = torch_sin_cos(static_cast<T>(2 * std::numbers::pi) * values[j + kHalf]);
    values[j] = std::fma(radius * cos, deviation, mean);
    values[j + kHalf] = std::fma(radius * sin, deviation, mean);
  }
}

}  // namespace

std::uint64_t TorchGenerator::random64() {
  const std::uint64_t high = random();
  return high << 32 | random();
}

// Returns a number in [0, 1) from the low bits of one word (float) or two (double).
template <typename T>
T TorchGenerator::unit() {
  constexpr std::uint64_t kRange = std::uint64_t{1} << std::numeric_limits<T>::digits;
  const std::uint64_t word = std::is_same_v<T, float> ? random() : random64();
  return static_cast<T>(word & (kRange - 1)) * (T{1} / kRange);
}

template <typename T>
void TorchGenerator::fill_uniform(std::span<T> values, double low, double high) {
  const T from = static_cast<T>(low);
  const T width = static_cast<T>(high) - from;
  require(width >= 0 && std::isfinite(width),
          "fill_uniform: the range {} to {} must be finite and not negative", low, high);
  for (T& value : values) value = std::fma(unit<T>(), width, from);
}

double TorchGenerator::normal() {
  if (next_normal_) return *std::exchange(next_normal_, std::nullopt);
  const double theta = 2 * std::numbers::pi * unit<double>();
  // Later versions of PyTorch use log1p(−u) here, which differs in the last bits.
  const double radius = std::sqrt(-2 * std::log(1 - unit<double>()));
  next_normal_ = radius * std::sin(theta);
  return radius * std::cos(theta);
}

template <typename T>
void TorchGenerator::fill_normal(std::span<T> values, double mean, double deviation) {
  require(deviation >= 0, "fill_normal: the deviation {} must not be negative", deviation);
  if (values.size() < kBlock) {
    for (T& value : values) value = static_cast<T>(std::fma(normal(), deviation, mean));
    return;
  }
  const auto transform = [&](std::span<T, kBlock> block) {
    box_muller(block, static_cast<T>(mean), static_cast<T>(deviation));
  };
  fill_uniform(values);
  for (std::size_t i = 0; i + kBlock <= values.size(); i += kBlock) {
    transform(values.subspan(i).template first<kBlock>());
  }
  if (values.size() % kBlock != 0) {  // The last 16 are drawn again, some of them twice.
    const auto tail = values.template last<kBlock>();
    fill_uniform<T>(tail);
    transform(tail);
  }
}

void TorchGenerator::fill_integers(std::span<std::int64_t> values, std::int64_t low,
                                   std::int64_t high) {
  require(low < high, "fill_integers: low {} must be less than high {}", low, high);
  const std::uint64_t base = static_cast<std::uint64_t>(low);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - base;
  const bool wide = range >> 32 != 0;
  for (std::int64_t& value : values) {
    value = static_cast<std::int64_t>((wide ? random64() : random()) % range + base);
  }
}

template void TorchGenerator::fill_uniform(std::span<float>, double, double);
template void TorchGenerator::fill_uniform(std::span<double>, double, double);
template void TorchGenerator::fill_normal(std::span<float>, double, double);
template void TorchGenerator::fill_normal(std::span<double>, double, double);

}  // namespace addnorm
