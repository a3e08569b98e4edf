#include "kernels/softmax.h"

#include <gmock/gmock.h>

#include <numeric>

#include "addnorm/error.h"
#include "support/gradient_check.h"
#include "support/norm_case.h"

namespace addnorm::kernels {
namespace {

using testing::gradient_error;
using ::testing::HasSubstr;
using testing::max_error;
using testing::random_vector;
using ::testing::ThrowsMessage;
using testing::to_double;

template <typename T>
class Softmax : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Softmax, Types);

TYPED_TEST(Softmax, EqualsTheReferenceUnderEveryMask) {
  TorchGenerator generator(3);
  for (const std::size_t n : {1, 2, 15, 16, 17, 100}) {
    for (const std::size_t visible : {std::size_t{0}, std::size_t{1}, n / 2, n}) {
      for (const double size : {1.0, 300.0, 1e4}) {
        for (const bool masked : {false, true}) {
          std::vector<TypeParam> scores = random_vector<TypeParam>(generator, n, {0, size});
          std::vector<std::uint8_t> mask1, mask2;
          if (masked) {
            for (std::size_t i = 0; i < n; ++i) {
              mask1.push_back(generator.random() % 4 == 0);
              mask2.push_back(generator.random() % 4 == 0);
            }
          }
          std::vector<bool> blocked;
          for (std::size_t i = 0; i < n; ++i) {
            blocked.push_back(i >= visible || (masked && (mask1[i] != 0 || mask2[i] != 0)));
          }
          const auto expected = reference::softmax(to_double(scores), blocked);
          softmax_row<TypeParam>({scores, visible, mask1, mask2});
          EXPECT_LE(max_error(scores, expected), 8 * std::numeric_limits<TypeParam>::epsilon());
          for (std::size_t i = 0; i < n; ++i) EXPECT_TRUE(!blocked[i] || scores[i] == 0);
        }
      }
    }
  }
}

TYPED_TEST(Softmax, LargestScoresAndInfinitiesDoNotOverflow) {
  constexpr TypeParam kMax = std::numeric_limits<TypeParam>::max();
  std::vector<TypeParam> scores{kMax, kMax, -kMax, -std::numeric_limits<TypeParam>::infinity()};
  softmax_row<TypeParam>({scores, 4, {}, {}});
  EXPECT_EQ(scores, (std::vector<TypeParam>{0.5, 0.5, 0, 0}));
}

TYPED_TEST(Softmax, NanSpreadsOverTheRowUnlessItIsBlocked) {
  const std::vector<std::uint8_t> block_last{0, 0, 1};
  std::vector<TypeParam> visible{1, NAN, 3}, blocked{1, 1, NAN}, only{1, NAN, 3};
  softmax_row<TypeParam>({visible, 3, {}, {}});
  softmax_row<TypeParam>({blocked, 3, {}, block_last});
  softmax_row<TypeParam>({only, 2, std::vector<std::uint8_t>{1, 0, 1}, {}});
  for (const TypeParam p : visible) EXPECT_TRUE(std::isnan(p));
  EXPECT_EQ(blocked, (std::vector<TypeParam>{0.5, 0.5, 0}));
  EXPECT_TRUE(std::isnan(only[1]));
  EXPECT_EQ(only[2], 0);
}

TEST(SoftmaxGradient, EqualsCentralDifferences) {
  TorchGenerator generator(4);
  std::vector<double> scores = random_vector<double>(generator, 37);
  const std::vector<double> weights = random_vector<double>(generator, 37);
  std::vector<double> p(37);
  auto loss = [&] {
    p = scores;
    softmax_row<double>({p, 30, {}, {}});
    return std::inner_product(p.begin(), p.end(), weights.begin(), 0.0);
  };
  loss();
  std::vector<double> gradient = weights;
  softmax_row_backward<double>(p, gradient);
  EXPECT_LE(gradient_error(scores, gradient, loss), 1e-9);
}

TEST(SoftmaxErrors, NameTheArgumentThatIsWrong) {
  const std::vector<float> x(5);
  for (const std::size_t size : {1, 4, 6}) {
    std::vector<float> terms(size);
    EXPECT_THAT([&] { softmax_terms<float>(x, terms); },
                ThrowsMessage<Error>(HasSubstr(
                    fmt::format("softmax_terms: terms has {} values, must have 5", size))));
  }
  EXPECT_NO_THROW(softmax_terms<float>(x, {}));
}

}  // namespace
}  // namespace addnorm::kernels
