#include "run/text_generator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "addnorm/error.h"
#include "addnorm/nn/initialize.h"

namespace addnorm::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Returns the relative frequency of each drawn token.
std::map<std::size_t, double> shares(std::span<const float> logits, const Sampling& sampling) {
  constexpr int kDraws = 20000;
  TorchGenerator generator(3);
  std::map<std::size_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[sample(logits, sampling, generator)] += 1.0 / kDraws;
  return shares;
}

// p = 0.1, 0.4, 0.2, 0.3
const std::array<float, 4> kLogits{std::log(1.F), std::log(4.F), std::log(2.F), std::log(3.F)};

TEST(Sample, FollowsTheDistribution) {
  const auto found = shares(kLogits, {});
  const std::array<double, 4> p{0.1, 0.4, 0.2, 0.3};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found.at(i), p[i], 0.015);
}

TEST(Sample, TemperatureSharpens) {
  const auto found = shares(kLogits, {.temperature = 0.5});  // p² ÷ its sum 0.3
  EXPECT_NEAR(found.at(1), 0.16 / 0.3, 0.015);
  EXPECT_EQ(shares(kLogits, {.temperature = 0}).size(), 1);
}

TEST(Sample, TopKAndTopPLeaveTheLikeliest) {
  const auto k = shares(kLogits, {.top_k = 2});
  EXPECT_EQ(k.size(), 2);
  EXPECT_NEAR(k.at(1), 4.0 / 7, 0.015);
  const auto p = shares(kLogits, {.top_p = 0.75});  // 0.4 + 0.3 < 0.75 <= 0.9
  EXPECT_EQ(p.size(), 3);
  EXPECT_FALSE(p.contains(0));
  EXPECT_EQ(shares(kLogits, {.top_p = 1e-9}).size(), 1);
  EXPECT_EQ(shares(kLogits, {.top_k = 100}).size(), 4);
}

TEST(Sample, RefusesWhatCannotBeDrawnFrom) {
  TorchGenerator generator(0);
  const std::array<float, 2> broken{1, NAN};
  EXPECT_THAT([&] { sample(broken, {}, generator); },
              ThrowsMessage<Error>(HasSubstr("not all finite")));
  EXPECT_THROW(check(Sampling{.temperature = -1}), Error);
  EXPECT_NO_THROW(check(Sampling{.top_k = 256}));
  EXPECT_THAT([] { check(Sampling{.top_k = 257}); },
              ThrowsMessage<Error>(HasSubstr("top-k is 257, must be at most 256")));
  EXPECT_THROW(check(Sampling{.top_p = 0}), Error);
  EXPECT_THROW(check(Sampling{.top_p = 1.5}), Error);
}

Decoder<float> drawn(std::string_view placement, double dropout = 0) {
  Decoder<float> decoder({.block = {.d_model = 16, .n_heads = 2, .d_ff = 32, .dropout = dropout},
                          .placements = parse_placements(placement, 2),
                          .context = 12});
  TorchGenerator generator(1);
  initialize(decoder, Initialization::kTorch, generator);
  return decoder;
}

class TextGeneratorTest : public ::testing::Test {
 protected:
  std::string write(std::string_view prompt, std::size_t bytes, std::uint64_t seed) {
    return write(decoder_, prompt, bytes, seed);
  }
  static std::string write(Decoder<float>& decoder, std::string_view prompt, std::size_t bytes,
                           std::uint64_t seed) {
    TextGenerator generator(decoder, prompt, {}, seed);
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) text += generator.next();
    return text;
  }
  Decoder<float> decoder_ = drawn("pre");
};

TEST_F(TextGeneratorTest, TheSameSeedWritesTheSameText) {
  EXPECT_EQ(write("abc", 40, 5), write("abc", 40, 5));
  EXPECT_NE(write("abc", 40, 5), write("abc", 40, 6));
}

TEST_F(TextGeneratorTest, WritesWithoutDropoutAndWithEveryBranch) {
  Decoder<float> dropping = drawn("stochastic-depth", 0.5);
  EXPECT_EQ(write(dropping, "abc", 40, 5), write("abc", 40, 5));
}

TEST_F(TextGeneratorTest, OnlyTheLastBytesOfALongPromptCount) {
  EXPECT_EQ(write("0123456789abcdef", 5, 1), write("456789abcdef", 5, 1));
  EXPECT_THAT([&] { write("", 1, 0); }, ThrowsMessage<Error>(HasSubstr("the prompt is empty")));
}

/// Placements with lanes too: later tokens need only attention's keys and values of earlier ones.
TEST(TextGenerator, MakesEachByteFromTheContextBeforeIt) {
  for (const char* placement : {"pre", "stochastic-depth", "siamese", "dynamic-hyper", "altup",
                                "mhc", "single-pass-mhc", "mudd", "block-attention-residuals"}) {
    Decoder<float> decoder = drawn(placement);
    std::string text = "abc";
    TextGenerator generator(decoder, text, {.temperature = 0}, 0);
    const std::size_t context = decoder.options().context;
    while (text.size() <= context) text += generator.next();
    for (std::size_t size = 3; size < text.size(); ++size) {
      std::vector<std::int32_t> tokens;
      for (const unsigned char c : text.substr(0, size)) tokens.push_back(c);
      const MatrixView<const float> logits = decoder.forward(tokens, {.mode = Mode::kEvaluation});
      const auto last = logits.row(logits.rows - 1);
      const auto likeliest = std::ranges::max_element(last) - last.begin();
      EXPECT_EQ(static_cast<char>(likeliest), text[size]) << placement << ", " << size;
    }
  }
}

}  // namespace
}  // namespace addnorm::run
