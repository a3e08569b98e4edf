#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "addnorm/nn/attention.h"

namespace addnorm::model {
namespace {

/// An object under rope_scaling or rope_parameters, and the file that contains it.
struct Scaling {
  const Config& own;
  const Config& file;
  double base;

  /// Returns the length of the sequences in the original training.
  std::size_t context() const {
    constexpr const char* kKey = "original_max_position_embeddings";
    if (own.has(kKey)) return own.size(kKey);
    return file.has(kKey) ? file.size(kKey) : file.size("max_position_embeddings");
  }
};

void scale_nothing(RotaryForm&, const Scaling&) {}

void scale_all(RotaryForm& form, const Scaling& scaling) {
  const double factor = scaling.own.above_0("factor");
  for (double& frequency : form.frequencies) frequency /= factor;
}

/// The base changes only for sequences longer than the model's.
void scale_longer(RotaryForm& form, const Scaling& scaling) {
  form.longest = scaling.file.size("max_position_embeddings");
}

/// Long waves rotate `factor` times slower, those in between in proportion.
void scale_long_waves(RotaryForm& form, const Scaling& scaling) {
  const double factor = scaling.own.number("factor");
  const double low = scaling.own.number("low_freq_factor");
  const double high = scaling.own.number("high_freq_factor");
  if (!(factor > 0 && high > low && low > 0)) {
    scaling.own.refuse("factor {}, low_freq_factor {}, high_freq_factor {} are in no order", factor,
                       low, high);
  }
  const auto context = static_cast<double>(scaling.context());
  for (double& frequency : form.frequencies) {
    const double turns = context * frequency / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency *= kept + (1 - kept) / factor;
  }
}

/// YaRN's gain for a context that is `factor` times longer (Peng et al. 2023, eq. 22), with
/// DeepSeek's weights: one for the rotated features, divided by one for all features, which
/// DeepSeek applies in the scores.
void set_yarn_gains(RotaryForm& form, const Config& own, double factor) {
  const auto gain = [&](double weight) {
    return factor > 1 ? 1 + 0.1 * weight * std::log(factor) : 1.0;
  };
  const double turning = own.number("mscale", 0), all = own.number("mscale_all_dim", 0);
  form.score_gain = gain(all) * gain(all);
  form.gain = turning == 0 || all == 0 ? gain(1) : gain(turning) / gain(all);
  if (own.has("attention_factor")) form.gain = own.above_0("attention_factor");
}

/// YaRN: pairs that make more than beta_fast turns in the context stay, those with fewer than
/// beta_slow turns rotate `factor` times slower, with a ramp over the pairs between.
void scale_by_yarn(RotaryForm& form, const Scaling& scaling) {
  const double factor = scaling.own.above_0("factor");
  if (!(scaling.base > 1)) scaling.own.refuse("rope_theta is {}, must be above 1", scaling.base);
  const double pairs = static_cast<double>(form.frequencies.size());
  const auto context = static_cast<double>(scaling.context());
  const auto pair_that_turns = [&](double times) {
    return pairs * std::log(context / (2 * std::numbers::pi * times)) / std::log(scaling.base);
  };
  double first = pair_that_turns(scaling.own.above_0("beta_fast", 32));
  double last = pair_that_turns(scaling.own.above_0("beta_slow", 1));
  if (scaling.own.flag("truncate", true)) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, 2 * pairs - 1);
  if (first == last) last += 1e-3;
  for (std::size_t i = 0; i < form.frequencies.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    form.frequencies[i] *= 1 - slowed + slowed / factor;
  }
  set_yarn_gains(form, scaling.own, factor);
}

/// LongRoPE has two lists of factors: for sequences up to the length of the original training, and
/// for longer ones. This uses the first.
void scale_by_list(RotaryForm& form, const Scaling& scaling) {
  const std::vector<double> factors = scaling.own.numbers("short_factor");
  if (factors.size() != form.frequencies.size()) {
    scaling.own.refuse("short_factor has {} entries for {} pairs of features", factors.size(),
                       form.frequencies.size());
  }
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == 0) scaling.own.refuse("short_factor holds 0, must be above 0");
    form.frequencies[i] /= factors[i];
  }
  form.longest = scaling.context();
  const auto context = static_cast<double>(form.longest);
  const double longer =
      scaling.own.has("factor")
          ? scaling.own.above_0("factor")
          : static_cast<double>(scaling.file.size("max_position_embeddings")) / context;
  form.gain = longer > 1 && context > 1 ? std::sqrt(1 + std::log(longer) / std::log(context)) : 1;
  if (scaling.own.has("attention_factor")) form.gain = scaling.own.above_0("attention_factor");
}

struct Kind {
  std::string_view name;
  void (*scale)(RotaryForm&, const Scaling&);
};
constexpr Kind kKinds[] = {
    {"default", scale_nothing},   {"linear", scale_all},   {"dynamic", scale_longer},
    {"llama3", scale_long_waves}, {"yarn", scale_by_yarn}, {"longrope", scale_by_list},
    {"su", scale_by_list},  // LongRoPE's name in the first files of Phi-3
};

void scale(RotaryForm& form, const Scaling& scaling) {
  const Config& own = scaling.own;
  std::string name = own.has("rope_type") ? own.word("rope_type") : own.word("type", "default");
  if (name == "yarn" && own.has("short_factor")) name = "longrope";  // Phi-3's first name for it
  const auto* kind = std::ranges::find(kKinds, name, &Kind::name);
  if (kind == std::end(kKinds)) own.refuse("type '{}' is not supported", name);
  kind->scale(form, scaling);
}

/// `own` is the object with the scaling, if there is one.
RotaryForm read(const Config* own, const Config& file, const RotaryDefaults& defaults,
                std::size_t d_head) {
  const auto number = [&](const char* key, const char* older_key, double absent) {
    const double otherwise = file.above_0(older_key, absent);
    return own == nullptr ? otherwise : own->above_0(key, otherwise);
  };
  const double base = number("rope_theta", defaults.base_key, defaults.base);
  const double share = number("partial_rotary_factor", defaults.share_key, defaults.share);
  if (share > 1) file.refuse("{} is {}, must be at most 1", defaults.share_key, share);
  const auto features = static_cast<std::size_t>(static_cast<double>(d_head) * share);
  if (features == 0 || features % 2 != 0) {
    file.refuse("{} of {} features of a head are rotated, must be an even number", features,
                d_head);
  }
  RotaryForm form{.frequencies = rope_frequencies(base, features)};
  if (own != nullptr) scale(form, {*own, file, base});
  return form;
}

/// Reads the part of rope_parameters for one kind of layer, or all of it if there is only one kind.
RotaryForm read_newer(const char* layers, const Config& file, const RotaryDefaults& defaults,
                      std::size_t d_head) {
  const Config all = file.object("rope_parameters");
  const Config own = all.has(layers) ? all.object(layers) : all;
  return read(&own, file, defaults, d_head);
}

}  // namespace

RotaryForm read_rotary(const Config& config, const RotaryDefaults& defaults, std::size_t d_head) {
  if (config.has("rope_parameters")) return read_newer("full_attention", config, defaults, d_head);
  if (!config.has("rope_scaling")) return read(nullptr, config, defaults, d_head);
  const Config scaling = config.object("rope_scaling");
  return read(&scaling, config, defaults, d_head);
}

RotaryForm read_window_rotary(const Config& config, const RotaryDefaults& defaults,
                              std::size_t d_head) {
  if (!config.has("rope_parameters")) return read(nullptr, config, defaults, d_head);
  return read_newer("sliding_attention", config, defaults, d_head);
}

}  // namespace addnorm::model
