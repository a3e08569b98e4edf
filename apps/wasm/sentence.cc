#include "wasm/sentence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "addnorm/train/cross_entropy.h"
#include "base/require.h"
#include "probe/profiler.h"
#include "wasm/session.h"

namespace addnorm {
namespace {

/// What passes at one site.
struct Passage {
  Site site;
  Matrix<float> values;
  Matrix<float> gradients;
};

/// Keeps what is as wide as the stream.
class Recorder : public Probe<float> {
 public:
  explicit Recorder(std::size_t width) : width_(width) {}

  void forward(const Site& site, MatrixView<const float> values) override {
    if (values.cols == width_) copy(values, passage(site).values);
  }
  void backward(const Site& site, MatrixView<const float> gradients) override {
    if (gradients.cols == width_) copy(gradients, passage(site).gradients);
  }

  /// The first of these sites that there is.
  const Passage& at(const std::vector<Site>& sites) const {
    for (const Site& site : sites) {
      for (const Passage& p : passages_) {
        if (p.site == site) return p;
      }
    }
    fail("the stack has no stream there");
  }

 private:
  static void copy(MatrixView<const float> from, Matrix<float>& to) {
    to.resize(from.rows, from.cols);
    for (std::size_t r = 0; r < from.rows; ++r)
      std::ranges::copy(from.row(r), to.view().row(r).begin());
  }
  Passage& passage(const Site& site) {
    for (Passage& p : passages_) {
      if (p.site == site) return p;
    }
    return passages_.emplace_back(Passage{.site = site});
  }

  std::size_t width_;
  std::vector<Passage> passages_;
};

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

double rms(std::span<const float> values) {
  return std::sqrt(dot(values, values) / static_cast<double>(values.size()));
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
    const Passage& p = recorder.at(probe::stream_sites(l, options.layers));
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
