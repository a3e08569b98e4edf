// The tutorial's network (scripts/tutorial_network.py): the file matches its settings, and the
// network has learned.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/train/cross_entropy.h"
#include "io/safetensors.h"
#include "run/checkpoint.h"

namespace addnorm {
namespace {

const std::string kFile = ADDNORM_SOURCE_DIR "/web/src/chapters/model/network.safetensors";

/// Revelation 21:1 to 21:2, as printed by the program `bible`: a part of the last tenth of the
/// text, which is used for validation.
constexpr std::string_view kUnread =
    "Rev21:1 And I saw a new heaven and a new earth: for the first heaven and the first earth were "
    "passed away; and there was no more sea.\n"
    "Rev21:2 And I John saw the holy city, new Jerusalem, coming down from God out of heaven, "
    "prepared as a bride adorned for her husband.\n";

/// The loss of the script's own run. On another processor it differs by less than 0.001.
constexpr double kLossOnUnread = 1.4738;

/// Returns the loss in nats per byte, in windows as long as the context.
double loss_on(Decoder<float>& decoder, std::string_view text) {
  std::vector<std::int32_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  const std::size_t context = decoder.options().context;
  double sum = 0;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += context) {
    const std::size_t length = std::min(context, bytes.size() - 1 - at);
    const auto logits =
        decoder.forward(std::span(bytes).subspan(at, length), {.mode = Mode::kEvaluation});
    sum +=
        double(length) * cross_entropy<float>(logits, std::span(bytes).subspan(at + 1, length), {});
  }
  return sum / static_cast<double>(bytes.size() - 1);
}

TEST(TutorialNetwork, IsSmallAndHasTheSettingsOfItsScript) {
  const run::RunState state = run::Checkpoint(kFile).state();
  EXPECT_EQ(state.config.placement, "pre");
  EXPECT_EQ(state.config.layers, 8U);
  EXPECT_EQ(state.config.width, 32U);
  EXPECT_EQ(state.config.context, 128U);
  EXPECT_EQ(state.config.head, "tied");
  EXPECT_LE(state.steps, state.config.steps);
  EXPECT_LT(std::filesystem::file_size(kFile), 200'000U);
}

TEST(TutorialNetwork, HasFiveDigitsOfEachParameter) {
  for (const io::StoredTensor& tensor : io::read_safetensors(kFile).tensors) {
    EXPECT_EQ(tensor.dtype, io::Dtype::kBF16) << tensor.name;
    for (const float v : io::tensor_values<float>(tensor)) {
      ASSERT_TRUE(std::isfinite(v)) << tensor.name;
      int exponent = 0;
      const float digits = std::ldexp(std::frexp(v, &exponent), 5);
      ASSERT_EQ(digits, std::round(digits)) << tensor.name;
    }
  }
}

TEST(TutorialNetwork, PredictsTextThatItHasNotRead) {
  Decoder<float> decoder = run::load_decoder(run::Checkpoint(kFile));
  EXPECT_NEAR(loss_on(decoder, kUnread), kLossOnUnread, 1e-3);
  Decoder<float> untrained = run::draw_decoder<float>(run::Checkpoint(kFile).state().config);
  EXPECT_NEAR(loss_on(untrained, kUnread), std::log(256), 0.1);
}

}  // namespace
}  // namespace addnorm
