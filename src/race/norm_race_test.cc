#include "race/norm_race.h"

#include <gmock/gmock.h>

#include "addnorm/error.h"

namespace addnorm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Every kernel, and in place too what adds.
std::vector<RaceKernel> every_kernel() {
  std::vector<RaceKernel> kernels(race_kernels().begin(), race_kernels().end());
  for (RaceKernel kernel : race_kernels()) {
    kernel.in_place = kernel.add;
    if (kernel.add) kernels.push_back(kernel);
  }
  return kernels;
}

TEST(NormRace, TakesMedians) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

// The race compares our results with oneDNN's on the way: with the wrong arguments it would throw.
TEST(NormRace, EveryKernelHasTimesAndAgreesWithOneDnn) {
  for (const std::string& dtype : race_dtypes()) {
    for (const RaceKernel& kernel : every_kernel()) {
      for (const RaceShape& shape : {RaceShape{100, 24}, {3, 5}, {2, 1}}) {
        SCOPED_TRACE(std::string(kernel.name) + (kernel.in_place ? " in place " : " ") +
                     to_text(shape) + " " + dtype);
        const RaceResult result = race({kernel, shape, dtype}, {.repeats = 1}, {});
        EXPECT_GT(result.ms, 0);
        EXPECT_GT(result.copy_ms, 0);
        // oneDNN has neither RMSNorm nor norms of float16; of bfloat16 only with AVX-512.
        const bool may_have = kernel.norm == NormKind::kLayer && dtype != "f16";
        EXPECT_TRUE(may_have || !result.onednn_ms.has_value());
        if (dtype == "f32") {
          EXPECT_EQ(result.onednn_ms.has_value(), may_have);
        }
        EXPECT_FALSE(result.pytorch_ms.has_value());
      }
    }
  }
}

TEST(NormRace, RefusesATypeItDoesNotKnow) {
  EXPECT_THAT(
      [] {
        race({race_kernels()[0], {4, 8}, "f8"}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("'f8'")));
}

TEST(NormRace, GoesOnWithoutPyTorch) {
  for (const char* python : {"/nowhere/python3", "/bin/false"}) {
    TorchNorm torch(python);
    EXPECT_THAT(torch.problem(), HasSubstr(python));
    const RaceResult result = race({race_kernels()[0], {4, 8}, "f32"}, {.repeats = 1}, {&torch});
    EXPECT_FALSE(result.pytorch_ms.has_value());
  }
}

TEST(NormRace, PyTorchTakesItsTurns) {
  TorchNorm torch("/usr/bin/python3"), as_is("/usr/bin/python3", TorchMemory::kAsIs);
  if (!torch.problem().empty()) GTEST_SKIP() << torch.problem();
  for (const RaceKernel& kernel : every_kernel()) {
    const RaceResult result = race({kernel, {4, 8}, "f32"}, {.repeats = 1}, {&torch, &as_is});
    EXPECT_TRUE(result.pytorch_ms.has_value()) << kernel.name << ": " << torch.problem();
    EXPECT_TRUE(result.pytorch_as_is_ms.has_value()) << kernel.name << ": " << as_is.problem();
  }
  EXPECT_FALSE(torch.prepare({race_kernels()[0], {4, 8}, "f8"}, 1));
  EXPECT_THAT(torch.problem(), Not(IsEmpty()));
  EXPECT_TRUE(torch.prepare({race_kernels()[0], {4, 8}, "f32"}, 1)) << "a failed job ends nothing";
}

}  // namespace
}  // namespace addnorm
