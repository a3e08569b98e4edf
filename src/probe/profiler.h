#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/probe.h"
#include "probe/profile_entry.h"

namespace addnorm::probe {

/// Sums over values that arrive in parts, such as attention's scores.
struct PartialSums {
  double count = 0, sum = 0, squares = 0, abs_max = 0;
  double rows = 0, entropy = 0;
};

/// The amount of measurements. Each includes the one before: kTurns adds the layers' cosines, kFull
/// attention's scores, medians and peaks.
enum class Detail { kBrief, kTurns, kFull };

/// A probe that measures every site that it observes. Sums are in float64, in a fixed order.
template <typename T>
class Profiler : public Probe<T> {
 public:
  /// `length` is the number of tokens in one sequence.
  explicit Profiler(std::size_t length, std::size_t step = 0, Detail detail = Detail::kBrief)
      : length_(length), step_(step), detail_(detail) {}

  void forward(const Site& site, MatrixView<const T> values) override;
  void backward(const Site& site, MatrixView<const T> gradients) override;

  bool wants_scores() const override { return detail_ == Detail::kFull; }

  /// Returns the entries in the order of the forward pass.
  const std::vector<ProfileEntry>& entries() const { return entries_; }

 private:
  void add_layer_cosine(const Site& site, MatrixView<const T> values);
  void add_detail(const Site& site, MatrixView<const T> values);
  void add_scores(const Site& site, MatrixView<const T> scores);
  ProfileEntry& entry(const Site& site);

  std::size_t length_;
  std::size_t step_;
  Detail detail_;
  std::map<std::size_t, PartialSums> score_sums_;  // by layer
  Matrix<T> layer_input_;                          // input of the observed layer
  std::vector<ProfileEntry> entries_;
};

/// Returns the token similarity (|Σ u|² − n)/(n·(n − 1)), with u the unit vectors of a sequence's n
/// tokens, averaged over the sequences. It is 1 if all tokens have the same direction (rank
/// collapse in Dong et al. 2021).
template <typename T>
double mean_token_cosine(MatrixView<const T> tokens, std::size_t length);

/// Returns the first entry at (layer, sublayer, point), or nullptr.
const ProfileEntry* find_entry(const std::vector<ProfileEntry>& profile, const Site& site);

/// Returns the possible sites of the residual stream at a place of a stack of `layers` layers; the
/// first one that exists is the right one. A stream of several lanes ends with the final norm's
/// input. Parallel sublayers have only attention's sites.
std::vector<Site> stream_sites(std::size_t place, std::size_t layers);

/// Returns the residual stream's entry at a place of a stack of `layers` layers: at place l the
/// input of layer l, at place `layers` the output of the last one. Throws an Error if the profile
/// lacks it.
const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers);

}  // namespace addnorm::probe
