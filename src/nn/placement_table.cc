/// Every placement and mixture, as data. Numbers are from the papers. Where published code differs
/// from its paper, a comment names the version used. docs/arrangements.md shows the table, its
/// omissions, and the differences from published code.

#include <algorithm>
#include <cmath>

#include "addnorm/nn/placement.h"
#include "base/message.h"

namespace addnorm {
namespace {

using Form = ResidualFactor::Form;
using Act = MixForm::Act;
using Map = MixForm::Map;
using Source = MixForm::Source;
using Lane = std::size_t;

double layer_scale(Depth depth) {
  if (depth.layers <= 18) return 0.1;
  return depth.layers <= 24 ? 1e-5 : 1e-6;
}

constexpr ResidualFactor kZero{.initial = {"0", [](Depth) { return 0.0; }}};

// Initial numbers of mixes.

double one(const Place&, Lane, Lane) {
  return 1;
}
double zero(const Place&, Lane, Lane) {
  return 0;
}
double identity(const Place&, Lane to, Lane from) {
  return to == from;
}
double first(const Place&, Lane, Lane from) {
  return from == 0;
}
double last(const Place& place, Lane, Lane from) {
  return from + 1 == place.lanes;
}
/// The last lane that a layer appended.
double newest(const Place& place, Lane, Lane from) {
  return from == (place.sublayer == SublayerKind::kAttention ? place.lanes : place.lanes - 1);
}
double mean(const Place& place, Lane, Lane) {
  return 1 / static_cast<double>(place.lanes);
}
/// Each sublayer reads one lane, in rotation, so that the lanes become different.
double in_turn(const Place& place, Lane, Lane from) {
  return from == place.site() % place.lanes;
}
/// The same for layers: both sublayers of a layer read the same lane.
double layer_in_turn(const Place& place, Lane, Lane from) {
  return from == (place.depth.layer - 1) % place.lanes;
}
double one_for_first(const Place&, Lane to, Lane) {
  return to == 0;
}

bool always(const Place&, Lane, Lane) {
  return true;
}
bool on_diagonal(const Place&, Lane to, Lane from) {
  return to == from;
}

// Logits of mHC, from its published code: one lane after the other is read and written more than
// the others, and the carry is nearly the identity.
double turn_logit(const Place& place, Lane, Lane from) {
  return from == place.site() % place.lanes ? 1 : -1;
}
double turn_write_logit(const Place& place, Lane to, Lane) {
  return to == place.site() % place.lanes ? 1 : -1;
}
double identity_logit(const Place&, Lane to, Lane from) {
  return to == from ? 0 : -8;
}
/// Logits of permutations; the first one is the identity.
double first_logit(const Place&, Lane to, Lane from) {
  return to == 0 && from == 0 ? 0 : -8;
}

// modded-nanogpt's two lanes: attention reads the first, feed-forward the second. Initially
// attention writes more to the second lane.
double own_lane(const Place& place, Lane, Lane from) {
  return from == (place.sublayer == SublayerKind::kFeedForward);
}
double lane_factor(const Place&, Lane to, Lane from) {
  return to == from ? std::sqrt(1.1) : 0;
}
double lane_write(const Place& place, Lane to, Lane) {
  return place.sublayer == SublayerKind::kAttention && to == 1 ? 1.5 : 1;
}

// x0: the embedding is added again before each layer, with nanochat's factors.
double share_of_depth(Depth depth) {
  if (depth.layers == 1) return 0;
  return static_cast<double>(depth.layer - 1) / static_cast<double>(depth.layers - 1);
}
double embedding_again(const Place& place, Lane to, Lane from) {
  if (place.sublayer == SublayerKind::kFeedForward || to == 1) return to == from;
  const double depth = share_of_depth(place.depth);
  return from == 0 ? 1.15 - 0.10 * depth : 0.20 - 0.15 * depth;
}
bool embedding_factors(const Place& place, Lane to, Lane) {
  return place.sublayer == SublayerKind::kAttention && to == 0;
}

// A second lane keeps the first lane's values after one layer, for later use.
bool behind_layer(const Place& place, std::size_t layer) {
  return place.sublayer == SublayerKind::kFeedForward && place.depth.layer == layer;
}
std::size_t saved_layer(const Place& place) {
  return (place.depth.layers + 2) / 3;
}
std::size_t backout_layer(const Place& place) {
  return (2 * place.depth.layers + 2) / 3;
}
bool adds_saved(const Place& place) {
  const std::size_t layer = std::max(saved_layer(place) + 1, (7 * place.depth.layers + 11) / 12);
  return place.sublayer == SublayerKind::kAttention && place.depth.layer == layer;
}
/// The saved lane's share in the first lane is σ of a learned number, initially −1.5.
double saved_carry(const Place& place, Lane to, Lane from) {
  if (behind_layer(place, saved_layer(place))) return from == 0;
  if (adds_saved(place) && to == 0 && from == 1) return -1.5;
  return to == from;
}
double saved_write(const Place& place, Lane to, Lane) {
  return to == 0 || behind_layer(place, saved_layer(place));
}
double backout_carry(const Place& place, Lane to, Lane from) {
  return behind_layer(place, backout_layer(place)) ? from == 0 : to == from;
}
double backout_write(const Place& place, Lane to, Lane) {
  return to == 0 || behind_layer(place, backout_layer(place));
}

/// SpanNorm's second lane is the layer's input: attention keeps it, feed-forward adds to it. The
/// first attention reads the normalized embedding and adds to the embedding itself.
double span_carry(const Place& place, Lane, Lane from) {
  return from == (place.sublayer == SublayerKind::kFeedForward || place.site() == 0);
}

/// 2σ of these logits has mean 1 over the lanes.
double spread(const Place& place, Lane to, Lane) {
  return -0.5 + static_cast<double>(to) / static_cast<double>(place.lanes - 1);
}

Changes of_dense_former(const Place& place) {
  return place.sublayer == SublayerKind::kAttention ? Changes::kAppend : Changes::kLast;
}
bool reads_layers(const Place& place) {
  return place.sublayer == SublayerKind::kAttention && place.lanes > 1;
}
/// Attention reads three mixes, for values, keys and queries. The first attention reads the
/// embedding alone, as one mix with one norm.
std::size_t of_attention(const Place& place) {
  return reads_layers(place) ? 3 : 1;
}
/// Blocks of whole layers, an eighth of the layers, rounded: 12 of Kimi K3's 93 layers, and 3 of
/// the paper's 27.
Changes of_attention_blocks(const Place& place) {
  const std::size_t layers = std::max<std::size_t>(1, (place.depth.layers + 4) / 8);
  const std::size_t sites = 2 * layers;
  return place.site() % sites == 0 ? Changes::kAppend : Changes::kLast;
}

constexpr MixForm kIdentity{.formula = "I", .base = identity};
constexpr MixForm kFirst{.formula = "the first", .base = first};
constexpr MixForm kSum{.formula = "their sum", .base = one};
constexpr MixForm kMean{.formula = "their mean", .base = mean};
constexpr MixForm kQuery{
    .formula = "softmax(w·N(x))", .base = zero, .source = Source::kLane, .map = Map::kSoftmax};
constexpr MixForm kHyperRead{.formula = "learned, one in turn", .base = in_turn, .learned = always};
constexpr MixForm kHyperCarry{.formula = "learned, I", .base = identity, .learned = always};
constexpr MixForm kHyperWrite{.formula = "learned, 1", .base = one, .learned = always};
constexpr MixForm with_lane(std::string_view formula, MixForm form) {
  form.formula = formula;
  form.source = Source::kLane;
  form.act = Act::kTanh;
  form.scale = 0.01;
  return form;
}
constexpr MixForm manifold(std::string_view formula, double (*base)(const Place&, Lane, Lane),
                           Map map, Source source = Source::kStream) {
  return {.formula = formula,
          .base = base,
          .learned = always,
          .source = source,
          .scale = 0.01,
          .map = map};
}
constexpr MixForm kManifoldRead = manifold("σ(of X)", turn_logit, Map::kSigmoid);
constexpr MixForm kManifoldWrite = manifold("2σ(of X)", turn_write_logit, Map::kTwoSigmoid);
constexpr MixForm kManifoldExit = manifold("σ(of X)", zero, Map::kSigmoid);

/// Streams with the requested number of lanes, 4 by default.
constexpr LaneForm chosen(std::size_t most, const MixForm& read, const MixForm& carry,
                          const MixForm& write, const MixForm& exit) {
  LaneForm form;
  form.least = 2, form.usual = 4, form.most = most;
  form.read = read, form.carry = carry, form.write = write, form.exit = exit;
  return form;
}
constexpr LaneForm hyper(const MixForm& read, const MixForm& carry, const MixForm& write) {
  return chosen(16, read, carry, write, kSum);
}
constexpr LaneForm two(const MixForm& read, const MixForm& carry, const MixForm& write,
                       const MixForm& exit) {
  LaneForm form = chosen(2, read, carry, write, exit);
  form.usual = 2;
  return form;
}
constexpr LaneForm carried(LaneForm form) {
  form.reads_carried = true;
  return form;
}
constexpr LaneForm parts(LaneForm form) {
  form.splits_features = true;
  form.read.base = form.exit.base = identity;
  form.exit.formula = "I";
  form.write.base = identity;
  return form;
}
constexpr LaneForm growing(Changes (*changes)(const Place&), const MixForm& read,
                           const MixForm& carry, const MixForm& exit) {
  LaneForm form;
  form.grows = true;
  form.changes = changes;
  form.read = read, form.carry = carry, form.exit = exit;
  return form;
}
/// Attention reads three mixes, whose numbers are computed with a hidden layer.
constexpr LaneForm multiway(LaneForm form) {
  form.reads = of_attention;
  form.hidden = true;
  return form;
}
constexpr LaneForm last_lane(LaneForm form, Slot of_sublayers) {
  form.last_lane = of_sublayers;
  form.last_lane_at_exit = Slot::kNorm;
  return form;
}

/// The first layer reads the embedding alone, so it has no weights to learn.
constexpr MixForm kDenseAverage{
    .formula = "learned, the last", .base = last, .learned = [](const Place& place, Lane, Lane) {
      return place.lanes > 1;
    }};

/// The numbers are constants in the first layer, which reads the embedding alone, and for
/// feed-forwards, which read attention's output.
constexpr MixForm kMultiway{
    .formula = "learned, the last, + W·GELU(V·N(the last))",
    .base = last,
    .learned = [](const Place& place, Lane, Lane) { return reads_layers(place); },
    .source = Source::kLast,
    .made = reads_layers};

constexpr Placement kPlacements[] = {
    {.name = "none", .used_by = msg("ablation: a residual without a norm")},
    {.name = "plain", .used_by = msg("ablation: neither residual nor norm"), .skip = kZero},
    {.name = "post",
     .used_by = "Transformer 2017, BERT",
     .source = "Vaswani et al. 2017",
     .after = Slot::kNorm},
    {.name = "pre",
     .used_by = "GPT-2, Llama",
     .source = "Xiong et al. 2020",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "sandwich",
     .used_by = msg("Gemma 2 and 3, CogView"),
     .source = "Ding et al. 2021",
     .before = Slot::kNorm,
     .inside = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "reordered",
     .used_by = "OLMo 2, Swin v2",
     .source = "Liu et al. 2022",
     .inside = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "deepnorm",
     .used_by = "DeepNet",
     .source = "Wang et al. 2022",
     .after = Slot::kNorm,
     .skip = {.initial = {"(2N)^1/4",
                          [](Depth d) { return std::pow(2.0 * double(d.layers), 0.25); }}},
     .initial_gain = {"(8N)^-1/4",
                      [](Depth d) { return std::pow(8.0 * double(d.layers), -0.25); }}},
    {.name = "rezero",
     .used_by = "ReZero",
     .source = "Bachlechner et al. 2020",
     .gain = {Form::kLearnedScalar, {"0", [](Depth) { return 0.0; }}}},
    {.name = "layerscale",
     .used_by = "CaiT",
     .source = "Touvron et al. 2021",
     .before = Slot::kNorm,
     .gain = {Form::kLearnedVector, {"0.1; 1e-5 from 19, 1e-6 from 25 layers", layer_scale}},
     .final_norm = Slot::kNorm},
    {.name = "depth-scaled",
     .used_by = "LayerNorm Scaling",
     .source = "Sun et al. 2025",
     .before = Slot::kNorm,
     .before_scale = {"1/sqrt(l)", [](Depth d) { return 1.0 / std::sqrt(double(d.layer)); }},
     .final_norm = Slot::kNorm},
    {.name = "admin",
     .used_by = "Admin",
     .source = "Liu et al. 2020",
     .after = Slot::kNorm,
     .skip = {Form::kLearnedVector, {"1, then profiled", [](Depth) { return 1.0; }}}},
    {.name = "scaled-branch",
     .used_by = "Noci et al.",
     .source = "Noci et al. 2022",
     .gain = {.initial = {"1/sqrt(L)", [](Depth d) { return 1.0 / std::sqrt(double(d.layers)); }}}},
    {.name = "keel",
     .used_by = "KEEL",
     .source = "arXiv 2601.19895",
     .before = Slot::kNorm,
     .after = Slot::kNorm,
     .skip = {.initial = {"2N", [](Depth d) { return 2.0 * double(d.layers); }}}},
    {.name = "completep",
     .used_by = "CompleteP",
     .source = "Dey et al. 2025, base depth 2",
     .before = Slot::kNorm,
     .gain = {.initial = {"2/N", [](Depth d) { return 2.0 / double(d.layers); }}},
     .final_norm = Slot::kNorm},
    {.name = "peri",
     .used_by = "Peri-LN",
     .source = "Kim et al. 2025",
     .before = Slot::kNorm,
     .inside = Slot::kNorm,
     .entry = Slot::kNorm,
     .final_norm = Slot::kNorm},
    {.name = "depth-scaled-sandwich",
     .used_by = "Pangu Ultra, Trinity Large",
     .source = "Yin et al. 2025",
     .before = Slot::kNorm,
     .inside = Slot::kNorm,
     .inside_gamma = {"1/sqrt(2N)",
                      [](Depth d) { return 1.0 / std::sqrt(2.0 * double(d.layers)); }},
     .final_norm = Slot::kNorm},
    {.name = "parallel",
     .used_by = "GPT-J, PaLM, Command R",
     .source = "Wang and Komatsuzaki 2021",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .sublayers = Sublayers::kParallel},
    {.name = "stochastic-depth",
     .used_by = "DeiT",
     .source = "Huang et al. 2016, with the rate of DeiT",
     .before = Slot::kNorm,
     .survival = {"1 - 0.1·l/N",
                  [](Depth d) { return 1 - 0.1 * double(d.layer) / double(d.layers); }},
     .final_norm = Slot::kNorm},
    {.name = "highway",
     .used_by = "highway networks",
     .source = "Srivastava et al. 2015",
     .update = Update::kGated},
    {.name = "orthogonal",
     .used_by = msg("orthogonal residual"),
     .source = "Oh et al. 2025",
     .before = Slot::kNorm,
     .update = Update::kOrthogonal,
     .final_norm = Slot::kNorm},
    {.name = "ngpt",
     .used_by = "nGPT",
     .source = "Loshchilov et al. 2024, the residual part",
     .inside = Slot::kUnit,
     .after = Slot::kUnit,
     .gain = {Form::kLearnedMagnitudes, {"0.05", [](Depth) { return 0.05; }}},
     .update = Update::kDifference,
     .entry = Slot::kUnit},
    {.name = "x0",
     .used_by = "nanochat, modded-nanogpt",
     .source = "nanochat",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = carried(two(kFirst,
                          {.formula = "learned, x and x0 into x",
                           .base = embedding_again,
                           .learned = embedding_factors},
                          {.formula = "(1, 0)", .base = one_for_first}, kFirst))},
    {.name = "two-lanes",
     .used_by = "modded-nanogpt",
     .source = "modded-nanogpt, pull request 230",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = two(
         {.formula = "attention the first, feed-forward the second", .base = own_lane},
         {.formula = "learned diagonal, sqrt(1.1)", .base = lane_factor, .learned = on_diagonal},
         {.formula = "learned, (1, 1.5) of attention, (1, 1) of feed-forward",
          .base = lane_write,
          .learned = always},
         kMean)},
    {.name = "saved-skip",
     .used_by = "modded-nanogpt",
     .source = "modded-nanogpt, pull request 159",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = carried(
         two(kFirst,
             {.formula = "saved after layer N/3, times σ(learned, -1.5) into x before 7N/12",
              .base = saved_carry,
              .learned = [](const Place& place, Lane to,
                            Lane from) { return adds_saved(place) && to == 0 && from == 1; },
              .gate = MixForm::Gate::kSigmoid},
             {.formula = "(1, 0)", .base = saved_write}, kFirst))},
    {.name = "backout",
     .used_by = "modded-nanogpt",
     .source = "modded-nanogpt, pull request 140",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = two(kFirst, {.formula = "saved after layer 2N/3", .base = backout_carry},
                  {.formula = "(1, 0)", .base = backout_write},
                  {.formula = "(1, -λ), learned 0.5",
                   .base = [](const Place&, Lane, Lane from) { return from == 0 ? 1 : -0.5; },
                   .learned = [](const Place&, Lane, Lane from) { return from == 1; }})},
    {.name = "residual-dual",
     .used_by = "ResiDual",
     .source = "Xie et al. 2023",
     .after = Slot::kNorm,
     .lanes =
         last_lane(two(kFirst, kIdentity, {.formula = "1", .base = one}, kSum), Slot::kNothing)},
    {.name = "siamese",
     .used_by = "SiameseNorm",
     .source = "arXiv 2602.08064",
     .before = Slot::kNorm,
     .after = Slot::kNorm,
     .entry = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = last_lane(two(kSum, kIdentity,
                            {.formula = "(1/sqrt(2l), 1)",
                             .base =
                                 [](const Place& place, Lane to, Lane) {
                                   return to == 0 ? 1 / std::sqrt(2.0 * double(place.depth.layer))
                                                  : 1;
                                 }},
                            kSum),
                        Slot::kNorm)},
    {.name = "span",
     .used_by = "SpanNorm",
     .source = "arXiv 2601.22580",
     .after = Slot::kNorm,
     .entry = Slot::kNorm,
     .lanes = two(kFirst, {.formula = "what the layer read", .base = span_carry},
                  {.formula = "(1, 0)", .base = one_for_first}, kFirst)},
    {.name = "hyper",
     .used_by = msg("hyper-connections"),
     .source = "Zhu et al. 2024",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = hyper(kHyperRead, kHyperCarry, kHyperWrite)},
    {.name = "dynamic-hyper",
     .used_by = "OLMoE-DHC",
     .source = "Zhu et al. 2024",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = hyper(with_lane("one in turn + s·tanh(w·N(x))", kHyperRead),
                    with_lane("I + s·tanh(W·N(x))", kHyperCarry),
                    with_lane("1 + s·tanh(w·N(x))", kHyperWrite))},
    {.name = "altup",
     .used_by = "AltUp",
     .source = "Baykal et al. 2023, of sublayers with their residual",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = carried(hyper({.formula = "one in turn, by layers", .base = layer_in_turn},
                            kHyperCarry, kHyperWrite))},
    {.name = "frac",
     .used_by = "frac-connections",
     .source = "Zhu et al. 2025",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = parts(hyper(kHyperCarry, kHyperCarry, kHyperCarry))},
    {.name = "wide",
     .used_by = "Megatron-LM",
     .source = "Megatron-LM, pull request 6716",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes =
         chosen(16, {.formula = "learned, the mean", .base = mean, .learned = always}, kIdentity,
                {.formula = "2σ(learned, -0.5 to 0.5)",
                 .base = spread,
                 .learned = always,
                 .map = Map::kTwoSigmoid},
                kMean)},
    {.name = "identity-hc",
     .used_by = "Identity-HC",
     .source = msg("arXiv 2512.24880 with A = I"),
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = chosen(16, kManifoldRead, kIdentity, kManifoldWrite, kManifoldExit)},
    {.name = "mhc",
     .used_by = "DeepSeek-V4",
     .source = "Xie et al. 2025",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = chosen(16, kManifoldRead, manifold("Sinkhorn(of X)", identity_logit, Map::kSinkhorn),
                     kManifoldWrite, kManifoldExit)},
    {.name = "mhc-lite",
     .used_by = "mHC-lite",
     .source = "arXiv 2601.05732",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes =
         chosen(4, kManifoldRead, manifold("permutations(of X)", first_logit, Map::kPermutations),
                kManifoldWrite, kManifoldExit)},
    {.name = "single-pass-mhc",
     .used_by = "DeepSeek-V4.1",
     .source = "NeMo Automodel, pull request 3855",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes =
         chosen(16, manifold("σ(of the X before)", turn_logit, Map::kSigmoid, Source::kPrevious),
                manifold("Sinkhorn(of X)", identity_logit, Map::kSinkhorn), kManifoldWrite,
                kManifoldExit)},
    {.name = "dense-former",
     .used_by = "DenseFormer",
     .source = "Pagliardini et al. 2024",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = carried(growing(of_dense_former, {.formula = "the last", .base = newest},
                              kDenseAverage, kDenseAverage))},
    {.name = "mudd",
     .used_by = "MUDDFormer",
     .source = "Xiao et al. 2025",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = multiway(growing(of_dense_former, kMultiway, kMultiway, kMultiway))},
    {.name = "attention-residuals",
     .used_by = msg("Attention Residuals, full"),
     .source = "arXiv 2603.15031",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = growing([](const Place&) { return Changes::kAppend; }, kQuery,
                      {.formula = "0", .base = zero}, kQuery)},
    {.name = "block-attention-residuals",
     .used_by = "Kimi K3",
     .source = "arXiv 2603.15031",
     .before = Slot::kNorm,
     .final_norm = Slot::kNorm,
     .lanes = growing(of_attention_blocks, kQuery, {.formula = "0", .base = zero}, kQuery)},
};

}  // namespace

std::span<const Placement> placements() {
  return kPlacements;
}

namespace {

BlockPlacement everywhere(std::string_view name) {
  return {find_placement(name), find_placement(name)};
}

// HybridNorm's norms of queries, keys and values are an option of attention.
constexpr Mixture kMixtures[] = {
    {.name = "mix-ln",
     .used_by = "Mix-LN",
     .source = "Li et al. 2024",
     .formula = "post in the first N/4 layers, rounded down, then pre",
     .block =
         [](Depth depth) { return everywhere(4 * depth.layer <= depth.layers ? "post" : "pre"); }},
    {.name = "hybrid",
     .used_by = "HybridNorm",
     .source = "Zhuo et al. 2025",
     .formula = "post around attention, none around feed-forward, a final norm",
     .block =
         [](Depth) {
           BlockPlacement block{find_placement("post"), find_placement("none")};
           block.feed_forward.final_norm = Slot::kNorm;
           return block;
         }},
};

}  // namespace

std::span<const Mixture> mixtures() {
  return kMixtures;
}

}  // namespace addnorm
