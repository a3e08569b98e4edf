#pragma once

#include <cstddef>

#include "addnorm/norm.h"

/// The laws of algebra and sampling theory for one norm (docs/theory.md derives them).

namespace addnorm::theory {

struct Moments {
  double mean = 0;
  double variance = 0;
};

// The effect of a norm on a row with the standard deviation `deviation`.

/// Returns √(σ² + ε), or σ + ε.
double divisor(const NormOptions& norm, double deviation);
/// Returns the standard deviation of the output: σ ÷ divisor.
double output_deviation(const NormOptions& norm, double deviation);

/// Returns the share of the features of x̂ between low and high, within ±√(d − 1). The d ≥ 4
/// features of x are N(μ, σ²), and ε is 0.
double normalized_share(std::size_t d, double low, double high);

/// The variances over the features of a token x and of its branch F, and their covariance. They
/// determine the output of a norm without ε for every sum x + k·F (bilinearity of the covariance).
struct SumMoments {
  double x = 0;
  double branch = 0;
  double covariance = 0;

  double variance(double k) const { return between(k, k); }
  /// Returns the cosine between the x̂ of x + j·F and of x + k·F.
  double cosine(double j, double k) const;
  /// Returns the cosine between the x̂ of x + k·F and of F alone: cosine() as j → ∞.
  double branch_cosine(double k) const;

 private:
  double between(double j, double k) const { return x + (j + k) * covariance + j * k * branch; }
};

// LayerNorm's backward, dx = (g − mean(g) − x̂·mean(g·x̂))/√(σ² + ε) (Xu et al. 2019, eq. 3–5), is
// a symmetric matrix times g. Its eigenvalues are 0 along 1, left_along_x_hat() ÷ √(σ² + ε) along
// x̂, and 1/√(σ² + ε) in the other d − 2 directions.

/// Returns the remaining share of the gradient along x̂: 1 − |x̂|²/d = ε/(σ² + ε).
double left_along_x_hat(double deviation, double epsilon);
/// Returns ‖∂x̂/∂x‖, the root of the sum of squares over d orthonormal gradients.
double jacobian_norm(std::size_t d, double deviation, double epsilon);
/// Returns E[1 − ‖√(σ² + ε)·dx‖²/‖g‖²] over gradients g of N(0, 1): near 2/d.
double removed_share(std::size_t d, double deviation, double epsilon);
/// Returns the variance of that share for ε = 0: ‖dx‖²/‖g‖² has the distribution Beta((d − 2)/2,
/// 1).
double removed_share_variance(std::size_t d);

// BatchNorm's statistics of B samples of N(μ, σ²), in units of σ and σ²: B·s²/σ² has the
// distribution χ² with B − 1 degrees of freedom (Cochran 1934).

/// Returns √E[(m − μ)²]/σ.
double batch_mean_error(std::size_t batch);
/// Returns √E[(s² − σ²)²]/σ², with the variance that divides by B.
double batch_variance_error(std::size_t batch);
/// Returns the standard deviation of ((s² − σ²)/σ²)² ÷ its mean; for the squared error of m it is
/// √2.
double batch_variance_error_spread(std::size_t batch);

/// Returns the moments of values of which `share` are replaced by 0, as with padding.
Moments padded(const Moments& values, double share);

// Storage in 16 bits, rounded to nearest.

struct StorageFormat {
  int fraction_bits = 0;
  int least_exponent = 0;     ///< of the smallest normal number
  double overflows_from = 0;  ///< values from here on are stored as infinity
};
inline constexpr StorageFormat kFloat16Format{10, -14, 65520};
inline constexpr StorageFormat kBFloat16Format{7, -126, 0x1.FFp127};

/// Returns the largest value stored as 0: half of the smallest subnormal, a tie that rounds to
/// even.
double vanishes_to(const StorageFormat& format);
/// Returns the stored form of a value ≥ 0, without its rounding: itself, 0 or infinity.
double stored(const StorageFormat& format, double value);
/// Returns the standard deviation of the output for values ±σ if every step of the norm is stored
/// in the format.
double stored_statistics_output(const StorageFormat& format, double deviation, double epsilon);
/// Returns √E[rounding error²] of a value of N(0, σ²). The error is uniform within ±half of the
/// distance between numbers.
double storage_error(const StorageFormat& format, double deviation);

/// Returns the share of N(0, 1) between low and high.
double normal_share(double low, double high);

}  // namespace addnorm::theory
