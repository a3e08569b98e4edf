#include "wasm/trained.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "addnorm/nn/placement.h"
#include "addnorm/train/cross_entropy.h"
#include "base/require.h"
#include "kernels/softmax.h"
#include "wasm/recorder.h"

namespace addnorm {
namespace {

DecoderOptions decoder_options(const TrainedOptions& o) {
  require(o.layers >= 1 && o.heads >= 1 && o.width % o.heads == 0,
          "{} layers of width {} with {} heads are no model", o.layers, o.width, o.heads);
  const Placement& pre = find_placement("pre");
  return {.block = {.d_model = o.width,
                    .n_heads = o.heads,
                    .d_ff = o.d_ff,
                    .feed_forward = FeedForwardKind::kGelu,
                    .norm = {.epsilon = o.epsilon}},
          .placements = std::vector(o.layers, BlockPlacement{pre, pre}),
          .context = o.context,
          .head = Head::kTied};
}

constexpr ResidualFactor kZero{.initial = {"0", [](Depth) { return 0.0; }}};

Site site(std::size_t sublayer, Point point) {
  const bool is_attention = sublayer % 2 == 0;
  return {sublayer / 2, is_attention ? SublayerKind::kAttention : SublayerKind::kFeedForward,
          point};
}

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

/// Writes the probabilities of all bytes; overwrites the logits.
void write_probabilities(std::span<float> logits, double* to) {
  const float sum = kernels::softmax_terms<float>(logits, logits).sum;
  std::ranges::transform(logits, to, [&](float term) { return double(term) / sum; });
}

}  // namespace

TrainedDecoder::TrainedDecoder(const TrainedOptions& options) : decoder_(decoder_options(options)) {
  for (const auto& parameter : decoder_.parameters()) missing_.push_back(parameter.name);
}

void TrainedDecoder::set(std::string_view name, std::span<const float> values) {
  const ParameterList<float> list = decoder_.parameters();
  const auto found = std::ranges::find(list, name, &NamedParameter<float>::name);
  require(found != list.end(), "the model has no parameter '{}'", name);
  Matrix<float>& matrix = found->parameter->value;
  require(matrix.flat().size() == values.size(), "'{}' has {} values, the model needs {}", name,
          values.size(), matrix.flat().size());
  std::ranges::copy(values, matrix.data());
  std::erase(missing_, name);
}

void TrainedDecoder::measure(std::string_view prompt, const PromptMeasurement& to) {
  const std::vector<std::int32_t> tokens = tokens_of(prompt);
  const std::size_t width = decoder_.options().block.d_model;
  const std::size_t sublayers = 2 * decoder_.options().placements.size();
  Recorder recorder(width);
  decoder_.forward(tokens, {.mode = Mode::kEvaluation, .probe = &recorder});
  for (std::size_t i = 0; i <= sublayers; ++i) {
    const Site stream = i < sublayers ? site(i, Point::kX) : site(sublayers - 1, Point::kSum);
    const Matrix<float>& x = recorder.at({stream}).values;
    to.stream[i] = rms(x.flat());
    for (std::size_t f = 0; f < width; ++f) {
      std::vector<float> over_tokens;
      for (std::size_t t = 0; t < x.rows(); ++t) over_tokens.push_back(x.view()(t, f));
      to.features[i * width + f] = rms(over_tokens);
    }
    if (i < sublayers) to.branch[i] = rms(recorder.at({site(i, Point::kBranch)}).values.flat());
  }
}

double TrainedDecoder::predict(std::string_view prompt, const Skipped& skipped,
                               const PromptPrediction& to) {
  const std::vector<std::int32_t> tokens = tokens_of(prompt);
  Decoder<float> decoder = without(skipped);
  const MatrixView<float> logits = decoder.forward(tokens, {.mode = Mode::kEvaluation});
  const std::size_t last = logits.rows - 1;
  const double loss =
      cross_entropy<float>(logits.block(0, 0, last, logits.cols), std::span(tokens).subspan(1), {});
  std::int32_t byte = likeliest(logits.row(last));
  write_probabilities(logits.row(last), to.next);
  const std::size_t length = std::min(to.length, decoder.options().context - tokens.size());
  for (std::size_t i = 0; i < length; ++i) {
    to.continuation[i] = static_cast<char>(byte);
    byte = likeliest(
        decoder.forward({&byte, 1}, {.mode = Mode::kEvaluation, .past = tokens.size() + i}).row(0));
  }
  return loss;
}

std::vector<std::int32_t> TrainedDecoder::tokens_of(std::string_view prompt) {
  require(missing_.empty(), "the file lacks {} parameters, such as '{}'", missing_.size(),
          missing_.empty() ? "" : missing_.front());
  const std::size_t context = decoder_.options().context;
  require(prompt.size() >= 2 && prompt.size() <= context,
          "the prompt has {} bytes, must have from 2 to {}", prompt.size(), context);
  std::vector<std::int32_t> tokens;
  for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

Decoder<float> TrainedDecoder::without(const Skipped& skipped) {
  DecoderOptions options = decoder_.options();
  const std::size_t sublayers = 2 * options.placements.size();
  require(skipped.first <= sublayers && skipped.count <= sublayers - skipped.first,
          "{} sublayers from {} on are not all there: there are {}", skipped.count, skipped.first,
          sublayers);
  for (std::size_t i = skipped.first; i < skipped.first + skipped.count; ++i) {
    BlockPlacement& block = options.placements[i / 2];
    (i % 2 == 0 ? block.attention : block.feed_forward).gain = kZero;
  }
  Decoder<float> decoder(options);
  const ParameterList<float> from = decoder_.parameters();
  const ParameterList<float> to = decoder.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::ranges::copy(from[i].parameter->value.flat(), to[i].parameter->value.data());
  }
  return decoder;
}

}  // namespace addnorm
