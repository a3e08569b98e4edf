#include "kernels/verbose.h"

#include <gtest/gtest.h>

namespace addnorm::kernels {
namespace {

TEST(Verbose, SaysShapeTypeAndPlan) {
  const Machine machine{.instruction_set = "avx2"};
  const Problem problem{.stream_bytes = 2, .rows = 8192, .features = 768};
  const Plan plan{.stores = Stores::kNonTemporal};
  EXPECT_EQ(describe_call("add_norm_forward", problem, machine, plan),
            "add_norm_forward 8192x768 bf16, avx2: " + describe(plan));
  EXPECT_EQ(describe_call("lanes_forward", problem, machine, plan, 4),
            "lanes_forward 8192x4x768 bf16, avx2: non-temporal stores");
  EXPECT_EQ(describe_call("lanes_backward", problem, machine, {}, 4),
            "lanes_backward 8192x4x768 bf16, avx2: cached stores");
}

TEST(Verbose, NamesEveryType) {
  const auto expect = [](Problem problem, const std::string& type) {
    problem.rows = 2, problem.features = 3;
    EXPECT_EQ(describe_call("residual_add", problem, {.instruction_set = "neon"}, {}),
              "residual_add 2x3 " + type + ", neon: " + describe(Plan{}));
  };
  expect({.stream_bytes = 8}, "f64");
  expect({.stream_bytes = 4}, "f32");
  expect({.stream_bytes = 2}, "bf16");
  expect({.stream_bytes = 2, .float16 = true}, "f16");
  expect({.stream_bytes = 4, .float16 = true}, "f16");
}

}  // namespace
}  // namespace addnorm::kernels
