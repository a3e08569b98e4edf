#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "addnorm/error.h"
#include "support/gradient_check.h"
#include "support/norm_case.h"

namespace addnorm::kernels::residual_add_test {
namespace {

using testing::gradient_error;
using ::testing::HasSubstr;
using testing::max_error;
using testing::random_matrix;
using testing::random_vector;
using testing::same_bits;
using ::testing::ThrowsMessage;
using testing::to_double;

constexpr std::size_t kRows = 70;
constexpr std::size_t kCols = 37;

template <typename T>
struct AddCase {
  TorchGenerator generator{2};
  Matrix<T> x = random_matrix<T>(generator, kRows, kCols);
  Matrix<T> branch = random_matrix<T>(generator, kRows, kCols);
  Matrix<T> d_sum = random_matrix<T>(generator, kRows, kCols);
  Matrix<T> sum{kRows, kCols}, d_branch{kRows, kCols};
  std::vector<T> skip = random_vector<T>(generator, kCols);
  std::vector<T> gain = random_vector<T>(generator, kCols);
  std::vector<Scale<T>> scales{{}, {.constant = T(0.6)}, {.constant = 0}, {.vector = skip}};
};

template <typename T>
class ResidualAddTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ResidualAddTest, Types);

TYPED_TEST(ResidualAddTest, EqualsTheReferenceInAndOutOfPlace) {
  using T = TypeParam;
  auto values = [](const Scale<T>& scale) {
    return scale.vector.empty() ? std::vector<double>{scale.constant} : to_double(scale.vector);
  };
  AddCase<T> c;
  for (const Scale<T>& skip : c.scales) {
    for (const Scale<T>& gain : c.scales) {
      const ResidualAdd<T> add{.x = c.x, .branch = c.branch, .skip = skip, .gain = gain};
      residual_add(add, c.sum.view());
      const auto expected = reference::residual_add({.x = to_double(c.x.flat()),
                                                     .branch = to_double(c.branch.flat()),
                                                     .skip = values(skip),
                                                     .gain = values(gain),
                                                     .features = kCols});
      EXPECT_LE(max_error(c.sum.flat(), expected), 8 * std::numeric_limits<T>::epsilon());
      for (const auto place : {&AddCase<T>::x, &AddCase<T>::branch}) {
        AddCase<T> inside;
        residual_add<T>({.x = inside.x, .branch = inside.branch, .skip = skip, .gain = gain},
                        inside.*place);
        EXPECT_TRUE(same_bits((inside.*place).flat(), c.sum.flat()));
      }
    }
  }
}

TYPED_TEST(ResidualAddTest, WithoutABranchScalesX) {
  AddCase<TypeParam> c;
  residual_add<TypeParam>({.x = c.x, .skip = {.vector = c.skip}, .gain = {.constant = 9}}, c.sum);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t i = 0; i < kCols; ++i) ASSERT_EQ(c.sum(r, i), c.skip[i] * c.x(r, i));
  }
}

TYPED_TEST(ResidualAddTest, ASkipOfZeroDoesNotLookAtX) {
  AddCase<TypeParam> c;
  c.x.fill(NAN);
  for (const double p : {0.0, 0.5}) {
    for (const Scale<TypeParam>& gain : c.scales) {
      residual_add<TypeParam>({.x = c.x,
                               .branch = c.branch,
                               .skip = {.constant = 0},
                               .gain = gain,
                               .dropout = {.probability = p}},
                              c.sum);
      for (const TypeParam s : c.sum.flat()) ASSERT_TRUE(std::isfinite(s));
    }
  }
}

/// Dropout counts the elements of rows without their gaps, so the layout changes no bit.
TYPED_TEST(ResidualAddTest, RowsThatStandApartHaveTheSameBits) {
  using T = TypeParam;
  constexpr std::size_t kStride = kCols + 5;
  AddCase<T> c;
  Matrix<T> x(kRows, kStride), branch(kRows, kStride), d_sum(kRows, kStride);
  Matrix<T> sum(kRows, kStride), d_branch(kRows, kStride);
  sum.fill(9), d_branch.fill(9);
  for (std::size_t r = 0; r < kRows; ++r) {
    std::ranges::copy(c.x.view().row(r), x.view().row(r).begin());
    std::ranges::copy(c.branch.view().row(r), branch.view().row(r).begin());
    std::ranges::copy(c.d_sum.view().row(r), d_sum.view().row(r).begin());
  }
  const auto part = [](Matrix<T>& wide) { return wide.view().block(0, 0, kRows, kCols); };
  ResidualAdd<T> add{.x = c.x,
                     .branch = c.branch,
                     .skip = {.vector = c.skip},
                     .gain = {.vector = c.gain},
                     .dropout = {.probability = 0.4, .seed = 6, .offset = 3}};
  std::vector<T> d_skip(kCols), d_gain(kCols), wide_d_skip(kCols), wide_d_gain(kCols);
  residual_add(add, c.sum.view());
  residual_add_backward<T>(
      {.add = add, .d_sum = c.d_sum, .d_branch = c.d_branch, .d_skip = d_skip, .d_gain = d_gain});
  add.x = part(x), add.branch = part(branch);
  residual_add(add, part(sum));
  residual_add_backward<T>({.add = add,
                            .d_sum = part(d_sum),
                            .d_branch = part(d_branch),
                            .d_skip = wide_d_skip,
                            .d_gain = wide_d_gain});
  for (std::size_t r = 0; r < kRows; ++r) {
    ASSERT_TRUE(same_bits(part(sum).row(r), c.sum.view().row(r))) << r;
    ASSERT_TRUE(same_bits(part(d_branch).row(r), c.d_branch.view().row(r))) << r;
    for (std::size_t i = kCols; i < kStride; ++i) {
      ASSERT_EQ(sum(r, i), 9) << r;
      ASSERT_EQ(d_branch(r, i), 9) << r;
    }
  }
  EXPECT_TRUE(same_bits(wide_d_skip, d_skip));
  EXPECT_TRUE(same_bits(wide_d_gain, d_gain));
}

TEST(ResidualAddGradient, EqualsCentralDifferences) {
  for (const bool vectors : {false, true}) {
    for (const double p : {0.0, 0.4}) {
      AddCase<double> c;
      const std::size_t size = vectors ? kCols : 1;
      std::vector<double> skip = random_vector<double>(c.generator, size);
      std::vector<double> gain = random_vector<double>(c.generator, size);
      std::vector<double> d_skip(size), d_gain(size);
      auto scale = [&](const std::vector<double>& values) {
        return vectors ? Scale<double>{.vector = values} : Scale<double>{.constant = values[0]};
      };
      auto add = [&] {
        return ResidualAdd<double>{.x = c.x,
                                   .branch = c.branch,
                                   .skip = scale(skip),
                                   .gain = scale(gain),
                                   .dropout = {.probability = p, .seed = 6}};
      };
      auto loss = [&] {
        residual_add(add(), c.sum.view());
        const auto sum = c.sum.flat();
        return std::inner_product(sum.begin(), sum.end(), c.d_sum.data(), 0.0);
      };
      residual_add_backward<double>({.add = add(),
                                     .d_sum = c.d_sum,
                                     .d_branch = c.d_branch,
                                     .d_skip = d_skip,
                                     .d_gain = d_gain});
      EXPECT_LE(gradient_error(c.branch.flat(), c.d_branch.flat(), loss), 1e-9);
      EXPECT_LE(gradient_error(skip, d_skip, loss), 1e-9);
      EXPECT_LE(gradient_error(gain, d_gain, loss), 1e-9);

      const auto once = d_skip;
      residual_add_backward<double>({.add = add(), .d_sum = c.d_sum, .d_skip = d_skip});
      for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(d_skip[i], 2 * once[i]) << "not added";

      residual_add_backward<double>({.add = add(), .d_sum = c.d_sum, .d_branch = c.d_sum});
      EXPECT_TRUE(std::ranges::equal(c.d_sum.flat(), c.d_branch.flat())) << "in place";
    }
  }
}

struct Mistake {
  const char* message;
  std::function<void(ResidualAddBackward<float>&)> make;
};

TEST(ResidualAddErrors, NameTheArgumentThatIsWrong) {
  AddCase<float> c;
  Matrix<float> small(2, 2);
  std::vector<float> three(3);
  EXPECT_THAT([&] { residual_add<float>({.x = c.x, .branch = c.branch}, small); },
              ThrowsMessage<Error>(HasSubstr("residual_add: sum is 2 × 2")));
  EXPECT_THAT([&] { residual_add<float>({.x = c.x}, {}); },
              ThrowsMessage<Error>(HasSubstr("residual_add: sum is absent, must be 70 × 37")));
  const Mistake mistakes[] = {
      {"branch is 2 × 2", [&](auto& a) { a.add.branch = small; }},
      {"branch is absent, must be 70 × 37",
       [&](auto& a) {
         a.add.branch = {};
         a.d_gain = three;
       }},
      {"d_sum is 2 × 2", [&](auto& a) { a.d_sum = small; }},
      {"d_branch is 2 × 2", [&](auto& a) { a.d_branch = small; }},
      {"d_skip has 3 values", [&](auto& a) { a.d_skip = three; }},
      {"d_gain has 3 values", [&](auto& a) { a.d_gain = three; }},
      {"skip has 3 values", [&](auto& a) { a.add.skip.vector = three; }},
      {"probability is 1.5", [](auto& a) { a.add.dropout.probability = 1.5; }}};
  for (const auto& [message, make] : mistakes) {
    ResidualAddBackward<float> args{.add = {.x = c.x, .branch = c.branch}, .d_sum = c.d_sum};
    make(args);
    EXPECT_THAT([&] { residual_add_backward(args); }, ThrowsMessage<Error>(HasSubstr(message)));
  }
}

/// A sample_gain is the vector gain of each sample's rows.
template <typename S, typename B>
void expect_sample_gain_is_gain_of_its_rows() {
  constexpr std::size_t kSamples = 7, kOfSample = kRows / kSamples;
  TorchGenerator generator(1);
  const auto stored = [&](auto type, std::size_t rows) {
    std::vector<decltype(type)> values;
    for (const float v : random_vector<float>(generator, rows * kCols)) values.emplace_back(v);
    return values;
  };
  const std::vector<S> x = stored(S(), kRows), d_sum = stored(S(), kRows);
  const std::vector<B> branch = stored(B(), kRows);
  const std::vector<float> gains = stored(float(), kSamples);
  std::vector<S> sum(kRows * kCols), expected_sum = sum;
  std::vector<B> y(kRows * kCols), expected_y = y, d_branch = y, expected_d_branch = y;
  std::vector<float> d_gain(kSamples * kCols, 1), expected_d_gain = d_gain;
  const auto rows = [](auto& values, std::size_t first, std::size_t count) {
    return MatrixView(values.data() + first * kCols, count, kCols);
  };
  const Dropout dropout{.probability = 0.25, .seed = 4};
  const auto run = [&](std::size_t first, std::size_t count, bool by_sample, auto& to_sum,
                       auto& to_y, auto& to_branch, auto& to_gain) {
    ResidualAdd<S, B> add{.x = rows(x, first, count), .branch = rows(branch, first, count)};
    add.dropout = dropout, add.dropout.offset = first * kCols;
    const std::size_t sample = first / kOfSample;
    if (by_sample) {
      add.sample_gain = rows(gains, 0, kSamples);
    } else {
      add.gain.vector = rows(gains, sample, 1).row(0);
    }
    residual_add<S, B>(add, rows(to_sum, first, count));
    add_norm_forward<S, B>({}, {.add = add, .y = rows(to_y, first, count)});
    ResidualAddBackward<S, B> backward{
        .add = add, .d_sum = rows(d_sum, first, count), .d_branch = rows(to_branch, first, count)};
    if (by_sample) {
      backward.d_sample_gain = rows(to_gain, 0, kSamples);
    } else {
      backward.d_gain = rows(to_gain, sample, 1).row(0);
    }
    residual_add_backward<S, B>(backward);
  };
  run(0, kRows, true, sum, y, d_branch, d_gain);
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    run(sample * kOfSample, kOfSample, false, expected_sum, expected_y, expected_d_branch,
        expected_d_gain);
  }
  EXPECT_TRUE(same_bits(sum, expected_sum));
  EXPECT_TRUE(same_bits(y, expected_y));
  EXPECT_TRUE(same_bits(d_branch, expected_d_branch));
  EXPECT_TRUE(same_bits(d_gain, expected_d_gain));
}
TEST(ResidualAdd, ASampleGainIsTheGainOfItsRows) {
  expect_sample_gain_is_gain_of_its_rows<float, float>();
  expect_sample_gain_is_gain_of_its_rows<float, BFloat16>();
  expect_sample_gain_is_gain_of_its_rows<BFloat16, BFloat16>();
}

TEST(ResidualAdd, RefusesASampleGainThatDoesNotFit) {
  std::vector<float> memory(100);
  const MatrixView<float> x(memory.data(), 6, 4), sum(memory.data() + 50, 6, 4);
  const auto refuses = [&](const ResidualAdd<float>& add, const char* message) {
    EXPECT_THAT([&] { residual_add<float>(add, sum); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  refuses({.x = x, .sample_gain = {memory.data(), 4, 4}},
          "residual_add: sample_gain has 4 samples, which must divide the 6 rows");
  refuses({.x = x, .sample_gain = {memory.data(), 2, 3}},
          "residual_add: sample_gain is 2 × 3, must be 2 × 4");
  refuses({.x = x, .gain = {.constant = 0.5F}, .sample_gain = {memory.data(), 2, 4}},
          "residual_add: there is a sample_gain, so gain must be 1");
}

}  // namespace
}  // namespace addnorm::kernels::residual_add_test
