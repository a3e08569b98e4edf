#include "doctor/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/require.h"
#include "base/torch_generator.h"
#include "io/file.h"
#include "run/checkpoint.h"
#include "run/run_folder.h"
#include "train/cross_entropy.h"

namespace addnorm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLength = 64;
constexpr std::size_t kBatch = 2;

std::string placement_text(const Recipe& recipe) {
  const std::string_view name = recipe.placements.front().attention.name;
  const bool one = std::ranges::all_of(recipe.placements, [&](const BlockPlacement& block) {
    return block.attention.name == name && block.feed_forward.name == name;
  });
  return one ? std::string(name) : "";
}

ProfileModel describe(const Recipe& recipe) {
  const NormOptions& norm = recipe.block.norm;
  return {.d_model = recipe.d_model(),
          .n_layers = recipe.layers(),
          .n_heads = recipe.block.n_heads,
          .d_ff = recipe.block.d_ff,
          .placement = placement_text(recipe),
          .norm = norm.kind == NormKind::kRms ? "rms" : "layer",
          .eps = norm.epsilon,
          .gamma_form = norm.gamma_form == GammaForm::kOnePlus ? "one_plus" : "plain",
          .model_type = recipe.family};
}

OpenedModel open(const std::string& path, Recipe recipe, Weights weights) {
  Subject subject{.name = path, .profile = {.model = describe(recipe)}};
  if (recipe.final_norm == Slot::kNorm && weights.find("final_norm.gamma").tensor == nullptr) {
    recipe.final_norm = Slot::kNothing;
  }
  subject.profile.model.parameters = weights.values();
  return {std::move(subject), StreamedModel(std::move(recipe), std::move(weights))};
}

/// What training has measured before the checkpoint.
std::vector<ProfileEntry> entries_before(std::size_t step, const std::string& file) {
  std::vector<ProfileEntry> entries;
  if (!fs::exists(file)) return entries;
  for (const Profile& profile : parse_profiles(read_file(file), file)) {
    std::ranges::copy_if(profile.entries, std::back_inserter(entries),
                         [&](const ProfileEntry& entry) { return entry.step < step; });
  }
  return entries;
}

OpenedModel open_run(const RunFiles& files) {
  const RunState state = Checkpoint(files.checkpoint).state();
  const RunConfig& config = state.config;
  OpenedModel run =
      open(files.folder, recipe_of(decoder_options(config)), Weights(files.checkpoint, "addnorm"));
  run.subject.step = state.steps;
  run.subject.profile.entries = entries_before(state.steps, files.profile);
  run.subject.profile.model.placement = config.placement;
  run.subject.profile.model.initialization = config.initialization;
  return run;
}

OpenedModel open_published(const fs::path& path) {
  const fs::path folder = fs::is_directory(path) ? path : path.parent_path();
  const std::string config = (folder / "config.json").string();
  require(fs::exists(config), "{}: there is no config.json beside the weights", path.string());
  Recipe recipe = parse_recipe(read_file(config), config);
  Weights weights(path.string(), recipe.family);
  OpenedModel model = open(path.string(), std::move(recipe), std::move(weights));
  model.subject.unused = model.model.weights().besides(model.model.parameter_names());
  return model;
}

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
    return std::nullopt;  // of queries or keys
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
  if (!tokens.ids.empty()) return tokens;
  std::size_t length = kLength;
  if (recipe.positions > 0) length = std::min(length, recipe.positions);
  TorchGenerator generator(tokens.seed);
  tokens.batch = kBatch;
  tokens.ids.resize(kBatch * length);
  for (std::int32_t& id : tokens.ids) {
    id = static_cast<std::int32_t>(generator.random() % recipe.vocabulary);
  }
  return tokens;
}

/// The gradient of the loss by the model's output.
Matrix<float> loss_gradient(const Recipe& recipe, const Tokens& tokens,
                            MatrixView<const float> output) {
  Matrix<float> gradient(output.rows, output.cols);
  if (recipe.output == ModelOutput::kHidden) {
    TorchGenerator generator(tokens.seed + 1);
    generator.fill_normal<float>(gradient.flat(), 0, 1 / static_cast<double>(output.size()));
    return gradient;
  }
  std::vector<std::int32_t> targets = tokens.ids;
  if (recipe.order == AttentionMask::Order::kCausal) {
    // The next token; after a sequence's last one its first.
    const std::size_t length = targets.size() / tokens.batch;
    for (std::size_t s = 0; s < tokens.batch; ++s) {
      const auto begin = targets.begin() + static_cast<std::ptrdiff_t>(s * length);
      std::rotate(begin, begin + 1, begin + static_cast<std::ptrdiff_t>(length));
    }
  }
  cross_entropy<float>(output, targets, gradient);
  return gradient;
}

}  // namespace

bool is_profile(const std::string& path) {
  return path.ends_with(".jsonl");
}

OpenedModel open_model(const std::string& path) {
  require(fs::exists(path), "{}: there is no such file or folder", path);
  if (fs::is_directory(path) && fs::exists(RunFiles(path).checkpoint)) {
    return open_run(RunFiles(path));
  }
  require(fs::is_directory(path) || path.ends_with(".safetensors"),
          "{}: expected a run, a folder with config.json, a .safetensors file or a profile .jsonl",
          path);
  return open_published(path);
}

void examine(StreamedModel& model, const Tokens& asked, Subject& subject) {
  const Tokens tokens = complete(asked, model.recipe());
  Profiler<float> profiler(tokens.ids.size() / tokens.batch, subject.step, Detail::kFull);
  const MatrixView<const float> output = model.forward(tokens.ids, tokens.batch, &profiler);
  const Matrix<float> gradient = loss_gradient(model.recipe(), tokens, output);
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

Subject read_profile(const std::string& file) {
  const std::vector<Profile> profiles = parse_profiles(read_file(file), file);
  require(!profiles.empty(), "{}: holds no profile", file);
  Subject subject{.name = file, .profile = profiles.back()};
  require(!subject.profile.entries.empty(), "{}: its profile has no line but the first", file);
  return subject;
}

}  // namespace addnorm
