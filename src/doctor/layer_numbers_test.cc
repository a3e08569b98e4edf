#include "doctor/layer_numbers.h"

#include <cmath>
#include <vector>

#include "support/handwritten_profile.h"

namespace addnorm::doctor {
namespace {

using enum SublayerKind;

TEST(LayerNumbers, HaveSharesByWhatTheSumAddsUp) {
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

}  // namespace
}  // namespace addnorm::doctor
