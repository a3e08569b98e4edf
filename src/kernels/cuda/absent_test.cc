#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "addnorm/cuda.h"
#include "addnorm/error.h"

namespace addnorm::cuda {
namespace {

TEST(CudaAbsent, SaysSo) {
  EXPECT_FALSE(available());
  EXPECT_THAT(
      [] { add_norm_forward<float>({}, {}); },
      ::testing::ThrowsMessage<Error>(
          "cuda::add_norm_forward: this build has no CUDA; CMake's -DADDNORM_CUDA=ON adds it"));
}

}  // namespace
}  // namespace addnorm::cuda
