#include "lab/reproduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace addnorm::lab {
namespace {

/// The numbers of PyTorch 1.13, from tests/golden/generate.py reproduce.
struct Expected {
  std::uint64_t seed;
  double before_mean, before_std, after_mean, after_std, mean_abs_difference;
};
constexpr Expected kExpected[] = {
    {0, 0.18353772163391113, 9.82985782623291, -2.98e-08, 0.9999999403953552, 0.20567309856414795},
    {1, -4.796896934509277, 5.555404186248779, -1.19e-07, 0.9999998211860657, 0.20515358448028564},
    {42, 5.006918430328369, 14.990799903869629, 2.98e-08, 0.9999999403953552, 0.2103070765733719},
    {1234, 3.585244655609131, 4.742917060852051, -2.98e-08, 0.9999997615814209,
     0.20597553253173828},
};

TEST(Reproduce, GivesPyTorchsNumbersForEverySeed) {
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.seed);
    const Reproduction r = reproduce(expected.seed);
    auto expect_near = [](double value, double truth) {
      EXPECT_NEAR(value, truth, 1e-6 * std::abs(truth));  // 8 roundings of float
    };
    expect_near(r.before.mean, expected.before_mean);
    expect_near(r.before.std, expected.before_std);
    EXPECT_NEAR(r.after.mean, expected.after_mean, 3e-7);  // rounding of values up to 2
    expect_near(r.after.std, expected.after_std);
    expect_near(r.mean_abs_difference, expected.mean_abs_difference);
    EXPECT_EQ(r.parameters, 3'152'384);
  }
}

TEST(Reproduce, PrintsWhatTheDocumentPrints) {
  const Reproduction r = reproduce(0);
  EXPECT_EQ(fmt::format("{:.3f} {:.3f}", r.before.mean, r.before.std), "0.184 9.830");
  EXPECT_EQ(fmt::format("{:.3f} {:.3f}", r.after.mean, r.after.std), "-0.000 1.000");
  EXPECT_EQ(fmt::format("{:.4f}", r.mean_abs_difference), "0.2057");
}

TEST(Reproduce, IsJsonAsTheCommandLinePromises) {
  const Reproduction r{
      .seed = 3, .before = {0.5, 2}, .after = {0, 1}, .mean_abs_difference = 0.25, .parameters = 7};
  EXPECT_EQ(to_json(r).dump(),
            R"({"seed":3,"layer_norm":{"before":{"mean":0.5,"std":2.0},)"
            R"("after":{"mean":0.0,"std":1.0}},)"
            R"("block":{"shape":[2,10,512],"mean_abs_difference":0.25,"parameters":7}})");
}

}  // namespace
}  // namespace addnorm::lab
