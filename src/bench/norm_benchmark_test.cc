#include "bench/norm_benchmark.h"

#include <gmock/gmock.h>

#include <cmath>

#include "addnorm/error.h"

namespace addnorm::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Returns every kernel, and those with an add also in place.
std::vector<Kernel> every_kernel() {
  std::vector<Kernel> kernels(all_kernels().begin(), all_kernels().end());
  for (Kernel kernel : all_kernels()) {
    kernel.in_place = kernel.add;
    if (kernel.add) kernels.push_back(kernel);
  }
  return kernels;
}

#ifdef ADDNORM_ONEDNN
constexpr bool kHasOneDnn = true;
#else
constexpr bool kHasOneDnn = false;
#endif

TEST(NormBenchmark, TakesMedians) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 9, 2}), 3);
}

// The benchmark compares our results with oneDNN's: with wrong arguments it would throw.
TEST(NormBenchmark, EveryKernelHasTimesAndAgreesWithOneDnn) {
  for (const std::string& dtype : all_dtypes()) {
    for (const Kernel& kernel : every_kernel()) {
      for (const Shape& shape : {Shape{100, 24}, {3, 5}, {2, 1}}) {
        SCOPED_TRACE(std::string(kernel.name) + (kernel.in_place ? " in place " : " ") +
                     to_text(shape) + " " + dtype);
        const Result result =
            run_benchmark({kernel, shape, dtype}, {.repeats = 1, .sample_ms = 0.01}, {});
        EXPECT_GT(result.ms, 0);
        EXPECT_GT(result.copy_ms, 0);
        // oneDNN has neither RMSNorm nor norms of float16, and norms of bfloat16 only with AVX-512.
        const bool may_have = kHasOneDnn && kernel.norm == NormKind::kLayer && dtype != "f16";
        EXPECT_TRUE(may_have || !result.onednn_ms.has_value());
        if (dtype == "f32") {
          EXPECT_EQ(result.onednn_ms.has_value(), may_have);
        }
        EXPECT_THAT(result.rivals, IsEmpty());
      }
    }
  }
}

TEST(NormBenchmark, RefusesATypeItDoesNotKnow) {
  EXPECT_THAT(
      [] {
        run_benchmark({all_kernels()[0], {4, 8}, "f8"}, {}, {});
      },
      ThrowsMessage<Error>(HasSubstr("'f8'")));
}

std::vector<std::unique_ptr<PythonRival>> every_rival(const std::string& python) {
  std::vector<std::unique_ptr<PythonRival>> rivals;
  for (const PythonRivalKind& kind : python_rival_kinds()) {
    rivals.push_back(std::make_unique<PythonRival>(python, kind));
  }
  return rivals;
}

TEST(NormBenchmark, GoesOnWithoutPython) {
  for (const char* python : {"/nowhere/python3", "/bin/false"}) {
    const auto rivals = every_rival(python);
    const Result result =
        run_benchmark({all_kernels()[0], {4, 8}, "f32"}, {.repeats = 1, .sample_ms = 0.01}, rivals);
    ASSERT_EQ(result.rivals.size(), rivals.size());
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      EXPECT_THAT(rivals[i]->problem(), HasSubstr(python));
      EXPECT_FALSE(result.rivals[i].ms.has_value());
    }
  }
}

bool can(const PythonRivalKind& rival, const Kernel& kernel) {
  return rival.name != "onnxruntime" || !(kernel.backward || kernel.in_place);
}

/// torch.compile takes seconds for each kernel.
bool is_tried(const PythonRivalKind& rival, const Kernel& kernel) {
  return rival.name != "torch_compile" || (kernel.add && !kernel.in_place);
}

/// Returns the rivals that are installed.
std::vector<std::unique_ptr<PythonRival>> present_rivals() {
  auto rivals = every_rival("/usr/bin/python3");
  std::erase_if(rivals, [](const auto& rival) { return !rival->problem().empty(); });
  return rivals;
}

// torch.compile and ONNX Runtime compare their results with PyTorch's and NumPy's.
TEST(NormBenchmark, RivalsDoEveryKernelTheyHave) {
  const auto rivals = present_rivals();
  if (rivals.empty()) GTEST_SKIP() << "/usr/bin/python3 has neither PyTorch nor ONNX Runtime";
  for (const auto& rival : rivals) {
    for (const Kernel& kernel : every_kernel()) {
      if (!is_tried(rival->kind(), kernel)) continue;
      SCOPED_TRACE(std::string(rival->kind().name) + " " + std::string(kernel.name));
      const bool prepared = rival->prepare({kernel, {4, 8}, "f32"}, 1);
      EXPECT_EQ(prepared, can(rival->kind(), kernel));
      if (prepared) {
        const double time = rival->time(1);
        EXPECT_TRUE(std::isfinite(time) && time > 0) << time;
      }
      EXPECT_THAT(rival->problem(), IsEmpty());
    }
  }
}

TEST(NormBenchmark, RivalsTakeTheirTurns) {
  const auto rivals = present_rivals();
  const Result result =
      run_benchmark({all_kernels()[0], {4, 8}, "f32"}, {.repeats = 1, .sample_ms = 0.01}, rivals);
  ASSERT_EQ(result.rivals.size(), rivals.size());
  for (const RivalTime& rival : result.rivals) EXPECT_GT(rival.ms, 0) << rival.kind.name;
}

TEST(NormBenchmark, AFailedJobEndsNoRival) {
  PythonRival rival("/usr/bin/python3");
  if (!rival.problem().empty()) GTEST_SKIP() << rival.problem();
  EXPECT_FALSE(rival.prepare({all_kernels()[0], {4, 8}, "f8"}, 1));
  EXPECT_THAT(rival.problem(), Not(IsEmpty()));
  EXPECT_TRUE(rival.prepare({all_kernels()[0], {4, 8}, "f32"}, 1));
}

}  // namespace
}  // namespace addnorm::bench
