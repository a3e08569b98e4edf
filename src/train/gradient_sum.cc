#include "train/gradient_sum.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/parallel.h"

namespace addnorm::train {
namespace {

constexpr std::size_t kLine = 16;      // values: parts begin at cache lines
constexpr std::size_t kGrain = 16384;  // the smallest work of one thread, in values

/// Calls copy(gradient, place) for each parameter, with its place in the bucket.
template <typename T, typename Copy>
void for_each_place(const ParameterList<T>& parameters, Matrix<T>& all, const Copy& copy) {
  T* place = all.data();
  for (const auto& entry : parameters) {
    const std::span<T> gradient = entry.parameter->gradient.flat();
    copy(gradient, std::span(place, gradient.size()));
    place += gradient.size();
  }
}

}  // namespace

template <typename T>
GradientSum<T>::GradientSum(Communicator& world, std::vector<ParameterList<T>> buckets)
    : world_(world) {
  started_.reserve(buckets.size());
  for (ParameterList<T>& parameters : buckets) {
    const std::size_t lines = count_parameters(parameters) / (kLine * world.size()) + 1;
    buckets_.push_back({std::move(parameters), Matrix<T>(world.size(), kLine * lines),
                        Matrix<T>(world.size(), kLine * lines)});
  }
}

template <typename T>
void GradientSum<T>::start(std::size_t bucket) {
  Bucket& b = buckets_.at(bucket);
  for_each_place(b.parameters, b.mine, [](std::span<T> gradient, std::span<T> place) {
    std::ranges::copy(gradient, place.begin());
  });
  world_.start_exchange(bucket, std::as_bytes(b.mine.flat()),
                        std::as_writable_bytes(b.received.flat()));
  started_.push_back(bucket);
  advance([&](std::size_t slot) { return world_.is_done(slot); });
}

template <typename T>
void GradientSum<T>::finish() {
  advance([&](std::size_t slot) {
    world_.wait(slot);
    return true;
  });
  started_.clear();
  added_up_ = arrived_ = 0;
}

/// Works on one bucket after the other, so that all processes start their operations in the same
/// order.
template <typename T>
template <typename Ready>
void GradientSum<T>::advance(const Ready& is_ready) {
  for (; added_up_ < started_.size() && is_ready(started_[added_up_]); ++added_up_) {
    Bucket& b = buckets_[started_[added_up_]];
    add_up(b);
    world_.start_gather(started_[added_up_], std::as_writable_bytes(b.mine.flat()));
  }
  for (; arrived_ < added_up_ && is_ready(started_[arrived_]); ++arrived_) {
    Bucket& b = buckets_[started_[arrived_]];
    for_each_place(b.parameters, b.mine, [](std::span<T> gradient, std::span<T> place) {
      std::ranges::copy(place, gradient.begin());
    });
  }
}

template <typename T>
void GradientSum<T>::add_up(Bucket& bucket) {
  const MatrixView<const T> terms = bucket.received;
  const std::span<T> sum = bucket.mine.view().row(world_.rank());
  parallel_ranges(sum.size(), kGrain, kLine, [&](std::size_t begin, std::size_t end) {
    std::copy(terms.row(0).begin() + begin, terms.row(0).begin() + end, sum.begin() + begin);
    for (std::size_t r = 1; r < terms.rows; ++r) {
      for (std::size_t i = begin; i < end; ++i) sum[i] += terms(r, i);
    }
  });
}

template class GradientSum<float>;
template class GradientSum<double>;

}  // namespace addnorm::train
