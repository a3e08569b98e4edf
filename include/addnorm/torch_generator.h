#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>

#include "addnorm/api.h"
#include "addnorm/types.h"

namespace addnorm {

/// PyTorch's random numbers on the CPU. After torch.manual_seed(seed) the same draws in the same
/// order give the same values and leave the generator in the same state (version 1.13, ATen's
/// DistributionTemplates.h). float values have the same bits as PyTorch's on a processor with AVX2;
/// without AVX2, PyTorch's own tensors of 16 or more normals differ in the last bits. double
/// normals use libm's log, sin and cos, whose last bits depend on the machine.
class TorchGenerator {
 public:
  /// Uses only the low 32 bits, as PyTorch does; a negative seed is its two's complement.
  explicit TorchGenerator(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

  std::uint32_t random() { return static_cast<std::uint32_t>(engine_()); }
  void discard(std::uint64_t draws) { engine_.discard(draws); }  ///< skips random() draws
  ADDNORM_API std::uint64_t random64();                          ///< two draws, the high word first

  /// tensor.uniform_(low, high), and torch.rand: u·(high − low) + low in T, where u has 24 (float)
  /// or 53 (double) random bits. Rounding may give `high` itself.
  template <typename T>
  ADDNORM_API void fill_uniform(std::span<T> values, double low = 0, double high = 1);
  /// \cond
  template <NoneOf<float, double> T>
  void fill_uniform(std::span<T>, double = 0, double = 1) {
    static_assert(check_value<T>());
  }
  /// \endcond

  /// tensor.normal_(mean, deviation), and torch.randn: Box and Muller (1958). Fewer than 16 values
  /// are drawn one by one in double, more in blocks of 16 in T. So the values depend on the size.
  template <typename T>
  ADDNORM_API void fill_normal(std::span<T> values, double mean = 0, double deviation = 1);
  /// \cond
  template <NoneOf<float, double> T>
  void fill_normal(std::span<T>, double = 0, double = 1) {
    static_assert(check_value<T>());
  }
  /// \endcond

  /// torch.randint(low, high): low ≤ value < high.
  ADDNORM_API void fill_integers(std::span<std::int64_t> values, std::int64_t low,
                                 std::int64_t high);

 private:
  template <typename T>
  T unit();
  double normal();

  std::mt19937 engine_;                ///< std's engine equals ATen's, including the seeding
  std::optional<double> next_normal_;  ///< the second normal of the pair that normal() draws
};

}  // namespace addnorm
