#include "probe/profiler.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"

namespace addnorm::probe {
namespace {

/// Over rows of the same number.
template <typename T>
double mean_cosine(MatrixView<const T> a, MatrixView<const T> b) {
  double total = 0;
  for (std::size_t r = 0; r < a.rows; ++r) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.cols; ++i) {
      const double x = a(r, i), y = b(r, i);
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    total += ab / std::sqrt(aa * bb);
  }
  return total / static_cast<double>(a.rows);
}

}  // namespace

template <typename T>
void Profiler<T>::forward(const Site& site, MatrixView<const T> values) {
  if (site.point == Point::kScores) return add_scores(site, values);
  double sum = 0;
  double squares = 0;
  double abs_max = 0;
  bool finite = true;
  for (std::size_t r = 0; r < values.rows; ++r) {
    for (const T value : values.row(r)) {
      const double v = value;
      sum += v;
      squares += v * v;
      abs_max = std::max(abs_max, std::abs(v));
      finite &= std::isfinite(v);
    }
  }
  const auto n = static_cast<double>(values.size());
  ProfileEntry& e = entry(site);
  e.rms = std::sqrt(squares / n);
  e.mean = sum / n;
  e.std = std::sqrt(std::max(0.0, squares / n - e.mean * e.mean));
  e.abs_max = finite ? abs_max : std::numeric_limits<double>::infinity();
  if (values.cols > 1) e.token_cosine = mean_token_cosine(values, length_);
  if (detail_ != Detail::kBrief) add_layer_cosine(site, values);
  if (detail_ == Detail::kFull) add_detail(site, values);
}

/// At the end of a layer, its cosine with what the layer has read.
template <typename T>
void Profiler<T>::add_layer_cosine(const Site& site, MatrixView<const T> values) {
  if (site.sublayer == SublayerKind::kAttention && site.point == Point::kX) {
    layer_input_.resize(values.rows, values.cols);
    for (std::size_t r = 0; r < values.rows; ++r) {
      std::ranges::copy(values.row(r), layer_input_.view().row(r).begin());
    }
  }
  const bool is_end = site.point == Point::kSum || site.point == Point::kAfter;
  if (site.sublayer != SublayerKind::kFeedForward || !is_end) return;
  if (site.point == Point::kAfter) {
    entry({site.layer, site.sublayer, Point::kSum}).layer_cosine = ProfileEntry::kUnknown;
  }
  if (layer_input_.rows() == values.rows && layer_input_.cols() == values.cols) {
    entry(site).layer_cosine = mean_cosine<T>(layer_input_, values);
  }
}

/// The median and the peak.
template <typename T>
void Profiler<T>::add_detail(const Site& site, MatrixView<const T> values) {
  std::vector<T> sizes(values.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = std::abs(values(i / values.cols, i % values.cols));
  }
  ProfileEntry& e = entry(site);
  const auto peak = std::size_t(std::ranges::max_element(sizes) - sizes.begin());
  e.peak_feature = static_cast<double>(peak % values.cols);
  e.peak_token = static_cast<double>(peak / values.cols % length_);
  const auto middle = sizes.begin() + std::ptrdiff_t(sizes.size() / 2);
  std::ranges::nth_element(sizes, middle);
  e.abs_median = *middle;
}

/// Entropy counts the queries that see two keys or more.
template <typename T>
void Profiler<T>::add_scores(const Site& site, MatrixView<const T> scores) {
  PartialSums& sums = score_sums_[site.layer];
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  for (std::size_t r = 0; r < scores.rows; ++r) {
    double top = -std::numeric_limits<double>::infinity();
    std::size_t visible = 0;
    for (const T score : scores.row(r)) {
      if (score == kHidden) continue;
      const double s = score;
      ++visible;
      sums.sum += s;
      sums.squares += s * s;
      sums.abs_max = std::isfinite(s) ? std::max(sums.abs_max, std::abs(s))
                                      : std::numeric_limits<double>::infinity();
      top = std::max(top, s);
    }
    sums.count += static_cast<double>(visible);
    if (visible < 2) continue;
    double weights = 0, weighted = 0;
    for (const T score : scores.row(r)) {
      if (score == kHidden) continue;
      const double weight = std::exp(score - top);
      weights += weight;
      weighted += weight * (score - top);
    }
    sums.rows += 1;
    sums.entropy += (std::log(weights) - weighted / weights) / std::log(double(visible));
  }
  ProfileEntry& e = entry(site);
  e.rms = std::sqrt(sums.squares / sums.count);
  e.mean = sums.sum / sums.count;
  e.std = std::sqrt(std::max(0.0, sums.squares / sums.count - e.mean * e.mean));
  e.abs_max = sums.abs_max;
  if (sums.rows > 0) e.entropy = sums.entropy / sums.rows;
}

template <typename T>
void Profiler<T>::backward(const Site& site, MatrixView<const T> gradients) {
  double squares = 0;
  for (std::size_t r = 0; r < gradients.rows; ++r) {
    for (const T value : gradients.row(r)) squares += static_cast<double>(value) * value;
  }
  entry(site).grad_rms = std::sqrt(squares / static_cast<double>(gradients.size()));
}

template <typename T>
ProfileEntry& Profiler<T>::entry(const Site& site) {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const ProfileEntry& e) { return e.site == site; });
  if (found != entries_.end()) return *found;
  return entries_.emplace_back(ProfileEntry{.step = step_, .site = site});
}

template <typename T>
double mean_token_cosine(MatrixView<const T> tokens, std::size_t length) {
  if (length < 2 || tokens.rows < length) return ProfileEntry::kUnknown;
  const std::size_t sequences = tokens.rows / length;
  const auto n = static_cast<double>(length);
  std::vector<double> direction(tokens.cols);
  double total = 0;
  for (std::size_t s = 0; s < sequences; ++s) {
    std::fill(direction.begin(), direction.end(), 0.0);
    for (std::size_t r = s * length; r < (s + 1) * length; ++r) {
      double squares = 0;
      for (const T v : tokens.row(r)) squares += static_cast<double>(v) * v;
      const double norm = std::sqrt(squares);
      for (std::size_t i = 0; i < tokens.cols; ++i) direction[i] += tokens(r, i) / norm;
    }
    double squares = 0;
    for (const double v : direction) squares += v * v;
    total += (squares - n) / (n * (n - 1));
  }
  return total / static_cast<double>(sequences);
}

const ProfileEntry* find_entry(const std::vector<ProfileEntry>& profile, const Site& site) {
  auto found = std::find_if(profile.begin(), profile.end(),
                            [&](const ProfileEntry& e) { return e.site == site; });
  return found == profile.end() ? nullptr : &*found;
}

std::vector<Site> stream_sites(std::size_t place, std::size_t layers) {
  using enum SublayerKind;
  if (place < layers) return {{place, kAttention, Point::kX}};
  const std::size_t last = layers - 1;
  return {{layers, kFinalNorm, Point::kX},
          {last, kFeedForward, Point::kAfter},
          {last, kFeedForward, Point::kSum},
          {last, kAttention, Point::kAfter},
          {last, kAttention, Point::kSum}};
}

const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers) {
  const ProfileEntry* entry = nullptr;
  for (const Site& site : stream_sites(place, layers)) {
    entry = find_entry(profile, site);
    if (entry != nullptr) break;
  }
  require(entry != nullptr, "the profile has no stream at place {} of {} layers", place, layers);
  return *entry;
}

template class Profiler<float>;
template class Profiler<double>;
template double mean_token_cosine(MatrixView<const float>, std::size_t);
template double mean_token_cosine(MatrixView<const double>, std::size_t);

}  // namespace addnorm::probe
