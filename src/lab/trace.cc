#include "lab/trace.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/check.h"

namespace addnorm::lab {
namespace {

using Vector = std::vector<double>;

MatrixView<const double> row_of(std::span<const double> values) {
  return {values.data(), 1, values.size()};
}
MatrixView<double> row_of(Vector& values) {
  return {values.data(), 1, values.size()};
}

/// One value for each of `size` from none, one or all.
Vector widen(std::string_view name, std::span<const double> values, std::size_t size,
             double otherwise) {
  if (values.empty()) return Vector(size, otherwise);
  if (values.size() == 1) return Vector(size, values[0]);
  require(values.size() == size, "{}: has {} values; expected 1 or {}, as many as x", name,
          values.size(), size);
  return {values.begin(), values.end()};
}

/// The norm of one row, with its statistics.
NormStatistics<double> normalize(const TraceArgs& args, const Vector& values, Trace& result) {
  NormStatistics<double> statistics;
  result.normalized.resize(values.size());
  result.norm_output.resize(values.size());
  add_norm_forward<double>(args.norm, {.add = {.x = row_of(values)},
                                       .y = row_of(result.normalized),
                                       .statistics = {&statistics, 1}});
  add_norm_forward<double>(args.norm, {.add = {.x = row_of(values)},
                                       .gamma = result.gamma,
                                       .beta = result.beta,
                                       .y = row_of(result.norm_output)});
  return statistics;
}

}  // namespace

Trace trace(const TraceArgs& args) {
  const std::size_t n = args.x.size();
  kernels::check_norm_options("x", args.norm, n);
  require(normalizes_rows(args.norm.kind), "norm: the kind is {}; expected layer or rms",
          to_string(args.norm.kind));
  require(args.branch.empty() || args.branch.size() == n,
          "branch: has {} values; expected {}, as many as x", args.branch.size(), n);
  Trace result{.x = {args.x.begin(), args.x.end()},
               .branch = {args.branch.begin(), args.branch.end()},
               .sum = Vector(n),
               .gamma = widen("gamma", args.gamma, n, 1),
               .beta = widen("beta", args.beta, n, 0)};
  residual_add<double>({.x = row_of(args.x), .branch = row_of(args.branch)}, row_of(result.sum));

  const bool of_input = args.placement == TracePlacement::kPre;
  const auto statistics = normalize(args, of_input ? result.x : result.sum, result);
  result.mean = statistics.mean();
  result.variance = statistics.variance / statistics.scale / statistics.scale;
  result.deviation = statistics.deviation();

  if (args.placement == TracePlacement::kNone) {
    result.normalized.clear();
    result.norm_output.clear();
  }
  const bool ends_with_sum = args.placement == TracePlacement::kNone ||
                             (args.placement == TracePlacement::kPre && !args.branch.empty());
  result.output = ends_with_sum ? result.sum : result.norm_output;
  return result;
}

nlohmann::ordered_json to_json(const Trace& trace) {
  using Json = nlohmann::ordered_json;
  const auto optional = [](const Vector& values) { return values.empty() ? Json() : Json(values); };
  return {{"x", trace.x},
          {"branch", optional(trace.branch)},
          {"sum", trace.sum},
          {"mean", trace.mean},
          {"variance", trace.variance},
          {"deviation", trace.deviation},
          {"normalized", optional(trace.normalized)},
          {"output", trace.output}};
}

}  // namespace addnorm::lab
