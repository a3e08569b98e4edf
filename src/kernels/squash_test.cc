/// Tests DyT and Derf against the reference, and against the contract of docs/numerics.md.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "addnorm/error.h"
#include "addnorm/matrix.h"
#include "support/gradient_check.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels::squash_test {
namespace {

using testing::all_instruction_sets;
using testing::describe;
using testing::gradient_error;
using ::testing::HasSubstr;
using testing::NormCase;
using testing::relative_error;
using testing::same_bits;
using ::testing::ThrowsMessage;

constexpr NormKind kKinds[] = {NormKind::kDyT, NormKind::kDerf};

/// erf in float32 has an error of 5e-7 (simd/math.h).
template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-13;

template <typename T>
void expect_equals_reference(NormCase<T> c) {
  c.run();
  const auto gradients = c.expected_gradients();
  EXPECT_LE(relative_error(c.y, c.expected().y), kTolerance<T>);
  EXPECT_LE(relative_error(c.dx, gradients.dx), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_gamma, gradients.d_gamma), kTolerance<T>);
  EXPECT_LE(relative_error(c.d_beta, gradients.d_beta), kTolerance<T>);
  // Sums over all values cancel, so their error is compared with the root of the number of values.
  const double size = std::sqrt(static_cast<double>(c.x.size()));
  EXPECT_NEAR(c.d_alpha[0], gradients.d_alpha, kTolerance<T> * size);
  EXPECT_NEAR(c.d_shift[0], gradients.d_shift, kTolerance<T> * size);
}

template <typename T>
class Squash : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Squash, Types);

TYPED_TEST(Squash, EqualsTheReferenceForEveryOptionAndShape) {
  const reference::Shape shapes[] = {{1, 1}, {5, 33}, {130, 17}, {3, 1500}, {40, 64}};
  for (const NormKind kind : kKinds) {
    for (const reference::Shape& shape : shapes) {
      for (const GammaForm form : {GammaForm::kPlain, GammaForm::kOnePlus}) {
        for (const int absent : {0, 1, 2, 3}) {
          const NormOptions options{.kind = kind, .gamma_form = form, .output_scale = 0.7};
          SCOPED_TRACE(fmt::format("{}, {} × {}, absent {}", describe(options), shape.samples,
                                   shape.channels, absent));
          NormCase<TypeParam> c(options, shape);
          if (absent & 1) c.gamma.clear();
          if (absent & 2) c.beta.clear();
          expect_equals_reference(std::move(c));
        }
      }
    }
  }
}

TYPED_TEST(Squash, HasTheAlphaOfItsOptionsAndNoShiftUnlessTheyAreGiven) {
  for (const NormKind kind : kKinds) {
    NormCase<TypeParam> c({.kind = kind, .alpha = 1.5}, {5, 33});
    NormCase<TypeParam> given = c;
    c.alpha.clear(), c.shift.clear();
    given.alpha = {TypeParam(1.5)}, given.shift = {TypeParam(0)};
    given.run();
    expect_equals_reference(c);
    c.run();
    EXPECT_TRUE(same_bits(c.y, given.y));
  }
}

TYPED_TEST(Squash, AddsOrReplacesGradientsOfParameters) {
  for (const NormKind kind : kKinds) {
    NormCase<TypeParam> once({.kind = kind}, {5, 33});
    once.run();
    NormCase<TypeParam> twice = once;
    twice.backward();
    EXPECT_EQ(twice.d_alpha[0], 2 * once.d_alpha[0]);
    EXPECT_EQ(twice.d_shift[0], 2 * once.d_shift[0]);
    AddNormBackward<TypeParam> args = twice.backward_args();
    args.parameter_gradients = GradientMode::kOverwrite;
    add_norm_backward<TypeParam>(twice.options, args);
    EXPECT_TRUE(same_bits(twice.d_alpha, once.d_alpha));
    EXPECT_TRUE(same_bits(twice.d_shift, once.d_shift));
    EXPECT_TRUE(same_bits(twice.d_gamma, once.d_gamma));
  }
}

TYPED_TEST(Squash, TakesTheSumAndTheGradientThatGoesPast) {
  using T = TypeParam;
  for (const NormKind kind : kKinds) {
    NormCase<T> c({.kind = kind}, {5, 33});
    std::vector<T> branch = c.dy, sum(c.x.size()), y(c.x.size());
    AddNormForward<T> forward = c.forward_args();
    forward.add.branch = c.matrix(branch);
    forward.sum = c.matrix(sum);
    forward.y = c.matrix(y);
    add_norm_forward<T>(c.options, forward);
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], c.x[i] + branch[i]);
    c.x = sum;
    c.run();
    EXPECT_TRUE(same_bits(y, c.y));

    std::vector<T> past = c.gamma;  // a gradient for each value overwrites its input
    past.resize(c.x.size(), T(2));
    const std::vector<T> before = past;
    AddNormBackward<T> backward = c.backward_args();
    backward.d_residual = backward.dx = c.matrix(past);
    backward.skip = {.constant = T(0.5)};
    const std::vector<T> alone = c.dx;
    add_norm_backward<T>(c.options, backward);
    for (std::size_t i = 0; i < past.size(); ++i) {
      ASSERT_EQ(past[i], T(0.5) * before[i] + alone[i]);
    }
  }
}

TYPED_TEST(Squash, SaturatesAtInfinityAndKeepsNanWhereItIs) {
  using T = TypeParam;
  for (const NormKind kind : kKinds) {
    NormCase<T> c({.kind = kind}, {3, 40});
    NormCase<T> sound = c;
    sound.run();
    c.x[40 + 7] = NAN;
    c.x[80 + 3] = -std::numeric_limits<T>::infinity();
    c.run();
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      if (i == 40 + 7) {
        EXPECT_TRUE(std::isnan(c.y[i]) && std::isnan(c.dx[i]));
      } else if (i == 80 + 3) {
        EXPECT_EQ(c.y[i], c.beta[3] - c.gamma[3]);
        EXPECT_EQ(c.dx[i], 0);
      } else {
        EXPECT_EQ(c.y[i], sound.y[i]);
        EXPECT_EQ(c.dx[i], sound.dx[i]);
      }
    }
  }
}

// dx = γ·dy·slope·α. A zero that stands for the absent residual gradient would make −0 into 0.
TYPED_TEST(Squash, AddsNoZeroWhereThereIsNoResidualGradient) {
  using T = TypeParam;
  for (const NormKind kind : {NormKind::kDyT, NormKind::kDerf}) {
    NormCase<T> c({.kind = kind}, {3, 37});
    std::ranges::fill(c.gamma, T{-1});
    std::ranges::fill(c.dy, T{0});
    c.run();
    for (const T dx : c.dx) {
      ASSERT_EQ(dx, 0);
      ASSERT_TRUE(std::signbit(dx));
    }
  }
}

TYPED_TEST(Squash, NamesTheArgumentThatIsWrong) {
  using T = TypeParam;
  const auto expect_error = [](const auto& change, const char* message) {
    NormCase<T> c({.kind = NormKind::kDyT}, {5, 6});
    change(c);
    EXPECT_THAT([&] { c.run(); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  expect_error([](auto& c) { c.alpha.resize(2); }, "alpha has 2 values, must have 1");
  expect_error([](auto& c) { c.shift.resize(6); }, "shift has 6 values, must have 1");
  expect_error([](auto& c) { c.gamma.resize(5); }, "gamma has 5 values, must have 6");
  expect_error([](auto& c) { c.statistics.resize(5); }, "statistics has 5 values, must have 0");
  expect_error([](auto& c) { c.options.alpha = INFINITY; }, "alpha is inf, must be finite");
  expect_error([](auto& c) { c.options.output_scale = NAN; },
               "output_scale is nan, must be finite");
  expect_error([](auto& c) { c.beta.resize(5); }, "beta has 5 values, must have 6");
  expect_error([](auto& c) { c.d_gamma.resize(5); }, "d_gamma has 5 values, must have 6");
  expect_error([](auto& c) { c.d_beta.resize(7); }, "d_beta has 7 values, must have 6");
  expect_error([](auto& c) { c.d_alpha.resize(6); }, "d_alpha has 6 values, must have 1");
  expect_error([](auto& c) { c.d_shift.resize(2); }, "d_shift has 2 values, must have 1");
  expect_error([](auto& c) { c.workspace.resize(23); },
               "workspace has 23 values, must have at least 24");
  NormCase<T> c({.kind = NormKind::kDerf}, {5, 6});
  AddNormForward<T> args = c.forward_args();
  args.add.branch = c.matrix(c.dy);
  EXPECT_THAT([&] { add_norm_forward<T>(c.options, args); },
              ThrowsMessage<Error>(HasSubstr("sum is absent; dyt and derf need one")));
  args.add = {.x = {nullptr, 0, 6}, .skip = {.constant = T{2}}};
  args.y = {nullptr, 0, 6};
  EXPECT_NO_THROW(add_norm_forward<T>(c.options, args)) << "no row has a sum";
}

TEST(SquashReference, EqualsCentralDifferences) {
  for (const NormKind kind : kKinds) {
    NormCase<double> c({.kind = kind, .output_scale = 0.7}, {3, 7});
    reference::Norm norm = c.reference();
    const auto loss = [&] {
      const reference::Values y = norm_forward(norm).y;
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * c.dy[i];
      return sum;
    };
    const reference::NormGradients gradients = norm_backward(norm, c.dy);
    EXPECT_LE(gradient_error(norm.x, gradients.dx, loss), 1e-8);
    EXPECT_LE(gradient_error(norm.gamma, gradients.d_gamma, loss), 1e-8);
    EXPECT_LE(gradient_error(norm.beta, gradients.d_beta, loss), 1e-8);
    EXPECT_LE(gradient_error(std::span(&norm.alpha, 1), std::span(&gradients.d_alpha, 1), loss),
              1e-8);
    EXPECT_LE(gradient_error(std::span(&norm.shift, 1), std::span(&gradients.d_shift, 1), loss),
              1e-8);
  }
}

/// Returns all bytes that one forward and backward write, with storage S and B, in `rows` rows.
template <typename S, typename B>
std::vector<std::byte> bytes_of(NormKind kind, std::size_t rows, std::size_t cols) {
  TorchGenerator generator(rows * 1000 + cols);
  const auto stored = [&]<typename T>(T, testing::Normal normal) {
    std::vector<T> values;
    for (const float v : testing::random_vector<float>(generator, rows * cols, normal)) {
      values.emplace_back(v);
    }
    return values;
  };
  const auto view = [&](auto& values) { return MatrixView{values.data(), rows, cols}; };
  const NormOptions options{.kind = kind};
  const std::vector<S> x = stored(S(), {1, 2});
  const std::vector<B> dy = stored(B(), {});
  const auto gamma = testing::random_vector<float>(generator, cols, {1, 0.3});
  const std::vector<float> alpha{0.7F}, shift{-0.3F};
  std::vector<S> dx(x.size());
  std::vector<B> y(x.size());
  std::vector<float> d_gamma(cols), d_beta(cols), sums(2);
  std::vector<float> workspace(norm_workspace(options, rows, cols));
  add_norm_forward<S, B>(options, {.add = {.x = view(x)},
                                   .gamma = gamma,
                                   .beta = gamma,
                                   .alpha = alpha,
                                   .shift = shift,
                                   .y = view(y)});
  add_norm_backward<S, B>(options, {.s = view(x),
                                    .gamma = gamma,
                                    .alpha = alpha,
                                    .shift = shift,
                                    .dy = view(dy),
                                    .dx = view(dx),
                                    .d_gamma = d_gamma,
                                    .d_beta = d_beta,
                                    .d_alpha = std::span(sums).first(1),
                                    .d_shift = std::span(sums).last(1),
                                    .workspace = workspace});
  std::vector<std::byte> all;
  const auto append = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  append(y), append(dx), append(d_gamma), append(d_beta), append(sums);
  return all;
}

/// All storage types, on every instruction set and with several numbers of threads.
TEST(SquashBits, AreTheSameEverywhere) {
  const std::string usual(instruction_set());
  const int threads = omp_get_max_threads();
  for (const NormKind kind : kKinds) {
    for (const auto& [rows, cols] :
         {std::pair{1UL, 1UL}, {70UL, 37UL}, {300UL, 64UL}, {5UL, 2049UL}}) {
      std::vector<std::vector<std::byte>> first;
      for (const std::string& name : all_instruction_sets()) {
        use_instruction_set(name);
        for (const int count : {1, 3}) {
          omp_set_num_threads(count);
          const std::vector<std::vector<std::byte>> here{
              bytes_of<float, float>(kind, rows, cols),
              bytes_of<BFloat16, BFloat16>(kind, rows, cols),
              bytes_of<Float16, Float16>(kind, rows, cols),
              bytes_of<float, BFloat16>(kind, rows, cols),
              bytes_of<float, Float16>(kind, rows, cols)};
          if (first.empty()) first = here;
          EXPECT_EQ(here, first) << name << " on " << count << " threads, " << rows << " × "
                                 << cols;
        }
      }
    }
  }
  omp_set_num_threads(threads);
  use_instruction_set(usual);
}

}  // namespace
}  // namespace addnorm::kernels::squash_test
