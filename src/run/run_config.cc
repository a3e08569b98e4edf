#include "run/run_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "addnorm/nn/placement.h"
#include "base/find_named.h"
#include "io/json.h"

namespace addnorm::run {
namespace {

template <typename Enum>
std::vector<std::string_view> all_names() {
  const auto names = names_of(Enum{});
  return {names.begin(), names.end()};
}
/// Returns the names of the norms that a Transformer can have.
std::vector<std::string_view> token_norms() {
  std::vector<std::string_view> names = all_names<NormKind>();
  std::erase_if(names, [](std::string_view name) {
    const NormKind kind = parse<NormKind>("norm", name);
    return !normalizes_rows(kind) && !squashes(kind);
  });
  return names;
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace

std::span<const Setting> settings() {
  using C = RunConfig;
  constexpr bool kMayChange = true;
  // A study has no folder to resume, names its placements itself and trains in float32.
  const auto of_run = [](Setting setting) {
    setting.in_study = false;
    return setting;
  };
  static const std::vector<Setting> all{
      of_run({"preset", &C::preset, "settings to start from", preset_names()}),
      of_run({"text", &C::text, "text to train on", {}, kMayChange}),
      of_run(
          {"placement", &C::placement, "placement of residual connections and norms; names below"}),
      {"lanes", &C::lanes, "number of lanes of the residual stream; 0: the placement's default"},
      {"norm", &C::norm, "kind of every norm", token_norms()},
      {"affine", &C::affine, "learned parameters of every norm", all_names<Affine>()},
      {"eps", &C::epsilon, "the norm's epsilon"},
      {"layers", &C::layers, "blocks"},
      {"width", &C::width, "d_model"},
      {"heads", &C::heads, "attention heads"},
      {"ff", &C::feed_forward, "d_ff; 0: 4 × width"},
      {"activation", &C::activation, "activation of the feed-forward",
       all_names<FeedForwardKind>()},
      {"head", &C::head, "tied: the logits use the token embedding", all_names<Head>()},
      {"init", &C::initialization, "initialization of the weights", all_names<Initialization>()},
      {"context", &C::context, "length of the context in bytes"},
      of_run({"dtype",
              &C::dtype,
              "bf16: for branches and matrix products; the rest is f32",
              {"f32", "bf16"}}),
      {"dropout", &C::dropout, "dropout probability of each branch"},
      {"batch", &C::batch, "windows of text in a batch"},
      {"accumulate", &C::accumulate, "batches whose gradients are averaged for one step"},
      {"steps", &C::steps, "training steps", {}, kMayChange},
      {"lr", &C::learning_rate, "AdamW's learning rate at its peak"},
      {"warm-up", &C::warm_up, "steps over which the learning rate rises to its peak"},
      {"decay", &C::decay, "learning-rate schedule after warm-up", all_names<train::Decay>()},
      {"last-lr", &C::last_share, "final learning rate as a share of the peak"},
      {"weight-decay", &C::weight_decay, "decoupled weight decay of weights and embeddings"},
      {"beta1", &C::beta1, "AdamW's decay rate for the mean gradient"},
      {"beta2", &C::beta2, "AdamW's decay rate for the mean squared gradient"},
      {"clip", &C::clip, "norm at which gradients are clipped; 0: no clipping"},
      {"seed", &C::seed, "seed of initial weights, windows and dropout"},
      of_run({"validate-every",
              &C::validate_every,
              "steps between validations; 0: at the end",
              {},
              kMayChange}),
      of_run({"validation-batches",
              &C::validation_batches,
              "batches of each validation",
              {},
              kMayChange}),
      of_run({"profile-every",
              &C::profile_every,
              "steps between profiles by layer; 0: none",
              {},
              kMayChange}),
      of_run({"checkpoint-every",
              &C::checkpoint_every,
              "steps between checkpoints; 0: at the end",
              {},
              kMayChange}),
  };
  return all;
}

std::span<const Preset> presets() {
  static const std::array<Preset, 4> all{{
      {"tiny",
       {.preset = "tiny",
        .layers = 4,
        .width = 64,
        .heads = 4,
        .context = 64,
        .steps = 1000,
        .learning_rate = 4e-3},
       "half a minute"},
      {"small", {}, "a quarter of an hour on two cores"},
      {"medium",
       {.preset = "medium",
        .layers = 8,
        .width = 512,
        .heads = 8,
        .context = 512,
        .batch = 8,
        .accumulate = 2,
        .steps = 10000,
        .learning_rate = 6e-4,
        .warm_up = 500},
       "between small and GPT-2"},
      {"gpt2-small",
       {.preset = "gpt2-small",
        .layers = 12,
        .width = 768,
        .heads = 12,
        .activation = "gelu-tanh",
        .head = "tied",
        .context = 1024,
        .batch = 4,
        .accumulate = 8,
        .steps = 50000,
        .learning_rate = 6e-4,
        .warm_up = 1000},
       "GPT-2's smallest shape, over bytes"},
  }};
  return all;
}

io::Json to_json(const RunConfig& config) {
  io::Json object = io::Json::object();
  for (const Setting& setting : settings()) {
    std::visit([&](auto member) { object[std::string(setting.name)] = config.*member; },
               setting.member);
  }
  return object;
}

const Setting& find_setting(std::string_view name, const std::string& what) {
  const auto found = std::ranges::find(settings(), name, &Setting::name);
  if (found != settings().end()) return *found;
  std::vector<std::string_view> names;
  for (const Setting& setting : settings()) names.push_back(setting.name);
  fail(fmt::format("{}: \"{}\" is not a setting; expected some of {}", what, name,
                   fmt::join(names, ", ")));
}

namespace {

constexpr std::array<std::string_view, 4> kExpected{"a whole number ≥ 0", "a number", "a text",
                                                    "a string or a list of strings"};

void change(RunConfig& config, const std::string& name, io::Json value, const std::string& file) {
  const Setting& setting = find_setting(name, file);
  const bool is_list =
      std::holds_alternative<std::vector<std::string> RunConfig::*>(setting.member);
  if (is_list && value.is_string()) value = io::Json::array({value});
  std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(config.*member)>;
        require(io::fits<Value>(value), "{}: \"{}\" is {}; expected {}", file, name,
                io::excerpt(value), kExpected.at(setting.member.index()));
        value.get_to(config.*member);
      },
      setting.member);
}

}  // namespace

void update(RunConfig& config, const io::Json& object, const std::string& file) {
  require(object.is_object(), "{}: is not a JSON object of settings", file);
  if (object.contains("preset") && object["preset"].is_string()) {
    const auto text = config.text;
    config = find_named(presets(), file + ": preset", object["preset"].get<std::string>()).config;
    config.text = text;
  }
  for (const auto& item : object.items()) change(config, item.key(), item.value(), file);
}

namespace {

void check_choice(const RunConfig& config, const Setting& setting) {
  const auto* member = std::get_if<std::string RunConfig::*>(&setting.member);
  if (member == nullptr || setting.choices.empty()) return;
  find_name(fmt::format("{}:", setting.name), config.*(*member), setting.choices);
}

void from_1_to(std::uint64_t most, std::string_view name, std::uint64_t value) {
  require(value >= 1 && value <= most, "{} is {}, must be from 1 to {}", name, value, most);
}

void at_least_0(std::string_view name, double value) {
  require(std::isfinite(value) && value >= 0, "{} is {}, must be a finite number ≥ 0", name, value);
}

void from_0_to_below_1(std::string_view name, double value) {
  require(value >= 0 && value < 1, "{} is {}, must be at least 0 and below 1", name, value);
}

/// Throws an Error unless every sublayer's placement supports the stream's number of lanes at that
/// place.
void check_lanes(const RunConfig& c) {
  const std::vector<BlockPlacement> placements = parse_placements(c.placement, c.layers);
  for_each_add_norm(placements, lanes_before(placements, c.lanes, 0), placements.size(),
                    [&](const Placement& placement, const Place& place) {
                      starting_lanes(placement, place.lanes);
                      require(!placement.lanes.splits_features || c.width % place.lanes == 0,
                              "{} lanes do not divide the width of {}", place.lanes, c.width);
                    });
}

}  // namespace

void check(const RunConfig& c, std::size_t processes) {
  for (const Setting& setting : settings()) check_choice(c, setting);
  // With these bounds no size in bytes overflows.
  constexpr std::uint64_t kMostFeatures = 1'000'000;
  constexpr std::uint64_t kMostTokens = 100'000'000;
  from_1_to(10'000, "layers", c.layers);
  from_1_to(100'000, "width", c.width);
  from_1_to(c.width, "heads", c.heads);
  from_1_to(kMostTokens, "context", c.context);
  from_1_to(kMostTokens, "batch", c.batch);
  require(c.batch <= kMostTokens / c.context,
          "a batch of {} windows of {} bytes is too large, must be at most {} bytes", c.batch,
          c.context, kMostTokens);
  require(c.batch % processes == 0,
          "batch is {}, must be a multiple of {}, the number of processes that share it", c.batch,
          processes);
  from_1_to(1'000'000, "accumulate", c.accumulate);
  from_1_to(1'000'000'000'000, "steps", c.steps);
  from_1_to(1'000'000, "validation-batches", c.validation_batches);
  require(c.feed_forward <= kMostFeatures, "ff is {}, must be at most {}", c.feed_forward,
          kMostFeatures);
  require(c.width % c.heads == 0, "{} heads do not divide the width of {}", c.heads, c.width);
  require(c.warm_up <= c.steps, "warm-up is {} steps, must be at most all {} steps", c.warm_up,
          c.steps);
  require(std::isfinite(c.learning_rate) && c.learning_rate > 0,
          "lr is {}, must be a finite number above 0", c.learning_rate);
  require(c.last_share >= 0 && c.last_share <= 1,
          "last-lr is {}, must be from 0 to 1: a share of lr", c.last_share);
  at_least_0("eps", c.epsilon);
  at_least_0("weight-decay", c.weight_decay);
  at_least_0("clip", c.clip);
  from_0_to_below_1("dropout", c.dropout);
  from_0_to_below_1("beta1", c.beta1);
  from_0_to_below_1("beta2", c.beta2);
  check_lanes(c);
}

void check_unchanged(const RunConfig& then, const RunConfig& now) {
  const io::Json before = to_json(then);
  const io::Json after = to_json(now);
  for (const Setting& setting : settings()) {
    const std::string name(setting.name);
    require(
        setting.may_change || before[name] == after[name],
        "{} is {}, but the run began with {}; a run continues with the settings that it began with",
        name, io::excerpt(after[name]), io::excerpt(before[name]));
  }
}

DecoderOptions decoder_options(const RunConfig& c) {
  return {.block = {.d_model = c.width,
                    .n_heads = c.heads,
                    .d_ff = c.feed_forward == 0 ? 4 * c.width : c.feed_forward,
                    .feed_forward = parse<FeedForwardKind>("activation", c.activation),
                    .norm = {.kind = parse<NormKind>("norm", c.norm), .epsilon = c.epsilon},
                    .affine = parse<Affine>("affine", c.affine),
                    .dropout = c.dropout,
                    .lanes = c.lanes},
          .placements = parse_placements(c.placement, c.layers),
          .context = c.context,
          .head = parse<Head>("head", c.head)};
}

template <typename T>
Decoder<T> draw_decoder(const RunConfig& config) {
  Decoder<T> decoder(decoder_options(config));
  TorchGenerator generator(config.seed);
  initialize(decoder, parse<Initialization>("init", config.initialization), generator);
  return decoder;
}
template Decoder<float> draw_decoder(const RunConfig&);
template Decoder<BFloat16> draw_decoder(const RunConfig&);

train::TrainerOptions trainer_options(const RunConfig& c) {
  return {.batch = c.batch,
          .accumulate = c.accumulate,
          .learning_rate = {.peak = c.learning_rate,
                            .warm_up = c.warm_up,
                            .decay = parse<train::Decay>("decay", c.decay),
                            .steps = c.steps,
                            .last_share = c.last_share},
          .adamw = {.beta1 = c.beta1, .beta2 = c.beta2, .weight_decay = c.weight_decay},
          .clip = c.clip,
          .seed = c.seed + 1};
}

}  // namespace addnorm::run
