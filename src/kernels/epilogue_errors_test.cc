/// The errors of epilogues.

#include <gmock/gmock.h>

#include "addnorm/error.h"
#include "addnorm/norm.h"

namespace addnorm::kernels::epilogue_errors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kRows = 6, kCols = 96, kSize = kRows * kCols;

struct Memory {
  std::vector<float> x = std::vector<float>(kSize, 0.5F), y = x, z = x, other = x;
  std::vector<std::int8_t> int8 = std::vector<std::int8_t>(kSize);
  std::vector<Float8E4M3> float8 = std::vector<Float8E4M3>(kSize);
  std::vector<Q8Block> q8_0 = std::vector<Q8Block>(kSize / 32);
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(kRows);
  std::vector<float> workspace = std::vector<float>(epilogue_workspace(kRows, kCols, 2));
};
Memory& memory() {
  static Memory all;
  return all;
}
MatrixView<float> matrix(std::vector<float>& values, std::size_t rows = kRows,
                         std::size_t cols = kCols) {
  return {values.data(), rows, cols};
}
MatrixView<std::int8_t> int8() {
  return {memory().int8.data(), kRows, kCols};
}

void forward(const Epilogue<float>& epilogue, NormOptions options = {}) {
  add_norm_forward<float>(options, {.add = {.x = matrix(memory().x)},
                                    .y = matrix(memory().y),
                                    .statistics = memory().statistics,
                                    .epilogue = epilogue});
}
void backward(const EpilogueBackward<float>& epilogue, NormOptions options = {}) {
  add_norm_backward<float>(options, {.s = matrix(memory().x),
                                     .statistics = memory().statistics,
                                     .dy = matrix(memory().y),
                                     .dx = matrix(memory().other),
                                     .workspace = memory().workspace,
                                     .epilogue = epilogue});
}

#define EXPECT_ERROR(call, message) \
  EXPECT_THAT([&] { call; }, ThrowsMessage<Error>(::testing::Eq(message)))

TEST(EpilogueErrors, OfForwardNameWhatIsWrong) {
  Memory& m = memory();
  EXPECT_ERROR(forward({.gate = {.z = matrix(m.z, 5)}}),
               "add_norm_forward: epilogue.gate.z is 5 × 96, must be 6 × 96");
  EXPECT_ERROR(forward({.gate = {.z = {nullptr, kRows, kCols}}}),
               "add_norm_forward: epilogue.gate.z is 6 × 96 but has no memory");
  EXPECT_ERROR(forward({.modulation = {.scale = matrix(m.z, 4)}}),
               "add_norm_forward: epilogue.modulation has 4 samples, which must divide the 6 rows");
  EXPECT_ERROR(forward({.modulation = {.scale = matrix(m.z, 2), .shift = matrix(m.other, 3)}}),
               "add_norm_forward: epilogue.modulation.shift is 3 × 96, must be 2 × 96");
  EXPECT_ERROR(forward({.modulation = {.shift = matrix(m.z, 2, 95)}}),
               "add_norm_forward: epilogue.modulation.shift is 2 × 95, must be 2 × 96");
  EXPECT_ERROR(forward({.quantized = {.int8 = int8()}}),
               "add_norm_forward: epilogue.quantized.scales is absent, must be 6 × 1");
  EXPECT_ERROR(forward({.quantized = {.int8 = int8(), .block = 64}}),
               "add_norm_forward: epilogue.quantized.block is 64, must divide the 96 features");
  EXPECT_ERROR(forward({.quantized = {.int8 = int8(), .block = 48}}),
               "add_norm_forward: epilogue.quantized.block is 48, must be 0, 32, 64, 128, 256, 512 "
               "or 1024");
  EXPECT_ERROR(
      forward({.quantized = {.int8 = int8(), .block = 32, .scales = matrix(m.z, kRows, 1)}}),
      "add_norm_forward: epilogue.quantized.scales is 6 × 1, must be 6 × 3");
  EXPECT_ERROR(forward({.quantized = {.int8 = int8(), .given_scale = -1}}),
               "add_norm_forward: epilogue.quantized.given_scale is -1, must be positive and "
               "finite, and so must 1/scale");
  EXPECT_ERROR(
      forward({.quantized = {.int8 = int8(), .scales = matrix(m.z, kRows, 1), .given_scale = 1}}),
      "add_norm_forward: epilogue.quantized.scales must be absent with a given scale");
  EXPECT_ERROR(forward({.quantized = {.int8 = int8(), .block = 32, .given_scale = 1}}),
               "add_norm_forward: epilogue.quantized.block is 32, must be 0 with a given scale");
  EXPECT_ERROR(
      forward({.quantized = {.int8 = int8(), .float8 = {m.float8.data(), kRows, kCols}}}),
      "add_norm_forward: epilogue.quantized has 2 of int8, float8 and q8_0, must have one");
  EXPECT_ERROR(forward({.quantized = {.q8_0 = {m.q8_0.data(), kRows, 2}}}),
               "add_norm_forward: epilogue.quantized.q8_0 is 6 × 2, must be 6 × 3");
  EXPECT_ERROR(
      forward({.quantized = {.scales = matrix(m.z, kRows, 1)}}),
      "add_norm_forward: epilogue.quantized has scales, but none of int8, float8 and q8_0");
  EXPECT_ERROR(forward({.unrounded = matrix(m.z, kRows, 95)}),
               "add_norm_forward: epilogue.unrounded is 6 × 95, must be 6 × 96");
  EXPECT_ERROR(
      add_norm_forward<float>({}, {.add = {.x = {m.x.data(), 6, 40}},
                                   .epilogue = {.quantized = {.q8_0 = {m.q8_0.data(), 6, 1}}}}),
      "add_norm_forward: q8_0 has blocks of 32, which must divide the 40 features");
  EXPECT_ERROR(add_norm_forward<float>(
                   {}, {.add = {.x = matrix(m.x)}, .epilogue = {.gate = {.z = matrix(m.z)}}}),
               "add_norm_forward: y is absent, must be 6 × 96");
}

TEST(EpilogueErrors, OfOtherNormsNameTheKind) {
  for (const NormKind kind : {NormKind::kDyT, NormKind::kBatch}) {
    const std::string end = "there is an epilogue, which is for layer and rms, but the norm is " +
                            std::string(to_string(kind));
    EXPECT_ERROR(forward({.gate = {.z = matrix(memory().z)}}, {.kind = kind}),
                 "add_norm_forward: " + end);
    EXPECT_ERROR(backward({.gate = {.z = matrix(memory().z)}}, {.kind = kind}),
                 "add_norm_backward: " + end);
  }
}

TEST(EpilogueErrors, OfBackwardNameWhatIsWrong) {
  Memory& m = memory();
  std::vector<float> gradient(kSize);
  EXPECT_ERROR(backward({.dz = matrix(gradient)}),
               "add_norm_backward: epilogue.gate.z is absent, must be 6 × 96 for dz");
  EXPECT_ERROR(backward({.modulation = {.scale = matrix(m.z, 2)}, .d_scale = matrix(gradient, 3)}),
               "add_norm_backward: epilogue.d_scale is 3 × 96, must be 2 × 96");
  EXPECT_ERROR(backward({.gate = {.z = matrix(m.z)}, .d_shift = matrix(gradient, 2)}),
               "add_norm_backward: epilogue.d_shift is 2 × 96, must be 0 × 96");
  EXPECT_ERROR(backward({.gate = {.z = matrix(m.z)}, .beta = {gradient.data(), 3}}),
               "add_norm_backward: epilogue.beta has 3 values, must have 96");
  m.workspace.resize(m.workspace.size() - 1);
  EXPECT_THAT(
      [&] { backward({.modulation = {.scale = matrix(m.z, 2)}, .d_scale = matrix(gradient, 2)}); },
      ThrowsMessage<Error>(HasSubstr("add_norm_backward: workspace has ")));
  m.workspace.resize(m.workspace.size() + 1);
  std::vector<float> wide(3 * 16385, 0.5F);
  const auto row = [&](std::size_t r) {
    return MatrixView<float>(wide.data() + r * 16385, 1, 16385);
  };
  EXPECT_ERROR(add_norm_backward<float>({}, {.s = row(0),
                                             .statistics = {m.statistics.data(), 1},
                                             .dy = row(1),
                                             .dx = row(1),
                                             .epilogue = {.gate = {.z = row(2)}}}),
               "add_norm_backward: there are 16385 features, must be at most 16384 with an "
               "epilogue");
}

}  // namespace
}  // namespace addnorm::kernels::epilogue_errors_test
