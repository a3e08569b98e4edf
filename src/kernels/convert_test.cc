#include "kernels/convert.h"

#include <gmock/gmock.h>

#include <cmath>

#include "addnorm/error.h"
#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"

namespace addnorm::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Convert, RoundsAsTheScalarTypeDoes) {
  Matrix<float> values(3, 1003);
  TorchGenerator(3).fill_normal(values.flat(), 0, 1e3);
  values(0, 0) = NAN;
  values(0, 1) = INFINITY;
  values(1, 2) = 3.4e38F;  // becomes infinite
  values(2, 1002) = 1e-40F;
  Matrix<BFloat16> narrow(3, 1003);
  convert<float, BFloat16>(values.view(), narrow);
  Matrix<float> wide(3, 1003);
  convert<BFloat16, float>(narrow.view(), wide);
  for (std::size_t i = 0; i < values.flat().size(); ++i) {
    const BFloat16 expected(values.flat()[i]);
    ASSERT_EQ(narrow.flat()[i].bits, expected.bits) << values.flat()[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide.flat()[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)));
  }
}

TEST(Convert, NamesTheArgumentThatIsWrong) {
  Matrix<float> wide(3, 5);
  Matrix<BFloat16> narrow(3, 5), small(2, 5);
  EXPECT_THAT([&] { (convert<float, BFloat16>(wide.view(), small)); },
              ThrowsMessage<Error>(HasSubstr("convert: to is 2 × 5, must be 3 × 5")));
  EXPECT_THAT([&] { (convert<float, BFloat16>(wide.view(), {})); },
              ThrowsMessage<Error>(HasSubstr("convert: to is absent, must be 3 × 5")));
  EXPECT_THAT([&] { (convert<BFloat16, float>(small.view(), wide)); },
              ThrowsMessage<Error>(HasSubstr("convert: to is 3 × 5, must be 2 × 5")));
  EXPECT_NO_THROW((convert<BFloat16, float>(narrow.view(), wide)));
}

}  // namespace
}  // namespace addnorm::kernels
