#include "lab/figures.h"

namespace addnorm {
namespace {

constexpr Figure kFigures[] = {
    {.name = "gradient-flow",
     .title = "What residual and norm do for the gradient",
     .question = "Does the gradient reach the first layer, with and without a residual, with and "
                 "without a norm?",
     .source = "He et al. 2016; Schoenholz et al. 2017",
     .defaults = [] { return FigureOptions{.layers = {12}, .width = 128, .seeds = 8}; },
     .most_layers = 96,
     .run = gradient_flow},
};

}  // namespace

std::span<const Figure> figures() {
  return kFigures;
}

}  // namespace addnorm
