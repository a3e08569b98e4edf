#include "gemm/gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "addnorm/error.h"
#include "gemm/tiled_matmul.h"
#include "support/compare.h"
#include "support/random.h"

namespace addnorm::gemm {
namespace {

using ::testing::HasSubstr;
using testing::random_matrix;
using ::testing::ThrowsMessage;

template <typename Input, typename Output = Input>
struct Product {
  using In = Input;
  using Out = Output;
  static void multiply(const Gemm<In, Out>& args) { gemm<In, Out>(args); }
};
/// The loops of WebAssembly, tested on every platform.
struct InTiles : Product<float> {
  static void multiply(const Gemm<float>& args) {
    if (args.m() > 0 && args.n() > 0 && args.k() > 0) return multiply_in_tiles(args);
    gemm(args);
  }
};
template <typename P>
class GemmTest : public ::testing::Test {};
using Types = ::testing::Types<Product<float>, Product<double>, Product<BFloat16>,
                               Product<BFloat16, float>, InTiles>;
TYPED_TEST_SUITE(GemmTest, Types);

struct Problem {
  std::size_t m, n, k;
  Transpose transpose_a, transpose_b;
  double alpha, beta;
  bool has_bias;
  std::size_t padding;  ///< columns of every matrix outside the view
};

template <typename T>
Matrix<T> rounded(const Matrix<Arithmetic<T>>& values) {
  Matrix<T> matrix(values.rows(), values.cols());
  for (std::size_t i = 0; i < values.flat().size(); ++i) matrix.flat()[i] = T(values.flat()[i]);
  return matrix;
}

template <typename P>
void expect_equals_naive_product(const Problem& p) {
  using In = typename P::In;
  using Out = typename P::Out;
  using Value = Arithmetic<Out>;
  SCOPED_TRACE(::testing::Message() << p.m << " × " << p.k << " × " << p.n << ", transposed "
                                    << int(p.transpose_a) << int(p.transpose_b) << ", alpha "
                                    << p.alpha << ", beta " << p.beta << ", padding " << p.padding);
  TorchGenerator generator(p.m * 100 + p.n);
  auto random = [&](std::size_t rows, std::size_t cols, Transpose transpose) {
    if (transpose == Transpose::kYes) std::swap(rows, cols);
    return random_matrix<Value>(generator, rows, cols + p.padding);
  };
  auto shown = [&](auto& matrix) {
    return matrix.view().block(0, 0, matrix.rows(), matrix.cols() - p.padding);
  };
  Matrix<In> a = rounded<In>(random(p.m, p.k, p.transpose_a));
  Matrix<In> b = rounded<In>(random(p.k, p.n, p.transpose_b));
  Matrix<Out> c = rounded<Out>(random(p.m, p.n, Transpose::kNo));
  const Matrix<Value> bias = random_matrix<Value>(generator, 1, p.n);
  if (p.beta == 0) c.fill(Out(NAN));  // must not be read
  auto number = [](auto v) { return static_cast<double>(static_cast<Value>(v)); };
  auto at = [&](const Matrix<In>& matrix, Transpose transpose, std::size_t row, std::size_t col) {
    return number(transpose == Transpose::kYes ? matrix(col, row) : matrix(row, col));
  };
  std::vector<double> expected;
  for (const Out v : c.flat()) expected.push_back(number(v));
  for (std::size_t i = 0; i < p.m; ++i) {
    for (std::size_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < p.k; ++l) {
        sum += at(a, p.transpose_a, i, l) * at(b, p.transpose_b, l, j);
      }
      double& value = expected[i * c.cols() + j];
      value = p.alpha * sum + (p.beta == 0 ? 0 : p.beta * value);
      if (p.has_bias) value += number(bias(0, j));
    }
  }
  P::multiply({.a = shown(a),
               .transpose_a = p.transpose_a,
               .b = shown(b),
               .transpose_b = p.transpose_b,
               .c = shown(c),
               .bias = p.has_bias ? bias.flat() : std::span<const Value>(),
               .alpha = static_cast<Value>(p.alpha),
               .beta = static_cast<Value>(p.beta)});
  const double rounding = sizeof(Out) == 2 ? 1.0 / 256 : 0;  // one rounding of c
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(number(c.flat()[i]))) << "written outside at " << i;
    } else {
      ASSERT_NEAR(number(c.flat()[i]), expected[i],
                  4 * std::numeric_limits<Value>::epsilon() * static_cast<double>(p.k + 1) +
                      rounding * std::abs(expected[i]))
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
              for (const bool has_bias : {false, true}) {
                if (has_bias && alpha != 1) continue;
                expect_equals_naive_product<TypeParam>(
                    {m, n, k, transpose_a, transpose_b, alpha, beta, has_bias, padding});
              }
            }
          }
        }
      }
    }
  }
}

template <typename T>
void expect_same_product_in_a_fork() {
  TorchGenerator generator(1);
  const Matrix<T> a = random_matrix<T>(generator, 256, 256);
  Matrix<T> c(256, 256), again(256, 256);
  gemm<T>({.a = a, .b = a, .c = c});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);             // in case it waits for missing threads
    omp_set_num_threads(2);  // as a caller may do
    gemm<T>({.a = a, .b = a, .c = again});
    std::_Exit(testing::max_error(again.flat(), c.flat()) < 1e-3 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(GemmThreads, OfAForkedProcessAreOne) {
  omp_set_num_threads(2);
  expect_same_product_in_a_fork<float>();
  expect_same_product_in_a_fork<double>();
}

TEST(GemmErrors, NameTheShapesThatDoNotFit) {
  Matrix<float> a(2, 3), b(4, 5), c(2, 5);
  EXPECT_THAT([&] { gemm<float>({.a = a, .b = b, .c = c}); },
              ThrowsMessage<Error>(HasSubstr("2 × 3 times 4 × 5 does not give 2 × 5")));
  EXPECT_THAT([&] { gemm<float>({.a = a, .b = a, .transpose_b = Transpose::kYes, .c = c}); },
              ThrowsMessage<Error>(HasSubstr("2 × 3 times 3 × 2 does not give 2 × 5")));
  Matrix<float> square(2, 2);
  EXPECT_THAT([&] { gemm<float>({.a = square, .b = square, .c = square, .bias = a.flat()}); },
              ThrowsMessage<Error>(HasSubstr("the bias has 6 values, must have 2")));
}

}  // namespace
}  // namespace addnorm::gemm
