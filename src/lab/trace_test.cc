#include "lab/trace.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "addnorm/error.h"

namespace addnorm::lab::trace_test {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

using Vector = std::vector<double>;

constexpr double kRounding = 1e-15;  // a few ulps of values around 1

const Vector kX{1, 2, 3, 4};
const Vector kBranch{0.5, -1, 2, 0};
const Vector kSum{1.5, 1, 5, 4};

void expect_near(const Vector& actual, const Vector& expected) {
  EXPECT_THAT(actual, Pointwise(DoubleNear(kRounding), expected));
}

/// (values − mean)/√(variance + 1e-5), by the formula.
Vector layer_norm(const Vector& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  Vector result;
  for (const double v : values) result.push_back((v - mean) / std::sqrt(squares / n + 1e-5));
  return result;
}

TEST(Trace, TakesTheStepsOfTheTutorial) {
  const Trace t = trace({.x = kX});
  EXPECT_EQ(t.x, kX);
  EXPECT_THAT(t.branch, IsEmpty());
  EXPECT_EQ(t.sum, kX);
  EXPECT_DOUBLE_EQ(t.mean, 2.5);
  EXPECT_DOUBLE_EQ(t.variance, 1.25);
  EXPECT_DOUBLE_EQ(t.deviation, std::sqrt(1.25 + 1e-5));
  expect_near(t.normalized, layer_norm(kX));
  EXPECT_EQ(t.output, t.normalized);
}

TEST(Trace, PostNormalizesTheSum) {
  const Trace t = trace({.x = kX, .branch = kBranch});
  EXPECT_EQ(t.sum, kSum);
  EXPECT_DOUBLE_EQ(t.mean, 2.875);
  expect_near(t.normalized, layer_norm(kSum));
  EXPECT_EQ(t.output, t.normalized);
}

TEST(Trace, PreNormalizesXAndLeavesWithTheSum) {
  const Trace t = trace({.x = kX, .branch = kBranch, .placement = TracePlacement::kPre});
  EXPECT_DOUBLE_EQ(t.mean, 2.5);
  expect_near(t.normalized, layer_norm(kX));
  EXPECT_EQ(t.norm_output, t.normalized);
  EXPECT_EQ(t.sum, kSum);
  EXPECT_EQ(t.output, kSum);
}

TEST(Trace, PreWithoutABranchLeavesWithTheNorm) {
  const Trace t = trace({.x = kX, .placement = TracePlacement::kPre});
  expect_near(t.output, layer_norm(kX));
}

TEST(Trace, NoneMeasuresTheSumAndNormalizesNothing) {
  const Trace t = trace({.x = kX, .branch = kBranch, .placement = TracePlacement::kNone});
  EXPECT_DOUBLE_EQ(t.mean, 2.875);
  EXPECT_DOUBLE_EQ(t.variance, (1.375 * 1.375 + 1.875 * 1.875 + 2.125 * 2.125 + 1.125 * 1.125) / 4);
  EXPECT_THAT(t.normalized, IsEmpty());
  EXPECT_THAT(t.norm_output, IsEmpty());
  EXPECT_EQ(t.output, kSum);
}

TEST(Trace, RmsNormTakesNoMeanAway) {
  const Trace t = trace({.x = kX, .norm = {.kind = NormKind::kRms, .epsilon = 0}});
  EXPECT_EQ(t.mean, 0);
  EXPECT_DOUBLE_EQ(t.variance, 7.5);
  const double rms = std::sqrt(7.5);
  expect_near(t.output, {1 / rms, 2 / rms, 3 / rms, 4 / rms});
}

TEST(Trace, GammaAndBetaAreOneNumberOrOneForEach) {
  const Vector two{2}, half{0.5}, gamma{1, 2, -3, 0}, beta{0, 0, 1, 7};
  const Vector n = layer_norm(kX);
  expect_near(trace({.x = kX, .gamma = two, .beta = half}).output,
              {2 * n[0] + 0.5, 2 * n[1] + 0.5, 2 * n[2] + 0.5, 2 * n[3] + 0.5});
  const Trace t = trace({.x = kX, .gamma = gamma, .beta = beta});
  expect_near(t.output, {n[0], 2 * n[1], -3 * n[2] + 1, 7});
  expect_near(t.normalized, n);
}

TEST(Trace, VarianceIsThatOfTheValuesAlsoWhereTheyAreScaled) {
  const double huge = std::ldexp(1.0, 500);  // (huge/2)² fits, though the sum of squares is scaled
  const Vector x{huge, 2 * huge};
  const Trace t = trace({.x = x});
  EXPECT_EQ(t.mean, 1.5 * huge);
  EXPECT_EQ(t.variance, 0.25 * huge * huge);
  EXPECT_EQ(t.deviation, 0.5 * huge);
}

TEST(Trace, RejectsWhatDoesNotFit) {
  const auto throws = [](const char* part) { return ThrowsMessage<Error>(HasSubstr(part)); };
  const Vector one{1}, three{1, 2, 3};
  EXPECT_THAT([] { trace({}); }, throws("x: there are no values"));
  EXPECT_THAT([&] { trace({.x = kX, .branch = three}); }, throws("branch: has 3 values"));
  EXPECT_THAT([&] { trace({.x = kX, .gamma = three}); }, throws("gamma: has 3 values"));
  EXPECT_THAT([&] { trace({.x = kX, .beta = three}); }, throws("beta: has 3 values"));
  EXPECT_THAT([&] { trace({.x = one, .norm = {.variance = Variance::kUnbiased}}); },
              throws("unbiased"));
  EXPECT_THAT([&] { trace({.x = kX, .norm = {.epsilon = -1}}); }, throws("epsilon is -1"));
  EXPECT_THAT([&] { trace({.x = kX, .norm = {.kind = NormKind::kBatch}}); }, throws("kind"));
}

TEST(Trace, IsJsonAsTheCommandLinePromises) {
  const Vector x{1, 3}, branch{1, -1};
  const NormOptions norm{.epsilon = 3};
  EXPECT_EQ(to_json(trace({.x = x, .norm = norm})).dump(),
            R"({"x":[1.0,3.0],"branch":null,"sum":[1.0,3.0],"mean":2.0,"variance":1.0,)"
            R"("deviation":2.0,"normalized":[-0.5,0.5],"output":[-0.5,0.5]})");
  const TraceArgs none{
      .x = x, .branch = branch, .placement = TracePlacement::kNone, .norm = {.epsilon = 4}};
  EXPECT_EQ(to_json(trace(none)).dump(),
            R"({"x":[1.0,3.0],"branch":[1.0,-1.0],"sum":[2.0,2.0],"mean":2.0,"variance":0.0,)"
            R"("deviation":2.0,"normalized":null,"output":[2.0,2.0]})");
}

TEST(Trace, OfNanIsNan) {
  const Vector x{1, std::numeric_limits<double>::quiet_NaN()};
  const Trace t = trace({.x = x});
  EXPECT_TRUE(std::isnan(t.mean) && std::isnan(t.deviation) && std::isnan(t.output[0]));
}

}  // namespace
}  // namespace addnorm::lab::trace_test
