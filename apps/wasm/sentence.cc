#include "wasm/sentence.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "addnorm/train/cross_entropy.h"
#include "base/require.h"
#include "probe/profiler.h"
#include "wasm/recorder.h"
#include "wasm/session.h"

namespace addnorm {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

double cosine(std::span<const float> a, std::span<const float> b) {
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

}  // namespace

double measure_sentence(const Arrangement& arrangement, const SessionOptions& options,
                        std::string_view text, const TokenMeasurement& to) {
  const std::size_t tokens = options.context;
  require(text.size() == tokens + 1, "a sentence of {} bytes is no window for a context of {}",
          text.size(), tokens);
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));

  Decoder<float> decoder = drawn(arrangement, options);
  Recorder recorder(options.width);
  const MatrixView<float> logits = decoder.forward(std::span(ids).first(tokens),
                                                   {.mode = Mode::kEvaluation, .probe = &recorder});
  const double loss = cross_entropy<float>(logits, std::span(ids).last(tokens), logits);
  decoder.backward(logits);

  for (std::size_t l = 0; l <= options.layers; ++l) {
    const Recorder::Passage& p = recorder.at(probe::stream_sites(l, options.layers));
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::span<const float> x = p.values.view().row(t);
      to.stream[l * tokens + t] = rms(x);
      to.gradient[l * tokens + t] = rms(p.gradients.view().row(t));
      for (std::size_t u = 0; u < tokens; ++u) {
        to.cosine[(l * tokens + t) * tokens + u] = cosine(x, p.values.view().row(u));
      }
    }
  }
  return loss;
}

}  // namespace addnorm
