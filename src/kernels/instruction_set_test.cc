/// Tests the bits that must not depend on the instruction set, and the rounding of storage types:
/// docs/numerics.md.

#include "kernels/instruction_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <rapidcheck.h>

#include "addnorm/error.h"
#include "addnorm/matrix.h"
#include "kernels/activation.h"
#include "kernels/constant_block.h"
#include "kernels/softmax.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels::instruction_set_test {
namespace {

using testing::all_instruction_sets;
using testing::Normal;
using testing::random_vector;
using testing::same_bits;

/// Runs `body` on every instruction set of this machine and with 1, 2, 3 and 8 threads.
template <typename Body>
void everywhere(const Body& body) {
  const std::string usual(instruction_set());
  const int threads = omp_get_max_threads();
  for (const std::string& name : all_instruction_sets()) {
    use_instruction_set(name);
    for (const int count : {1, 2, 3, 8}) {
      omp_set_num_threads(count);
      body(fmt::format("{} on {} threads", name, count));
    }
  }
  omp_set_num_threads(threads);
  use_instruction_set(usual);
}

TEST(InstructionSet, TheOneInUseIsListedAndAnUnknownOneIsRefused) {
  EXPECT_THAT(all_instruction_sets(), ::testing::Contains(instruction_set()));
  EXPECT_THAT([] { use_instruction_set("mmx"); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "use_instruction_set: there is no instruction set 'mmx' here, there are ")));
  const std::string usual(instruction_set());
  for (const std::string& set : all_instruction_sets()) {
    use_instruction_set(set);
    EXPECT_THAT([] { use_instruction_set(""); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr("the name is empty")));
    EXPECT_EQ(instruction_set(), set) << "a refused name changes nothing";
  }
  use_instruction_set(usual);
}

TEST(InstructionSet, RowsOfSeveralStretchesHaveTheSameBits) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const testing::NormCase<float> fresh({.kind = kind}, {2, 3 * kStretch + 100});
    testing::NormCase<float> first = fresh;
    first.run();
    everywhere([&](const std::string& where) {
      testing::NormCase<float> again = fresh;
      again.run();
      EXPECT_TRUE(same_bits(again.y, first.y)) << where;
      EXPECT_TRUE(same_bits(again.dx, first.dx)) << where;
    });
  }
}

/// One call of add_norm_forward and its backward, with random shape, options and data.
template <typename S, typename B>
struct AddNormCase {
  using V = Arithmetic<S>;

  std::size_t rows = *rc::gen::weightedOneOf<std::size_t>(
      {{4, rc::gen::inRange<std::size_t>(0, 70)}, {1, rc::gen::inRange<std::size_t>(70, 600)}});
  std::size_t cols = *rc::gen::weightedOneOf<std::size_t>(
      {{8, rc::gen::inRange<std::size_t>(1, 200)}, {1, rc::gen::element<std::size_t>(1023, 2049)}});
  std::size_t stride = cols + *rc::gen::element<std::size_t>(0, 0, 3, 16);
  NormOptions options{.kind = *rc::gen::element(NormKind::kLayer, NormKind::kRms),
                      .epsilon = *rc::gen::element(1e-5, 0.25),
                      .gamma_form = *rc::gen::element(GammaForm::kPlain, GammaForm::kOnePlus),
                      .output_scale = *rc::gen::element(1.0, 1.0, 0.7)};
  bool with_branch = *rc::gen::arbitrary<bool>();
  bool with_sum = *rc::gen::arbitrary<bool>();
  bool with_affine = *rc::gen::arbitrary<bool>();
  bool with_residual = *rc::gen::arbitrary<bool>();
  V gain = *rc::gen::element(V{1}, V{1}, V(0.6));
  Dropout dropout{.probability = *rc::gen::element(0.0, 0.0, 0.3), .seed = 3};
  Normal of_x{*rc::gen::element(0.0, 1.0, 1e3), 1};

  std::vector<S> x, s, d_residual, dx;
  std::vector<B> branch, y, dy;
  std::vector<V> gamma, beta, d_gamma, d_beta, workspace;
  std::vector<NormStatistics<V>> statistics;

  AddNormCase() {
    TorchGenerator generator(rows * 1000 + cols);
    const std::size_t size = rows * stride;
    auto stored = [&](auto type, Normal normal) {
      std::vector<decltype(type)> values;
      for (const float v : random_vector<float>(generator, size, normal)) values.emplace_back(v);
      return values;
    };
    x = stored(S(), of_x);
    branch = stored(B(), {});
    dy = stored(B(), {});
    d_residual = stored(S(), {});
    gamma = random_vector<V>(generator, cols, {1, 0.3});
    beta = random_vector<V>(generator, cols);
    s.resize(size);
    dx.resize(size);
    y.resize(size);
    d_gamma.resize(cols);
    d_beta.resize(cols);
    statistics.resize(rows);
    workspace.resize(add_norm_workspace(rows, cols));
  }

  template <typename T>
  MatrixView<T> view(std::vector<T>& values, bool wanted = true) {
    return wanted ? MatrixView<T>{values.data(), rows, cols, stride} : MatrixView<T>{};
  }
  std::span<const V> affine(const std::vector<V>& values) const {
    return with_affine ? std::span<const V>(values) : std::span<const V>();
  }

  void run() {
    const ResidualAdd<S, B> add{.x = view(x),
                                .branch = view(branch, with_branch),
                                .gain = {.constant = gain},
                                .dropout = dropout};
    add_norm_forward<S, B>(options, {.add = add,
                                     .sum = view(s, with_sum),
                                     .gamma = affine(gamma),
                                     .beta = affine(beta),
                                     .y = view(y),
                                     .statistics = statistics});
    add_norm_backward<S, B>(options, {.s = view(x),
                                      .statistics = statistics,
                                      .gamma = affine(gamma),
                                      .dy = view(dy),
                                      .d_residual = view(d_residual, with_residual),
                                      .dx = view(dx),
                                      .d_gamma = d_gamma,
                                      .d_beta = d_beta,
                                      .workspace = workspace,
                                      .parameter_gradients = GradientMode::kOverwrite});
  }

  /// Returns all bytes that the call wrote.
  std::string bytes() const {
    std::string all;
    auto append = [&](const auto& values) {
      all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
    };
    append(s);
    append(y);
    append(dx);
    append(d_gamma);
    append(d_beta);
    append(statistics);
    return all;
  }
};

template <typename Pair>
class Storage : public ::testing::Test {};
template <typename S, typename B>
struct Pair {
  using Stream = S;
  using Branch = B;
};
using Pairs = ::testing::Types<Pair<float, float>, Pair<BFloat16, BFloat16>, Pair<Float16, Float16>,
                               Pair<float, BFloat16>, Pair<float, Float16>>;
TYPED_TEST_SUITE(Storage, Pairs);

TYPED_TEST(Storage, EveryInstructionSetAndNumberOfThreadsGivesTheSameBits) {
  EXPECT_TRUE(rc::check("same bits", [] {
    AddNormCase<typename TypeParam::Stream, typename TypeParam::Branch> c;
    c.run();
    const std::string expected = c.bytes();
    everywhere([&](const std::string& where) {
      c.run();
      if (c.bytes() != expected) RC_FAIL("other bits: " + where);
    });
  }));
}

// Each stored value is the float32 result for the same stored input, rounded once.
TYPED_TEST(Storage, OutputsAreThoseOfFloat32Rounded) {
  using S = typename TypeParam::Stream;
  using B = typename TypeParam::Branch;
  EXPECT_TRUE(rc::check("rounded", [] {
    AddNormCase<S, B> c;
    std::vector<float> stored(c.rows * c.cols), y(stored.size());
    c.with_sum = true;
    c.run();
    // float32 normalizes the stored, rounded s.
    for (std::size_t i = 0; i < stored.size(); ++i) {
      stored[i] = static_cast<float>(c.s[i / c.cols * c.stride + i % c.cols]);
    }
    add_norm_forward<float>(c.options, {.add = {.x = {stored.data(), c.rows, c.cols}},
                                        .gamma = c.affine(c.gamma),
                                        .beta = c.affine(c.beta),
                                        .y = {y.data(), c.rows, c.cols}});
    for (std::size_t i = 0; i < y.size(); ++i) {
      const float written = static_cast<float>(c.y[i / c.cols * c.stride + i % c.cols]);
      RC_ASSERT(written == static_cast<float>(B(y[i])));
    }
  }));
}

/// Returns normal values of every magnitude, and the special cases of exp and comparisons.
std::vector<float> values_with_extremes(std::size_t size) {
  constexpr float kMax = std::numeric_limits<float>::max();
  TorchGenerator generator(size);
  std::vector<float> values =
      random_vector<float>(generator, size, {0, *rc::gen::element(1.0, 30.0, 1e4)});
  for (const float extreme : {-0.0F, 1e-40F, -88.0F, 88.7F, kMax, -kMax, INFINITY, -INFINITY}) {
    if (*rc::gen::arbitrary<bool>()) values[*rc::gen::inRange<std::size_t>(0, size)] = extreme;
  }
  return values;
}

TEST(InstructionSet, ActivationsHaveTheSameBitsOnEveryOneAndAnyNumberOfThreads) {
  EXPECT_TRUE(rc::check("same bits", [] {
    const auto activation = *rc::gen::element(Activation::kRelu, Activation::kGelu,
                                              Activation::kGeluTanh, Activation::kSilu);
    const auto rows = *rc::gen::inRange<std::size_t>(1, 70);
    const auto cols = *rc::gen::inRange<std::size_t>(1, 300);
    const std::vector<float> x = values_with_extremes(rows * cols);
    const MatrixView<const float> in{x.data(), rows, cols};
    auto outputs = [&] {
      Matrix<float> both(2 * rows, cols);
      activate<float>(activation, in, both.view().block(0, 0, rows, cols));
      activate_backward<float>(activation,
                               {.x = in, .dy = in, .dx = both.view().block(rows, 0, rows, cols)});
      return both;
    };
    const Matrix<float> expected = outputs();
    everywhere([&](const std::string& where) {
      if (!same_bits(outputs().flat(), expected.flat())) RC_FAIL("other bits: " + where);
    });
  }));
}

TEST(InstructionSet, SoftmaxHasTheSameBitsOnEveryOne) {
  EXPECT_TRUE(rc::check("same bits", [] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 3000);
    const auto visible = *rc::gen::inRange<std::size_t>(0, n + 1);
    const std::vector<float> scores = values_with_extremes(n);
    const auto blocked = *rc::gen::container<std::vector<std::uint8_t>>(
        n, rc::gen::element<std::uint8_t>(0, 0, 0, 1));
    auto outputs = [&] {
      std::vector<float> p = scores;
      softmax_row<float>({p, visible, blocked, {}});
      std::vector<float> dp = scores;
      softmax_row_backward<float>(p, dp);
      std::vector<float> terms(n);
      const auto [maximum, sum] = softmax_terms<float>(scores, terms);
      for (const auto& more : {dp, terms, {maximum, sum}}) {
        p.insert(p.end(), more.begin(), more.end());
      }
      return p;
    };
    const std::vector<float> expected = outputs();
    everywhere([&](const std::string& where) {
      if (!same_bits(outputs(), expected)) RC_FAIL("other bits: " + where);
    });
  }));
}

// All values of a 16-bit type, and float32 numbers between them that must be rounded.
template <typename Half>
void expect_conversions_as_in_scalar_code() {
  std::vector<float> between;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const auto exact = std::bit_cast<std::uint32_t>(static_cast<float>(half));
    for (const std::uint32_t offset :
         {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x7FFFu, 0x8000u, 0x8001u}) {
      between.push_back(std::bit_cast<float>(exact + offset));
    }
  }
  // The values again, with one subnormal in any 32: some processors' own instruction flushes
  // subnormals to 0.
  const std::size_t all = between.size();
  between.insert(between.end(), between.begin(), between.end());
  for (std::size_t i = all, lane = 0; i < between.size(); i += 32, ++lane) {
    between[i + lane % 32] = 1e-39F;
  }
  const Matrix<float> zero(1, between.size());
  std::vector<Half> expected, converted(between.size());
  for (const float value : between) expected.emplace_back(value);
  std::vector<Half> back(between.size());
  everywhere([&](const std::string& where) {
    // The branch's gradient rounds float32 to 16 bits; the residual sum converts it back and rounds
    // again.
    residual_add_backward<float, Half>({.add = {.x = zero},
                                        .d_sum = {between.data(), 1, between.size()},
                                        .d_branch = {converted.data(), 1, between.size()}});
    residual_add<Half>({.x = {expected.data(), 1, between.size()}},
                       {back.data(), 1, between.size()});
    for (std::size_t i = 0; i < between.size(); ++i) {
      if (std::isnan(between[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(converted[i]))) << between[i] << " " << where;
        continue;
      }
      ASSERT_EQ(converted[i].bits, expected[i].bits) << between[i] << " " << where;
      ASSERT_EQ(back[i].bits, expected[i].bits) << between[i] << " " << where;
    }
  });
}
TEST(Conversion, OfBFloat16IsTheSameEverywhere) {
  expect_conversions_as_in_scalar_code<BFloat16>();
}
TEST(Conversion, OfFloat16IsTheSameEverywhere) {
  expect_conversions_as_in_scalar_code<Float16>();
}

TEST(Conversion, RoundsToNearestEven) {
  EXPECT_EQ(BFloat16(1.00390625F).bits, 0x3F80);    // 1 + 2⁻⁸, halfway: to even
  EXPECT_EQ(BFloat16(1.01171875F).bits, 0x3F82);    // 1 + 3·2⁻⁸, halfway: to even
  EXPECT_EQ(BFloat16(3.4028235e38F).bits, 0x7F80);  // to infinity
  EXPECT_EQ(Float16(65504.0F).bits, 0x7BFF);        // the largest
  EXPECT_EQ(Float16(65519.0F).bits, 0x7BFF);
  EXPECT_EQ(Float16(65520.0F).bits, 0x7C00);       // halfway to 65536: infinity
  EXPECT_EQ(Float16(5.9604645e-8F).bits, 0x0001);  // 2⁻²⁴, the smallest
  EXPECT_EQ(Float16(2.9802322e-8F).bits, 0x0000);  // half of it: to even
  EXPECT_EQ(Float16(8.9406967e-8F).bits, 0x0002);  // 1.5 times it: to even
  EXPECT_EQ(static_cast<float>(Float16(-0.0F)), 0.0F);
}

}  // namespace
}  // namespace addnorm::kernels::instruction_set_test
