#include "doctor/open_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/require.h"
#include "doctor/placements.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/json.h"
#include "model/gguf_recipe.h"
#include "run/checkpoint.h"
#include "run/training_run.h"

namespace addnorm::doctor {
namespace {

namespace fs = std::filesystem;

io::ProfileModel describe(const model::Recipe& recipe) {
  const NormOptions& norm = recipe.block.norm;
  const Placements placements = recipe.placements;
  const Placement* placement = only_placement(placements);
  return {.d_model = recipe.d_model(),
          .n_layers = recipe.layers(),
          .n_heads = recipe.block.n_heads,
          .d_ff = recipe.block.d_ff,
          .placement = placement == nullptr ? "" : std::string(placement->name),
          .norm = norm.kind,
          .eps = norm.epsilon,
          .gamma_form = norm.gamma_form,
          .model_type = recipe.family};
}

OpenedModel open(const std::string& path, model::Recipe recipe, model::Weights weights) {
  Subject subject{.name = path, .profile = {.model = describe(recipe)}};
  const auto has = [&](const char* name) { return weights.find(name).tensor != nullptr; };
  subject.lacks_final_norm = recipe.final_norm == Slot::kNorm &&
                             recipe.block.affine != Affine::kNone && !has("final_norm.gamma");
  if (subject.lacks_final_norm) recipe.final_norm = Slot::kNothing;
  const bool lacks_head =
      recipe.output == model::ModelOutput::kMaskedLogits && !has("head.transform.weight");
  if (lacks_head) recipe.output = model::ModelOutput::kHidden;  // a BERT for sentence embeddings
  model::StreamedModel model(std::move(recipe), std::move(weights));
  subject.profile.model.parameters = model.weights().values_of(model.parameter_names());
  return {std::move(subject), std::move(model)};
}

/// Whether the recipe ties the head to the embedding, but the files contain a head with other
/// values.
bool has_another_head(const model::Recipe& recipe, const model::Weights& weights) {
  constexpr std::size_t kRows = 16;
  if (recipe.output != model::ModelOutput::kTiedLogits) return false;
  const std::string names[] = {"embedding.token", "head.weight"};
  const std::size_t rows = std::min(kRows, recipe.vocabulary);
  std::array<Matrix<float>, 2> values;
  for (const std::string& name : names) {
    const io::StoredTensor* tensor = weights.find(name).tensor;
    if (tensor == nullptr || !io::is_readable(tensor->dtype)) return false;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    weights.check(names[i], recipe.vocabulary, recipe.d_model());
    values[i].resize(rows, recipe.d_model());
    weights.read(names[i], 0, values[i]);
  }
  return !std::ranges::equal(values[0].flat(), values[1].flat());
}

struct ModelFiles {
  model::Recipe recipe;
  model::Weights weights;
};

ModelFiles read_gguf(const std::string& path) {
  io::Gguf file = io::read_gguf(path);
  model::Recipe recipe = model::gguf_recipe(file);
  model::Naming naming = recipe.naming();
  std::vector<io::TensorFile> files;
  files.push_back(std::move(file));
  return {std::move(recipe), model::Weights(std::move(files), std::move(naming))};
}

/// Reads a model from a folder or from a .safetensors file in one.
ModelFiles read_folder(const std::string& path) {
  const bool is_folder = fs::is_directory(path);
  require(is_folder || (path.ends_with(".safetensors") && fs::exists(path)),
          "{}: expected a run, settings of a run, a folder with config.json, a .safetensors or "
          ".gguf file, or a profile .jsonl",
          path);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string config = (folder / "config.json").string();
  require(fs::exists(config), "{}: there is no config.json beside the weights", path);
  const auto tensors = [&] { return model::Weights(path, {}).besides({}); };
  model::Recipe recipe =
      model::parse_recipe(io::read_file(config, io::kMostJsonBytes), config, tensors);
  model::Naming naming = recipe.naming();
  return {std::move(recipe), model::Weights(path, std::move(naming))};
}

/// Returns the tensors that these parameters read and whose types are not supported.
std::vector<Unreadable> unreadable(const model::Weights& weights,
                                   const std::vector<std::string>& names) {
  std::vector<Unreadable> all;
  for (const std::string& name : names) {
    const io::StoredTensor* tensor = weights.find(name).tensor;
    if (tensor == nullptr || io::is_readable(tensor->dtype)) continue;
    const bool is_known =
        !all.empty() && all.back().tensor == tensor->name;  // it has several parts
    if (!is_known) all.push_back({tensor->name, io::info(tensor->dtype).name});
  }
  return all;
}

}  // namespace

bool is_profile(const std::string& path) {
  if (path.ends_with(".jsonl")) return true;
  if (!fs::is_regular_file(path)) return fs::exists(path) && !fs::is_directory(path);
  std::array<char, 64> begin{};
  std::ifstream(path).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()).find("\"addnorm_profile\"") !=
         std::string_view::npos;
}

OpenedModel open_model(const std::string& path, const RecipeChange& change) {
  ModelFiles files = path.ends_with(".gguf") ? read_gguf(path) : read_folder(path);
  if (change) change(files.recipe);
  const bool has_two_heads = has_another_head(files.recipe, files.weights);
  OpenedModel opened = open(path, std::move(files.recipe), std::move(files.weights));
  const std::vector<std::string> names = opened.model.parameter_names();
  opened.subject.unknown_part = opened.model.recipe().unknown_part;
  opened.subject.layers_run = opened.model.recipe().layers_run;
  if (opened.model.recipe().runs_whole()) {
    opened.subject.unused = opened.model.weights().besides(names);
  }
  opened.subject.unreadable = unreadable(opened.model.weights(), names);
  opened.subject.has_two_heads = has_two_heads;
  opened.subject.chance_loss = std::log(static_cast<double>(opened.model.recipe().vocabulary));
  return opened;
}

bool is_run(const std::string& path) {
  const run::RunFiles files(path);
  return fs::is_directory(path) && (fs::exists(files.checkpoint) || fs::exists(files.metrics));
}

Subject read_run(const run::RunFiles& files) {
  Subject subject{.name = files.folder};
  if (fs::exists(files.profile)) {
    std::vector<io::Profile> profiles =
        io::parse_profiles(io::read_file(files.profile), files.profile);
    if (!profiles.empty()) subject.profile = std::move(profiles.back());
  }
  if (fs::exists(files.config)) subject.config = run::read_config(files.config);
  subject.metrics = run::read_metrics(files.metrics);
  return subject;
}

OpenedModel open_run(const run::RunFiles& files) {
  return open_run(files, read_run(files));
}

OpenedModel open_run(const run::RunFiles& files, Subject before) {
  const run::RunState state = run::Checkpoint(files.checkpoint).state();
  OpenedModel run = open(files.folder, model::recipe_of(run::decoder_options(state.config)),
                         model::Weights(files.checkpoint, {"addnorm"}));
  Subject& subject = run.subject;
  subject.step = state.steps;
  subject.profile.entries = std::move(before.profile.entries);
  std::erase_if(subject.profile.entries,
                [&](const ProfileEntry& entry) { return entry.step >= state.steps; });
  subject.profile.model.placement = state.config.placement;
  subject.profile.model.initialization = parse<Initialization>("init", state.config.initialization);
  subject.config = before.config.value_or(state.config);
  subject.metrics = std::move(before.metrics);
  return run;
}

Subject read_profile(const std::string& file) {
  return read_profile_text(io::read_file(file), file);
}

}  // namespace addnorm::doctor
