#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "addnorm/nn/initialize.h"
#include "train/trainer.h"

namespace addnorm::run {

/// All settings of a training run. On the command line and in config.json each member has its name
/// in settings().
struct RunConfig {
  std::string preset = "small";
  std::vector<std::string> text = {};  ///< files

  std::string placement = "pre";  ///< for parse_placements()
  std::uint64_t lanes = 0;        ///< of the stream; 0: the placement's usual number
  std::string norm = "layer";
  std::string affine = "gamma-beta";
  double epsilon = 1e-5;
  std::uint64_t layers = 6;
  std::uint64_t width = 192;
  std::uint64_t heads = 6;
  std::uint64_t feed_forward = 0;  ///< d_ff; 0: 4 × width
  std::string activation = "gelu";
  std::string head = "untied";
  std::string initialization = "gpt2";
  std::uint64_t context = 128;
  std::string dtype = "f32";
  double dropout = 0;

  std::uint64_t batch = 16;
  std::uint64_t accumulate = 1;
  std::uint64_t steps = 3000;
  double learning_rate = 2e-3;
  std::uint64_t warm_up = 100;
  std::string decay = "cosine";
  double last_share = 0.1;  ///< final share of the learning rate after the decay
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double clip = 1;
  std::uint64_t seed = 0;

  std::uint64_t validate_every = 250;
  std::uint64_t validation_batches = 16;
  std::uint64_t profile_every = 250;
  std::uint64_t checkpoint_every = 250;

  bool operator==(const RunConfig&) const = default;
};

/// A member of RunConfig: its name, its valid values and its meaning.
struct Setting {
  std::string_view name;  ///< "warm-up": the flag --warm-up, the key "warm-up"
  std::variant<std::uint64_t RunConfig::*, double RunConfig::*, std::string RunConfig::*,
               std::vector<std::string> RunConfig::*>
      member;
  std::string_view meaning;
  std::vector<std::string_view> choices = {};  ///< valid words; empty: any
  bool may_change = false;                     ///< whether it may change when a run is resumed
  bool in_study = true;                        ///< whether a study's models have it too
};
std::span<const Setting> settings();

/// Settings under a common name: a row of presets().
struct Preset {
  std::string_view name;
  RunConfig config;
  std::string_view meaning;
};
std::span<const Preset> presets();

/// Returns the setting with this name; throws an Error that begins with `what` and lists the names
/// if there is none.
const Setting& find_setting(std::string_view name, const std::string& what);

/// Returns all settings, in the order of settings().
nlohmann::ordered_json to_json(const RunConfig& config);
/// Changes the settings that the object names; its "preset", if it has one, first. `file` appears
/// in messages.
void update(RunConfig& config, const nlohmann::ordered_json& object, const std::string& file);

/// Throws an Error unless every setting is valid for this number of processes.
void check(const RunConfig& config, std::size_t processes = 1);

/// Throws an Error if `now` differs from `then` in a setting that may not change when a run is
/// resumed.
void check_unchanged(const RunConfig& then, const RunConfig& now);

DecoderOptions decoder_options(const RunConfig& config);
/// Returns a decoder with its initial weights; T is float or BFloat16.
template <typename T>
Decoder<T> draw_decoder(const RunConfig& config);
train::TrainerOptions trainer_options(const RunConfig& config);

}  // namespace addnorm::run
