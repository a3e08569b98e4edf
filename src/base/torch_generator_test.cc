#include "addnorm/torch_generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "addnorm/error.h"

namespace addnorm {
namespace {

// Checks one line of the golden file: size, two parameters, the sum of all values, the last values.
// Doubles may differ in the last bits, as libm does.
template <typename T>
void check_draw(TorchGenerator& generator, const std::string& kind, std::istream& line) {
  std::size_t size;
  std::conditional_t<std::is_integral_v<T>, T, double> a, b;
  double expected_sum;
  line >> size >> a >> b >> expected_sum;

  std::vector<T> values(size);
  if constexpr (std::is_integral_v<T>) {
    generator.fill_integers(values, a, b);
  } else if (kind == "normal") {
    generator.fill_normal<T>(values, a, b);
  } else {
    generator.fill_uniform<T>(values, a, b);
  }

  double sum = 0;
  for (const T value : values) sum += static_cast<double>(value);
  EXPECT_NEAR(sum, expected_sum, (std::is_same_v<T, double> ? 1e-11 : 0.0));

  std::vector<T> expected;
  for (T value; line >> value;) expected.push_back(value);
  ASSERT_EQ(expected.size(), std::min<std::size_t>(size, 17));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const T value = values[size - expected.size() + i];
    if constexpr (std::is_same_v<T, double>) {
      EXPECT_DOUBLE_EQ(value, expected[i]);
    } else {
      EXPECT_EQ(value, expected[i]);
    }
  }
}

TEST(TorchGenerator, DrawsWhatPyTorchDraws) {
  std::ifstream file(ADDNORM_SOURCE_DIR "/tests/golden/torch_generator.txt");
  ASSERT_TRUE(file);
  TorchGenerator generator(0);
  int draws = 0;
  for (std::string text; std::getline(file, text);) {
    SCOPED_TRACE(text);
    std::istringstream line(text);
    std::string kind, type;
    line >> kind;
    if (kind == "seed") {
      std::uint64_t seed;
      line >> seed;
      generator = TorchGenerator(seed);
      continue;
    }
    line >> type;
    const auto check = type == "float"    ? check_draw<float>
                       : type == "double" ? check_draw<double>
                                          : check_draw<std::int64_t>;
    check(generator, kind, line);
    if (HasFailure()) return;  // after one wrong draw all others are wrong
    ++draws;
  }
  EXPECT_EQ(draws, 225);
}

TEST(TorchGenerator, MakesTheTokensOfTheDocumentsExample) {
  // torch.manual_seed(0); x = torch.randn(2, 4, 8) * 10 + 5
  std::vector<float> x(64);
  TorchGenerator(0).fill_normal<float>(x);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const double value = x[i] * 10 + 5;
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 8, 0.184, 5e-4);
  EXPECT_NEAR(std::sqrt((squares - sum * sum / 8) / 7), 9.830, 5e-4);
}

TEST(TorchGenerator, CountsOnlyTheLow32BitsOfTheSeed) {
  EXPECT_EQ(TorchGenerator(5).random64(), TorchGenerator((7ull << 32) + 5).random64());
  EXPECT_NE(TorchGenerator(5).random64(), TorchGenerator(6).random64());
}

TEST(TorchGenerator, RefusesWhatPyTorchRefuses) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  TorchGenerator generator(0);
  std::vector<float> values(3);
  std::vector<std::int64_t> integers(3);
  EXPECT_THROW(generator.fill_uniform<float>(values, 1, 0), Error);
  EXPECT_THROW(generator.fill_uniform<float>(values, -3e38, 3e38), Error);
  EXPECT_THROW(generator.fill_uniform<float>(values, nan, 1), Error);
  EXPECT_THROW(generator.fill_normal<float>(values, 0, -1), Error);
  EXPECT_THROW(generator.fill_normal<float>(values, 0, nan), Error);
  EXPECT_THROW(generator.fill_integers(integers, 4, 4), Error);
  EXPECT_EQ(generator.random(), TorchGenerator(0).random()) << "an error must draw nothing";
}

}  // namespace
}  // namespace addnorm
