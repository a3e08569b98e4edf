/// Compares every backward of nn with central differences in float64.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "addnorm/nn/decoder.h"
#include "addnorm/nn/initialize.h"
#include "addnorm/torch_generator.h"
#include "support/gradient_check.h"

namespace addnorm::gradient_test {
namespace {

using testing::gradient_error;

constexpr double kTolerance = 1e-6;
constexpr std::size_t kBatch = 2;
constexpr std::size_t kLength = 5;
constexpr std::size_t kModel = 8;

Matrix<double> random_matrix(std::size_t rows, std::size_t cols, TorchGenerator& generator) {
  Matrix<double> matrix(rows, cols);
  generator.fill_normal(matrix.flat());
  return matrix;
}

/// Moves parameters off their initial values, so that no gradient is trivial.
void randomize(const ParameterList<double>& parameters, TorchGenerator& generator) {
  for (const auto& [name, parameter] : parameters) {
    const bool factor = parameter->role == ParameterRole::kNorm ||
                        parameter->role == ParameterRole::kResidualFactor;
    generator.fill_normal(parameter->value.flat(), factor ? 0.7 : 0.0, factor ? 0.2 : 0.4);
  }
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// One stack of Add & Norm blocks with loss = Σ weights ⊙ stack(x).
struct StackCase {
  Stack<double> stack;
  Scratch<double> scratch;
  Pass<double> pass;
  TorchGenerator generator{7};
  Matrix<double> x = random_matrix(kBatch * kLength, kModel, generator);
  Matrix<double> weights = random_matrix(kBatch * kLength, kModel, generator);
  Matrix<double> y{kBatch * kLength, kModel};
  Matrix<double> gradient{kBatch * kLength, kModel};

  StackCase(const BlockOptions& options, const std::vector<BlockPlacement>& placements)
      : stack(options, placements),
        pass{.batch = kBatch, .length = kLength, .dropout_seed = 3, .scratch = &scratch} {
    ParameterList<double> parameters;
    stack.list_parameters("", parameters);
    randomize(parameters, generator);
  }

  double loss() {
    stack.forward(x, y, pass);
    return dot(y.flat(), weights.flat());
  }

  void expect_gradients(const std::string& what, double step = 3e-4,
                        double tolerance = kTolerance) {
    ParameterList<double> parameters;
    stack.list_parameters("", parameters);
    zero_gradients(parameters);
    loss();
    std::copy_n(weights.data(), weights.flat().size(), gradient.data());
    stack.backward(gradient, gradient, pass);
    auto again = [&] { return loss(); };
    EXPECT_LE(gradient_error(x.flat(), gradient.flat(), again, 64, step), tolerance)
        << what << ": x";
    for (const auto& [name, parameter] : parameters) {
      EXPECT_LE(gradient_error(parameter->value.flat(), parameter->gradient.flat(), again, 8, step),
                tolerance)
          << what << ": " << name;
    }
  }
};

BlockOptions small_block() {
  return {.d_model = kModel, .n_heads = 2, .d_ff = 12, .feed_forward = FeedForwardKind::kGelu};
}

TEST(Gradients, OfEveryPlacement) {
  for (const Placement& placement : placements()) {
    StackCase(small_block(), {2, {placement, placement}})
        .expect_gradients(std::string(placement.name));
  }
}

/// A step that is small compared with the smallest √ε, because a unit norm has ε = 1e-12. The
/// tolerance is the resulting rounding error of gradients that are 0.
constexpr double kSmallStep = 4e-9, kSmallStepTolerance = 0.02;

TEST(Gradients, OfEveryPlacementWhereTokensAreZero) {
  for (const Placement& placement : placements()) {
    StackCase stack(small_block(), {2, {placement, placement}});
    for (const std::size_t row : {1, 5}) std::ranges::fill(stack.x.view().row(row), 0.0);
    stack.expect_gradients(std::string(placement.name), kSmallStep, kSmallStepTolerance);
  }
}

TEST(Gradients, OfEveryPlacementWhereBranchesAreZero) {
  for (const Placement& placement : placements()) {
    StackCase stack(small_block(), {2, {placement, placement}});
    for (Block<double>& block : stack.stack.blocks()) {
      for (Linear<double>* last : {&block.attention().output(), &block.feed_forward().down()}) {
        last->weight().value.fill(0);
        last->bias().value.fill(0);
      }
    }
    stack.expect_gradients(std::string(placement.name), kSmallStep, kSmallStepTolerance);
  }
}

TEST(Gradients, OfEveryPlacementWithNegativeFactors) {
  for (const Placement& placement : placements()) {
    StackCase stack(small_block(), {2, {placement, placement}});
    ParameterList<double> parameters;
    stack.stack.list_parameters("", parameters);
    for (const auto& [name, parameter] : parameters) {
      if (parameter->role != ParameterRole::kResidualFactor) continue;
      for (double& value : parameter->value.flat()) value = -value;
    }
    stack.expect_gradients(std::string(placement.name));
  }
}

TEST(Gradients, OfPlacementsMixedBySublayerAndLayer) {
  for (const char* description :
       {"post/pre", "post:1+pre", "layerscale/rezero:1+sandwich/admin", "mix-ln", "hybrid",
        "mhc/hyper", "wide:1+mhc-lite", "highway/orthogonal"}) {
    StackCase(small_block(), parse_placements(description, 2)).expect_gradients(description);
  }
}

TEST(Gradients, WithDropoutOnTheBranch) {
  BlockOptions options = small_block();
  options.dropout = 0.3;
  for (const char* name : {"pre", "post", "sandwich", "rezero", "layerscale"}) {
    StackCase(options, parse_placements(name, 2)).expect_gradients(name);
  }
}

TEST(Gradients, OfEveryNormInABlock) {
  for (const NormKind kind :
       {NormKind::kLayer, NormKind::kRms, NormKind::kBatch, NormKind::kGroup}) {
    for (const EpsilonAt at : {EpsilonAt::kVariance, EpsilonAt::kDeviation}) {
      for (const Variance variance : {Variance::kPopulation, Variance::kUnbiased}) {
        for (const GammaForm form : {GammaForm::kPlain, GammaForm::kOnePlus}) {
          BlockOptions options = small_block();
          options.norm = {.kind = kind,
                          .epsilon = 1e-2,
                          .epsilon_at = at,
                          .variance = variance,
                          .gamma_form = form,
                          .groups = 2};
          options.affine = kind == NormKind::kRms ? Affine::kGamma : Affine::kGammaBeta;
          const std::string what = "norm " + std::to_string(int(kind)) + std::to_string(int(at)) +
                                   std::to_string(int(variance)) + std::to_string(int(form));
          StackCase(options, parse_placements("sandwich/post", 1)).expect_gradients(what);
        }
      }
    }
  }
}

TEST(Gradients, OfEveryPlacementWithNormsThatSquash) {
  constexpr double kStep = 5e-5;  // random lanes let the stream grow, and its curvature too
  for (const NormKind kind : {NormKind::kDyT, NormKind::kDerf}) {
    for (const Placement& placement : placements()) {
      BlockOptions options = small_block();
      options.norm.kind = kind;
      StackCase(options, {2, {placement, placement}})
          .expect_gradients(std::string(placement.name) + " with " + std::string(to_string(kind)),
                            kStep);
    }
  }
}

TEST(Gradients, OfOneGammaForAllFeatures) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms, NormKind::kDyT}) {
    for (const GammaForm form : {GammaForm::kPlain, GammaForm::kOnePlus}) {
      BlockOptions options = small_block();
      options.norm = {.kind = kind, .gamma_form = form};
      options.affine = Affine::kScalarGamma;
      StackCase(options, parse_placements("sandwich/post", 1))
          .expect_gradients("one gamma of " + std::string(to_string(kind)));
    }
  }
}

TEST(Gradients, OfNormsWithoutParameters) {
  BlockOptions options = small_block();
  options.affine = Affine::kNone;
  StackCase(options, parse_placements("sandwich/post", 1)).expect_gradients("no gamma");
}

TEST(Gradients, OfBatchNormInEvaluation) {
  BlockOptions options = small_block();
  options.norm.kind = NormKind::kBatch;
  StackCase stack(options, parse_placements("pre", 1));
  stack.loss();  // a training step updates the running statistics
  stack.pass.mode = Mode::kEvaluation;
  stack.expect_gradients("batch norm in evaluation");
}

TEST(Gradients, OfEveryFeedForward) {
  for (const FeedForwardKind kind :
       {FeedForwardKind::kRelu, FeedForwardKind::kGelu, FeedForwardKind::kGeluTanh,
        FeedForwardKind::kSwiGlu, FeedForwardKind::kGeGluTanh, FeedForwardKind::kClampedSwiGlu}) {
    BlockOptions options = small_block();
    options.feed_forward = kind;
    StackCase(options, parse_placements("pre", 1)).expect_gradients(std::to_string(int(kind)));
  }
}

/// At a change of experts there is no gradient, so no token may be near one.
TEST(Gradients, OfExperts) {
  for (const FeedForwardKind kind : {FeedForwardKind::kGelu, FeedForwardKind::kClampedSwiGlu}) {
    for (const std::size_t chosen : {1, 2, 3}) {
      BlockOptions options = small_block();
      options.feed_forward = kind;
      options.experts = {.count = 3, .chosen = chosen};
      StackCase(options, parse_placements("pre", 2))
          .expect_gradients(std::to_string(chosen) + " experts of 3");
    }
  }
}

/// Values beyond the limits of 7 have no gradient.
TEST(Gradients, OfClampedValues) {
  BlockOptions options = small_block();
  options.feed_forward = FeedForwardKind::kClampedSwiGlu;
  StackCase stack(options, parse_placements("pre", 1));
  FeedForward<double>& feed_forward = stack.stack.blocks()[0].feed_forward();
  for (std::size_t i = 0; i < 4; ++i) {
    feed_forward.gate().bias().value(0, i) = 9;
    feed_forward.up().bias().value(0, 2 * i) = i % 2 == 0 ? 9 : -9;
  }
  stack.expect_gradients("clamped values");
  EXPECT_EQ(feed_forward.gate().bias().gradient(0, 0), 0);
  EXPECT_EQ(feed_forward.up().bias().gradient(0, 2), 0);
}

TEST(Gradients, WithoutBiases) {
  BlockOptions options = small_block();
  options.bias = Bias::kNo;
  options.feed_forward = FeedForwardKind::kSwiGlu;
  StackCase(options, parse_placements("pre", 1)).expect_gradients("no biases");
}

TEST(Gradients, OfAttentionWithEveryMask) {
  const std::vector<std::uint8_t> padding{0, 0, 0, 1, 1, 0, 0, 0, 0, 1};
  std::vector<std::uint8_t> blocked(kLength * kLength, 0);
  for (std::size_t i = 0; i < blocked.size(); i += 3) blocked[i] = 1;
  blocked[4] = blocked[1] = blocked[2] = 1;  // the first query sees no key
  using Order = AttentionMask::Order;
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.order = Order::kCausal},
        AttentionMask{.key_padding = padding}, AttentionMask{.blocked = blocked},
        AttentionMask{.order = Order::kCausal, .key_padding = padding, .blocked = blocked}}) {
    StackCase stack(small_block(), parse_placements("none/pre", 1));
    stack.pass.mask = mask;
    stack.expect_gradients("mask");
  }
}

TEST(Gradients, OfEveryFormOfAttention) {
  const std::vector<double> turns = rope_frequencies(10, 4);
  const NormOptions rms{.kind = NormKind::kRms, .epsilon = 1e-2};
  const AttentionForm forms[] = {
      {.n_kv_heads = 1},
      {.n_kv_heads = 2, .d_head = 6, .qkv_bias = Bias::kYes},
      {.score_scale = 0.7, .soft_cap = 1.5},
      {.window = 2},
      {.rope = turns},
      {.d_head = 6, .rope = turns, .rotary_pairs = RotaryPairs::kNeighbors, .rotary_gain = 1.3},
      {.n_kv_heads = 1, .qk_norm = QkNorm::kHead, .norm = rms},
      {.n_kv_heads = 2, .d_head = 4, .rope = turns, .qk_norm = QkNorm::kAllHeads, .norm = rms},
      {.relative_bias = {.buckets = 8, .max_distance = 4}},
      {.n_kv_heads = 1, .has_sinks = true},
      {.soft_cap = 1.5, .window = 2, .has_sinks = true},
      {.d_head = 6, .d_value = 5, .latent = {.rank = 7}, .rope = turns, .norm = rms},
      {.d_head = 5,
       .latent = {.rank = 3, .query_rank = 6},
       .rope = turns,
       .rotary_pairs = RotaryPairs::kNeighbors,
       .rotary_gain = 1.3,
       .norm = rms},
      {.d_value = 3},
  };
  for (const AttentionForm& form : forms) {
    BlockOptions options = small_block();
    options.n_heads = form.n_kv_heads == 2 ? 4 : 2;
    options.bias = Bias::kNo;
    options.attention = form;
    StackCase stack(options, parse_placements("none/pre", 1));
    stack.pass.mask.order = AttentionMask::Order::kCausal;
    stack.expect_gradients("form " + std::to_string(&form - forms));
  }
}

TEST(Gradients, OfCrossAttentionToEachInput) {
  TorchGenerator generator(5);
  constexpr std::size_t kKeys = 7;
  MultiHeadAttention<double> attention(kModel, 2);
  ParameterList<double> parameters;
  attention.list_parameters("attention", parameters);
  randomize(parameters, generator);
  Matrix<double> query = random_matrix(kBatch * kLength, kModel, generator);
  Matrix<double> key = random_matrix(kBatch * kKeys, kModel, generator);
  Matrix<double> value = random_matrix(kBatch * kKeys, kModel, generator);
  const Matrix<double> weights = random_matrix(kBatch * kLength, kModel, generator);
  Matrix<double> y(kBatch * kLength, kModel);
  Matrix<double> dq(kBatch * kLength, kModel);
  Matrix<double> dk(kBatch * kKeys, kModel);
  Matrix<double> dv(kBatch * kKeys, kModel);
  Scratch<double> scratch;
  const Pass<double> pass{.batch = kBatch, .length = kLength, .scratch = &scratch};
  auto loss = [&] {
    attention.forward({query, key, value}, y, pass);
    return dot(y.flat(), weights.flat());
  };
  loss();
  attention.backward({query, key, value}, weights, {dq, dk, dv}, pass);
  EXPECT_LE(gradient_error(query.flat(), dq.flat(), loss), kTolerance);
  EXPECT_LE(gradient_error(key.flat(), dk.flat(), loss), kTolerance);
  EXPECT_LE(gradient_error(value.flat(), dv.flat(), loss), kTolerance);
  for (const auto& [name, parameter] : parameters) {
    EXPECT_LE(gradient_error(parameter->value.flat(), parameter->gradient.flat(), loss), kTolerance)
        << name;
  }
}

/// More queries than attention's tile, and keys that no query or few queries see.
TEST(Gradients, OfAttentionInSeveralTiles) {
  constexpr std::size_t kQueries = 300;
  for (const std::size_t n_keys : {150, 310}) {
    TorchGenerator generator(5);
    MultiHeadAttention<double> attention(2, 1);
    ParameterList<double> parameters;
    attention.list_parameters("attention", parameters);
    randomize(parameters, generator);
    Matrix<double> query = random_matrix(kQueries, 2, generator);
    Matrix<double> key = random_matrix(n_keys, 2, generator);
    const Matrix<double> weights = random_matrix(kQueries, 2, generator);
    Matrix<double> y(kQueries, 2), dq(kQueries, 2), dk(n_keys, 2);
    Scratch<double> scratch;
    const Pass<double> pass{
        .length = kQueries, .mask = {.order = AttentionMask::Order::kCausal}, .scratch = &scratch};
    auto loss = [&] {
      attention.forward({query, key, key}, y, pass);
      return dot(y.flat(), weights.flat());
    };
    loss();
    attention.backward({query, key, key}, weights, {dq, dk, dk}, pass);
    EXPECT_LE(gradient_error(query.flat(), dq.flat(), loss, 100), kTolerance) << n_keys;
    EXPECT_LE(gradient_error(key.flat(), dk.flat(), loss, 100), kTolerance) << n_keys;
  }
}

TEST(Gradients, OfATwoLayerDecoder) {
  for (const Head head : {Head::kTied, Head::kUntied}) {
    Decoder<double> decoder({.block = small_block(),
                             .placements = parse_placements("pre", 2),
                             .vocabulary = 11,
                             .context = kLength,
                             .head = head});
    TorchGenerator generator(3);
    ParameterList<double> parameters = decoder.parameters();
    randomize(parameters, generator);
    const std::vector<std::int32_t> tokens{1, 2, 3, 4, 10, 1, 1, 0, 7, 2};
    const Matrix<double> weights = random_matrix(tokens.size(), 11, generator);
    auto loss = [&] {
      const MatrixView<const double> logits = decoder.forward(tokens, {.batch = kBatch});
      return dot({logits.data, logits.size()}, weights.flat());
    };
    loss();
    decoder.backward(weights);
    for (const auto& [name, parameter] : parameters) {
      EXPECT_LE(gradient_error(parameter->value.flat(), parameter->gradient.flat(), loss, 24),
                kTolerance)
          << name;
    }
  }
}

}  // namespace
}  // namespace addnorm::gradient_test
