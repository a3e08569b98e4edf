#include "wasm/session.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "base/require.h"
#include "probe/profiler.h"

namespace addnorm {
namespace {

const Placement& row(std::size_t place) {
  require(place < placements().size(), "there is no placement {}", place);
  return placements()[place];
}

Placement placement_of(const Arrangement& a) {
  return {.name = "custom",
          .before = a.before,
          .inside = a.inside,
          .after = a.after,
          .skip = row(a.skip).skip,
          .gain = row(a.gain).gain,
          .before_scale = row(a.before_scale).before_scale,
          .initial_gain = row(a.initial_gain).initial_gain,
          .final_norm = a.final_norm};
}

/// Returns the angle between a layer's input and output, in degrees, from the mean cosine of its
/// tokens.
double turn(const std::vector<probe::ProfileEntry>& profile, std::size_t layer) {
  constexpr auto kLast = SublayerKind::kFeedForward;
  const probe::ProfileEntry* end = probe::find_entry(profile, {layer, kLast, Point::kAfter});
  if (end == nullptr) end = probe::find_entry(profile, {layer, kLast, Point::kSum});
  require(end != nullptr, "layer {} has no end", layer);
  return std::acos(std::clamp(end->layer_cosine, -1.0, 1.0)) * 180 / std::numbers::pi;
}

}  // namespace

Decoder<float> drawn(const Arrangement& arrangement, const SessionOptions& o) {
  require(o.layers >= 1 && o.heads >= 1 && o.width % o.heads == 0,
          "{} layers of width {} with {} heads are no model", o.layers, o.width, o.heads);
  const Placement placement = placement_of(arrangement);
  Decoder<float> decoder({.block = {.d_model = o.width,
                                    .n_heads = o.heads,
                                    .d_ff = 4 * o.width,
                                    .feed_forward = FeedForwardKind::kRelu,
                                    .norm = {.kind = o.norm}},
                          .placements = std::vector(o.layers, BlockPlacement{placement, placement}),
                          .context = o.context});
  TorchGenerator generator(o.seed);
  initialize(decoder, o.initialization, generator);
  return decoder;
}

Session::Session(const Arrangement& arrangement, const SessionOptions& options, std::string text)
    : options_(options),
      text_(std::move(text), options.context),
      decoder_(drawn(arrangement, options)),
      trainer_(decoder_, text_,
               {.batch = options.batch,
                .learning_rate = {options.learning_rate, options.warm_up},
                .seed = options.seed + 1}) {}

double Session::measure(const Measurement& to) {
  probe::Profiler<float> profiler(options_.context, 0, probe::Detail::kTurns);
  const double loss = trainer_.probe(profiler);
  for (std::size_t l = 0; l <= options_.layers; ++l) {
    const probe::ProfileEntry& stream = probe::stream_entry(profiler.entries(), l, options_.layers);
    to.stream[l] = stream.rms;
    to.gradient[l] = stream.grad_rms;
    to.token_cosine[l] = stream.token_cosine;
    if (l < options_.layers) to.turn[l] = turn(profiler.entries(), l);
  }
  return loss;
}

}  // namespace addnorm
