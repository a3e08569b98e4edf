#include "lab/site_trace.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "addnorm/error.h"

namespace addnorm::lab {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

using Vector = std::vector<double>;

constexpr double kRounding = 1e-14;

const Vector kX{1, 2, 3, 4};
const Vector kF{0.5, -1, 2, 0};
const Rows kTwo{{1, 2, 3, 4}, {2, 0, -1, 5}};

// The expected values come from plain loops over the formulas of the papers.

Vector sum(double a, const Vector& x, double b, const Vector& y) {
  Vector result;
  for (std::size_t i = 0; i < x.size(); ++i) result.push_back(a * x[i] + b * y[i]);
  return result;
}
Vector scaled(double a, const Vector& x) {
  return sum(a, x, 0, x);
}
Vector layer_norm(const Vector& x) {
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Vector result;
  for (const double v : x) result.push_back((v - mean) / std::sqrt(squares + 1e-5));
  return result;
}
Vector unit(const Vector& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return scaled(1 / std::sqrt(squares), x);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

void expect_near(const Vector& actual, const Vector& expected, double tolerance = kRounding) {
  EXPECT_THAT(actual, Pointwise(DoubleNear(tolerance), expected));
}
void expect_near(const Rows& actual, const Rows& expected, double tolerance = kRounding) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(actual[i], expected[i], tolerance);
  }
}

SiteTrace trace(SiteArgs args, const Rows& x, const Vector& branch = kF) {
  args.given_lanes = x.size();
  return trace_site(find_site(args), {.x = x, .branch = branch});
}

TEST(SiteTrace, OfMhc) {
  const SiteTrace t = trace({.placement = "mhc", .lanes = 3}, {kX});
  EXPECT_TRUE(t.begins);
  expect_near(t.lanes, {kX, kX, kX});
  // The first sublayer reads and writes the first lane more than the others.
  const double more = sigmoid(1), less = sigmoid(-1), hc_eps = 1e-6;  // of DeepSeek-V4
  expect_near(t.read, {{more + hc_eps, less + hc_eps, less + hc_eps}});
  expect_near(t.write, {{2 * more}, {2 * less}, {2 * less}});
  // All rows and columns have the same sum, so Sinkhorn's iteration ends after its first division.
  const double all = 1 + 2 * std::exp(-8), own = 1 / all, other = std::exp(-8) / all;
  expect_near(t.carry, {{own, other, other}, {other, own, other}, {other, other, own}}, 5e-6);
  expect_near(t.z, scaled(more + 2 * less + 3 * hc_eps, kX));
  expect_near(t.h, layer_norm(scaled(more + 2 * less + 3 * hc_eps, kX)));
  ASSERT_TRUE(t.before);
  EXPECT_EQ(t.before->output, t.h);
  expect_near(t.written, {scaled(2 * more, kF), scaled(2 * less, kF), scaled(2 * less, kF)});
  expect_near(t.output,
              {sum(1, kX, 2 * more, kF), sum(1, kX, 2 * less, kF), sum(1, kX, 2 * less, kF)}, 5e-5);
}

TEST(SiteTrace, OfGivenLanes) {
  const SiteTrace t = trace({.placement = "hyper", .sublayer = SublayerKind::kFeedForward}, kTwo);
  EXPECT_FALSE(t.begins);
  EXPECT_EQ(t.place.lanes, 2u);
  EXPECT_EQ(t.lanes, kTwo);
  expect_near(t.read, {{0, 1}});  // the second sublayer reads the second lane
  EXPECT_EQ(t.z, kTwo[1]);
  expect_near(t.h, layer_norm(kTwo[1]));
  expect_near(t.carried, kTwo);
  expect_near(t.output, {sum(1, kTwo[0], 1, kF), sum(1, kTwo[1], 1, kF)});
}

TEST(SiteTrace, OfX0) {
  const SiteTrace first = trace({.placement = "x0"}, kTwo);
  expect_near(first.carry, {{1.15, 0.2}, {0, 1}});
  expect_near(first.z, sum(1.15, kTwo[0], 0.2, kTwo[1]));
  expect_near(first.read_from, {first.z, kTwo[1]});
  expect_near(first.output, {sum(1, first.z, 1, kF), kTwo[1]});
  const SiteTrace last = trace({.placement = "x0", .layers = 6, .layer = 6}, kTwo);
  expect_near(last.z, sum(1.05, kTwo[0], 0.05, kTwo[1]));
}

TEST(SiteTrace, OfAttentionResiduals) {
  const Rows bank{kX, kF, {4, 4, 0, 1}};
  const SiteTrace t = trace({.placement = "attention-residuals"}, bank, {1, 0, 0, 2});
  EXPECT_EQ(t.place.site(), 2u);  // the first that finds three
  expect_near(t.read, {{1 / 3., 1 / 3., 1 / 3.}});
  expect_near(t.z, {5.5 / 3, 5 / 3., 5 / 3., 5 / 3.});
  expect_near(t.carry, {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 0}});
  expect_near(t.output, {bank[0], bank[1], bank[2], {1, 0, 0, 2}});
}

TEST(SiteTrace, OfDenseFormer) {
  const SiteTrace attention = trace({.placement = "dense-former"}, {kX});
  EXPECT_EQ(attention.place.sublayer, SublayerKind::kAttention);
  expect_near(attention.output, {kX, sum(1, kX, 1, kF)});
  const SiteTrace feed_forward = trace({.placement = "dense-former"}, kTwo);
  EXPECT_EQ(feed_forward.place.sublayer, SublayerKind::kFeedForward);
  expect_near(feed_forward.z, kTwo[1]);
  expect_near(feed_forward.output, {kTwo[0], sum(1, kTwo[1], 1, kF)});
}

TEST(SiteTrace, OfPartsOfFeatures) {
  const SiteTrace t = trace({.placement = "frac", .lanes = 2}, {kX});
  expect_near(t.lanes, {{1, 2}, {3, 4}});
  EXPECT_EQ(t.z, kX);
  expect_near(t.h, layer_norm(kX));
  expect_near(t.write, {{1, 0}, {0, 1}});
  expect_near(t.output, {{1.5, 1}, {5, 4}});
}

TEST(SiteTrace, OfLanesWithNorms) {
  const SiteTrace begins = trace({.placement = "siamese", .layer = 2}, {kX});
  expect_near(begins.lanes, {layer_norm(kX), kX});
  const SiteTrace t = trace({.placement = "siamese", .layer = 2}, kTwo);
  expect_near(t.read_from, {kTwo[0], layer_norm(kTwo[1])});
  expect_near(t.z, sum(1, kTwo[0], 1, layer_norm(kTwo[1])));
  expect_near(t.sum, {sum(1, kTwo[0], 0.5, kF), sum(1, kTwo[1], 1, kF)});
  expect_near(t.output, {layer_norm(sum(1, kTwo[0], 0.5, kF)), sum(1, kTwo[1], 1, kF)});
}

TEST(SiteTrace, OfOneLane) {
  const SiteTrace ngpt = trace({.placement = "ngpt", .layer = 2}, {kX});
  constexpr double kEpsilon = 1e-12;  // added to the mean square
  expect_near(ngpt.f, unit(kF), kEpsilon);
  expect_near(ngpt.u, sum(1, unit(kF), -1, kX), kEpsilon);
  const Vector s = sum(1, kX, 0.05, sum(1, unit(kF), -1, kX));
  expect_near(ngpt.sum, {s}, kEpsilon);
  expect_near(ngpt.output, {unit(s)}, kEpsilon);

  const SiteTrace deepnorm = trace({.placement = "deepnorm", .layers = 8}, {kX});
  expect_near(deepnorm.output, {layer_norm(sum(2, kX, 1, kF))});

  const SiteTrace scaled_norm = trace({.placement = "depth-scaled", .layer = 4}, {kX});
  expect_near(scaled_norm.h, scaled(0.5, layer_norm(kX)));
  EXPECT_EQ(scaled_norm.before->output, scaled_norm.h);

  const SiteTrace pangu = trace({.placement = "depth-scaled-sandwich", .layers = 8}, {kX});
  expect_near(pangu.f, scaled(0.25, layer_norm(kF)));
  expect_near(pangu.output, {sum(1, kX, 0.25, layer_norm(kF))});

  const SiteTrace highway = trace({.placement = "highway"}, {kX});
  expect_near(highway.output, {sum(1 - sigmoid(-1), kX, sigmoid(-1), kF)});
}

TEST(SiteTrace, TheFirstSublayerMeetsTheNormalizedEmbedding) {
  const SiteTrace ngpt = trace({.placement = "ngpt"}, {kX});
  EXPECT_TRUE(ngpt.begins);
  ASSERT_TRUE(ngpt.entry);
  constexpr double kEpsilon = 1e-11;  // ‖x‖² has an ε of 4e-12
  const Vector x = unit(kX);
  expect_near(ngpt.lanes, {x}, kEpsilon);
  const Vector s = sum(0.95, x, 0.05, unit(kF));
  expect_near(ngpt.output, {unit(s)}, kEpsilon);
  EXPECT_EQ(to_json(ngpt)["norms"]["entry"]["output"], nlohmann::ordered_json(ngpt.lanes.front()));

  const SiteTrace peri = trace({.placement = "peri"}, {kX});
  expect_near(peri.lanes, {layer_norm(kX)});
  expect_near(peri.output, {sum(1, layer_norm(kX), 1, layer_norm(kF))});
  for (const SublayerKind sublayer : {SublayerKind::kAttention, SublayerKind::kFeedForward}) {
    const std::size_t layer = sublayer == SublayerKind::kAttention ? 2 : 1;
    const SiteTrace later =
        trace({.placement = "peri", .layer = layer, .sublayer = sublayer}, {kX});
    EXPECT_FALSE(later.entry);
    expect_near(later.lanes, {kX});
  }
}

TEST(SiteTrace, SpanReadsTheNormalizedEmbeddingAndAddsToTheEmbedding) {
  const SiteTrace t = trace({.placement = "span"}, {kX});
  expect_near(t.z, layer_norm(kX));
  expect_near(t.output, {layer_norm(sum(1, kX, 1, kF)), kX});
}

TEST(SiteTrace, GammaAndBetaAreOfEveryNorm) {
  const Rows x{kX};
  const Vector two{2}, one{1};
  const SiteTrace t = trace_site(find_site({.placement = "sandwich"}),
                                 {.x = x, .branch = kF, .gamma = two, .beta = one});
  expect_near(t.h, sum(2, layer_norm(kX), 1, {1, 1, 1, 1}));
  expect_near(t.f, sum(2, layer_norm(kF), 1, {1, 1, 1, 1}));
}

TEST(SiteTrace, StepsOfEveryPlacementAddUp) {
  for (const Placement& p : placements()) {
    SCOPED_TRACE(p.name);
    const SiteTrace t = trace({.placement = p.name}, {kX});
    ASSERT_EQ(t.sum.size(), t.carried.size());
    for (std::size_t i = 0; i < t.sum.size(); ++i) {
      expect_near(t.sum[i], sum(1, t.carried[i], 1, t.written[i]));
    }
    Vector z;  // a·read_from; with several mixes, the first one
    for (const Vector& row : t.read) {
      if (!z.empty() && !p.lanes.splits_features) break;
      Vector part(t.read_from.front().size());
      for (std::size_t i = 0; i < row.size(); ++i) part = sum(1, part, row[i], t.read_from[i]);
      z.insert(z.end(), part.begin(), part.end());
    }
    expect_near(t.z, z);
    for (const auto& [norm, output] :
         {std::pair(&t.before, &t.h), {&t.inside, &t.f}, {&t.after, &t.output.front()}}) {
      if (*norm) {
        EXPECT_EQ((*norm)->output, *output);
      }
    }
    const SiteTrace same = trace({.placement = p.name}, {kX}, {});
    EXPECT_EQ(same.h, t.h);
    EXPECT_THAT(same.output, IsEmpty());
  }
}

TEST(SiteTrace, IsJson) {
  const auto keys = [](const nlohmann::ordered_json& json) {
    std::string all;
    for (const auto& item : json.items()) all += item.key() + " ";
    return all;
  };
  const auto sandwich = to_json(trace({.placement = "sandwich"}, {kX}));
  EXPECT_THAT(keys(sandwich),
              ::testing::StartsWith("x branch sum mean variance deviation normalized output "));
  EXPECT_EQ(sandwich["mean"], 2.5);
  EXPECT_EQ(sandwich["variance"], 1.25);
  EXPECT_EQ(sandwich["norms"]["inside"]["mean"], 0.375);
  const auto rezero = to_json(trace({.placement = "rezero"}, {kX}));
  EXPECT_EQ(rezero["output"], nlohmann::ordered_json(kX));
  EXPECT_EQ(rezero["mean"], 2.5);
  EXPECT_TRUE(rezero["normalized"].is_null());
  const auto hyper = to_json(trace({.placement = "hyper"}, kTwo, {}));
  EXPECT_EQ(keys(hyper),
            "placement layer layers sublayer lanes read carry write read_from z norms h branch f u "
            "carried written sum output ");
  EXPECT_EQ(hyper["lanes"], nlohmann::ordered_json(kTwo));
  EXPECT_TRUE(hyper["output"].is_null());
}

TEST(SiteTrace, RejectsWhatDoesNotFit) {
  const auto expect_error = [](const std::function<void()>& body, const char* part) {
    EXPECT_THAT(body, ThrowsMessage<Error>(HasSubstr(part)));
  };
  const auto site = [](const SiteArgs& args) { return [args] { find_site(args); }; };
  expect_error(site({.placement = "up"}), "up");
  expect_error(site({.placement = "pre", .layers = 4, .layer = 5}), "layer: is 5");
  expect_error(site({.placement = "pre", .lanes = 2}), "takes 1 lane, not 2");
  expect_error(site({.placement = "pre", .given_lanes = 2}), "takes 1 lane, not 2");
  expect_error(site({.placement = "mhc", .lanes = 4, .given_lanes = 3}),
               "3 lanes; expected 1 or 4");
  expect_error(site({.placement = "parallel", .sublayer = SublayerKind::kFeedForward}),
               "has one site");
  expect_error(site({.placement = "attention-residuals", .layer = 2}), "1 lane; expected 3 to 4");
  expect_error(site({.placement = "attention-residuals", .layers = 2, .given_lanes = 5}),
               "5 lanes; expected 1 to 4");
  const auto run = [](const char* name, const Rows& x, const Vector& branch = {}) {
    return [=] { trace({.placement = name}, x, branch); };
  };
  expect_error(run("hyper", {{1, 2}, {1}}), "lane 1 has 1; expected 2");
  expect_error(run("hyper", kTwo, {1}), "branch: has 1 values; expected 4");
  expect_error(run("frac", {{1, 2, 3}}), "3 features do not make 4 lanes");
  expect_error([] { trace_site(find_site({.placement = "mhc"}), {}); }, "x: is empty");
}

}  // namespace
}  // namespace addnorm::lab
