#include "report/doctor_bands.h"

#include <cmath>
#include <vector>

#include "support/handwritten_profile.h"

namespace addnorm::report {
namespace {

using doctor::at;
using doctor::sound;
using doctor::Subject;
using enum SublayerKind;

TEST(DoctorBands, WorkAsDeepAsTheyTurnTheStream) {
  const auto depth = [](const std::vector<double>& cosines) {
    std::vector<doctor::LayerNumbers> layers;
    layers.reserve(cosines.size());
    for (const double cosine : cosines) layers.push_back({.cosine = cosine});
    return effective_depth(layers);
  };
  EXPECT_DOUBLE_EQ(depth({0.9, 0.9, 0.9}), 3);
  EXPECT_DOUBLE_EQ(depth({1, 0.3, 1}), 1);
  EXPECT_TRUE(std::isnan(depth({})));
}

TEST(DoctorBands, DoNotTurnTheStreamBeyondARoundedCosine) {
  for (const double rounded : {1 + 1e-9, -1 - 1e-9}) {
    EXPECT_TRUE(std::isfinite(effective_depth({{.cosine = rounded}, {.cosine = 0.5}})));
  }
}

/// Two layers before training whose gradients are known.
Subject untrained_layers(const char* placement) {
  Subject subject = sound();
  for (doctor::ProfileEntry& entry : subject.profile.entries) entry.step = 0;
  subject.profile.model.placement = placement;
  subject.config.emplace();
  for (const std::size_t layer : {0, 1}) at(subject, layer, kAttention, Point::kX).grad_rms = 3;
  return subject;
}

TEST(DoctorBands, BoundTheGradientByTheLastOneAndTheBranchesBehindIt) {
  const Subject subject = untrained_layers("pre");
  const Band band = gradient_band(subject, doctor::layer_numbers(subject, 0));
  EXPECT_EQ(band.layer, (std::vector<double>{0, 1}));
  EXPECT_EQ(band.low, (std::vector<double>{3, 3}));
  EXPECT_EQ(band.high, (std::vector<double>{3 * 1.5 * 1.5, 3}));
}

TEST(DoctorBands, BoundAPostNormStreamByOnePercentAfterTheFirstLayer) {
  const Subject subject = untrained_layers("post");
  const Band band = stream_band(subject, doctor::layer_numbers(subject, 0));
  EXPECT_EQ(band.layer, (std::vector<double>{1}));
  EXPECT_EQ(band.low, (std::vector<double>{0.99}));
  EXPECT_EQ(band.high, (std::vector<double>{1.01}));
}

TEST(DoctorBands, AddUpOneForEachBranchThatANormHasScaledBeforeTraining) {
  Subject subject = untrained_layers("reordered");
  const Band band = stream_band(subject, doctor::layer_numbers(subject, 0));
  EXPECT_DOUBLE_EQ(band.low.at(1), std::sqrt(3));
  EXPECT_DOUBLE_EQ(band.high.at(1), 3);
}

TEST(DoctorBands, AddUpWhatEachSublayerReads) {
  Subject subject = sound();
  at(subject, 0, kAttention, Point::kBranch).rms = 3;  // 3 beside 1 …
  at(subject, 0, kFeedForward, Point::kX).rms = 3.2;   // … which the feed-forward reads
  at(subject, 0, kFeedForward, Point::kBranch).rms = 1.6;
  const Band band = stream_band(subject, doctor::layer_numbers(subject, 7));
  EXPECT_DOUBLE_EQ(band.low.at(1), std::sqrt(1 + 9 + 1.6 * 1.6));
  EXPECT_DOUBLE_EQ(band.high.at(1), 1 + 3 + 1.6);
}

}  // namespace
}  // namespace addnorm::report
