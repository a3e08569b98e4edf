#include "doctor/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/require.h"
#include "base/torch_generator.h"
#include "train/cross_entropy.h"

namespace addnorm {
namespace {

constexpr std::size_t kLength = 64;
constexpr std::size_t kBatch = 2;

/// Where a parameter stands: "layers.3.attention_add_norm.before.gamma".
std::optional<Site> site_of(std::string_view name, std::size_t layers) {
  Site site{.layer = layers, .sublayer = SublayerKind::kFinalNorm};
  constexpr std::string_view kLayers = "layers.";
  if (name.starts_with(kLayers)) {
    name.remove_prefix(kLayers.size());
    const std::size_t dot = name.find('.');
    site.layer = std::stoul(std::string(name.substr(0, dot)));
    name.remove_prefix(dot + 1);
    site.sublayer =
        name.starts_with("attention") ? SublayerKind::kAttention : SublayerKind::kFeedForward;
  } else if (!name.starts_with("final_norm.")) {
    return std::nullopt;
  }
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  if (ends(".weight")) {
    constexpr std::array<std::string_view, 7> kNames{"query", "key", "value", "output",
                                                     "gate",  "up",  "down"};
    name.remove_suffix(std::string_view(".weight").size());
    const auto found = std::ranges::find(kNames, name.substr(name.rfind('.') + 1));
    if (found == kNames.end()) return std::nullopt;
    site.point = Point::kWeight;
    site.projection = static_cast<Projection>(found - kNames.begin() + 1);
    return site;
  }
  if (!ends(".gamma") && !ends(".beta")) return std::nullopt;
  site.point = ends(".gamma") ? Point::kGamma : Point::kBeta;
  if (name.starts_with("final_norm.")) {
    site.norm = NormSlot::kFinal;
  } else if (name.find("_add_norm.before.") != std::string_view::npos) {
    site.norm = NormSlot::kBefore;
  } else if (name.find("_add_norm.inside.") != std::string_view::npos) {
    site.norm = NormSlot::kInside;
  } else if (name.find("_add_norm.after.") != std::string_view::npos) {
    site.norm = NormSlot::kAfter;
  } else {
    site.projection =
        name.find(".query_norm.") != std::string_view::npos ? Projection::kQuery : Projection::kKey;
  }
  return site;
}

double rms_of(MatrixView<const float> values) {
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += static_cast<double>(values.data[i]) * values.data[i];
  }
  return std::sqrt(squares / static_cast<double>(values.size()));
}

ProfileEntry measure(const Site& site, const StreamedModel::Gradient& parameter) {
  const MatrixView<const float> values = parameter.value;
  double sum = 0, least = values.data[0], largest = 0;
  bool finite = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values.data[i];
    sum += v;
    least = std::min(least, v);
    largest = std::max(largest, std::abs(v));
    finite &= std::isfinite(v);
  }
  ProfileEntry entry{.site = site, .rms = rms_of(values)};
  entry.mean = sum / static_cast<double>(values.size());
  entry.std = std::sqrt(std::max(0.0, entry.rms * entry.rms - entry.mean * entry.mean));
  entry.min = least;
  entry.abs_max = finite ? largest : std::numeric_limits<double>::infinity();
  entry.grad_rms = rms_of(parameter.gradient);
  return entry;
}

Tokens complete(Tokens tokens, const Recipe& recipe) {
  if (tokens.ids.empty()) {
    std::size_t length = kLength;
    if (recipe.positions > 0) length = std::min(length, recipe.positions);
    TorchGenerator generator(tokens.seed);
    tokens.batch = kBatch;
    tokens.ids.resize(kBatch * length);
    for (std::int32_t& id : tokens.ids) {
      id = static_cast<std::int32_t>(generator.random() % recipe.vocabulary);
    }
    tokens.origin = "random tokens";
  }
  if (!tokens.targets.empty()) return tokens;
  tokens.targets = tokens.ids;
  if (recipe.order != AttentionMask::Order::kCausal) return tokens;
  // The next token; after a sequence's last one its first.
  const std::size_t length = tokens.ids.size() / tokens.batch;
  for (auto begin = tokens.targets.begin(); begin != tokens.targets.end();) {
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    begin = std::rotate(begin, begin + 1, end) + 1;
  }
  return tokens;
}

/// The loss, and its gradient by the model's output.
double loss_gradient(const Recipe& recipe, const Tokens& tokens, MatrixView<const float> output,
                     MatrixView<float> gradient) {
  if (recipe.output != ModelOutput::kHidden) {
    return cross_entropy<float>(output, tokens.targets, gradient);
  }
  TorchGenerator generator(tokens.seed + 1);
  generator.fill_normal<float>(std::span(gradient.data, gradient.size()), 0,
                               1 / static_cast<double>(output.size()));
  return Subject::kUnknown;
}

}  // namespace

Tokens text_tokens(const ByteText& text, std::size_t context) {
  Tokens tokens{.batch = kBatch, .origin = "bytes of its text"};
  tokens.ids.resize(kBatch * context);
  tokens.targets.resize(kBatch * context);
  text.validation(tokens.ids, tokens.targets);
  return tokens;
}

void examine(StreamedModel& model, const Tokens& asked, Subject& subject) {
  const Tokens tokens = complete(asked, model.recipe());
  Profiler<float> profiler(tokens.ids.size() / tokens.batch, subject.step, Detail::kFull);
  const MatrixView<const float> output = model.forward(tokens.ids, tokens.batch, &profiler);
  Matrix<float> gradient(output.rows, output.cols);
  subject.loss = loss_gradient(model.recipe(), tokens, output, gradient);
  subject.measured_on = fmt::format("{} × {} {}", tokens.batch, tokens.ids.size() / tokens.batch,
                                    tokens.origin.empty() ? "tokens" : tokens.origin);
  std::vector<ProfileEntry> parameters;
  model.backward(gradient, [&](const StreamedModel::Gradient& parameter) {
    const std::optional<Site> site = site_of(parameter.name, model.recipe().layers());
    if (!site) return;
    parameters.push_back(measure(*site, parameter));
    parameters.back().step = subject.step;
  });
  std::vector<ProfileEntry>& entries = subject.profile.entries;
  std::ranges::copy(profiler.entries(), std::back_inserter(entries));
  std::ranges::copy(parameters, std::back_inserter(entries));
}

double loss_on(StreamedModel& model, const Tokens& asked) {
  require(model.recipe().output != ModelOutput::kHidden, "the model has no logits, and no loss");
  const Tokens tokens = complete(asked, model.recipe());
  const MatrixView<const float> logits = model.forward(tokens.ids, tokens.batch);
  return cross_entropy<float>(logits, tokens.targets, {});
}

}  // namespace addnorm
