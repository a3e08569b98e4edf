#include "wasm/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

#include "base/require.h"
#include "lab/carry_product.h"
#include "nn/lane_mix.h"
#include "nn/mix_map.h"
#include "theory/depth_mixing.h"

namespace addnorm {
namespace {

using Numbers = std::vector<double>;
using theory::BareStack;

bool is_covered(const Placement& row) {
  return theory::covers_stream({{row, row}});
}

std::string row_json(const Placement& p) {
  const LaneForm& lanes = p.lanes;
  const bool several = lanes.several();
  return fmt::format(
      R"({{"row":{},"name":"{}","usedBy":"{}","source":"{}","least":{},"usual":{},"most":{},"grows":{},)"
      R"("before":{},"inside":{},"after":{},"lastLane":{},)"
      R"("formulas":{{"read":"{}","carry":"{}","write":"{}","exit":"{}"}}}})",
      &p - placements().data(), p.name, p.used_by, p.source, lanes.least, lanes.usual, lanes.most,
      lanes.grows, p.before != Slot::kNothing, p.inside != Slot::kNothing,
      p.after != Slot::kNothing, lanes.last_lane != Slot::kNothing, lanes.read.formula,
      several ? lanes.carry.formula : p.skip.initial.formula,
      several ? lanes.write.formula : p.gain.initial.formula, lanes.exit.formula);
}

/// Returns a number in JSON. JSON has only finite numbers, so others become null.
std::string json(double v) {
  return std::isfinite(v) ? fmt::format("{}", v) : "null";
}
std::string json(const Numbers& values) {
  const auto texts = values | std::views::transform([](double v) { return json(v); });
  return fmt::format("[{}]", fmt::join(texts, ","));
}
std::string json(const std::vector<Numbers>& rows) {
  const auto texts = rows | std::views::transform([](const Numbers& row) { return json(row); });
  return fmt::format("[{}]", fmt::join(texts, ","));
}

std::string sublayer_json(const theory::LaneNumbers& n) {
  return fmt::format(R"({{"lanes":{},"lanesAfter":{},"read":{},"carry":{},"write":{}}})", n.lanes,
                     n.lanes_after, json(n.read), json(n.carry), json(n.write));
}

/// Hyper-connections with the reader's learned numbers, the same at every sublayer.
BareStack own_stack(const LaneStack& asked) {
  const std::size_t n = asked.lanes;
  Placement own = find_placement("hyper");
  require(n >= 1 && n <= own.lanes.most, "a stream cannot have {} lanes", n);
  own.lanes.least = own.lanes.usual = n;
  const auto numbers = [](const double* first, std::size_t count) {
    return Numbers(first, first + count);
  };
  BareStack stack{.placements = std::vector<BlockPlacement>(asked.layers, {own, own})};
  stack.learned.assign(2 * asked.layers, {.read = numbers(asked.read, n),
                                          .carry = numbers(asked.carry, n * n),
                                          .write = numbers(asked.write, n)});
  stack.learned.emplace_back();  // for the exit, the sum of all lanes
  return stack;
}

/// Returns the learned numbers of a mix at their initial values.
Numbers learned_numbers(const MixForm& form, const Place& place, const MixShape& shape) {
  Numbers numbers;
  for (std::size_t k = 0; k < nn::MixMap<double>::logits_of(form.map, shape.to, shape.from); ++k) {
    const std::size_t to = k / shape.from, from = k % shape.from;
    if (form.learned(place, to, from)) numbers.push_back(form.base(place, to, from));
  }
  return numbers;
}

/// Draws the learned numbers, as lab::BareStream does.
void draw_numbers(BareStack& stack, const lab::MixDraw& draw) {
  const auto drawn = [&](const MixForm& form, MixUse use, const Place& place,
                         const MixShape& shape) {
    Numbers numbers = learned_numbers(form, place, shape);
    draw.move(numbers, stack.learned.size(), use);
    return numbers;
  };
  const auto add = [&](const Placement& placement, const Place& place) {
    const LaneForm& form = placement.lanes;
    const std::size_t n = place.lanes;
    const bool appends = form.changes(place) == Changes::kAppend;
    const std::size_t read_from = form.reads_carried ? n + appends : n;
    stack.learned.push_back(
        {.read = drawn(form.read, MixUse::kRead, place, {form.reads(place), read_from}),
         .carry = drawn(form.carry, MixUse::kCarry, place, {appends ? 1 : n, n}),
         .write = drawn(form.write, MixUse::kWrite, place, {n})});
  };
  const std::size_t layers = stack.placements.size();
  const std::size_t lanes =
      for_each_add_norm(stack.placements, lanes_before(stack.placements, 0, 0), layers, add);
  const LaneForm& last = stack.placements.back().feed_forward.lanes;
  const Place behind{.depth = {layers + 1, layers}, .lanes = lanes};
  stack.learned.push_back({.read = drawn(last.exit, MixUse::kRead, behind, {.from = lanes})});
}

BareStack stack_of_row(const LaneStack& asked) {
  require(asked.row < placements().size(), "there is no row {}", asked.row);
  Placement row = placements()[asked.row];
  require(is_covered(row), "theory does not cover the stream of \"{}\"", row.name);
  if (row.lanes.several() && !row.lanes.grows) {
    row.lanes.usual = starting_lanes(row, asked.lanes);
  }
  BareStack stack{.placements = std::vector<BlockPlacement>(asked.layers, {row, row})};
  if (asked.moved != 0) {
    lab::DrawnStack drawn = lab::drawn_stack(std::move(stack.placements));
    stack.placements = std::move(drawn.placements);
    if (row.lanes.several()) draw_numbers(stack, {drawn.spread, asked.seed});
  }
  return stack;
}

BareStack stack_of(const LaneStack& asked) {
  require(asked.layers >= 1 && asked.layers <= 64, "a stack cannot have {} layers", asked.layers);
  return asked.read == nullptr ? stack_of_row(asked) : own_stack(asked);
}

/// Returns each of count · features values as a lane.
template <typename T>
LaneList<T> lanes_at(T* values, std::size_t count, std::size_t features) {
  return nn::lanes_of(MatrixView<T>(values, count, features), count);
}

}  // namespace

std::string lane_rows_json() {
  return fmt::format("[{}]", fmt::join(placements() | std::views::filter(is_covered) |
                                           std::views::transform(row_json),
                                       ","));
}

std::string lane_numbers_json(const LaneStack& asked) {
  return fmt::format(
      "[{}]",
      fmt::join(theory::lane_numbers(stack_of(asked)) | std::views::transform(sublayer_json), ","));
}

std::string lane_mixing_json(const LaneStack& asked) {
  return json(theory::depth_mixing(stack_of(asked)));
}

std::string lanes_carried_json(const LaneStack& asked) {
  const BareStack stack = stack_of(asked);
  Numbers left, gain;
  if (lab::has_no_product(stack.placements).empty()) {
    const std::vector<theory::LaneNumbers> numbers = theory::lane_numbers(stack);
    const std::size_t n = numbers.front().lanes;
    for (const Numbers& product : lab::products(numbers)) {
      left.push_back(lab::difference_left(product, n));
      gain.push_back(lab::largest_sum(product, n));
    }
  }
  return fmt::format(R"({{"left":{},"gain":{}}})", json(left), json(gain));
}

void take_lane_step(const LaneStep& s) {
  const std::size_t n = s.lanes, after = s.lanes_after, d = s.features;
  const auto mix = [](const double* numbers, const LaneList<const double>& in,
                      const LaneList<double>& out, nn::Into into) {
    nn::mix<double>({numbers, 1, in.size() * out.size()}, in, out, into);
  };
  const LaneList<const double> x = lanes_at(s.x, n, d);
  const LaneList<double> next = lanes_at(s.next, after, d);
  mix(s.read, x, lanes_at(s.z, 1, d), nn::Into::kReplace);
  mix(s.carry, x, next, nn::Into::kReplace);
  mix(s.write, lanes_at(s.f, 1, d), next, nn::Into::kAdd);
}

void find_lane_gradient(const LaneGradient& g) {
  const std::size_t n = g.lanes, numbers = n * n;
  const std::span<double> carry(g.carry, numbers), d_carry(g.d_carry, numbers);
  const std::span<const double> logits(g.logits, numbers);
  const nn::MixMap<double> sinkhorn(MixForm::Map::kSinkhorn, n, n);
  sinkhorn.forward(logits, carry);
  Matrix<double> dx(n, g.features);
  std::ranges::fill(d_carry, 0);
  const LaneList<const double> x = lanes_at(g.x, n, g.features),
                               d_next = lanes_at(g.d_next, n, g.features);
  nn::mix_backward<double>({.m = {carry.data(), 1, numbers},
                            .in = x,
                            .d_out = d_next,
                            .d_in = nn::lanes_of(dx.view(), n),
                            .d_m = {d_carry.data(), 1, numbers}});
  sinkhorn.backward(logits, carry, d_carry, std::span(g.d_logits, numbers));
}

}  // namespace addnorm
