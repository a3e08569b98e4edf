#include "bench/norm_accuracy.h"

#include <gmock/gmock.h>

namespace addnorm::bench {
namespace {

using ::testing::IsEmpty;

TEST(NormAccuracy, OursIsAsPromised) {
  for (const AccuracyJob& job : {AccuracyJob{768, 1e5, 1}, {768, 0, 1e-30}, {768, 0, 1e30}}) {
    SCOPED_TRACE(testing::Message() << job.features << ", " << job.mean << ", " << job.deviation);
    const AccuracyResult result = measure_accuracy(job, nullptr);
    EXPECT_LE(result.ours.y, 2e-6);
    EXPECT_LE(result.ours.dx, 1e-6);
    EXPECT_FALSE(result.pytorch.has_value());
  }
}

// All peers compute the same norm, and on easy values they are exact.
TEST(NormAccuracy, EachPeerIsRightWhereTheMeanIsSmall) {
  PythonRival torch("/usr/bin/python3");
  const AccuracyResult result = measure_accuracy({.features = 768, .mean = 0.5}, &torch);
#ifdef ADDNORM_ONEDNN
  EXPECT_GT(result.onednn->y, 0);
  EXPECT_LE(result.onednn->y, 1e-5);
  EXPECT_LE(result.onednn->dx, 1e-5);
#else
  EXPECT_FALSE(result.onednn.has_value());
#endif
  if (!result.pytorch) GTEST_SKIP() << torch.problem();
  EXPECT_GT(result.pytorch->y, 0);
  EXPECT_LE(result.pytorch->y, 1e-5);
  EXPECT_LE(result.pytorch->dx, 1e-5);
}

#ifdef ADDNORM_ONEDNN
// Float32 represents a mean of 1e5 to 1/256.
TEST(NormAccuracy, SeesWhatAPeerLosesToALargeMean) {
  const AccuracyResult result = measure_accuracy({.features = 768, .mean = 1e5}, nullptr);
  EXPECT_GT(result.onednn->y, 1e-4);
}
#endif

TEST(NormAccuracy, GoesOnWithoutPyTorch) {
  PythonRival torch("/nowhere/python3");
  EXPECT_FALSE(measure_accuracy({.features = 8}, &torch).pytorch.has_value());
  EXPECT_THAT(torch.problem(), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace addnorm::bench
