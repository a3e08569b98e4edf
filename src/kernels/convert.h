#pragma once

#include "addnorm/float16.h"
#include "addnorm/view.h"

namespace addnorm::kernels {

/// to = from, rounded to nearest even where To is narrower. For float to BFloat16 and back.
template <typename From, typename To>
void convert(MatrixView<const From> from, MatrixView<To> to);

}  // namespace addnorm::kernels
