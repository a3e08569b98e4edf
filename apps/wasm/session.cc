#include "wasm/session.h"

#include <utility>
#include <vector>

#include "base/require.h"
#include "probe/profiler.h"

namespace addnorm {
namespace {

const Placement& row(double place) {
  const auto table = placements();
  require(place >= 0 && place < static_cast<double>(table.size()), "there is no placement {}",
          place);
  return table[static_cast<std::size_t>(place)];
}

Slot slot(double value) {
  return value != 0 ? Slot::kNorm : Slot::kNothing;
}

Decoder<float> drawn(const BlockPlacement& placement, const SessionOptions& o) {
  require(o.layers >= 1 && o.heads >= 1 && o.width % o.heads == 0,
          "{} layers of width {} with {} heads are no model", o.layers, o.width, o.heads);
  Decoder<float> decoder({.block = {.d_model = o.width,
                                    .n_heads = o.heads,
                                    .d_ff = 4 * o.width,
                                    .feed_forward = FeedForwardKind::kRelu,
                                    .norm = {.kind = o.norm}},
                          .placements = std::vector(o.layers, placement),
                          .context = o.context});
  TorchGenerator generator(o.seed);
  initialize(decoder, o.initialization, generator);
  return decoder;
}

}  // namespace

BlockPlacement block_placement(const double* arrangement) {
  const Placement placement{.name = "custom",
                            .before = slot(arrangement[0]),
                            .inside = slot(arrangement[1]),
                            .after = slot(arrangement[2]),
                            .skip = row(arrangement[3]).skip,
                            .gain = row(arrangement[4]).gain,
                            .before_scale = row(arrangement[5]).before_scale,
                            .initial_gain = row(arrangement[6]).initial_gain,
                            .final_norm = slot(arrangement[7])};
  return {placement, placement};
}

SessionOptions session_options(const double* values) {
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(values[i]); };
  return {.layers = size(0),
          .width = size(1),
          .heads = size(2),
          .context = size(3),
          .batch = size(4),
          .learning_rate = values[5],
          .warm_up = size(6),
          .seed = size(7),
          .initialization = static_cast<Initialization>(values[8]),
          .norm = static_cast<NormKind>(values[9])};
}

Session::Session(const BlockPlacement& placement, const SessionOptions& options, std::string text)
    : options_(options),
      text_(std::move(text), options.context),
      decoder_(drawn(placement, options)),
      trainer_(decoder_, text_,
               {.batch = options.batch,
                .learning_rate = {options.learning_rate, options.warm_up},
                .seed = options.seed + 1}) {}

double Session::measure(double* by_layer) {
  probe::Profiler<float> profiler(options_.context);
  const double loss = trainer_.probe(profiler);
  const std::size_t places = options_.layers + 1;
  for (std::size_t l = 0; l < places; ++l) {
    const probe::ProfileEntry& stream = probe::stream_entry(profiler.entries(), l, options_.layers);
    by_layer[l] = stream.rms;
    by_layer[places + l] = stream.grad_rms;
    by_layer[2 * places + l] = stream.token_cosine;
  }
  return loss;
}

}  // namespace addnorm
