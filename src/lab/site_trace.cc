#include "lab/site_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "addnorm/nn/add_norm.h"
#include "addnorm/nn/stream_ends.h"
#include "base/require.h"
#include "kernels/check.h"
#include "lab/given_sublayer.h"
#include "nn/lane_mix.h"
#include "nn/slot.h"

namespace addnorm::lab {
namespace {

using Vector = std::vector<double>;
using View = MatrixView<const double>;

Vector vector_of(View row) {
  return {row.row(0).begin(), row.row(0).end()};
}
Rows rows_of(const LaneList<const double>& lanes) {
  Rows rows;
  for (const View& lane : lanes) rows.push_back(vector_of(lane));
  return rows;
}
View view_of(const Vector& row) {
  return {row.data(), 1, row.size()};
}
/// Returns `numbers` in rows of `cols`.
Rows in_rows(std::span<const double> numbers, std::size_t cols) {
  Rows rows;
  for (std::size_t i = 0; i < numbers.size(); i += cols) {
    const auto row = numbers.subspan(i, cols);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

std::string count(std::size_t lanes) {
  return fmt::format("{} lane{}", lanes, lanes == 1 ? "" : "s");
}
std::string words(const Place& place) {
  return fmt::format("{} of layer {}", to_string(place.sublayer), place.depth.layer);
}

/// Returns m·X, computed as in a stack.
Rows mixed(const Rows& m, const Rows& x) {
  Vector numbers;
  for (const Vector& row : m) numbers.insert(numbers.end(), row.begin(), row.end());
  Rows out(m.size(), Vector(x.front().size()));
  LaneList<const double> from;
  for (const Vector& lane : x) from.push_back(view_of(lane));
  LaneList<double> to;
  for (Vector& lane : out) to.push_back({lane.data(), 1, lane.size()});
  nn::mix<double>(view_of(numbers), from, to, nn::Into::kReplace);
  return out;
}

/// Records the values at each point; if several mixes are read, the first.
class Passing final : public Probe<double> {
 public:
  void forward(const Site& site, View values) override {
    if (site.point == Point::kSum) sum.push_back(vector_of(values));
    if (site.lane > 0) return;
    if (site.point == Point::kX) z = vector_of(values);
    if (site.point == Point::kBefore) h = vector_of(values);
    if (site.point == Point::kInside) f = vector_of(values);
  }
  void backward(const Site&, View) override {}

  Vector z, h, f;
  Rows sum;
};

}  // namespace

TraceSite find_site(const SiteArgs& args) {
  require(args.layers > 0, "layers: is 0; expected at least 1");
  require(args.layer <= args.layers, "layer: is {}; expected 1 to {}, the number of layers",
          args.layer, args.layers);
  TraceSite site{.placements = parse_placements(args.placement, args.layers)};
  const LaneForm& first = site.placements.front().attention.lanes;
  const bool chosen = args.given_lanes > 1 && !first.grows;
  const std::size_t asked = args.lanes == 0 && chosen ? args.given_lanes : args.lanes;
  site.starting_lanes = lanes_before(site.placements, asked, 0);

  std::vector<std::pair<Placement, Place>> fitting;
  for_each_add_norm(site.placements, site.starting_lanes, args.layers,
                    [&](const Placement& placement, const Place& place) {
                      const bool in_layer = args.layer == 0 || args.layer == place.depth.layer;
                      if (in_layer && args.sublayer.value_or(place.sublayer) == place.sublayer) {
                        fitting.emplace_back(placement, place);
                      }
                    });
  require(!fitting.empty(),
          "sublayer: placement \"{}\" has one site for attention and feed_forward; expected no "
          "sublayer",
          args.placement);
  // A stream that grows has the given number of lanes at one place at most.
  const auto found = std::ranges::find_if(fitting, [&](const auto& at) {
    return !at.first.lanes.grows || at.second.lanes == args.given_lanes;
  });
  require(found != fitting.end(), "x: has {}; expected {} to {} for placement \"{}\" there",
          count(args.given_lanes), fitting.front().second.lanes, fitting.back().second.lanes,
          args.placement);
  std::tie(site.placement, site.place) = *found;
  starting_lanes(site.placement, site.placement.lanes.grows ? 0 : site.place.lanes);
  require(args.given_lanes == 1 || args.given_lanes == site.place.lanes,
          "x: has {}; expected 1 or {} for placement \"{}\" in {}", count(args.given_lanes),
          site.place.lanes, args.placement, words(site.place));
  return site;
}

std::optional<TracePlacement> short_form(const TraceSite& site) {
  const auto names = names_of(TracePlacement{});
  const auto found = std::ranges::find(names, site.placement.name);
  if (found == names.end()) return {};
  return static_cast<TracePlacement>(found - names.begin());
}

namespace {

class SiteTracer {
 public:
  SiteTracer(const TraceSite& site, const SiteTraceArgs& args);
  SiteTrace run();

 private:
  ResidualStream<double> stream();
  void set_norms();
  void keep_mixes(const LaneSite<double>& lanes);
  NormTrace norm_of(Slot slot, const std::string& name, const Vector& values, double scale = 1);

  const TraceSite& site_;
  const SiteTraceArgs& args_;
  const LaneForm& form_;
  std::size_t d_model_;
  std::size_t features_;  // of a lane
  AddNormOptions options_;
  AddNorm<double> add_norm_;
  std::optional<StreamEnds<double>> ends_;  // where the stream begins
  ParameterList<double> parameters_;
  Pass<double> pass_{.mode = Mode::kEvaluation};
  SiteTrace result_;
};

/// The number of features of the model.
std::size_t width_of(const TraceSite& site, const SiteTraceArgs& args) {
  const Rows::value_type& first = args.x.front();
  kernels::check_norm_options("x", args.norm, first.size());
  require(normalizes_rows(args.norm.kind), "norm: the kind is {}; expected layer or rms",
          to_string(args.norm.kind));
  for (std::size_t i = 1; i < args.x.size(); ++i) {
    require(args.x[i].size() == first.size(), "x: lane {} has {}; expected {}, as lane 0", i,
            args.x[i].size(), first.size());
  }
  const bool splits = site.placement.lanes.splits_features;
  const std::size_t d_model = splits ? first.size() * args.x.size() : first.size();
  require(!splits || d_model % site.place.lanes == 0,
          "x: {} features do not make {} lanes of equal width", d_model, site.place.lanes);
  require(args.branch.empty() || args.branch.size() == d_model,
          "branch: has {} values; expected {}, as many as x", args.branch.size(), d_model);
  return d_model;
}

SiteTracer::SiteTracer(const TraceSite& site, const SiteTraceArgs& args)
    : site_(site),
      args_(args),
      form_(site.placement.lanes),
      d_model_(width_of(site, args)),
      features_(form_.splits_features ? d_model_ / site.place.lanes : d_model_),
      options_{.d_model = d_model_,
               .norm = args.norm,
               .depth = site.place.depth,
               .sublayer = site.place.sublayer,
               .lanes = site.place.lanes},
      add_norm_(site.placement, options_) {
  result_.placement = site.placement;
  result_.place = site.place;
  result_.norm = args.norm;
  const bool all_given = args.x.size() == site.place.lanes && args.x.size() > 1;
  result_.begins = form_.several() ? !all_given : site.place.site() == 0;
  if (result_.begins) {
    ends_.emplace(site.placements, site.starting_lanes, d_model_, args.norm, options_.affine);
    ends_->list_entry_parameters("entry", parameters_);
  }
  add_norm_.list_parameters("", parameters_);
  set_norms();
}

/// Sets γ and β of every norm, if given.
void SiteTracer::set_norms() {
  for (const NamedParameter<double>& entry : parameters_) {
    const auto set = [&](std::string_view name, std::span<const double> given) {
      if (given.empty() || !entry.name.ends_with(name)) return;
      const std::span<double> values = entry.parameter->value.flat();
      std::ranges::copy(widen(name.substr(1), given, values.size(), 0), values.begin());
    };
    set(".gamma", args_.gamma);
    set(".beta", args_.beta);
  }
}

/// Returns the stream before the sublayer.
ResidualStream<double> SiteTracer::stream() {
  const View first = view_of(args_.x.front());
  if (ends_) return ends_->enter(first, pass_);
  if (!form_.several()) return ResidualStream<double>(first);
  LaneList<const double> lanes;
  for (const Vector& lane : args_.x) lanes.push_back(view_of(lane));
  return ResidualStream<double>(lanes);
}

/// Records a, A and b of X′ = A·X + b ⊗ u, also if the sublayer changes one lane or appends one.
void SiteTracer::keep_mixes(const LaneSite<double>& lanes) {
  const std::size_t n = lanes.lanes();
  const std::size_t parts = form_.splits_features ? n : 1;
  result_.read_from = rows_of(lanes.read_from());
  result_.read = in_rows(lanes.read_numbers().row(0), result_.read_from.size());
  if (lanes.changes() == Changes::kAll) {
    result_.carry = in_rows(lanes.carry_numbers().row(0), n);
    result_.write = in_rows(lanes.write_numbers().row(0), parts);
    return;
  }
  result_.carry.assign(n, Vector(n));
  for (std::size_t i = 0; i < n; ++i) result_.carry[i][i] = 1;
  if (lanes.changes() == Changes::kAppend) {
    result_.carry.push_back(in_rows(lanes.carry_numbers().row(0), n).front());
  }
  result_.write.assign(result_.carry.size(), {0});
  result_.write.back() = {1};
}

/// Returns the steps of the slot's norm, with its γ and β.
NormTrace SiteTracer::norm_of(Slot slot, const std::string& name, const Vector& values,
                              double scale) {
  std::optional<Norm<double>> norm;
  nn::emplace_norm(slot, norm, args_.norm, values.size(), Affine::kNone, scale);
  Vector gamma, beta;
  for (const NamedParameter<double>& entry : parameters_) {
    const std::span<const double> numbers = entry.parameter->value.flat();
    if (entry.name == name + ".gamma") gamma.assign(numbers.begin(), numbers.end());
    if (entry.name == name + ".beta") beta.assign(numbers.begin(), numbers.end());
  }
  NormTrace result = trace_norm(norm->options(), values, gamma, beta);
  result.is_unit = slot == Slot::kUnit;
  return result;
}

SiteTrace SiteTracer::run() {
  Passing passing;
  pass_.probe = &passing;
  ResidualStream<double> stream = this->stream();
  if (form_.several()) {
    result_.lanes = rows_of(stream.lanes());
    // The weights of a mix that is computed from the previous stream start at 0, so the values of
    // that stream do not matter.
    stream = ResidualStream<double>(stream.lanes(), stream.lanes());
  } else {
    result_.lanes = {vector_of(stream.value())};
  }
  const Slot entry = site_.placements.front().attention.entry;
  if (result_.begins && entry != Slot::kNothing) {
    result_.entry = norm_of(entry, "entry", args_.x.front());
  }
  const Vector branch(args_.branch.begin(), args_.branch.end());
  GivenSublayer sublayer(branch.empty() ? View() : view_of(branch));
  add_norm_.forward(stream, sublayer, pass_);

  const Placement& p = site_.placement;
  if (form_.several()) {
    keep_mixes(*add_norm_.lanes());
  } else {
    const InitialMixes mixes = initial_mixes(p, site_.place);
    result_.read = {mixes.read}, result_.carry = {mixes.carry}, result_.write = {mixes.write};
    result_.read_from = result_.lanes;
  }
  result_.z = passing.z;
  if (p.before != Slot::kNothing) {
    const std::string name = form_.reads(site_.place) > 1 ? "before.0" : "before";
    result_.before = norm_of(p.before, name, passing.z, p.before_scale.value(site_.place.depth));
  }
  result_.h = p.before == Slot::kNothing ? passing.z : passing.h;
  if (branch.empty()) return std::move(result_);

  result_.branch = branch;
  if (p.inside != Slot::kNothing) result_.inside = norm_of(p.inside, "inside", branch);
  result_.f = p.inside == Slot::kNothing ? branch : passing.f;
  result_.u = vector_of(add_norm_.added());
  result_.carried = mixed(result_.carry, result_.lanes);
  result_.written = mixed(result_.write, in_rows(result_.u, features_));
  result_.sum = passing.sum;
  if (p.after != Slot::kNothing) result_.after = norm_of(p.after, "after", passing.sum.front());
  result_.output = form_.several() ? rows_of(stream.lanes()) : Rows{vector_of(stream.value())};
  return std::move(result_);
}

using Json = nlohmann::ordered_json;

template <typename Values>
Json optional(const Values& values) {
  return values.empty() ? Json() : Json(values);
}

Json norms_json(const SiteTrace& t) {
  Json norms = Json::object();
  const auto add = [&](const char* name, const std::optional<NormTrace>& norm) {
    if (!norm) return;
    norms[name] = {{"mean", norm->mean},
                   {"variance", norm->variance},
                   {"deviation", norm->deviation},
                   {"normalized", norm->normalized},
                   {"output", norm->output}};
  };
  add("entry", t.entry);
  add("before", t.before);
  add("inside", t.inside);
  add("after", t.after);
  return norms;
}

/// The keys of to_json(Trace).
Json one_lane_json(const SiteTrace& t) {
  const auto one = [](const Rows& rows) { return rows.empty() ? Json() : Json(rows.front()); };
  Json json{{"x", t.lanes.front()}, {"branch", optional(t.branch)}, {"sum", one(t.sum)}};
  NormTrace measured;
  if (!t.before && !t.after && !t.inside) {
    measured = trace_norm(t.norm, t.sum.empty() ? t.z : t.sum.front());
    measured.normalized.clear();
  }
  const NormTrace& norm = t.before   ? *t.before
                          : t.after  ? *t.after
                          : t.inside ? *t.inside
                                     : measured;
  json["mean"] = norm.mean;
  json["variance"] = norm.variance;
  json["deviation"] = norm.deviation;
  json["normalized"] = optional(norm.normalized);
  json["output"] = one(t.output);
  return json;
}

}  // namespace

SiteTrace trace_site(const TraceSite& site, const SiteTraceArgs& args) {
  require(!args.x.empty(), "x: is empty; expected at least one value");
  return SiteTracer(site, args).run();
}

Json to_json(const SiteTrace& t) {
  const bool several = t.placement.lanes.several();
  Json json = several ? Json::object() : one_lane_json(t);
  json["placement"] = t.placement.name;
  json["layer"] = t.place.depth.layer;
  json["layers"] = t.place.depth.layers;
  json["sublayer"] = to_string(t.place.sublayer);
  if (several) {
    json["lanes"] = t.lanes;
    json["read"] = t.read;
    json["carry"] = t.carry;
    json["write"] = t.write;
    json["read_from"] = t.read_from;
    json["z"] = t.z;
  } else {
    json["skip"] = t.carry.front().front();
    json["gain"] = t.write.front().front();
  }
  json["norms"] = norms_json(t);
  json["h"] = t.h;
  if (several) json["branch"] = optional(t.branch);
  json["f"] = optional(t.f);
  json["u"] = optional(t.u);
  if (several) {
    json["carried"] = optional(t.carried);
    json["written"] = optional(t.written);
    json["sum"] = optional(t.sum);
    json["output"] = optional(t.output);
  }
  return json;
}

}  // namespace addnorm::lab
