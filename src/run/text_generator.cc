#include "run/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/require.h"

namespace addnorm::run {

constexpr std::size_t kBytes = 256;

void check(const Sampling& sampling) {
  require(std::isfinite(sampling.temperature) && sampling.temperature >= 0,
          "temperature is {}, must be at least 0", sampling.temperature);
  require(sampling.top_k <= kBytes,
          "top-k is {}, must be at most {}, the number of different bytes", sampling.top_k, kBytes);
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top-p is {}, must be above 0 and at most 1",
          sampling.top_p);
}

std::size_t sample(std::span<const float> logits, const Sampling& sampling,
                   TorchGenerator& generator) {
  require(std::ranges::all_of(logits, [](float v) { return std::isfinite(v); }),
          "sample: the logits are not all finite");
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return logits[i]; });
  if (sampling.temperature == 0) return order.front();
  if (sampling.top_k > 0) order.resize(std::min(order.size(), sampling.top_k));

  std::vector<double> sums;  // of the most likely tokens, not normalized
  const double largest = logits[order.front()];
  for (double sum = 0; const std::size_t i : order) {
    sum += std::exp((logits[i] - largest) / sampling.temperature);
    sums.push_back(sum);
  }
  const auto first_above = [&](double bound) {
    const auto found = std::ranges::lower_bound(sums, bound);
    return std::min(found, sums.end() - 1) - sums.begin();
  };
  sums.resize(static_cast<std::size_t>(first_above(sampling.top_p * sums.back())) + 1);
  double uniform = 0;
  generator.fill_uniform(std::span(&uniform, 1));
  return order[static_cast<std::size_t>(first_above(uniform * sums.back()))];
}

TextGenerator::TextGenerator(Decoder<float>& decoder, std::string_view prompt,
                             const Sampling& sampling, std::uint64_t seed)
    : decoder_(decoder), sampling_(sampling), generator_(seed) {
  check(sampling);
  require(!prompt.empty(), "the prompt is empty, must be at least one byte");
  const std::size_t context = decoder.options().context;
  if (prompt.size() > context) prompt.remove_prefix(prompt.size() - context);
  for (const char c : prompt) tokens_.push_back(static_cast<unsigned char>(c));
}

char TextGenerator::next() {
  const std::size_t context = decoder_.options().context;
  if (tokens_.size() > context) {
    tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>((context + 1) / 2));
    past_ = 0;
  }
  feed();
  const std::size_t token = sample(logits_, sampling_, generator_);
  tokens_.push_back(static_cast<std::int32_t>(token));
  return static_cast<char>(token);
}

/// Feeds the new tokens to the decoder.
void TextGenerator::feed() {
  const std::span<const std::int32_t> fresh = std::span(tokens_).subspan(past_);
  const MatrixView<const float> logits =
      decoder_.forward(fresh, {.mode = Mode::kEvaluation, .past = past_});
  past_ = tokens_.size();
  logits_ = logits.row(logits.rows - 1);
}

}  // namespace addnorm::run
