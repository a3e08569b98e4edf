#pragma once

#include <type_traits>

#include "addnorm/float16.h"
#include "addnorm/view.h"

namespace addnorm {

/// Whether T is what kernels compute in, so that nothing is to be converted.
template <typename T>
inline constexpr bool kIsArithmetic = std::is_same_v<T, Arithmetic<T>>;

/// to = from, rounded to nearest even where To is narrower. For float to BFloat16 and back.
template <typename From, typename To>
void convert(MatrixView<const From> from, MatrixView<To> to);

}  // namespace addnorm
