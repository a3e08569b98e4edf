#include "lab/figures.h"

#include "addnorm/nn/placement.h"

namespace addnorm::lab {
namespace {

/// The placements that five slots describe, and some of several lanes: running all would take too
/// long.
std::vector<std::string> placement_names() {
  std::vector<std::string> names;
  for (const Placement& placement : addnorm::placements()) {
    if (placement.is_plain()) names.emplace_back(placement.name);
  }
  for (const char* name : {"siamese", "hyper", "mhc", "block-attention-residuals"}) {
    names.emplace_back(name);
  }
  return names;
}

constexpr Figure kFigures[] = {
    {.name = "gradient-flow",
     .title = msg("What residual and norm do for the gradient"),
     .question =
         msg("Does the gradient reach the first layer, with and without a residual, with and "
             "without a norm?"),
     .source = "He et al. 2016; Schoenholz et al. 2017",
     .defaults = [] { return FigureOptions{.layers = {12}, .width = 128, .seeds = 8}; },
     .most_layers = 96,
     .run = gradient_flow},
    {.name = "layer-vs-batch",
     .title = msg("LayerNorm and BatchNorm"),
     .question =
         msg("Which values does each of them normalize together, and what follows for small "
             "batches and for sequences of different lengths?"),
     .source = msg("Ba et al. 2016; Ioffe and Szegedy 2015"),
     .defaults = [] { return FigureOptions{.width = 64, .seeds = 8}; },
     .run = layer_vs_batch},
    {.name = "pipeline",
     .title = msg("One token on its way through Add & Norm"),
     .question = msg("What does each step of a sublayer do to a token?"),
     .source = "Vaswani et al. 2017",
     .defaults = [] { return FigureOptions{.width = 64}; },
     .run = pipeline},
    {.name = "layernorm",
     .title = msg("What LayerNorm does to a token"),
     .question = msg("How does LayerNorm change a token's features, and which changes of a token "
                     "does it undo?"),
     .source = "Ba et al. 2016",
     .defaults = [] { return FigureOptions{.width = 512, .seeds = 8}; },
     .run = layernorm},
    {.name = "placement",
     .title = msg("Pre-norm against post-norm"),
     .question = msg("How large is the gradient of a deep stack before its first step?"),
     .source = "Xiong et al. 2020; Wang et al. 2022",
     .defaults =
         [] {
           return FigureOptions{.layers = {6, 12, 24, 48},
                                .width = 128,
                                .seeds = 8,
                                .placements = {"post", "pre", "deepnorm"}};
         },
     .most_layers = 96,
     .run = pre_and_post_norm},
    {.name = "variance",
     .title = msg("How the stream's variance grows with depth"),
     .question = msg("What does each layer add to the residual stream?"),
     .source = msg("Xiong et al. 2020, lemma 2; Liu et al. 2022; Sun et al. 2025"),
     .defaults =
         [] {
           return FigureOptions{.layers = {48},
                                .width = 64,
                                .seeds = 200,
                                .placements = {"pre", "reordered", "depth-scaled", "post", "none"}};
         },
     .most_layers = 96,
     .run = variance},
    {.name = "instability",
     .title = msg("F × 1 to F × 1000"),
     .question = msg("A sublayer's output F(x) becomes much too large: does the norm repair it?"),
     .source = msg("Ba et al. 2016, section 5.1"),
     .defaults = [] { return FigureOptions{.seeds = 8}; },
     .run = instability},
    {.name = "warm-up",
     .title = msg("What warm-up is for"),
     .question = msg("Which stacks train without learning-rate warm-up?"),
     .source = "Xiong et al. 2020",
     .defaults =
         [] {
           return FigureOptions{
               .layers = {3, 6, 12}, .width = 32, .seeds = 4, .placements = {"post", "pre"}};
         },
     .most_layers = 96,
     .trains = true,
     .run = warm_up},
    {.name = "learning-rate",
     .title = msg("Which learning rates a norm allows"),
     .question = msg("How high may the learning rate be, with and without a norm?"),
     .source = msg("Ioffe and Szegedy 2015"),
     .defaults =
         [] {
           return FigureOptions{
               .layers = {8}, .width = 32, .seeds = 3, .placements = {"pre", "none"}};
         },
     .most_layers = 96,
     .trains = true,
     .run = learning_rate},
    {.name = "rank-collapse",
     .title = msg("How attention makes tokens alike"),
     .question = msg("Are tokens still different from each other after many layers?"),
     .source = "Dong et al. 2021; Noci et al. 2022",
     .defaults =
         [] {
           return FigureOptions{.layers = {24},
                                .width = 128,
                                .seeds = 8,
                                .placements = {"plain", "none", "pre", "post", "scaled-branch"}};
         },
     .most_layers = 96,
     .run = rank_collapse},
    {.name = "placements",
     .title = msg("All placements side by side"),
     .question = msg("What does each arrangement do to stream, gradient and loss?"),
     .source = msg("ARCHITECTURE.md, the table of placements"),
     .defaults =
         [] {
           return FigureOptions{
               .layers = {12}, .width = 64, .seeds = 4, .placements = placement_names()};
         },
     .most_layers = 96,
     .trains = true,
     .run = all_placements},
    {.name = "depth",
     .title = msg("Which stacks still train when they are deep"),
     .question = msg("How deep can a stack be and still learn in its first steps?"),
     .source = "Bachlechner et al. 2020; Noci et al. 2022",
     .defaults =
         [] {
           return FigureOptions{.layers = {6, 24, 96, 256},
                                .width = 32,
                                .seeds = 2,
                                .placements = {"none", "post", "pre", "scaled-branch", "rezero"}};
         },
     .most_layers = 1000,
     .trains = true,
     .run = depth},
    {.name = "epsilon",
     .title = msg("Small rows, large rows, and 16 bits"),
     .question = msg("Which rows does a norm not bring to standard deviation 1?"),
     .source = "docs/numerics.md; IEEE 754",
     .defaults = [] { return FigureOptions{.width = 512, .seeds = 8}; },
     .run = epsilon},
    {.name = "norm-backward",
     .title = msg("What LayerNorm does to the gradient"),
     .question = msg("Which part of a gradient passes a norm, and how large is it?"),
     .source = "Xu et al. 2019",
     .defaults = [] { return FigureOptions{.width = 64, .seeds = 8}; },
     .run = norm_backward},
    {.name = "depth-mixing",
     .title = msg("What a sublayer reads of earlier sublayers"),
     .question = msg("How much does a sublayer read of each sublayer before it?"),
     .source = "arXiv 2603.15031; Zhu et al. 2024",
     .defaults =
         [] {
           return FigureOptions{.layers = {12},
                                .placements = {"pre", "deepnorm", "x0", "hyper", "mhc",
                                               "dense-former", "block-attention-residuals"}};
         },
     .most_layers = 96,
     .run = depth_mixing},
    {.name = "lanes",
     .title = msg("Do the lanes stay different?"),
     .question =
         msg("What is left of the differences between the lanes of a stream after many layers?"),
     .source = "Xie et al. 2025; arXiv 2601.05732",
     .defaults =
         [] {
           return FigureOptions{.layers = {48},
                                .seeds = 8,
                                .placements = {"hyper", "mhc", "mhc-lite", "identity-hc", "wide"}};
         },
     .most_layers = 96,
     .run = lanes},
    {.name = "composite-gain",
     .title = msg("How much a stream of lanes amplifies"),
     .question =
         msg("How large is the product of the matrices that carry the lanes from layer to layer?"),
     .source = "Xie et al. 2025",
     .defaults =
         [] {
           return FigureOptions{.layers = {48},
                                .seeds = 8,
                                .placements = {"hyper", "mhc", "mhc-lite", "identity-hc"}};
         },
     .most_layers = 96,
     .run = composite_gain},
    {.name = "post-norm-revived",
     .title = msg("Post-norm revived"),
     .question =
         msg("How much of a gradient reaches x along the skip connections alone? The gradient "
             "through the sublayers is not counted."),
     .source = "Wang et al. 2022; Xie et al. 2023; arXiv 2601.19895",
     .defaults =
         [] {
           return FigureOptions{
               .layers = {6, 12, 24, 48, 96},
               .width = 512,
               .seeds = 8,
               .placements = {"post", "deepnorm", "keel", "residual-dual", "siamese", "pre"}};
         },
     .most_layers = 96,
     .run = post_norm_revived},
    {.name = "norm-kinds-by-depth",
     .title = msg("Norms that divide, and norms that squash"),
     .question =
         msg("How does the gradient grow with depth, with LayerNorm, RMSNorm, DyT and Derf?"),
     .source = "Zhu et al. 2025; arXiv 2512.10938; arXiv 2604.11890",
     .defaults =
         [] {
           return FigureOptions{.layers = {6, 12, 24, 48, 96}, .width = 128, .seeds = 8};
         },
     .most_layers = 96,
     .run = norm_kinds_by_depth},
};

}  // namespace

std::span<const Figure> figures() {
  return kFigures;
}

}  // namespace addnorm::lab
