#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/nn/probe.h"
#include "probe/profile_entry.h"

namespace addnorm::probe {

/// Sums over values in parts, as attention reports its scores.
struct PartialSums {
  double count = 0, sum = 0, squares = 0, abs_max = 0;
  double rows = 0, entropy = 0;
};

/// Each adds to the one before: kTurns the layers' cosines, kFull attention's scores, medians and
/// peaks.
enum class Detail { kBrief, kTurns, kFull };

/// A probe that measures every site that it observes. Sums are in float64, in a fixed order.
template <typename T>
class Profiler : public Probe<T> {
 public:
  /// `length`: tokens of one sequence.
  explicit Profiler(std::size_t length, std::size_t step = 0, Detail detail = Detail::kBrief)
      : length_(length), step_(step), detail_(detail) {}

  void forward(const Site& site, MatrixView<const T> values) override;
  void backward(const Site& site, MatrixView<const T> gradients) override;

  bool wants_scores() const override { return detail_ == Detail::kFull; }

  /// In the order of the forward pass.
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
  Matrix<T> layer_input_;                          // what the observed layer reads
  std::vector<ProfileEntry> entries_;
};

/// (|Σ u|² − n)/(n·(n − 1)) with u the unit vectors of a sequence's n tokens, averaged over the
/// sequences: 1 where all tokens point the same way (Dong et al. 2021 call that rank collapse).
template <typename T>
double mean_token_cosine(MatrixView<const T> tokens, std::size_t length);

/// The first entry at (layer, sublayer, point), or nullptr.
const ProfileEntry* find_entry(const std::vector<ProfileEntry>& profile, const Site& site);

/// Where the residual stream is at a place of a stack of `layers`: the first of these sites that
/// there is. What a stream of several lanes ends with is what the final norm reads; sublayers in
/// parallel have the attention's sites alone.
std::vector<Site> stream_sites(std::size_t place, std::size_t layers);

/// The residual stream at a place of a stack of `layers`: at place l what layer l reads, at place
/// `layers` what the last one leaves. Error if the profile lacks it.
const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers);

}  // namespace addnorm::probe
