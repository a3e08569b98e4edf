#pragma once

#include "lab/figure.h"

/// What the figures of figures() run; each stands in a file of its name.

namespace addnorm {

FigureResult epsilon(const FigureOptions& options);
FigureResult gradient_flow(const FigureOptions& options);
FigureResult instability(const FigureOptions& options);
FigureResult layer_vs_batch(const FigureOptions& options);
FigureResult layernorm(const FigureOptions& options);
FigureResult norm_backward(const FigureOptions& options);
FigureResult pipeline(const FigureOptions& options);

}  // namespace addnorm
