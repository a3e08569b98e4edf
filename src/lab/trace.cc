#include "lab/trace.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

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

}  // namespace

Vector widen(std::string_view name, std::span<const double> values, std::size_t size,
             double otherwise) {
  if (values.empty()) return Vector(size, otherwise);
  if (values.size() == 1) return Vector(size, values[0]);
  require(values.size() == size, "{}: has {} values; expected 1 or {}, as many as x", name,
          values.size(), size);
  return {values.begin(), values.end()};
}

NormTrace trace_norm(const NormOptions& options, std::span<const double> values,
                     std::span<const double> gamma, std::span<const double> beta) {
  const std::size_t n = values.size();
  NormTrace result{.options = options,
                   .values = {values.begin(), values.end()},
                   .normalized = Vector(n),
                   .gamma = widen("gamma", gamma, n, 1),
                   .beta = widen("beta", beta, n, 0),
                   .output = Vector(n)};
  NormStatistics<double> statistics;
  NormOptions plain = options;
  plain.output_scale = 1;
  add_norm_forward<double>(plain, {.add = {.x = row_of(values)},
                                   .y = row_of(result.normalized),
                                   .statistics = {&statistics, 1}});
  add_norm_forward<double>(options, {.add = {.x = row_of(values)},
                                     .gamma = result.gamma,
                                     .beta = result.beta,
                                     .y = row_of(result.output)});
  result.mean = statistics.mean();
  result.variance = statistics.variance / statistics.scale / statistics.scale;
  result.deviation = statistics.deviation();
  return result;
}

Trace trace(const TraceArgs& args) {
  const std::size_t n = args.x.size();
  kernels::check_norm_options("x", args.norm, n);
  require(normalizes_rows(args.norm.kind), "norm: the kind is {}; expected layer or rms",
          to_string(args.norm.kind));
  require(args.branch.empty() || args.branch.size() == n,
          "branch: has {} values; expected {}, as many as x", args.branch.size(), n);
  Trace result{.x = {args.x.begin(), args.x.end()},
               .branch = {args.branch.begin(), args.branch.end()},
               .sum = Vector(n)};
  residual_add<double>({.x = row_of(args.x), .branch = row_of(args.branch)}, row_of(result.sum));

  const bool of_input = args.placement == TracePlacement::kPre;
  NormTrace norm = trace_norm(args.norm, of_input ? result.x : result.sum, args.gamma, args.beta);
  result.mean = norm.mean;
  result.variance = norm.variance;
  result.deviation = norm.deviation;
  result.gamma = std::move(norm.gamma);
  result.beta = std::move(norm.beta);
  if (args.placement != TracePlacement::kNone) {
    result.normalized = std::move(norm.normalized);
    result.norm_output = std::move(norm.output);
  }
  const bool ends_with_sum = args.placement == TracePlacement::kNone ||
                             (args.placement == TracePlacement::kPre && !args.branch.empty());
  result.output = ends_with_sum ? result.sum : result.norm_output;
  return result;
}

nlohmann::ordered_json to_json(const Trace& trace) {
  const auto optional = [](const Vector& values) {
    return values.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(values);
  };
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
