#include "addnorm/nn/parameter.h"

#include "kernels/convert.h"

namespace addnorm {

template <>
void round_parameter(Parameter<float>& parameter) {
  if (parameter.rounded.empty()) return;
  convert<float, BFloat16>(parameter.value.view(), parameter.rounded);
}
template <>
void round_parameter(Parameter<double>&) {}  // no products of double read anything else

template <typename T>
void round_parameters(const ParameterList<T>& list) {
  for (const auto& entry : list) round_parameter(*entry.parameter);
}

template void round_parameters(const ParameterList<float>&);
template void round_parameters(const ParameterList<double>&);

}  // namespace addnorm
