#include "doctor/layers.h"

#include <cmath>
#include <vector>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using enum SublayerKind;

TEST(Layers, HaveSharesByWhatTheSumAddsUp) {
  Subject subject = sound();
  at(subject, 1, kFeedForward, Point::kX).rms = 2;
  std::vector<LayerNumbers> layers = layer_numbers(subject, 7);
  EXPECT_EQ(layers[1].attention, 0.5);
  EXPECT_EQ(layers[1].feed_forward, 0.25);
  EXPECT_EQ(layers[1].middle, 2);
  subject.profile.model.placement = "deepnorm";  // skip 4^(1/4)
  layers = layer_numbers(subject, 7);
  EXPECT_DOUBLE_EQ(layers[0].attention, 0.5 / std::pow(4, 0.25));
  subject.profile.model.placement = "rezero";  // its factors are learned
  EXPECT_TRUE(std::isnan(layer_numbers(subject, 7)[0].attention));
}

TEST(Layers, WorkAsDeepAsTheyTurnTheStream) {
  const auto depth = [](const std::vector<double>& cosines) {
    std::vector<LayerNumbers> layers;
    layers.reserve(cosines.size());
    for (const double cosine : cosines) layers.push_back({.cosine = cosine});
    return effective_depth(layers);
  };
  EXPECT_DOUBLE_EQ(depth({0.9, 0.9, 0.9}), 3);
  EXPECT_DOUBLE_EQ(depth({1, 0.3, 1}), 1);
  EXPECT_TRUE(std::isnan(depth({})));
}

TEST(Layers, AddUpWhatEachSublayerReads) {
  Subject subject = sound();
  at(subject, 0, kAttention, Point::kBranch).rms = 3;  // 3 beside 1 …
  at(subject, 0, kFeedForward, Point::kX).rms = 3.2;   // … which the feed-forward reads
  at(subject, 0, kFeedForward, Point::kBranch).rms = 1.6;
  const Band band = stream_band(subject, layer_numbers(subject, 7));
  EXPECT_DOUBLE_EQ(band.low.at(1), std::sqrt(1 + 9 + 1.6 * 1.6));
  EXPECT_DOUBLE_EQ(band.high.at(1), 1 + 3 + 1.6);
}

}  // namespace
}  // namespace addnorm::doctor
