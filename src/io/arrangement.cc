#include "io/arrangement.h"

#include <array>
#include <optional>
#include <vector>

#include "addnorm/nn/lane_coefficients.h"
#include "addnorm/nn/lane_site.h"
#include "addnorm/nn/placement.h"
#include "base/require.h"
#include "io/json.h"
#include "nn/mix_map.h"

namespace addnorm::io {
namespace {

/// Returns the name of an enumerator; `names` has one for each, in order.
template <typename E, std::size_t kCount>
std::string_view name(E value, const std::array<std::string_view, kCount>& names) {
  return names.at(static_cast<std::size_t>(value));
}

std::string_view name(Slot slot) {
  return name(slot, std::to_array<std::string_view>({"nothing", "norm", "unit"}));
}
std::string_view name(Update update) {
  return name(update,
              std::to_array<std::string_view>({"branch", "difference", "gated", "orthogonal"}));
}
std::string_view name(Changes changes) {
  return name(changes, std::to_array<std::string_view>({"all", "last", "append"}));
}
std::string_view name(ResidualFactor::Form form) {
  return name(form, std::to_array<std::string_view>(
                        {"constant", "learned-scalar", "learned-vector", "learned-magnitudes"}));
}
std::string_view name(MixForm::Source source) {
  return name(source,
              std::to_array<std::string_view>({"none", "stream", "previous", "lane", "last"}));
}
std::string_view name(MixForm::Act act) {
  return name(act, std::to_array<std::string_view>({"none", "tanh"}));
}
std::string_view name(MixForm::Gate gate) {
  return name(gate, std::to_array<std::string_view>({"none", "sigmoid"}));
}
std::string_view name(MixForm::Map map) {
  return name(map, std::to_array<std::string_view>(
                       {"none", "sigmoid", "two-sigmoid", "softmax", "sinkhorn", "permutations"}));
}

Json mix_json(const MixForm& given, MixUse use, const Place& place, const MixShape& shape) {
  const MixForm form = form_at(given, place);
  Json base = Json::array(), learned = Json::array();
  const std::size_t logits = nn::MixMap<double>::logits_of(form.map, shape.to, shape.from);
  for (std::size_t k = 0; k < logits; ++k) {
    base.push_back(form.base(place, k / shape.from, k % shape.from));
    if (form.learned(place, k / shape.from, k % shape.from)) learned.push_back(k);
  }
  const MixWeights weights = mix_weights(given, use, place, shape);
  return {{"to", shape.to},
          {"from", shape.from},
          {"base", base},
          {"learned", learned},
          {"gate", name(form.gate)},
          {"source", name(form.source)},
          {"weight", weights.rows == 0 ? Json() : Json{weights.rows, weights.cols}},
          {"act", name(form.act)},
          {"scale", form.scale},
          {"map", name(form.map)}};
}

/// A mix of constants. The last number of its only row is 1, and all others are 0.
Json last_of(std::size_t from) {
  const MixForm form{.base = [](const Place& place, std::size_t, std::size_t k) {
    return double(k + 1 == place.lanes);
  }};
  return mix_json(form, MixUse::kCarry, {.lanes = from}, {.to = 1, .from = from});
}

/// The keys of a read, which a site and the exit of a stream have.
Json read_json(const LaneForm& form, const Place& place, const MixShapes& shapes) {
  const std::size_t width = source_width(form.read.source, place, shapes.features);
  return {{"lanes", place.lanes},
          {"features", shapes.features},
          {"reads", form.reads(place)},
          {"parts", form.splits_features ? place.lanes : 1},
          {"reads_carried", form.reads_carried},
          {"last_lane", name(form.last_lane)},
          {"hidden", shapes.hidden == 0 ? Json() : Json{shapes.hidden, width}},
          {"read", mix_json(form.read, MixUse::kRead, place, shapes.read)}};
}

/// The keys of carry and write.
Json write_json(const LaneForm& form, const Place& place, const MixShapes& shapes) {
  const Changes changes = form.changes(place);
  const std::size_t n = place.lanes;
  Json json{{"changes", name(changes)}};
  json["keeps"] = changes == Changes::kAll ? 0 : changes == Changes::kLast ? n - 1 : n;
  json["carry"] =
      shapes.carry ? mix_json(form.carry, MixUse::kCarry, place, *shapes.carry) : last_of(n);
  json["write"] =
      shapes.write ? mix_json(form.write, MixUse::kWrite, place, *shapes.write) : last_of(1);
  return json;
}

Json factor_json(const ResidualFactor& factor, Depth depth) {
  return {{"form", name(factor.form)}, {"initial", factor.initial.value(depth)}};
}

/// Writes sites one after the other, and checks that they fit together.
class Sites {
 public:
  Sites(std::size_t lanes, std::size_t d_model) : lanes_(lanes), d_model_(d_model) {}

  void add(const Placement& placement, const Place& place) {
    starting_lanes(placement, lanes_);  // checks the number
    const LaneForm& form = placement.lanes;
    const MixShapes shapes(form, place, d_model_);
    require(!form.splits_features || d_model_ % place.lanes == 0,
            "d_model is {}, must be divisible by {}: the lanes of placement \"{}\" are parts of "
            "the features",
            d_model_, place.lanes, placement.name);
    if (list_.empty()) features_ = shapes.features;
    require(shapes.features == features_,
            "placement \"{}\" has lanes of {} features, cannot be mixed with lanes of {}",
            placement.name, shapes.features, features_);
    const bool adds_f =
        placement.update == Update::kBranch && placement.survival.value(place.depth) == 1;
    require(form.reads(place) == 1 || adds_f,
            "placement \"{}\" reads {} mixes of lanes, so its update must be f itself",
            placement.name, form.reads(place));

    const bool parallel = placement.sublayers == Sublayers::kParallel;
    const Depth depth = place.depth;
    Json site{{"name", fmt::format("layers.{}.{}_add_norm", depth.layer - 1,
                                   name(place.sublayer, names_of(place.sublayer)))},
              {"placement", placement.name},
              {"layer", depth.layer},
              {"sublayer", name(place.sublayer, names_of(place.sublayer))},
              {"sublayers", parallel ? 2 : 1},
              {"before", name(placement.before)},
              {"inside", name(placement.inside)},
              {"after", name(placement.after)},
              {"before_scale", placement.before_scale.value(depth)},
              {"inside_gamma", placement.inside_gamma.value(depth)},
              {"initial_gain", placement.initial_gain.value(depth)},
              {"survival", placement.survival.value(depth)},
              {"update", name(placement.update)}};
    site.update(read_json(form, place, shapes));
    if (form.several()) {
      site.update(write_json(form, place, shapes));
    } else {
      site["changes"] = name(Changes::kAll);
      site["keeps"] = 0;
      site["skip"] = factor_json(placement.skip, depth);
      site["gain"] = factor_json(placement.gain, depth);
    }
    list_.push_back(site);
    lanes_ = place.lanes + (form.changes(place) == Changes::kAppend);
  }

  std::size_t features() const { return features_; }  ///< of a lane
  const Json& list() const { return list_; }

 private:
  std::size_t lanes_, d_model_, features_ = 0;
  Json list_ = Json::array();
};

}  // namespace

std::string arrangement_json(std::string_view placement, std::size_t layers, std::size_t lanes,
                             std::size_t d_model) {
  require(layers > 0, "layers is 0, must be at least 1");
  require(d_model > 0, "d_model is 0, must be at least 1");
  const std::vector<BlockPlacement> blocks = parse_placements(placement, layers);
  for (const auto& [attention, feed_forward] : blocks) {
    require(attention.sublayers == feed_forward.sublayers,
            "placement \"{}\": both sublayers stand side by side, or none", placement);
  }
  const Placement& first = blocks.front().attention;
  const Placement& last = blocks.back().feed_forward;
  const std::size_t start = lanes_before(blocks, lanes, 0);
  Sites sites(start, d_model);
  const std::size_t left = for_each_add_norm(
      blocks, start, layers, [&](const Placement& p, const Place& at) { sites.add(p, at); });

  Json enter = Json::array();
  for (std::size_t i = 0; i < start; ++i) enter.push_back(first.lanes.enter(i));
  const Place behind{.depth = {layers + 1, layers}, .lanes = left};
  const LaneForm exit = last.lanes.several() ? exit_form(last.lanes) : LaneForm();
  return Json{{"layers", layers},
              {"d_model", d_model},
              {"features", sites.features()},
              {"enter", enter},
              {"entry", name(first.entry)},
              {"sites", sites.list()},
              {"exit", read_json(exit, behind, MixShapes(exit, behind, d_model))},
              {"final_norm", name(last.final_norm)}}
      .dump();
}

std::string arrangement_names_json() {
  Json names = Json::array();
  for (const Placement& placement : placements()) names.push_back(placement.name);
  for (const Mixture& mixture : mixtures()) names.push_back(mixture.name);
  return names.dump();
}

}  // namespace addnorm::io
