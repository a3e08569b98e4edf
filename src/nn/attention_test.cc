/// Tests of single forms of attention, by identities that do not depend on the implementation.
/// gradient_test.cc tests their gradients, and tests/models_test.cc whole models.

#include "addnorm/nn/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "addnorm/error.h"
#include "nn/rope.h"
#include "support/compare.h"
#include "support/random.h"

namespace addnorm {
namespace {

using testing::random_matrix;

constexpr std::size_t kModel = 12, kHeads = 4, kLength = 9;
constexpr AttentionMask kCausal{.order = AttentionMask::Order::kCausal};

/// Self-attention with random parameters, and its output for `x`.
struct Sample {
  MultiHeadAttention<double> attention;
  Scratch<double> scratch;

  explicit Sample(const AttentionForm& form, std::uint64_t seed = 1)
      : attention(kModel, kHeads, Bias::kNo, form) {
    TorchGenerator generator(seed);
    for (const auto& [name, parameter] : parameters()) {
      generator.fill_normal(parameter->value.flat(), 0.0, 0.5);
    }
  }
  ParameterList<double> parameters() {
    ParameterList<double> list;
    attention.list_parameters("", list);
    return list;
  }
  Matrix<double> operator()(const Matrix<double>& x, Pass<double> pass) {
    pass.scratch = &scratch;
    pass.length = x.rows() / pass.batch;
    Matrix<double> y(x.rows(), kModel);
    attention.forward(x, y, pass);
    return y;
  }
};

Matrix<double> random_tokens(std::size_t rows = kLength) {
  TorchGenerator generator(11);
  return random_matrix<double>(generator, rows, kModel);
}

double largest_difference(const Matrix<double>& a, const Matrix<double>& b) {
  return testing::max_error(a.flat(), b.flat());
}

TEST(Rope, ProductsDependOnTheDistanceAlone) {
  const std::vector<double> frequencies = rope_frequencies(100, 6);
  TorchGenerator generator(3);
  const Matrix<double> one = random_matrix<double>(generator, 2, 6);
  auto product = [&](std::size_t query, std::size_t key) {
    Matrix<double> q(1, 6), k(1, 6);
    std::ranges::copy(one.view().row(0), q.data());
    std::ranges::copy(one.view().row(1), k.data());
    rotate<double>({frequencies, 6}, query, Rotation::kForward, q);
    rotate<double>({frequencies, 6}, key, Rotation::kForward, k);
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i) sum += q(0, i) * k(0, i);
    return sum;
  };
  EXPECT_NEAR(product(7, 3), product(104, 100), 1e-12);
  EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-3);
}

TEST(Rope, TurnsBack) {
  const std::vector<double> frequencies = rope_frequencies(10'000, 4);
  Matrix<double> x = random_tokens();
  const Matrix<double> before = random_tokens();
  rotate<double>({frequencies, 4}, 5, Rotation::kForward, x);
  EXPECT_GT(largest_difference(x, before), 0.1);
  rotate<double>({frequencies, 4}, 5, Rotation::kBack, x);
  EXPECT_LT(largest_difference(x, before), 1e-12);
}

/// Expected values by hand: a quarter turn of the first pair, half a turn of the second.
TEST(Rope, TurnsTheFeaturesOfItsPairs) {
  const std::vector<double> frequencies{std::numbers::pi / 2, std::numbers::pi};
  const auto turned = [&](RotaryPairs pairs, double gain) {
    Matrix<double> x(1, 12);
    std::iota(x.data(), x.data() + 12, 1);
    rotate<double>({frequencies, 6, pairs, gain}, 1, Rotation::kForward, x);
    for (double& value : x.flat()) value = std::round(1e9 * value) / 1e9 + 0.0;
    return std::vector<double>(x.data(), x.data() + 12);
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(turned(RotaryPairs::kHalves, 1),
              ElementsAre(-3, -2, 1, -4, 5, 6, -9, -8, 7, -10, 11, 12));
  EXPECT_THAT(turned(RotaryPairs::kNeighbors, 2),
              ElementsAre(-4, 2, -6, -8, 5, 6, -16, 14, -18, -20, 11, 12));
}

/// Equal heads of keys give the same output as a single shared head.
TEST(Attention, SharedHeadsOfKeysAreThoseOfTheirQueries) {
  Sample shared({.n_kv_heads = 2}), all({});
  constexpr std::size_t kHead = kModel / kHeads;
  auto copy = [](const Matrix<double>& from, Matrix<double>& to, std::size_t group) {
    for (std::size_t r = 0; r < to.rows(); ++r) {
      const std::size_t source = r / (group * kHead) * kHead + r % kHead;
      std::ranges::copy(from.view().row(source), to.view().row(r).begin());
    }
  };
  auto& from = shared.attention;
  auto& to = all.attention;
  std::ranges::copy(from.query().weight().value.flat(), to.query().weight().value.data());
  std::ranges::copy(from.output().weight().value.flat(), to.output().weight().value.data());
  copy(from.key().weight().value, to.key().weight().value, 2);
  copy(from.value().weight().value, to.value().weight().value, 2);
  const Matrix<double> x = random_tokens();
  EXPECT_LT(largest_difference(shared(x, {.mask = kCausal}), all(x, {.mask = kCausal})), 1e-12);
}

TEST(Attention, OfThreeMixesTakesValuesKeysAndQueries) {
  Sample sample({});
  const Matrix<double> all = random_tokens(3 * kLength);
  const auto part = [&](std::size_t i) {
    return all.view().block(i * kLength, 0, kLength, kModel);
  };
  const MultiHeadAttention<double>::Inputs in{.query = part(2), .key = part(1), .value = part(0)};
  const Pass<double> pass{.length = kLength, .mask = kCausal, .scratch = &sample.scratch};
  Matrix<double> y(kLength, kModel), expected(kLength, kModel);
  sample.attention.forward(in, expected, pass);
  sample.attention.forward(all, y, pass);
  EXPECT_EQ(largest_difference(y, expected), 0);

  Matrix<double> dx(3 * kLength, kModel), dq(kLength, kModel), dk(kLength, kModel),
      dv(kLength, kModel);
  sample.attention.backward(in, expected, {dq, dk, dv}, pass);
  sample.attention.backward(all, expected, dx.view(), pass);
  for (const auto& [i, d] : {std::pair(0, &dv), {1, &dk}, {2, &dq}}) {
    const std::span<double> of_part = dx.flat().subspan(i * d->flat().size(), d->flat().size());
    EXPECT_EQ(testing::max_error(of_part, d->flat()), 0) << i;
  }
}

TEST(Attention, AWindowIsAMaskOfABand) {
  constexpr std::size_t kWindow = 3;
  std::vector<std::uint8_t> outside(kLength * kLength);
  for (std::size_t q = 0; q < kLength; ++q) {
    for (std::size_t k = 0; k < kLength; ++k) outside[q * kLength + k] = k > q || k + kWindow <= q;
  }
  Sample window({.window = kWindow}), masked({});
  const Matrix<double> x = random_tokens();
  EXPECT_LT(
      largest_difference(window(x, {.mask = kCausal}), masked(x, {.mask = {.blocked = outside}})),
      1e-12);
}

TEST(Attention, ALargeSoftCapChangesNothing) {
  Sample capped({.soft_cap = 1e6}), plain({}), tight({.soft_cap = 0.1});
  const Matrix<double> x = random_tokens();
  const Matrix<double> expected = plain(x, {});
  EXPECT_LT(largest_difference(capped(x, {}), expected), 1e-9);
  EXPECT_GT(largest_difference(tight(x, {}), expected), 1e-3);
}

/// With a norm the scale of queries has no effect.
TEST(Attention, NormalizedQueriesForgetTheirSize) {
  for (const QkNorm kind : {QkNorm::kHead, QkNorm::kAllHeads}) {
    Sample sample({.qk_norm = kind, .norm = {.kind = NormKind::kRms, .epsilon = 0}});
    const Matrix<double> x = random_tokens();
    const Matrix<double> before = sample(x, {});
    for (double& w : sample.attention.query().weight().value.flat()) w *= 7;
    EXPECT_LT(largest_difference(sample(x, {}), before), 1e-12);
  }
}

TEST(RelativeBias, BucketsAreThoseOfT5) {
  const RelativeBias bias{.buckets = 32, .max_distance = 128};
  // Expected values of the published rule, by distance key − query.
  EXPECT_EQ(bias.bucket(10, 10), 0u);
  EXPECT_EQ(bias.bucket(10, 3), 7u);
  EXPECT_EQ(bias.bucket(10, 17), 16u + 7u);
  EXPECT_EQ(bias.bucket(100, 92), 8u);   // 8: the first of the logarithmic ones
  EXPECT_EQ(bias.bucket(100, 84), 10u);  // 16: 8 + 8·log(2)/log(16)
  EXPECT_EQ(bias.bucket(100, 68), 12u);  // 32
  EXPECT_EQ(bias.bucket(100, 36), 14u);  // 64
  EXPECT_EQ(bias.bucket(0, 127), 31u);
  EXPECT_EQ(bias.bucket(0, 5000), 31u);
}

/// Every form gives the same output for a sequence fed in pieces or at once.
TEST(Attention, FormsGiveTheSameInPieces) {
  const NormOptions rms{.kind = NormKind::kRms};
  const AttentionForm forms[] = {
      {.n_kv_heads = 2,
       .rope = rope_frequencies(100, 3 * 2),
       .qk_norm = QkNorm::kHead,
       .norm = rms},
      {.rope = rope_frequencies(100, 4),
       .rotary_pairs = RotaryPairs::kNeighbors,
       .rotary_gain = 1.2},
      {.n_kv_heads = 1, .qk_norm = QkNorm::kAllHeads, .norm = rms},
      {.soft_cap = 2, .window = 3},
  };
  for (AttentionForm form : forms) {
    if (!form.rope.empty()) form.d_head = 6;
    Sample whole(form), pieces(form);
    const Matrix<double> x = random_tokens(2 * kLength);
    const Pass<double> pass{
        .batch = 2, .mode = Mode::kEvaluation, .mask = kCausal, .context = kLength + 2};
    const Matrix<double> expected = whole(x, pass);
    std::size_t past = 0;
    for (const std::size_t length : {std::size_t{4}, std::size_t{1}, kLength - 5}) {
      Matrix<double> piece(2 * length, kModel);
      for (std::size_t r = 0; r < piece.rows(); ++r) {
        const std::size_t from = r / length * kLength + past + r % length;
        std::ranges::copy(x.view().row(from), piece.view().row(r).begin());
      }
      Pass<double> part = pass;
      part.past = past;
      const Matrix<double> y = pieces(piece, part);
      for (std::size_t r = 0; r < y.rows(); ++r) {
        const std::size_t at = r / length * kLength + past + r % length;
        for (std::size_t i = 0; i < kModel; ++i) EXPECT_NEAR(y(r, i), expected(at, i), 1e-12);
      }
      past += length;
    }
  }
}

/// The probe observes −∞ for hidden keys; the softmax of the observed scores times v is attention's
/// output.
TEST(Attention, RefusesABackwardOfOtherRows) {
  MultiHeadAttention<double> attention(8, 2);
  Scratch<double> scratch;
  const Pass<double> pass{.batch = 2, .length = 3, .scratch = &scratch};
  Matrix<double> x(6, 8), keys(10, 8), few(4, 8), y(6, 8);
  attention.forward({.query = x, .key = keys, .value = keys}, y, pass);
  const auto backward = [&](Matrix<double>& query, Matrix<double>& key, Matrix<double>& value) {
    attention.backward({.query = query, .key = key, .value = value}, y,
                       {.query = query, .key = key, .value = value}, pass);
  };
  EXPECT_THROW(backward(x, few, few), Error);
  EXPECT_THROW(backward(few, keys, keys), Error);
  EXPECT_THROW(backward(x, keys, few), Error);
  EXPECT_NO_THROW(backward(x, keys, keys));
}

TEST(Attention, TellsScores) {
  struct Listener : Probe<double> {
    void forward(const Site& site, MatrixView<const double> values) override {
      EXPECT_EQ(site, (Site{3, SublayerKind::kAttention, Point::kScores}));
      EXPECT_EQ(values.rows, kLength);
      EXPECT_EQ(values.cols, kLength);
      for (std::size_t q = 0; q < kLength; ++q) {
        for (std::size_t k = 0; k < kLength; ++k) {
          EXPECT_EQ(std::isfinite(values(q, k)), k <= q && k + 4 > q);
        }
      }
      ++count;
    }
    void backward(const Site&, MatrixView<const double>) override {}
    bool wants_scores() const override { return true; }
    int count = 0;
  } listener;
  Sample sample({.window = 4, .layer = 3});
  sample(random_tokens(), {.mask = kCausal, .probe = &listener});
  EXPECT_EQ(listener.count, int(kHeads));
}

}  // namespace
}  // namespace addnorm
