#pragma once

#include "lab/figure.h"

/// The functions that run the figures of figures(); each is in the file of its name.

namespace addnorm::lab {

FigureResult gradient_flow(const FigureOptions& options);
FigureResult layer_vs_batch(const FigureOptions& options);
FigureResult pipeline(const FigureOptions& options);
FigureResult layernorm(const FigureOptions& options);
FigureResult pre_and_post_norm(const FigureOptions& options);
FigureResult variance(const FigureOptions& options);
FigureResult instability(const FigureOptions& options);
FigureResult warm_up(const FigureOptions& options);
FigureResult learning_rate(const FigureOptions& options);
FigureResult rank_collapse(const FigureOptions& options);
FigureResult all_placements(const FigureOptions& options);
FigureResult depth(const FigureOptions& options);
FigureResult epsilon(const FigureOptions& options);
FigureResult norm_backward(const FigureOptions& options);
FigureResult depth_mixing(const FigureOptions& options);
FigureResult lanes(const FigureOptions& options);
FigureResult composite_gain(const FigureOptions& options);
FigureResult post_norm_revived(const FigureOptions& options);
FigureResult norm_kinds_by_depth(const FigureOptions& options);

}  // namespace addnorm::lab
