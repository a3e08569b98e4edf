#include "doctor/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "addnorm/torch_generator.h"
#include "addnorm/train/cross_entropy.h"
#include "base/require.h"

namespace addnorm::doctor {
namespace {

constexpr std::size_t kLength = 64;
constexpr std::size_t kBatch = 2;

/// Returns the site of a parameter such as "layers.3.attention_add_norm.before.gamma".
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
    constexpr auto kNames = names_of(Projection{});
    name.remove_suffix(std::string_view(".weight").size());
    const auto found = std::ranges::find(kNames, name.substr(name.rfind('.') + 1));
    if (found == kNames.end()) return std::nullopt;
    site.point = Point::kWeight;
    site.projection = static_cast<Projection>(found - kNames.begin());
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

ProfileEntry measure(const Site& site, const model::StreamedModel::Gradient& parameter) {
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

Tokens complete(Tokens tokens, const model::Recipe& recipe) {
  if (tokens.ids.empty()) {
    std::size_t length = kLength;
    if (recipe.most_tokens() > 0) length = std::min(length, recipe.most_tokens());
    TorchGenerator generator(tokens.seed);
    tokens.batch = kBatch;
    tokens.ids.resize(kBatch * length);
    for (std::int32_t& id : tokens.ids) {
      id = static_cast<std::int32_t>(generator.random() % recipe.vocabulary);
    }
    tokens.origin = "random tokens";
  }
  require(tokens.batch > 0 && tokens.ids.size() % tokens.batch == 0,
          "{} tokens do not make a batch of {}", tokens.ids.size(), tokens.batch);
  return tokens;
}

/// Returns the loss. If `gradient` is given, writes the gradient with respect to the model's
/// output, which is 0 for rows without a target.
double cross_entropy_of(const model::Recipe& recipe, const Tokens& tokens,
                        MatrixView<const float> logits, MatrixView<float> gradient) {
  const std::size_t length = tokens.ids.size() / tokens.batch;
  const bool is_next = tokens.targets.empty() && recipe.order == AttentionMask::Order::kCausal;
  const std::vector<std::int32_t>& targets = tokens.targets.empty() ? tokens.ids : tokens.targets;
  const std::size_t rows = is_next ? length - 1 : length;
  if (rows == 0) return Subject::kUnknown;
  const auto of_sequence = [&](auto view, std::size_t s) {
    return view.empty() ? view : view.block(s * length, 0, rows, logits.cols);
  };
  const auto share = 1 / static_cast<float>(tokens.batch);
  double loss = 0;
  for (std::size_t s = 0; s < tokens.batch; ++s) {
    const auto own = std::span(targets).subspan(s * length + (is_next ? 1 : 0), rows);
    const MatrixView<float> d = of_sequence(gradient, s);
    loss += share * cross_entropy<float>(of_sequence(logits, s), own, d);
    if (!d.empty()) residual_add<float>({.x = d, .skip = {.constant = share}}, d);
  }
  return loss;
}

/// For a model without logits, random numbers take the place of the loss's gradient.
double loss_gradient(const model::Recipe& recipe, const Tokens& tokens,
                     MatrixView<const float> output, MatrixView<float> gradient) {
  if (recipe.output != model::ModelOutput::kHidden) {
    return cross_entropy_of(recipe, tokens, output, gradient);
  }
  TorchGenerator generator(tokens.seed + 1);
  generator.fill_normal<float>(std::span(gradient.data, gradient.size()), 0,
                               1 / static_cast<double>(output.size()));
  return Subject::kUnknown;
}

/// Records γ and β of the layers from `first_layer` on, which cannot be run.
void examine_gains(const model::StreamedModel& model, std::size_t first_layer, Subject& subject) {
  for (const std::string& name : model.parameter_names()) {
    const std::optional<Site> site = site_of(name, model.recipe().layers());
    if (!site || (site->point != Point::kGamma && site->point != Point::kBeta)) continue;
    if (site->layer < first_layer) continue;
    const io::StoredTensor& tensor = *model.weights().find(name).tensor;
    if (!io::is_readable(tensor.dtype)) continue;
    Matrix<float> values(1, tensor.count());
    model.weights().read(name, 0, values);
    subject.profile.entries.push_back(measure(*site, {name, 0, values, {}}));
    subject.profile.entries.back().step = subject.step;
  }
}

}  // namespace

Tokens text_tokens(const train::ByteText& text, std::size_t context) {
  Tokens tokens{.batch = kBatch, .origin = "bytes of its text"};
  tokens.ids.resize(kBatch * context);
  tokens.targets.resize(kBatch * context);
  text.validation(tokens.ids, tokens.targets);
  return tokens;
}

void examine(model::StreamedModel& model, const Tokens& asked, Subject& subject) {
  if (!subject.was_run()) {
    subject.measured_on = "its norms";
    return examine_gains(model, 0, subject);
  }
  const Tokens tokens = complete(asked, model.recipe());
  probe::Profiler<float> profiler(tokens.ids.size() / tokens.batch, subject.step,
                                  probe::Detail::kFull);
  const MatrixView<const float> output = model.forward(tokens.ids, tokens.batch, &profiler);
  Matrix<float> gradient(output.rows, output.cols);
  gradient.fill(0);
  subject.loss = loss_gradient(model.recipe(), tokens, output, gradient);
  subject.measured_on = fmt::format("{} × {} {}", tokens.batch, tokens.ids.size() / tokens.batch,
                                    tokens.origin.empty() ? "tokens" : tokens.origin);
  std::vector<ProfileEntry> parameters;
  const auto add = [&](const model::StreamedModel::Gradient& parameter) {
    const std::optional<Site> site = site_of(parameter.name, model.recipe().layers());
    if (!site) return;
    parameters.push_back(measure(*site, parameter));
    parameters.back().step = subject.step;
  };
  model.backward(gradient, add, model::StreamedModel::Visit::kWithoutVocabulary);
  std::vector<ProfileEntry>& entries = subject.profile.entries;
  std::ranges::copy(profiler.entries(), std::back_inserter(entries));
  std::ranges::copy(parameters, std::back_inserter(entries));
  if (!subject.was_run_whole()) examine_gains(model, subject.layers_run, subject);
}

double loss_on(model::StreamedModel& model, const Tokens& asked) {
  require(model.recipe().output != model::ModelOutput::kHidden,
          "the model has no logits, and no loss");
  const Tokens tokens = complete(asked, model.recipe());
  const MatrixView<const float> logits = model.forward(tokens.ids, tokens.batch);
  return cross_entropy_of(model.recipe(), tokens, logits, {});
}

}  // namespace addnorm::doctor
