#include "addnorm/train/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "base/parallel.h"
#include "base/time_account.h"

namespace addnorm {
namespace {

constexpr std::size_t kBlock = 16384;  // the smallest work of one thread, in values
constexpr std::size_t kLanes = 16;

}  // namespace

template <typename T>
AdamW<T>::AdamW(const ParameterList<T>& parameters, const AdamWOptions& options)
    : options_(options) {
  for (const auto& [name, parameter] : parameters) {
    const Matrix<T>& value = parameter->value;
    moments_.push_back({name, parameter, Matrix<T>(value.rows(), value.cols()),
                        Matrix<T>(value.rows(), value.cols())});
  }
}

template <typename T>
void AdamW<T>::step(double learning_rate, double gradient_scale) {
  const ScopedTimer timer(Cost::kOptimizer);
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const auto beta1 = static_cast<T>(options_.beta1);
  const auto beta2 = static_cast<T>(options_.beta2);
  const auto epsilon = static_cast<T>(options_.epsilon);
  const auto rate = static_cast<T>(learning_rate / (1 - std::pow(options_.beta1, t)));
  const auto second_scale = static_cast<T>(1 / (1 - std::pow(options_.beta2, t)));
  const auto scale = static_cast<T>(gradient_scale);
  for (Moments& moments : moments_) {
    Parameter<T>& parameter = *moments.parameter;
    const bool decays =
        parameter.role == ParameterRole::kWeight || parameter.role == ParameterRole::kEmbedding;
    const T keep = decays ? static_cast<T>(1 - learning_rate * options_.weight_decay) : T{1};
    T* p = parameter.value.data();
    T* m = moments.first.data();
    T* v = moments.second.data();
    const T* g = parameter.gradient.data();
    parallel_ranges(
        parameter.value.flat().size(), kBlock, kLanes, [=](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            const T gradient = scale * g[i];
            m[i] = beta1 * m[i] + (1 - beta1) * gradient;
            v[i] = beta2 * v[i] + (1 - beta2) * (gradient * gradient);
            p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i] * second_scale) + epsilon);
          }
        });
    round_parameter(parameter);
  }
}

namespace {

/// Returns Σ v² in lanes, which a compiler vectorizes.
template <typename T>
double squared_norm(std::span<const T> values) {
  std::array<double, kLanes> sums{};
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double v = values[i + l];
      sums[l] += v * v;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    sums[i - whole] += static_cast<double>(values[i]) * values[i];
  }
  return std::reduce(sums.begin(), sums.end());
}

}  // namespace

template <typename T>
double AdamW<T>::gradient_norm() {
  const ScopedTimer timer(Cost::kOptimizer);
  double sum = 0;
  for (const Moments& moments : moments_) {
    const std::span<const T> all = moments.parameter->gradient.flat();
    partial_sums_.resize((all.size() + kBlock - 1) / kBlock);
    parallel_for(partial_sums_.size(), 1, [&](std::size_t b) {
      const std::size_t begin = b * kBlock;
      partial_sums_[b] = squared_norm(all.subspan(begin, std::min(kBlock, all.size() - begin)));
    });
    sum = std::accumulate(partial_sums_.begin(), partial_sums_.end(), sum);
  }
  return std::sqrt(sum);
}

template <typename T>
std::vector<NamedMatrix<T>> AdamW<T>::state() {
  std::vector<NamedMatrix<T>> all;
  for (Moments& moments : moments_) {
    all.push_back({"adamw.first." + moments.name, &moments.first});
    all.push_back({"adamw.second." + moments.name, &moments.second});
  }
  return all;
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace addnorm
