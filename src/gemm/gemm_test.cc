#include "gemm/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "addnorm/error.h"
#include "support/compare.h"
#include "support/random.h"

namespace addnorm {
namespace {

using ::testing::HasSubstr;
using testing::random_matrix;
using ::testing::ThrowsMessage;

template <typename T>
class GemmTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

struct Problem {
  std::size_t m, n, k;
  Transpose transpose_a, transpose_b;
  double alpha, beta;
  std::size_t padding;  ///< columns of every matrix beyond those that are shown
};

template <typename T>
void expect_equals_naive_product(const Problem& p) {
  SCOPED_TRACE(::testing::Message() << p.m << " × " << p.k << " × " << p.n << ", transposed "
                                    << int(p.transpose_a) << int(p.transpose_b) << ", alpha "
                                    << p.alpha << ", beta " << p.beta << ", padding " << p.padding);
  TorchGenerator generator(p.m * 100 + p.n);
  auto random = [&](std::size_t rows, std::size_t cols, Transpose transpose) {
    if (transpose == Transpose::kYes) std::swap(rows, cols);
    return random_matrix<T>(generator, rows, cols + p.padding);
  };
  auto shown = [&](auto& matrix) {
    return matrix.view().block(0, 0, matrix.rows(), matrix.cols() - p.padding);
  };
  Matrix<T> a = random(p.m, p.k, p.transpose_a);
  Matrix<T> b = random(p.k, p.n, p.transpose_b);
  Matrix<T> c = random(p.m, p.n, Transpose::kNo);
  if (p.beta == 0) c.fill(NAN);  // must not be read
  auto at = [](const Matrix<T>& matrix, Transpose transpose, std::size_t row, std::size_t col) {
    return static_cast<double>(transpose == Transpose::kYes ? matrix(col, row) : matrix(row, col));
  };
  std::vector<double> expected = testing::to_double(c.flat());
  for (std::size_t i = 0; i < p.m; ++i) {
    for (std::size_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < p.k; ++l) {
        sum += at(a, p.transpose_a, i, l) * at(b, p.transpose_b, l, j);
      }
      double& value = expected[i * c.cols() + j];
      value = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * value);
    }
  }
  gemm<T>({.a = shown(a),
           .transpose_a = p.transpose_a,
           .b = shown(b),
           .transpose_b = p.transpose_b,
           .c = shown(c),
           .alpha = static_cast<T>(p.alpha),
           .beta = static_cast<T>(p.beta)});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(c.flat()[i])) << "written outside at " << i;
    } else {
      ASSERT_NEAR(c.flat()[i], expected[i],
                  4 * std::numeric_limits<T>::epsilon() * static_cast<double>(p.k + 1))
          << "at " << i;
    }
  }
}

TYPED_TEST(GemmTest, EqualsTheNaiveProduct) {
  constexpr std::size_t kSizes[][3] = {{1, 1, 1},  {3, 5, 7},   {16, 16, 16}, {1, 33, 9},
                                       {33, 1, 9}, {65, 31, 1}, {5, 64, 100}, {4, 6, 0},
                                       {0, 5, 3},  {5, 0, 3},   {0, 0, 0}};
  for (const auto& [m, n, k] : kSizes) {
    for (const Transpose transpose_a : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose transpose_b : {Transpose::kNo, Transpose::kYes}) {
        for (const double alpha : {1.0, 0.5, 0.0}) {
          for (const double beta : {0.0, 1.0, -2.0}) {
            for (const std::size_t padding : {0, 3}) {
              expect_equals_naive_product<TypeParam>(
                  {m, n, k, transpose_a, transpose_b, alpha, beta, padding});
            }
          }
        }
      }
    }
  }
}

TEST(GemmErrors, NameTheShapesThatDoNotFit) {
  Matrix<float> a(2, 3), b(4, 5), c(2, 5);
  EXPECT_THAT([&] { gemm<float>({.a = a, .b = b, .c = c}); },
              ThrowsMessage<Error>(HasSubstr("2 × 3 times 4 × 5 does not give 2 × 5")));
  EXPECT_THAT([&] { gemm<float>({.a = a, .b = a, .transpose_b = Transpose::kYes, .c = c}); },
              ThrowsMessage<Error>(HasSubstr("2 × 3 times 3 × 2 does not give 2 × 5")));
}

}  // namespace
}  // namespace addnorm
