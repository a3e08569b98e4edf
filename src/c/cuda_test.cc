/// The C interface to the GPU's kernels rejects invalid arguments, on machines without a GPU too.

#include "addnorm/cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "addnorm_cuda.h"

namespace addnorm::cuda_c_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StrEq;

struct Memory {
  std::vector<double> x = std::vector<double>(8), y = std::vector<double>(8);
  addnorm_norm_options norm = addnorm_norm(ADDNORM_LAYER_NORM);

  addnorm_add_norm_forward_args forward() {
    addnorm_add_norm_forward_args args{};
    args.size = sizeof args;
    args.rows = 2;
    args.features = 4;
    args.norm = &norm;
    args.add.x = x.data();
    args.y = y.data();
    return args;
  }
};

TEST(CudaC, RejectsFloat64) {
  Memory memory;
  auto args = memory.forward();
  args.dtype = ADDNORM_F64;
  EXPECT_EQ(addnorm_cuda_add_norm_forward(&args, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(),
              StrEq("cuda::add_norm_forward: dtype is ADDNORM_F64, which the GPU kernels do not "
                    "support"));
  addnorm_lanes_backward_args lanes{};
  lanes.size = sizeof lanes;
  lanes.dtype = ADDNORM_F64;
  EXPECT_EQ(addnorm_cuda_lanes_backward(&lanes, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), HasSubstr("ADDNORM_F64"));
}

TEST(CudaC, RejectsOtherNorms) {
  Memory memory;
  auto args = memory.forward();
  memory.norm.kind = ADDNORM_BATCH_NORM;
  EXPECT_EQ(addnorm_cuda_add_norm_forward(&args, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(),
              StrEq("cuda::add_norm_forward: the norm is of kind batch, must be layer or rms"));
}

TEST(CudaC, RejectsStructsAsTheCpuDoes) {
  EXPECT_EQ(addnorm_cuda_add_norm_forward(nullptr, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), StrEq("cuda::add_norm_forward: args is NULL"));
  Memory memory;
  auto args = memory.forward();
  args.add.x = reinterpret_cast<const char*>(memory.x.data()) + 1;
  EXPECT_EQ(addnorm_cuda_add_norm_forward(&args, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), HasSubstr("x is not aligned to 4 bytes"));
  args = memory.forward();
  args.size = 3;
  EXPECT_EQ(addnorm_cuda_add_norm_forward(&args, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), HasSubstr("the size of args is 3"));
}

TEST(CudaC, SaysWhyItCannotRun) {
  if (cuda::available()) GTEST_SKIP() << "there is a GPU";
  Memory memory;
  const auto args = memory.forward();
  const auto reason = AnyOf(HasSubstr("this build has no CUDA"), HasSubstr("there is no GPU"),
                            HasSubstr("has compute capability"), HasSubstr("has no code for"));
  EXPECT_EQ(addnorm_cuda_add_norm_forward(&args, nullptr), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), reason);
  EXPECT_EQ(addnorm_cuda_supports(0, 4096, 0), ADDNORM_INVALID_ARGUMENT);
  EXPECT_THAT(addnorm_cuda_last_error(), reason);
}

}  // namespace
}  // namespace addnorm::cuda_c_test
