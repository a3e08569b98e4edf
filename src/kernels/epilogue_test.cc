/// Epilogues of Add & Norm. epilogue_fuzz_test.cc compares random ones with float64.

#include <gmock/gmock.h>
#include <omp.h>

#include <limits>
#include <numeric>

#include "addnorm/error.h"
#include "addnorm/norm.h"
#include "kernels/plan.h"
#include "kernels/reference.h"
#include "support/gradient_check.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"
#include "support/quantize.h"

namespace addnorm::kernels::epilogue_test {
namespace {

using ::testing::HasSubstr;
using testing::QuantizedMemory;
using testing::QuantizedType;
using testing::random_vector;
using testing::same_bits;
using ::testing::ThrowsMessage;
using testing::to_double;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr QuantizedType kTypes[] = {QuantizedType::kInt8, QuantizedType::kFloat8,
                                    QuantizedType::kQ8_0};

/// Runs `body` on every instruction set of this machine and with 1, 2 and 5 threads.
template <typename Body>
void everywhere(const Body& body) {
  const std::string usual(instruction_set());
  for (const std::string& name : testing::all_instruction_sets()) {
    use_instruction_set(name);
    for (const std::size_t threads : {1, 2, 5}) {
      SCOPED_TRACE(fmt::format("{} on {} threads", name, threads));
      body(threads);
    }
  }
  use_instruction_set(usual);
}

/// A norm of random rows.
struct Rows {
  std::size_t rows, cols;
  std::vector<float> x = values(1), branch = values(2), z = values(3), gamma, beta;
  std::vector<float> y = std::vector<float>(rows * cols);

  Rows(std::size_t rows_, std::size_t cols_) : rows(rows_), cols(cols_) {
    TorchGenerator generator(cols);
    gamma = random_vector<float>(generator, cols, {1, 0.3});
    beta = random_vector<float>(generator, cols);
  }
  std::vector<float> values(std::size_t seed) const {
    TorchGenerator generator(seed);
    return random_vector<float>(generator, rows * cols);
  }
  MatrixView<float> view(std::vector<float>& matrix) const { return {matrix.data(), rows, cols}; }

  /// Add & Norm with an epilogue; y is wanted.
  AddNormForward<float> args(const Epilogue<float>& epilogue) {
    return {.add = {.x = view(x), .branch = view(branch)},
            .gamma = gamma,
            .beta = beta,
            .y = view(y),
            .epilogue = epilogue};
  }
  /// Returns the residual sum.
  std::vector<float> sum() const {
    std::vector<float> s = x;
    for (std::size_t i = 0; i < s.size(); ++i) s[i] += branch[i];
    return s;
  }
};

TEST(Float8, HasTheNumbersOfE4M3AndRoundsToTheNearest) {
  for (int code = 0; code < 256; ++code) {
    Float8E4M3 number;
    number.bits = static_cast<std::uint8_t>(code);
    const double expected = testing::value_of_float8(number.bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(number))) << code;
      continue;
    }
    EXPECT_EQ(static_cast<float>(number), expected) << code;
    EXPECT_EQ(Float8E4M3(static_cast<float>(number)).bits, code);
  }
  TorchGenerator generator(1);
  for (const double size : {0.003, 0.02, 1.0, 300.0}) {
    for (const float value : random_vector<float>(generator, 4000, {0, size})) {
      ASSERT_EQ(Float8E4M3(value).bits, testing::round_to_float8(value)) << value;
    }
  }
  for (const float half : {0x1p-10F, 0x3p-10F, 1.0625F, 1.1875F, 432.0F, 464.0F, 1e9F}) {
    EXPECT_EQ(Float8E4M3(half).bits, testing::round_to_float8(half)) << half;
    EXPECT_EQ(Float8E4M3(-half).bits, testing::round_to_float8(-half)) << half;
  }
  EXPECT_EQ(Float8E4M3(kNaN).bits, 0x7F);
  EXPECT_EQ(Float8E4M3(-kInfinity).bits, 0xFE);
}

TEST(Epilogue, QuantizedRowsAreThoseOfScalarCodeForAnyWidth) {
  for (const std::size_t cols : {1, 2, 7, 31, 32, 33, 64, 100, 768, 1000, 1024, 2080, 20000}) {
    for (const QuantizedType type : kTypes) {
      for (const std::size_t block : {0, 32, 128}) {
        const std::size_t needed = type == QuantizedType::kQ8_0 ? 32 : block == 0 ? 1 : block;
        if (cols % needed != 0) continue;
        SCOPED_TRACE(fmt::format("{} features, type {}, block {}", cols, int(type), block));
        Rows c(5, cols);
        QuantizedMemory quantized(type, c.rows, cols, cols, block, 0);
        const auto args = c.args({.quantized = quantized.view()});
        add_norm_forward({}, args);
        quantized.expect_of(c.y);
        const QuantizedMemory first = quantized;
        everywhere([&](std::size_t threads) {
          AddNormForward<float> again = args;
          again.y = {};
          add_norm_forward({}, again, threads);
          EXPECT_TRUE(quantized == first) << "without y";
        });
      }
    }
  }
}

// Bytes of Q8_0 are compared with those of llama.cpp's quantize_row_q8_0_ref, whose roundf()
// differs from rounding to even only for exact halves.
TEST(Epilogue, Q8BlocksAreThoseOfLlamaCpp) {
  Rows c(16, 4096);
  std::vector<Q8Block> blocks(c.rows * c.cols / 32);
  add_norm_forward({}, c.args({.quantized = {.q8_0 = {blocks.data(), c.rows, c.cols / 32}}}));
  std::vector<unsigned char> expected;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const float* const values = c.y.data() + 32 * b;
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float d = largest / 127;
    const float id = d != 0 ? 1.0F / d : 0.0F;
    const std::uint16_t bits = Float16(d).bits;
    expected.push_back(static_cast<unsigned char>(bits & 0xFF));
    expected.push_back(static_cast<unsigned char>(bits >> 8));
    for (int i = 0; i < 32; ++i) {
      expected.push_back(static_cast<unsigned char>(static_cast<int>(roundf(values[i] * id))));
    }
  }
  ASSERT_EQ(expected.size(), blocks.size() * sizeof(Q8Block));
  EXPECT_EQ(std::memcmp(expected.data(), blocks.data(), expected.size()), 0);
}

TEST(Epilogue, QuantizedValuesAreThoseOfTheExactNormInAllButOneOfAThousand) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    Rows c(64, 2048);
    std::vector<std::int8_t> q(c.y.size());
    std::vector<float> scales(c.rows);
    add_norm_forward<float>({.kind = kind},
                            c.args({.quantized = {.int8 = {q.data(), c.rows, c.cols},
                                                  .scales = {scales.data(), c.rows, 1}}}));
    std::vector<double> s(c.y.size());
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = c.x[i] + c.branch[i];
    const auto y = reference::norm_forward({.options = {.kind = kind},
                                            .shape = {c.rows, c.cols},
                                            .x = s,
                                            .gamma = to_double(c.gamma),
                                            .beta = to_double(c.beta)})
                       .y;
    std::size_t others = 0;
    for (std::size_t r = 0; r < c.rows; ++r) {
      double largest = 0;
      for (std::size_t i = 0; i < c.cols; ++i) {
        largest = std::max(largest, std::abs(y[r * c.cols + i]));
      }
      EXPECT_NEAR(scales[r], largest / 127, 1e-6 * largest / 127);
      for (std::size_t i = 0; i < c.cols; ++i) {
        const double difference =
            q[r * c.cols + i] - std::nearbyint(y[r * c.cols + i] * 127 / largest);
        ASSERT_LE(std::abs(difference), 1);
        others += difference != 0;
      }
    }
    EXPECT_LE(others, c.y.size() / 1000);
  }
}

TEST(Epilogue, AGivenScaleSaturates) {
  Rows c(3, 100);
  c.gamma[7] = kNaN, c.beta[8] = kInfinity, c.beta[9] = -kInfinity, c.beta[10] = 1e30F;
  for (const QuantizedType type : {QuantizedType::kInt8, QuantizedType::kFloat8}) {
    QuantizedMemory quantized(type, c.rows, c.cols, c.cols, 0, 0.004F);
    const auto args = c.args({.quantized = quantized.view()});
    everywhere([&](std::size_t threads) {
      add_norm_forward({}, args, threads);
      quantized.expect_of(c.y);
    });
  }
}

TEST(Epilogue, ABlockWithNaNOrInfinityHasScaleNaNAndTinyOnesHaveScale0) {
  for (const float value : {kNaN, kInfinity, -kInfinity}) {
    for (const QuantizedType type : kTypes) {
      for (const std::size_t block : {0, 32}) {
        Rows c(3, 128);
        c.beta[40] = value;
        for (std::size_t i = 64; i < 96; ++i) c.gamma[i] = 1e-39F, c.beta[i] = 0;
        for (std::size_t i = 96; i < 128; ++i) c.gamma[i] = c.beta[i] = 0;
        QuantizedMemory quantized(type, c.rows, c.cols, c.cols, block, 0);
        const auto args = c.args({.quantized = quantized.view()});
        everywhere([&](std::size_t threads) {
          add_norm_forward({}, args, threads);
          quantized.expect_of(c.y);
        });
      }
    }
  }
}

TEST(Epilogue, GatesAndModulationsAreTheirFormulaOnTheNormsOutput) {
  for (const std::size_t cols : {1, 31, 100, 1100}) {
    Rows c(6, cols);
    add_norm_forward({}, c.args({}));
    const std::vector<float> normed = c.y;
    const std::vector<float> scale(c.x.begin(), c.x.begin() + 2 * cols);
    const std::vector<float> shift(c.z.begin(), c.z.begin() + 2 * cols);
    add_norm_forward({}, c.args({.gate = {.z = c.view(c.z), .function = GateFunction::kIdentity},
                                 .modulation = {.scale = {scale.data(), 2, cols},
                                                .shift = {shift.data(), 2, cols}}}));
    for (std::size_t i = 0; i < c.y.size(); ++i) {
      const std::size_t at = i / cols / 3 * cols + i % cols;
      ASSERT_EQ(c.y[i], normed[i] * c.z[i] * (1 + scale[at]) + shift[at]) << i;
    }
    // A gate before the norm: the norm of the product.
    add_norm_forward({}, c.args({.gate = {.z = c.view(c.z),
                                          .function = GateFunction::kIdentity,
                                          .place = GatePlace::kBeforeNorm}}));
    const std::vector<float> gated = c.y;
    std::vector<float> product = c.sum();
    for (std::size_t i = 0; i < product.size(); ++i) product[i] *= c.z[i];
    c.x = product;
    AddNormForward<float> alone = c.args({});
    alone.add.branch = {};
    add_norm_forward({}, alone);
    EXPECT_TRUE(same_bits(gated, c.y));
  }
}

TEST(Epilogue, RowsWiderThanTheThreadsMemoryAreTheSame) {
  Rows c(2, 40'000);
  std::vector<std::int8_t> q(c.y.size()), expected(c.y.size());
  std::vector<float> scales(c.rows), s(c.y.size());
  for (const GatePlace place : {GatePlace::kAfterNorm, GatePlace::kBeforeNorm}) {
    const auto run = [&](bool with_sum, std::vector<std::int8_t>& to) {
      AddNormForward<float> args = c.args({.gate = {.z = c.view(c.z), .place = place},
                                           .quantized = {.int8 = {to.data(), c.rows, c.cols},
                                                         .scales = {scales.data(), c.rows, 1}}});
      if (with_sum) args.sum = c.view(s);
      add_norm_forward({}, args);
    };
    run(true, expected);
    EXPECT_EQ(s, c.sum());
    const QuantizedMemory quantized = [&] {
      QuantizedMemory memory(QuantizedType::kInt8, c.rows, c.cols, c.cols, 0, 0);
      memory.int8 = expected, memory.scales = scales;
      return memory;
    }();
    quantized.expect_of(c.y);
    run(false, q);
    EXPECT_EQ(q, expected);
  }
}

TEST(Epilogue, InPlaceOutputsAreTheSame) {
  for (const GatePlace place : {GatePlace::kAfterNorm, GatePlace::kBeforeNorm}) {
    Rows c(9, 300);
    const Epilogue<float> epilogue{.gate = {.z = c.view(c.z), .place = place}};
    add_norm_forward({}, c.args(epilogue));
    Rows again(9, 300);
    AddNormForward<float> args = again.args({.gate = {.z = again.view(again.z), .place = place}});
    args.sum = args.y = {};
    args.sum = again.view(again.x);
    args.y = again.view(again.branch);
    add_norm_forward({}, args);
    EXPECT_TRUE(same_bits(again.branch, c.y));
    EXPECT_EQ(again.x, c.sum());
  }
}

TEST(Epilogue, TheUnroundedOutputOfBFloat16IsFloat32) {
  Rows c(5, 300);
  std::vector<BFloat16> x(c.x.begin(), c.x.end()), y(c.y.size());
  for (std::size_t i = 0; i < x.size(); ++i) c.x[i] = static_cast<float>(x[i]);
  add_norm_forward<float>({}, {.add = {.x = c.view(c.x)}, .y = c.view(c.y)});
  std::vector<float> unrounded(c.y.size());
  add_norm_forward<BFloat16>({}, {.add = {.x = {x.data(), c.rows, c.cols}},
                                  .y = {y.data(), c.rows, c.cols},
                                  .epilogue = {.unrounded = c.view(unrounded)}});
  EXPECT_TRUE(same_bits(unrounded, c.y));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i].bits, BFloat16(c.y[i]).bits);
}

}  // namespace
}  // namespace addnorm::kernels::epilogue_test
