#include "train/adamw.h"

#include <cmath>

namespace addnorm {

template <typename T>
AdamW<T>::AdamW(const ParameterList<T>& parameters, const AdamWOptions& options)
    : options_(options) {
  for (const auto& [name, parameter] : parameters) {
    const Matrix<T>& value = parameter->value;
    moments_.push_back(
        {parameter, Matrix<T>(value.rows(), value.cols()), Matrix<T>(value.rows(), value.cols())});
  }
}

template <typename T>
void AdamW<T>::step(double learning_rate) {
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const auto beta1 = static_cast<T>(options_.beta1);
  const auto beta2 = static_cast<T>(options_.beta2);
  const auto epsilon = static_cast<T>(options_.epsilon);
  const auto rate = static_cast<T>(learning_rate / (1 - std::pow(options_.beta1, t)));
  const auto second_scale = static_cast<T>(1 / (1 - std::pow(options_.beta2, t)));
  for (Moments& moments : moments_) {
    Parameter<T>& parameter = *moments.parameter;
    const bool decays =
        parameter.role == ParameterRole::kWeight || parameter.role == ParameterRole::kEmbedding;
    const T keep = decays ? static_cast<T>(1 - learning_rate * options_.weight_decay) : T{1};
    T* p = parameter.value.data();
    T* m = moments.first.data();
    T* v = moments.second.data();
    const T* g = parameter.gradient.data();
    const std::size_t n = parameter.value.flat().size();
    for (std::size_t i = 0; i < n; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * (g[i] * g[i]);
      p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i] * second_scale) + epsilon);
    }
  }
}

template class AdamW<float>;
template class AdamW<double>;

}  // namespace addnorm
