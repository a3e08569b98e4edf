// Compares BFloat16 as the type of branches and products with float32 everywhere.

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "addnorm/error.h"
#include "addnorm/nn/initialize.h"
#include "kernels/activation.h"
#include "kernels/convert.h"

namespace addnorm::mixed_precision_test {
namespace {

constexpr std::size_t kBatch = 2;
constexpr std::size_t kContext = 16;

DecoderOptions options_of(const std::string& placement, Head head, FeedForwardKind feed_forward) {
  return {.block = {.d_model = 64, .n_heads = 4, .d_ff = 128, .feed_forward = feed_forward},
          .placements = parse_placements(placement, 3),
          .context = kContext,
          .head = head};
}

template <typename T>
Decoder<T> drawn(const DecoderOptions& options) {
  Decoder<T> decoder(options);
  TorchGenerator generator(5);
  initialize(decoder, Initialization::kXavier, generator);
  return decoder;
}

std::vector<std::int32_t> some_tokens() {
  std::vector<std::int32_t> tokens(kBatch * kContext);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(i * 37 % 256);
  return tokens;
}

/// Returns logits, and the gradients for normal gradients of the logits.
template <typename T>
Matrix<float> run(Decoder<T>& decoder) {
  const MatrixView<float> logits = decoder.forward(some_tokens(), {.batch = kBatch});
  Matrix<float> kept(logits.rows, logits.cols);
  residual_add<float>({.x = logits}, kept);
  Matrix<float> d_logits(logits.rows, logits.cols);
  TorchGenerator(6).fill_normal(d_logits.flat());
  zero_gradients(decoder.parameters());
  decoder.backward(d_logits);
  return kept;
}

double norm(std::span<const float> a) {
  double sum = 0;
  for (const float v : a) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

/// ‖a − b‖/‖b‖
double difference(std::span<const float> a, std::span<const float> b) {
  std::vector<float> d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return norm(d) / norm(b);
}

void expect_close_to_float32(const DecoderOptions& options) {
  Decoder<float> exact = drawn<float>(options);
  Decoder<BFloat16> mixed = drawn<BFloat16>(options);
  const Matrix<float> logits = run(exact);
  EXPECT_LT(difference(run(mixed).flat(), logits.flat()), 0.02);
  const ParameterList<float> all = exact.parameters();
  const ParameterList<float> of_mixed = mixed.parameters();
  ASSERT_EQ(all.size(), of_mixed.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto gradient = all[i].parameter->gradient.flat();
    if (norm(gradient) < 1e-4 * static_cast<double>(gradient.size())) continue;  // key biases: 0
    // The gradient of a few numbers that all tokens share is a sum of many terms that nearly
    // cancel.
    const double tolerance = all[i].parameter->role == ParameterRole::kResidualFactor ? 0.1 : 0.05;
    EXPECT_LT(difference(of_mixed[i].parameter->gradient.flat(), gradient), tolerance)
        << all[i].name;
  }
}

TEST(MixedPrecision, IsNearFloat32InEveryPlacement) {
  for (const Placement& placement : placements()) {
    SCOPED_TRACE(placement.name);
    expect_close_to_float32(
        options_of(std::string(placement.name), Head::kUntied, FeedForwardKind::kGelu));
  }
}

TEST(MixedPrecision, IsNearFloat32WithATiedHeadAndAGate) {
  expect_close_to_float32(options_of("pre", Head::kTied, FeedForwardKind::kSwiGlu));
}

TEST(MixedPrecision, KeepsTheStreamInFloat32) {
  /// Counts the values of the stream that need more than bfloat16's bits.
  struct Counter : Probe<float> {
    std::size_t finer = 0;
    std::size_t all = 0;
    void forward(const Site& site, MatrixView<const float> values) override {
      if (site.point != Point::kSum) return;
      for (std::size_t r = 0; r < values.rows; ++r) {
        for (const float v : values.row(r)) finer += static_cast<float>(BFloat16(v)) != v;
      }
      all += values.size();
    }
    void backward(const Site&, MatrixView<const float>) override {}
  } counter;
  Decoder<BFloat16> decoder =
      drawn<BFloat16>(options_of("pre", Head::kUntied, FeedForwardKind::kGelu));
  decoder.forward(some_tokens(), {.batch = kBatch, .probe = &counter});
  EXPECT_GT(counter.finer, counter.all * 9 / 10);
}

TEST(MixedPrecision, IsRefusedForNormsOfChannels) {
  DecoderOptions options = options_of("pre", Head::kUntied, FeedForwardKind::kGelu);
  options.block.norm.kind = NormKind::kBatch;
  EXPECT_THAT([&] { Decoder<BFloat16> decoder(options); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("no mixed precision")));
}

TEST(MixedPrecision, ActivationsAreThoseOfFloat32Rounded) {
  Matrix<float> x(3, 37), y(3, 37), dy(3, 37), dx(3, 37);
  TorchGenerator(1).fill_normal(x.flat(), 0, 2);
  TorchGenerator(2).fill_normal(dy.flat());
  Matrix<BFloat16> x16(3, 37), y16(3, 37), dy16(3, 37), dx16(3, 37);
  kernels::convert<float, BFloat16>(x.view(), x16);
  kernels::convert<float, BFloat16>(dy.view(), dy16);
  kernels::convert<BFloat16, float>(x16.view(), x);
  kernels::convert<BFloat16, float>(dy16.view(), dy);
  for (const kernels::Activation activation :
       {kernels::Activation::kRelu, kernels::Activation::kGelu, kernels::Activation::kGeluTanh,
        kernels::Activation::kSilu}) {
    kernels::activate<float>(activation, x, y);
    kernels::activate<BFloat16>(activation, x16, y16);
    kernels::activate_backward<float>(activation, {x, dy, dx});
    kernels::activate_backward<BFloat16>(activation, {x16, dy16, dx16});
    for (std::size_t i = 0; i < x.flat().size(); ++i) {
      EXPECT_EQ(y16.flat()[i].bits, BFloat16(y.flat()[i]).bits);
      EXPECT_EQ(dx16.flat()[i].bits, BFloat16(dx.flat()[i]).bits);
    }
  }
}

}  // namespace
}  // namespace addnorm::mixed_precision_test
