#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "addnorm/api.h"
#include "addnorm/float16.h"
#include "addnorm/matrix.h"
#include "addnorm/types.h"

namespace addnorm {

/// The role of a parameter for optimizers and initializations: only weights and embeddings decay.
enum class ParameterRole { kWeight, kEmbedding, kBias, kNorm, kResidualFactor };

/// A learned matrix (vectors have one row) and the gradient of the loss with respect to it, to
/// which every backward adds.
template <typename T>
struct Parameter {
  static_assert(check_value<T>());

  Matrix<T> value;
  Matrix<T> gradient;
  ParameterRole role = ParameterRole::kWeight;
  /// The value rounded for products in bfloat16, empty if there are none. Call round_parameters()
  /// after each change of the value.
  Matrix<BFloat16> rounded = {};

  Parameter() = default;
  Parameter(std::size_t rows, std::size_t cols, ParameterRole role_, T initial = 0)
      : value(rows, cols), gradient(rows, cols), role(role_) {
    value.fill(initial);
  }
  bool empty() const { return value.empty(); }
};

/// A parameter and its name in checkpoints.
/// Valid while the parameter's owner stays at its address: a module that moves takes its parameters
/// along.
template <typename T>
struct NamedParameter {
  std::string name;  ///< "layers.3.attention.query.weight"
  Parameter<T>* parameter;
};
template <typename T>
using ParameterList = std::vector<NamedParameter<T>>;

/// Returns "prefix.name", or the name alone if the prefix is empty.
inline std::string join_names(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

/// Adds `parameter` to the list as "prefix.name" unless it is absent.
template <typename T>
void list_parameter(ParameterList<T>& list, const std::string& prefix, const std::string& name,
                    Parameter<T>& parameter) {
  if (!parameter.empty()) list.push_back({join_names(prefix, name), &parameter});
}

template <typename T>
std::size_t count_parameters(const ParameterList<T>& list) {
  std::size_t count = 0;
  for (const auto& entry : list) count += entry.parameter->value.flat().size();
  return count;
}

/// Recomputes `rounded` if it is not empty. For float and double.
template <typename T>
ADDNORM_API void round_parameter(Parameter<T>& parameter);
template <typename T>
ADDNORM_API void round_parameters(const ParameterList<T>& list);

template <typename T>
void zero_gradients(const ParameterList<T>& list) {
  for (const auto& entry : list) entry.parameter->gradient.fill(T{0});
}

}  // namespace addnorm
