#include "addnorm/nn/stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/nn/initialize.h"
#include "addnorm/torch_generator.h"
#include "support/compare.h"

namespace addnorm::stack_test {
namespace {

BlockOptions small_block() {
  return {.d_model = 8, .n_heads = 2, .d_ff = 16};
}

struct SiteOrder {
  bool operator()(const Site& a, const Site& b) const {
    return std::tie(a.layer, a.sublayer, a.point, a.norm, a.lane) <
           std::tie(b.layer, b.sublayer, b.point, b.norm, b.lane);
  }
};
using ValuesBySite = std::map<Site, std::vector<double>, SiteOrder>;

/// Records every observed value.
struct Memory : Probe<double> {
  ValuesBySite values;
  ValuesBySite gradients;

  static std::vector<double> copy(MatrixView<const double> view) {
    std::vector<double> all;
    for (std::size_t r = 0; r < view.rows; ++r) {
      all.insert(all.end(), view.row(r).begin(), view.row(r).end());
    }
    return all;
  }
  void forward(const Site& site, MatrixView<const double> view) override {
    values[site] = copy(view);
  }
  void backward(const Site& site, MatrixView<const double> view) override {
    gradients[site] = copy(view);
  }
};

struct Case {
  Stack<double> stack;
  Scratch<double> scratch;
  Pass<double> pass{.batch = 1, .length = 4, .scratch = &scratch};
  Matrix<double> x{4, 8};
  Matrix<double> y{4, 8};

  explicit Case(const char* placement) : stack(small_block(), parse_placements(placement, 2)) {
    TorchGenerator generator(1);
    generator.fill_normal(x.flat());
    for (std::size_t i = 0; i < 2; ++i) {
      initialize(stack.blocks()[i], parse_placements(placement, 2)[i], Depth{i + 1, 2},
                 Initialization::kXavier, generator);
    }
  }
  void forward() { stack.forward(x, y, pass); }
};

TEST(Stack, FusedAddAndNormGivesTheSameBitsAsTheSumLookedAtByAProbe) {
  for (const Placement& placement : placements()) {
    Case fused(placement.name.data());
    Case probed(placement.name.data());
    Memory memory;
    probed.pass.probe = &memory;
    fused.forward();
    probed.forward();
    EXPECT_TRUE(std::ranges::equal(fused.y.flat(), probed.y.flat())) << placement.name;
  }
}

/// Lanes are written with different factors, so their gradients differ.
TEST(Stack, TellsAProbeTheGradientOfEachLane) {
  Case hyper("mhc");
  Memory memory;
  hyper.pass.probe = &memory;
  hyper.forward();
  Matrix<double> dx(4, 8);
  hyper.stack.backward(hyper.y, dx, hyper.pass);
  const auto gradient = [&](std::size_t lane) {
    return memory.gradients.at({.layer = 0, .point = Point::kSum, .lane = lane});
  };
  const auto norm = [](const std::vector<double>& values) {
    return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  };
  EXPECT_GT(norm(gradient(0)), 0);
  EXPECT_GT(norm(gradient(1)), 0);
  EXPECT_NE(gradient(0), gradient(1));
}

TEST(Stack, TellsAProbeTheFormulaOfItsPlacement) {
  Case pre("pre");
  Memory memory;
  pre.pass.probe = &memory;
  pre.forward();
  Matrix<double> gradient(4, 8);
  gradient.fill(1);
  pre.stack.backward(gradient, gradient, pre.pass);
  auto value = [&](Point point, std::size_t i) {
    return memory.values.at({1, SublayerKind::kAttention, point})[i];
  };
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(value(Point::kSum, i), value(Point::kX, i) + value(Point::kBranch, i));
  }
  EXPECT_FALSE(memory.values.contains({1, SublayerKind::kAttention, Point::kAfter}));
  EXPECT_TRUE(
      memory.values.contains({1, SublayerKind::kAttention, Point::kNormalized, NormSlot::kBefore}));
  for (const Point point : {Point::kX, Point::kBefore, Point::kBranch, Point::kSum}) {
    EXPECT_TRUE(memory.gradients.contains({0, SublayerKind::kFeedForward, point}));
  }
  EXPECT_EQ(memory.gradients.at({0, SublayerKind::kAttention, Point::kX}), Memory::copy(gradient));
}

TEST(Stack, TellsAProbeNoStatisticsOfNormsWithoutThem) {
  BlockOptions options = small_block();
  options.norm.kind = NormKind::kDyT;
  Stack<double> stack(options, parse_placements("pre", 2));
  Memory memory;
  Matrix<double> x(4, 8), y(4, 8);
  stack.forward(x, y, {.length = 4, .probe = &memory});
  const auto told = [&](Point point) {
    return memory.values.contains({0, SublayerKind::kAttention, point, NormSlot::kBefore});
  };
  EXPECT_TRUE(memory.values.contains({0, SublayerKind::kAttention, Point::kBefore}));
  for (const Point point : {Point::kMean, Point::kDeviation, Point::kNormalized})
    EXPECT_FALSE(told(point));
}

TEST(Stack, PlainPassesNothingOfItsInputBesideTheBranch) {
  Case plain("plain");
  Memory memory;
  plain.pass.probe = &memory;
  plain.forward();
  EXPECT_EQ(memory.values.at({0, SublayerKind::kAttention, Point::kSum}),
            memory.values.at({0, SublayerKind::kAttention, Point::kBranch}));
}

TEST(Stack, ReZeroStartsAsTheIdentity) {
  Case rezero("rezero");
  rezero.forward();
  EXPECT_TRUE(std::ranges::equal(rezero.x.flat(), rezero.y.flat()));
}

template <typename T>
void expect_finite_of_zeros() {
  for (const Placement& placement : placements()) {
    Stack<T> stack(small_block(), {2, {placement, placement}});
    TorchGenerator generator(1);
    for (std::size_t l = 0; l < 2; ++l) {
      initialize(stack.blocks()[l], {placement, placement}, Depth{l + 1, 2}, Initialization::kGpt2,
                 generator);
    }
    Scratch<T> scratch;
    const Pass<T> pass{.length = 4, .scratch = &scratch};
    Matrix<Arithmetic<T>> x(4, 8), dx(4, 8);
    x.fill(0);
    Matrix<T> y(4, 8), dy(4, 8);
    dy.fill(static_cast<T>(1));
    stack.forward(x, y, pass);
    stack.backward(dy, dx, pass);
    const auto is_finite = [](auto value) { return std::isfinite(static_cast<float>(value)); };
    EXPECT_TRUE(std::ranges::all_of(y.flat(), is_finite)) << placement.name;
    EXPECT_TRUE(std::ranges::all_of(dx.flat(), is_finite)) << placement.name;
    ParameterList<Arithmetic<T>> parameters;
    stack.list_parameters("", parameters);
    for (const auto& [name, parameter] : parameters) {
      EXPECT_TRUE(std::ranges::all_of(parameter->gradient.flat(), is_finite))
          << placement.name << ": " << name;
    }
  }
}

TEST(Stack, OfZerosIsFiniteForEveryPlacement) {
  expect_finite_of_zeros<float>();
  expect_finite_of_zeros<double>();
  expect_finite_of_zeros<BFloat16>();
}

TEST(Stack, WithoutLayersIsAnError) {
  EXPECT_THROW(Stack<float>(small_block(), {}), Error);
  EXPECT_THROW(Stack<float>({.d_model = 9, .n_heads = 2, .d_ff = 4}, parse_placements("pre", 1)),
               Error);
}

/// Every shape and every order of calls that a user may get wrong throws an Error.
TEST(Stack, RefusesWhatDoesNotFit) {
  for (const char* placement : {"none", "post", "pre", "sandwich"}) {
    SCOPED_TRACE(placement);
    Case c(placement);
    Matrix<double> narrow(4, 7), few(3, 8), dy(4, 8);
    EXPECT_THROW(c.stack.backward(dy, dy, c.pass), Error) << "there was no forward";
    EXPECT_THROW(c.stack.forward(narrow, c.y, c.pass), Error);
    EXPECT_THROW(c.stack.forward(few, c.y, c.pass), Error);
    EXPECT_THROW(c.stack.forward(c.x, narrow, c.pass), Error);
    EXPECT_THROW(c.stack.forward(c.x, few, c.pass), Error);
    EXPECT_THROW(c.stack.forward({}, c.y, c.pass), Error);
    c.stack.forward(c.x, c.y, c.pass);
    EXPECT_THROW(c.stack.backward(narrow, dy, c.pass), Error);
    EXPECT_THROW(c.stack.backward(dy, narrow, c.pass), Error);
    EXPECT_THROW(c.stack.backward(few, few, c.pass), Error);
    Pass<double> without = c.pass;
    without.scratch = nullptr;
    EXPECT_THROW(c.stack.backward(dy, dy, without), Error);
    EXPECT_NO_THROW(c.stack.backward(dy, dy, c.pass));
  }
}

TEST(Stack, RefusesSizesThatMakeNothing) {
  const BlockPlacement pre = parse_placements("pre", 1).front();
  EXPECT_THROW(Block<float>({.d_model = 8, .n_heads = 2}, pre, {}), Error) << "no d_ff";
  EXPECT_THROW(Block<float>({.d_ff = 8}, pre, {}), Error) << "no d_model";
  EXPECT_THROW(Block<float>(small_block(), pre, {.layer = 0}), Error) << "layers are counted from 1";
  EXPECT_THROW(Block<float>(small_block(), pre, {.layer = 3, .layers = 2}), Error);
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Embedding<float> embedding(5, 3, 4);
  Matrix<float> x(2, 4), narrow(2, 3), few(1, 4);
  const std::vector<std::int32_t> tokens{1, 4}, outside{1, 5};
  const Pass<float> pass{.length = 2};
  EXPECT_NO_THROW(embedding.forward(tokens, x, pass));
  EXPECT_NO_THROW(embedding.backward(tokens, x, pass));
  for (Matrix<float>* wrong : {&narrow, &few}) {
    EXPECT_THROW(embedding.forward(tokens, *wrong, pass), Error);
    EXPECT_THROW(embedding.backward(tokens, *wrong, pass), Error);
  }
  EXPECT_THROW(embedding.forward(outside, x, pass), Error);
  EXPECT_THROW(embedding.backward(outside, x, pass), Error);
}

TEST(Stack, NamesBeginWithThePrefixAndOnePoint) {
  Stack<float> stack(small_block(), parse_placements("pre", 1));
  ParameterList<float> alone, within;
  stack.list_parameters("", alone);
  stack.list_parameters("model", within);
  EXPECT_EQ(alone.front().name, "layers.0.attention.query.weight");
  EXPECT_EQ(within.front().name, "model.layers.0.attention.query.weight");
  EXPECT_EQ(within.back().name, "model.final_norm.beta");
}

TEST(Decoder, CountsParametersAsGpt2Does) {
  Decoder<float> decoder({.block = {.d_model = 12, .n_heads = 3, .d_ff = 48},
                          .placements = parse_placements("pre", 2),
                          .vocabulary = 50,
                          .context = 10,
                          .head = Head::kTied});
  const std::size_t block = 12 * 12 * 12 + 13 * 12;  // weights; biases and two norms
  EXPECT_EQ(count_parameters(decoder.parameters()), 2 * block + (50 + 10) * 12 + 2 * 12);
}

TEST(Decoder, SeesNoLaterToken) {
  Decoder<double> decoder(
      {.block = small_block(), .placements = parse_placements("post", 2), .context = 4});
  TorchGenerator generator(2);
  initialize(decoder, Initialization::kGpt2, generator);
  auto first_rows = [&](std::vector<std::int32_t> tokens) {
    return Memory::copy(decoder.forward(tokens, {}).block(0, 0, 3, 256));
  };
  EXPECT_EQ(first_rows({1, 2, 3, 4}), first_rows({1, 2, 3, 200}));
  EXPECT_GT(testing::max_error(first_rows({1, 2, 3, 4}), first_rows({1, 2, 9, 4})), 0);
}

TEST(Decoder, RejectsTokensThatDoNotFit) {
  Decoder<float> decoder({.block = small_block(),
                          .placements = parse_placements("pre", 1),
                          .vocabulary = 5,
                          .context = 2});
  const auto forward = [&](std::vector<std::int32_t> tokens, std::size_t batch) {
    decoder.forward(tokens, {.batch = batch});
  };
  EXPECT_THROW(forward({1, 5}, 1), Error);
  EXPECT_THROW(forward({1, -1}, 1), Error);
  EXPECT_THROW(forward({1, 2, 3}, 1), Error);
  EXPECT_THROW(forward({1, 2, 3}, 2), Error);
}

template <typename T>
Decoder<T> drawn_decoder(std::string_view placement) {
  Decoder<T> decoder({.block = {.d_model = 32, .n_heads = 4, .d_ff = 64},
                      .placements = parse_placements(placement, 2),
                      .context = 16});
  TorchGenerator generator(3);
  initialize(decoder, Initialization::kXavier, generator);
  return decoder;
}

constexpr std::size_t kSequences = 2;

/// Returns the logits of a batch of two sequences of 16 tokens, fed in pieces, in the order of a
/// whole forward.
template <typename T>
std::vector<float> logits_of(std::string_view placement, const std::vector<std::size_t>& pieces) {
  Decoder<T> decoder = drawn_decoder<T>(placement);
  std::vector<float> all(kSequences * 16 * 256);
  std::size_t past = 0;
  for (const std::size_t length : pieces) {
    std::vector<std::int32_t> tokens;
    for (std::size_t s = 0; s < kSequences; ++s) {
      for (std::size_t i = 0; i < length; ++i) {
        tokens.push_back(static_cast<std::int32_t>(((past + i) * 37 + s * 101) % 256));
      }
    }
    const MatrixView<const float> logits =
        decoder.forward(tokens, {.batch = kSequences, .mode = Mode::kEvaluation, .past = past});
    for (std::size_t r = 0; r < logits.rows; ++r) {
      const std::size_t place = (r / length) * 16 + past + r % length;
      std::ranges::copy(logits.row(r), all.data() + place * 256);
    }
    past += length;
  }
  return all;
}

TEST(Decoder, GivesTheLogitsOfAWholeSequenceWhenItIsFedInPieces) {
  for (const char* placement : {"pre", "post", "sandwich", "deepnorm"}) {
    SCOPED_TRACE(placement);
    const std::vector<float> whole = logits_of<float>(placement, {16});
    const std::vector<float> whole16 = logits_of<BFloat16>(placement, {16});
    for (const std::vector<std::size_t>& pieces :
         {std::vector<std::size_t>(16, 1), {5, 3, 8}, {1, 14, 1}}) {
      const std::vector<float> logits = logits_of<float>(placement, pieces);
      EXPECT_LT(testing::max_error(logits, whole), 1e-5);
      EXPECT_EQ(logits, logits_of<float>(placement, pieces));
      EXPECT_LT(testing::max_error(logits_of<BFloat16>(placement, pieces), whole16), 0.03);
    }
  }
}

TEST(Decoder, FeedsAPieceAgainFromAnEarlierToken) {
  Decoder<float> decoder = drawn_decoder<float>("pre");
  auto fed = [&](std::vector<std::int32_t> tokens, std::size_t past) {
    const auto logits = decoder.forward(tokens, {.mode = Mode::kEvaluation, .past = past});
    const auto last = logits.row(logits.rows - 1);
    return std::vector<float>(last.begin(), last.end());
  };
  fed({1, 2, 3, 4}, 0);
  const std::vector<float> expected = fed({7}, 4);
  fed({1, 2, 9}, 4);
  EXPECT_EQ(fed({7}, 4), expected);
}

TEST(Decoder, RefusesAPastThatItHasNot) {
  Decoder<float> decoder = drawn_decoder<float>("pre");
  const auto forward = [&](std::size_t length, std::size_t past, Mode mode = Mode::kEvaluation,
                           std::size_t batch = 1) {
    decoder.forward(std::vector<std::int32_t>(batch * length, 1),
                    {.batch = batch, .mode = mode, .past = past});
  };
  EXPECT_THROW(forward(1, 1), Error) << "nothing was fed";
  forward(4, 0);
  EXPECT_THROW(forward(1, 5), Error) << "only 4 were fed";
  EXPECT_THROW(forward(13, 4), Error) << "longer than the context";
  EXPECT_THROW(forward(1, 4, Mode::kTraining), Error);
  EXPECT_THROW(forward(1, 4, Mode::kEvaluation, 2), Error) << "another batch";
  forward(12, 4);
  EXPECT_THROW(decoder.backward(Matrix<float>(12, 256)), Error);
  forward(4, 0, Mode::kTraining);
  EXPECT_THROW(forward(1, 4), Error) << "fed in training";
}

TEST(Admin, SkipsGrowWithTheVarianceOfTheBranchesBefore) {
  Decoder<double> decoder(
      {.block = small_block(), .placements = parse_placements("admin", 3), .context = 8});
  TorchGenerator generator(2);
  initialize(decoder, Initialization::kXavier, generator);
  initialize_admin<double>(decoder, std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8}, 1);
  double last = 0;
  for (Block<double>& block : decoder.stack().blocks()) {
    for (AddNorm<double>* add_norm :
         {&block.attention_add_norm(), &block.feed_forward_add_norm()}) {
      EXPECT_GT(add_norm->skip().value(0, 0), last);
      last = add_norm->skip().value(0, 0);
    }
  }
}

TEST(Admin, CountsOneBranchOfSublayersSideBySide) {
  Decoder<double> decoder({.block = small_block(),
                           .placements = parse_placements("admin:1+parallel:1+admin:1", 3),
                           .context = 8});
  TorchGenerator generator(2);
  initialize(decoder, Initialization::kXavier, generator);
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  Memory memory;
  decoder.forward(tokens, {.mode = Mode::kEvaluation, .probe = &memory});
  double total = 0;
  const auto add_variance = [&](const Site& site) {
    const std::vector<double>& values = memory.values.at(site);
    double sum = 0, squares = 0;
    for (const double v : values) sum += v, squares += v * v;
    const auto n = static_cast<double>(values.size());
    total += squares / n - (sum / n) * (sum / n);
  };
  add_variance({0, SublayerKind::kAttention, Point::kX});
  add_variance({0, SublayerKind::kAttention, Point::kBranch});
  add_variance({0, SublayerKind::kFeedForward, Point::kBranch});
  add_variance({1, SublayerKind::kAttention, Point::kBranch});
  initialize_admin<double>(decoder, tokens, 1);
  EXPECT_NEAR(decoder.stack().blocks()[2].attention_add_norm().skip().value(0, 0), std::sqrt(total),
              1e-12);
}

/// Weights of 0 after hidden units of 0 would stay 0.
TEST(Decoder, HiddenLayersOfLanesAreDrawn) {
  constexpr std::size_t kLayers = 3;
  Decoder<double> decoder(
      {.block = small_block(), .placements = parse_placements("mudd", kLayers), .context = 4});
  TorchGenerator generator(2);
  initialize(decoder, Initialization::kXavier, generator);
  const std::vector<std::int32_t> tokens{1, 2, 3, 4};
  decoder.backward(decoder.forward(tokens, {}));
  std::size_t weights = 0;
  for (const auto& [name, parameter] : decoder.parameters()) {
    const auto is_zero = [](double v) { return v == 0; };
    if (name.ends_with(".hidden")) {
      EXPECT_TRUE(std::ranges::none_of(parameter->value.flat(), is_zero)) << name;
    }
    if (!name.ends_with("read.weight") && !name.ends_with("carry.weight")) continue;
    ++weights;
    EXPECT_TRUE(std::ranges::all_of(parameter->value.flat(), is_zero)) << name;
    EXPECT_TRUE(std::ranges::none_of(parameter->gradient.flat(), is_zero)) << name;
  }
  EXPECT_EQ(weights, 2 * (kLayers - 1) + 1) << "of all layers but the first, and of the exit";
}

/// Combinations that a user's own placement must not have.
TEST(AddNorm, RefusesSeveralMixesWhereTheyHaveNoMeaning) {
  const auto made = [](Placement placement) {
    placement.lanes.reads = [](const Place&) { return std::size_t{3}; };
    const AddNorm<double> add_norm(placement, {.d_model = 8, .lanes = 2});
  };
  Placement difference = find_placement("hyper");
  EXPECT_NO_THROW(made(difference));
  difference.update = Update::kDifference;
  EXPECT_THROW(made(difference), Error);
  EXPECT_THROW(made(find_placement("frac")), Error);
  Placement hidden = find_placement("dynamic-hyper");
  hidden.lanes.hidden = true;
  EXPECT_THROW(AddNorm<double>(hidden, {.d_model = 8, .lanes = 2}), Error) << "of each lane";
}

TEST(Stack, RefusesAnEmptyBatch) {
  Case c("pre");
  c.pass.batch = 0;
  EXPECT_THROW(c.stack.forward(Matrix<double>(0, 8), Matrix<double>(0, 8), c.pass), Error);
}

TEST(Decoder, MayMoveBetweenForwardAndBackward) {
  auto make = [] {
    Decoder<double> decoder(
        {.block = small_block(), .placements = parse_placements("pre", 1), .context = 4});
    TorchGenerator generator(2);
    initialize(decoder, Initialization::kXavier, generator);
    return decoder;
  };
  const std::vector<std::int32_t> tokens{1, 2, 3, 4};
  Decoder<double> stays = make();
  Decoder<double> goes = make();
  stays.backward(stays.forward(tokens, {}));
  const MatrixView<double> logits = goes.forward(tokens, {});
  Decoder<double> gone = std::move(goes);
  gone.backward(logits);
  EXPECT_TRUE(std::ranges::equal(gone.embedding().token().gradient.flat(),
                                 stays.embedding().token().gradient.flat()));
}

TEST(Norm, RefusesWhatItCannotNormalize) {
  EXPECT_THROW(Norm<float>({.kind = NormKind::kInstance}, 8, Affine::kNone), Error);
  Norm<float> batch({.kind = NormKind::kBatch}, 4, Affine::kNone);
  Matrix<float> x(3, 8);
  Matrix<float> y(3, 4);
  Scratch<float> scratch;
  EXPECT_THROW(batch.forward({.x = x.view().block(0, 0, 3, 4)}, {}, y, {.scratch = &scratch}),
               Error)
      << "rows that are not contiguous";
}

TEST(Linear, ChecksShapesBeforeItWrites) {
  Linear<float> linear(3, 4, Bias::kYes);
  const Matrix<float> x(2, 3);
  Matrix<float> wide(2, 5), short_of_a_row(1, 4);
  EXPECT_THROW(linear.forward(x, wide.view()), Error);
  EXPECT_THROW(linear.forward(x, short_of_a_row.view()), Error);
}

}  // namespace
}  // namespace addnorm::stack_test
