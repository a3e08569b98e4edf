#include "run/memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/require.h"
#include "gemm/gemm.h"

namespace addnorm::run {
namespace {

constexpr std::size_t kFloat = sizeof(float);

/// The sizes of a decoder, as in DecoderOptions.
struct Sizes {
  Sizes(const RunConfig& config, std::size_t processes)
      : options(decoder_options(config)),
        d(options.block.d_model),
        ff(options.block.d_ff),
        gates(is_gated(options.block.feed_forward) ? 1 : 0),
        rows(config.batch / processes * config.context),
        branch(config.dtype == "bf16" ? sizeof(BFloat16) : kFloat) {}

  DecoderOptions options;
  std::size_t d, ff, gates, rows;
  std::size_t branch;  ///< bytes of one value of a branch
};

std::size_t norms(const Placement& p, const Place& place) {
  return (p.before == Slot::kNorm) * p.lanes.reads(place) + (p.inside == Slot::kNorm) +
         (p.after == Slot::kNorm) + (p.lanes.last_lane == Slot::kNorm);
}

/// Returns the number of learned values of a norm.
std::size_t norm_values(const Sizes& s) {
  Norm<float> norm(s.options.block.norm, s.d, s.options.block.affine);
  ParameterList<float> parameters;
  norm.list_parameters("", parameters);
  return addnorm::count_parameters(parameters);
}

/// Calls body(placement, place) for each Add & Norm.
template <typename Body>
void for_each_add_norm(const Sizes& s, const Body& body) {
  const auto& placements = s.options.placements;
  addnorm::for_each_add_norm(placements, lanes_before(placements, s.options.block.lanes, 0),
                             placements.size(), body);
}

/// Returns the number of learned values of gates, mixes and norms.
std::size_t add_norm_values(const Sizes& s) {
  std::size_t values = 0;
  const std::size_t of_norm = norm_values(s);
  for_each_add_norm(s, [&](const Placement& p, const Place& place) {
    values += of_norm * norms(p, place);
    if (p.update == Update::kGated) values += s.d * s.d + s.d;
    if (p.lanes.several()) values += lane_weights(p.lanes, place, s.d);
  });
  return values;
}

/// Returns the number of learned values of the norms and mixes at both ends of the stream.
std::size_t end_values(const Sizes& s) {
  const auto& placements = s.options.placements;
  const Placement& last = placements.back().feed_forward;
  const std::size_t of_norm = norm_values(s);
  std::size_t values = of_norm * (placements.front().attention.entry == Slot::kNorm);
  values += of_norm * (last.final_norm == Slot::kNorm);
  if (!last.lanes.several()) return values;
  values += of_norm * (last.lanes.last_lane_at_exit == Slot::kNorm);
  const Place behind{.depth = {placements.size() + 1, placements.size()},
                     .lanes = lanes_before(placements, s.options.block.lanes, placements.size())};
  return values + lane_weights(exit_form(last.lanes), behind, s.d);
}

std::size_t linear_weights(const Sizes& s) {
  const std::size_t block = 4 * s.d * s.d + (2 + s.gates) * s.d * s.ff;
  // head or token embedding
  return s.options.placements.size() * block + s.options.vocabulary * s.d;
}

std::size_t count_parameters(const Sizes& s) {
  const std::size_t tokens = s.options.head == Head::kTied ? 0 : s.options.vocabulary;
  const std::size_t biases = s.options.placements.size() * (5 * s.d + (1 + s.gates) * s.ff);
  return linear_weights(s) + (tokens + s.options.context) * s.d + biases + add_norm_values(s) +
         end_values(s);
}

/// Returns the bytes that AddNorm keeps for one sublayer.
std::size_t add_norm_bytes(const Sizes& s, const Placement& p, const Place& place) {
  const bool keeps_input = p.before == Slot::kNorm || s.branch != kFloat;
  const std::size_t reads = p.lanes.reads(place);
  const std::size_t branches = keeps_input * reads + 1 + (p.inside == Slot::kNorm);
  std::size_t streams = 1 + (p.after == Slot::kNorm);
  if (p.lanes.several()) {
    const Changes changes = p.lanes.changes(place);
    const std::size_t changed =
        changes == Changes::kAll && !p.lanes.splits_features ? place.lanes : 1;
    streams += changed * (1 + p.lanes.reads_carried) + (p.lanes.last_lane == Slot::kNorm);
    streams += reads - 1;
  }
  return s.rows * s.d * (branches * s.branch + streams * kFloat);
}

/// Returns the bytes of the float32 copies for products in bfloat16 on a processor without them:
/// the largest factors and result.
std::size_t widened_bytes(const Sizes& s) {
  if (s.branch == kFloat || gemm::has_bfloat16_products()) return 0;
  return kFloat * (2 * s.rows * s.ff + std::max(s.rows, s.ff) * s.d);
}

std::size_t activation_bytes(const Sizes& s) {
  std::size_t bytes = 0;
  for_each_add_norm(
      s, [&](const Placement& p, const Place& place) { bytes += add_norm_bytes(s, p, place); });
  const std::size_t layers = s.options.placements.size();
  // kept by the sublayers
  bytes += layers * s.rows * s.branch * (4 * s.d + (2 + 2 * s.gates) * s.ff);
  const std::size_t lanes = lanes_before(s.options.placements, s.options.block.lanes, layers);
  if (lanes > 1) bytes += (2 * lanes + 3) * s.rows * s.d * kFloat;  // gradients of the lanes
  const std::size_t scratch = s.rows * s.branch * (6 * s.d + (1 + s.gates) * s.ff);
  const std::size_t logits = s.rows * s.options.vocabulary * kFloat;
  const std::size_t outside = s.rows * s.d * (2 * kFloat + s.branch);
  return bytes + scratch + logits + outside + widened_bytes(s);
}

/// Returns the number that is a file's only content; nothing if there is none ("max").
std::optional<std::size_t> number_of(const char* file) {
  std::size_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return {};
}

/// Returns the number after `key` in a file of such pairs.
std::optional<std::size_t> number_after(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t number = 0;
    if (words >> name >> number && name == key) return number;
  }
  return {};
}

/// Returns the bytes that a control group can still allocate. Its cached files count as free.
std::optional<std::size_t> left_by_group() {
  const auto limit = number_of("/sys/fs/cgroup/memory.max");
  const auto used = number_of("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return {};
  const std::size_t cached =
      number_after("/sys/fs/cgroup/memory.stat", "inactive_file").value_or(0);
  const std::size_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

/// Returns the bytes of the tokens of the batch, and of all batches of a validation.
std::size_t token_bytes(const RunConfig& config) {
  const std::size_t batches = 1 + config.validation_batches;
  return batches * config.batch * config.context * 2 * sizeof(std::int32_t);
}

}  // namespace

MemoryEstimate estimate_memory(const RunConfig& config, std::size_t processes) {
  const Sizes sizes(config, processes);
  const std::size_t parameters = count_parameters(sizes);
  const std::size_t rounded = sizes.branch == kFloat ? 0 : linear_weights(sizes) * sizeof(BFloat16);
  return {.parameters = parameters,
          .weights = 2 * kFloat * parameters + rounded,
          .optimizer = 2 * kFloat * parameters,
          .activations = activation_bytes(sizes) + token_bytes(config),
          .exchange = processes == 1 ? 0 : 2 * kFloat * parameters};
}

std::optional<std::size_t> available_memory() {
  std::optional<std::size_t> available = number_after("/proc/meminfo", "MemAvailable:");
  if (available) *available *= 1024;  // convert from KiB
  if (const auto left = left_by_group()) available = std::min(available.value_or(*left), *left);
  return available;
}

void check_memory(std::size_t needed) {
  const std::optional<std::size_t> available = available_memory();
  require(
      !available || needed <= *available,
      "the run takes about {} of memory, and {} are free; a smaller --batch, --context, --width "
      "or --layers takes less",
      memory_text(needed), memory_text(available.value_or(0)));
}

std::string memory_text(std::size_t bytes) {
  const double size = static_cast<double>(bytes);
  return size < 1e9 ? fmt::format("{:.0f} MB", size / 1e6) : fmt::format("{:.2f} GB", size / 1e9);
}

}  // namespace addnorm::run
