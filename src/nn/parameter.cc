#include "addnorm/nn/parameter.h"

#include <type_traits>

#include "kernels/convert.h"

namespace addnorm {

template <typename T>
void round_parameter(Parameter<T>& parameter) {
  if constexpr (std::is_same_v<T, float>) {  // products of double use the value itself
    if (parameter.rounded.empty()) return;
    kernels::convert<float, BFloat16>(parameter.value.view(), parameter.rounded);
  }
}

template <typename T>
void round_parameters(const ParameterList<T>& list) {
  for (const auto& entry : list) round_parameter(*entry.parameter);
}

template void round_parameter(Parameter<float>&);
template void round_parameter(Parameter<double>&);
template void round_parameters(const ParameterList<float>&);
template void round_parameters(const ParameterList<double>&);

}  // namespace addnorm
