#include "lab/figures.h"

namespace addnorm {
namespace {

constexpr Figure kFigures[] = {
    {.name = "epsilon",
     .title = "Small rows, large rows, and 16 bits",
     .question = "Which rows does a norm not bring to standard deviation 1?",
     .source = "docs/numerics.md; IEEE 754",
     .defaults = [] { return FigureOptions{.width = 512, .seeds = 8}; },
     .run = epsilon},
    {.name = "gradient-flow",
     .title = "What residual and norm do for the gradient",
     .question = "Does the gradient reach the first layer, with and without a residual, with and "
                 "without a norm?",
     .source = "He et al. 2016; Schoenholz et al. 2017",
     .defaults = [] { return FigureOptions{.layers = {12}, .width = 128, .seeds = 8}; },
     .most_layers = 96,
     .run = gradient_flow},
    {.name = "instability",
     .title = "F × 1 to F × 1000",
     .question = "A sublayer's output F(x) becomes much too large: does the norm repair it?",
     .source = "Ba et al. 2016, section 5.1",
     .defaults = [] { return FigureOptions{.seeds = 8}; },
     .run = instability},
    {.name = "layer-vs-batch",
     .title = "LayerNorm and BatchNorm",
     .question = "Which values does each of them normalize together, and what follows for small "
                 "batches and for sequences of different lengths?",
     .source = "Ba et al. 2016; Ioffe and Szegedy 2015",
     .defaults = [] { return FigureOptions{.width = 64, .seeds = 8}; },
     .run = layer_vs_batch},
    {.name = "layernorm",
     .title = "What LayerNorm does to a token",
     .question = "What becomes of a token's features, and what does not change them?",
     .source = "Ba et al. 2016",
     .defaults = [] { return FigureOptions{.width = 512, .seeds = 8}; },
     .run = layernorm},
    {.name = "norm-backward",
     .title = "What LayerNorm does to the gradient",
     .question = "Which part of a gradient passes a norm, and how large is it?",
     .source = "Xu et al. 2019",
     .defaults = [] { return FigureOptions{.width = 64, .seeds = 8}; },
     .run = norm_backward},
    {.name = "pipeline",
     .title = "One token on its way through Add & Norm",
     .question = "What does each step of a sublayer do to a token?",
     .source = "Vaswani et al. 2017",
     .defaults = [] { return FigureOptions{.width = 64}; },
     .run = pipeline},
};

}  // namespace

std::span<const Figure> figures() {
  return kFigures;
}

}  // namespace addnorm
