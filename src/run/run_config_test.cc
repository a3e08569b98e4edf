#include "run/run_config.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "addnorm/error.h"
#include "addnorm/nn/placement.h"
#include "io/json.h"
#include "run/memory.h"

namespace addnorm::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Returns a valid value that is not the default.
io::Json other_value(const Setting& setting) {
  const io::Json value = to_json({})[std::string(setting.name)];
  if (!setting.choices.empty())
    return value == setting.choices[0] ? setting.choices[1] : setting.choices[0];
  if (setting.name == "placement") return "post";
  if (setting.name == "heads") return 3;
  if (value.is_array()) return {"a.txt", "b.txt"};
  if (value.is_number_unsigned()) return 2 * value.get<std::uint64_t>() + 6;
  return 0.5;
}

TEST(RunConfig, EverySettingGoesThroughJson) {
  for (const Setting& setting : settings()) {
    RunConfig config;
    if (setting.name == "lanes") config.placement = "hyper";
    update(config, {{std::string(setting.name), other_value(setting)}}, "file");
    check(config);
    EXPECT_EQ(to_json(config)[std::string(setting.name)], other_value(setting)) << setting.name;
    RunConfig again;
    update(again, io::Json::parse(to_json(config).dump()), "file");
    EXPECT_EQ(again, config) << setting.name;
    EXPECT_NE(config, RunConfig{}) << setting.name;
  }
}

TEST(RunConfig, ARunGoesOnWithTheSettingsItBeganWith) {
  for (const Setting& setting : settings()) {
    RunConfig now;
    update(now, {{std::string(setting.name), other_value(setting)}}, "file");
    if (setting.may_change) {
      EXPECT_NO_THROW(check_unchanged({}, now)) << setting.name;
    } else {
      EXPECT_THAT([&] { check_unchanged({}, now); },
                  ThrowsMessage<Error>(HasSubstr("the run began with")))
          << setting.name;
    }
  }
}

TEST(RunConfig, SettingsOfAFileStandOnItsPreset) {
  RunConfig config;
  update(config, {{"steps", 7}, {"preset", "tiny"}, {"width", 96}}, "file");
  EXPECT_EQ(config.layers, 4);
  EXPECT_EQ(config.width, 96);
  EXPECT_EQ(config.steps, 7);
}

TEST(RunConfig, TextMayBeOneFile) {
  RunConfig config;
  update(config, {{"text", "a.txt"}}, "file");
  EXPECT_THAT(config.text, ::testing::ElementsAre("a.txt"));
}

TEST(RunConfig, EveryPresetCanBeUsed) {
  for (const Preset& preset : presets()) {
    EXPECT_NO_THROW(check(preset.config)) << preset.name;
    EXPECT_EQ(preset.config.preset, preset.name);
  }
}

TEST(RunConfig, RefusesWhatIsNoSetting) {
  const auto message_of = [](const io::Json& object) {
    return [object] {
      RunConfig config;
      update(config, object, "run.json");
    };
  };
  EXPECT_THAT(message_of(3), ThrowsMessage<Error>(HasSubstr("run.json: is not a JSON object")));
  EXPECT_THAT(message_of({{"witdh", 3}}),
              ThrowsMessage<Error>(HasSubstr(R"(run.json: "witdh" is not a setting; expected)")));
  EXPECT_THAT(message_of({{"width", -3}}),
              ThrowsMessage<Error>(HasSubstr(R"("width" is -3; expected a whole number)")));
  EXPECT_THAT(message_of({{"lr", "fast"}}), ThrowsMessage<Error>(HasSubstr("expected a number")));
  EXPECT_THAT(message_of({{"text", 3}}), ThrowsMessage<Error>(HasSubstr("a list of strings")));
  EXPECT_THAT(message_of({{"preset", "huge"}}),
              ThrowsMessage<Error>(HasSubstr("must be one of tiny, small")));
}

TEST(RunConfig, RefusesWhatCannotBeUsed) {
  const auto refuses = [](const io::Json& object, const std::string& words) {
    RunConfig config;
    update(config, object, "file");
    EXPECT_THAT([&] { check(config); }, ThrowsMessage<Error>(HasSubstr(words))) << object;
  };
  for (const char* name : {"layers", "width", "heads", "context", "batch", "accumulate", "steps",
                           "validation-batches"}) {
    refuses({{name, 0}}, std::string(name) + " is 0, must be from 1");
  }
  refuses({{"width", 100}}, "6 heads do not divide the width of 100");
  refuses({{"warm-up", 5000}}, "warm-up is 5000 steps");
  refuses({{"lr", 0}}, "lr is 0, must be a finite number above 0");
  refuses({{"lr", INFINITY}}, "lr is inf, must be a finite number above 0");
  refuses({{"eps", NAN}}, "eps is nan, must be a finite number ≥ 0");
  refuses({{"last-lr", 2}}, "last-lr is 2, must be from 0 to 1");
  refuses({{"dropout", 1}}, "dropout is 1, must be at least 0 and below 1");
  refuses({{"beta2", 1}}, "beta2 is 1");
  refuses({{"clip", -1}}, "clip is -1");
  refuses({{"dtype", "f16"}}, R"(dtype: "f16" is unknown, must be one of f32, bf16)");
  refuses({{"placement", "pro"}}, "pro");
  refuses({{"lanes", 4}}, R"(placement "pre" takes 1 lane, not 4)");
  refuses({{"placement", "mhc"}, {"lanes", 1}},
          R"(placement "mhc" takes from 2 to 16 lanes, not 1)");
  refuses({{"placement", "mhc"}, {"lanes", 17}}, "takes from 2 to 16 lanes, not 17");
  refuses({{"placement", "siamese"}, {"lanes", 3}}, "takes 2 lanes, not 3");
  refuses({{"placement", "attention-residuals"}, {"lanes", 4}}, "starts with 1 lane");
  refuses({{"placement", "pre:2+mhc"}}, R"(placement "mhc" takes from 2 to 16 lanes, not 1)");
  refuses({{"placement", "mhc:2+pre"}}, R"(placement "pre" takes 1 lane, not 4)");
  refuses({{"placement", "frac"}, {"lanes", 5}}, "5 lanes do not divide the width of 192");
  refuses({{"placement", "parallel/pre"}}, "side by side");
  refuses({{"layers", 1000000}}, "layers is 1000000, must be from 1 to 10000");
  refuses({{"ff", 1ULL << 58}}, "ff is 288230376151711744, must be at most");
  refuses({{"batch", 1ULL << 40}}, "batch is 1099511627776, must be from 1");
  refuses({{"context", 100000000}}, "a batch of 16 windows of 100000000 bytes is too large");
}

TEST(MemoryEstimate, KnowsEveryParameter) {
  for (const Placement& placement : placements()) {
    for (const char* activation : {"gelu", "swiglu"}) {
      for (const char* head : {"tied", "untied"}) {
        RunConfig config{.placement = std::string(placement.name),
                         .layers = 3,
                         .width = 24,
                         .heads = 2,
                         .feed_forward = 40,
                         .activation = activation,
                         .head = head,
                         .context = 10};
        Decoder<float> decoder(decoder_options(config));
        const auto parameters = decoder.parameters();
        std::size_t factors = 0;  // learned skips and gains: few, and not in the estimate
        for (const auto& [name, parameter] : parameters) {
          if (parameter->role == ParameterRole::kResidualFactor) {
            factors += parameter->value.flat().size();
          }
        }
        EXPECT_EQ(estimate_memory(config).parameters, count_parameters(parameters) - factors)
            << placement.name << activation << head;
      }
    }
  }
}

TEST(MemoryEstimate, KnowsThoseOfEveryNorm) {
  for (const char* placement : {"pre", "sandwich", "residual-dual", "siamese", "ngpt"}) {
    for (const char* norm : {"layer", "rms", "dyt", "derf"}) {
      for (const std::string_view affine : names_of(Affine{})) {
        RunConfig config{.placement = placement,
                         .norm = norm,
                         .affine = std::string(affine),
                         .layers = 3,
                         .width = 24,
                         .heads = 2};
        Decoder<float> decoder(decoder_options(config));
        std::size_t values = 0;
        for (const auto& [name, parameter] : decoder.parameters()) {
          if (parameter->role != ParameterRole::kResidualFactor) {
            values += parameter->value.flat().size();
          }
        }
        EXPECT_EQ(estimate_memory(config).parameters, values)
            << placement << ' ' << norm << ' ' << affine;
      }
    }
  }
}

}  // namespace
}  // namespace addnorm::run
