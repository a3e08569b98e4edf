#include "probe/profiler.h"

#include <algorithm>
#include <cmath>

#include "base/require.h"

namespace addnorm {

template <typename T>
void Profiler<T>::forward(const Site& site, MatrixView<const T> values) {
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

const ProfileEntry& stream_entry(const std::vector<ProfileEntry>& profile, std::size_t place,
                                 std::size_t layers) {
  using enum SublayerKind;
  const ProfileEntry* entry = nullptr;
  if (place < layers) {
    entry = find_entry(profile, {place, kAttention, Point::kX});
  } else {
    entry = find_entry(profile, {layers - 1, kFeedForward, Point::kAfter});
    if (entry == nullptr) entry = find_entry(profile, {layers - 1, kFeedForward, Point::kSum});
  }
  require(entry != nullptr, "the profile has no stream at place {} of {} layers", place, layers);
  return *entry;
}

template class Profiler<float>;
template class Profiler<double>;
template double mean_token_cosine(MatrixView<const float>, std::size_t);
template double mean_token_cosine(MatrixView<const double>, std::size_t);

}  // namespace addnorm
