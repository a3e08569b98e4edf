#include "theory/norm_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace addnorm::theory {

double divisor(const NormOptions& norm, double deviation) {
  return norm.epsilon_at == EpsilonAt::kVariance ? std::sqrt(deviation * deviation + norm.epsilon)
                                                 : deviation + norm.epsilon;
}

double output_deviation(const NormOptions& norm, double deviation) {
  return deviation / divisor(norm, deviation);
}

// z²/(d − 1) has the distribution Beta(1/2, (d − 2)/2).
double normalized_share(std::size_t d, double low, double high) {
  constexpr int kSteps = 16;  // of Simpson's rule
  const double n = static_cast<double>(d);
  const double scale = std::exp(std::lgamma((n - 1) / 2) - std::lgamma((n - 2) / 2)) /
                       std::sqrt(std::numbers::pi * (n - 1));
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = low + i * (high - low) / kSteps;
    const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 0 ? 2 : 4;
    sum += weight * std::pow(1 - z * z / (n - 1), (n - 4) / 2);
  }
  return scale * sum * (high - low) / (3 * kSteps);
}

double SumMoments::cosine(double j, double k) const {
  return between(j, k) / std::sqrt(variance(j) * variance(k));
}

double SumMoments::branch_cosine(double k) const {
  return (covariance + k * branch) / std::sqrt(variance(k) * branch);
}

double left_along_x_hat(double deviation, double epsilon) {
  return epsilon / (deviation * deviation + epsilon);
}

double jacobian_norm(std::size_t d, double deviation, double epsilon) {
  const double left = left_along_x_hat(deviation, epsilon);
  return std::sqrt((static_cast<double>(d) - 2 + left * left) / (deviation * deviation + epsilon));
}

double removed_share(std::size_t d, double deviation, double epsilon) {
  const double left = left_along_x_hat(deviation, epsilon);
  return (2 - left * left) / static_cast<double>(d);
}

double removed_share_variance(std::size_t d) {
  const double n = static_cast<double>(d);
  return 4 * (n - 2) / (n * n * (n + 2));
}

double batch_mean_error(std::size_t batch) {
  return 1 / std::sqrt(static_cast<double>(batch));
}

// With c of χ²ₙ, n = B − 1, the error is (c − n − 1)/B. The central moments of χ²ₙ are 2n, 8n, 12n²
// + 48n.
double batch_variance_error(std::size_t batch) {
  const double b = static_cast<double>(batch);
  return std::sqrt(2 * (b - 1) + 1) / b;
}

double batch_variance_error_spread(std::size_t batch) {
  const double n = static_cast<double>(batch) - 1;
  return std::sqrt(8 * n * n + 24 * n) / (2 * n + 1);
}

Moments padded(const Moments& values, double share) {
  return {(1 - share) * values.mean,
          (1 - share) * (values.variance + share * values.mean * values.mean)};
}

double vanishes_to(const StorageFormat& format) {
  return std::ldexp(1.0, format.least_exponent - format.fraction_bits - 1);
}

double stored(const StorageFormat& format, double value) {
  if (value >= format.overflows_from) return std::numeric_limits<double>::infinity();
  return value <= vanishes_to(format) ? 0 : value;
}

double stored_statistics_output(const StorageFormat& format, double deviation, double epsilon) {
  const double variance = stored(format, deviation * deviation) + stored(format, epsilon);
  return stored(format, deviation) / std::sqrt(variance);
}

double storage_error(const StorageFormat& format, double deviation) {
  constexpr int kOctaves = 40;  // below the largest, 2³: N(0, 1) has practically nothing above 8
  const int top = std::ilogb(deviation) + 4;
  double mean_square = 0;
  for (int e = top - kOctaves; e < top; ++e) {
    const double step = std::ldexp(1.0, std::max(e, format.least_exponent) - format.fraction_bits);
    const double low = std::ldexp(1.0, e) / deviation;
    mean_square += 2 * normal_share(low, 2 * low) * step * step / 12;
  }
  return std::sqrt(mean_square);
}

double normal_share(double low, double high) {
  return (std::erf(high / std::numbers::sqrt2) - std::erf(low / std::numbers::sqrt2)) / 2;
}

}  // namespace addnorm::theory
