#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "nn/probe.h"

namespace addnorm {

/// What was measured of the values and gradients at one site; NaN is unknown.
struct ProfileEntry {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::size_t step = 0;
  Site site;
  double rms = kUnknown;      ///< √(mean of x²) over tokens and features
  double mean = kUnknown;     ///< of all values
  double std = kUnknown;      ///< of all values
  double abs_max = kUnknown;  ///< largest |x|
  double grad_rms = kUnknown;
  double token_cosine = kUnknown;  ///< mean cosine of two different tokens of one sequence
};

/// A probe that measures every site it is told about. Sums are in float64, in a fixed order.
template <typename T>
class Profiler : public Probe<T> {
 public:
  /// `length`: tokens of one sequence.
  explicit Profiler(std::size_t length, std::size_t step = 0) : length_(length), step_(step) {}

  void forward(const Site& site, MatrixView<const T> values) override;
  void backward(const Site& site, MatrixView<const T> gradients) override;

  /// In the order of the forward pass.
  const std::vector<ProfileEntry>& entries() const { return entries_; }

 private:
  ProfileEntry& entry(const Site& site);

  std::size_t length_;
  std::size_t step_;
  std::vector<ProfileEntry> entries_;
};

/// (|Σ u|² − n)/(n·(n − 1)) with u the unit vectors of a sequence's n tokens, averaged over the
/// sequences: 1 where all tokens point the same way (Dong et al. 2021 call that rank collapse).
template <typename T>
double mean_token_cosine(MatrixView<const T> tokens, std::size_t length);

/// The first entry at (layer, sublayer, point), or nullptr.
const ProfileEntry* find_entry(const std::vector<ProfileEntry>& profile, const Site& site);

/// The residual stream at a place of a stack of `layers`: at place l what layer l reads, at place
/// `layers` what the last one leaves. Error if the profile lacks it.
const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers);

}  // namespace addnorm
