#pragma once

#include "lab/figure.h"

/// What the figures of figures() run; each stands in a file of its name.

namespace addnorm {

FigureResult gradient_flow(const FigureOptions& options);
FigureResult placement(const FigureOptions& options);
FigureResult variance(const FigureOptions& options);
FigureResult rank_collapse(const FigureOptions& options);
FigureResult warm_up(const FigureOptions& options);
FigureResult learning_rate(const FigureOptions& options);
FigureResult depth(const FigureOptions& options);

}  // namespace addnorm
