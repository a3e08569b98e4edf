#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "addnorm/norm.h"

namespace addnorm::lab {

enum class TracePlacement {
  kPost,  ///< output = norm(x + F(x))
  kPre,   ///< output = x + F(norm(x))
  kNone,  ///< output = x + F(x)
};
constexpr std::array<std::string_view, 3> names_of(TracePlacement) {
  return {"post", "pre", "none"};
}

/// One token in an Add & Norm. Without a branch there is only the norm of x itself.
struct TraceArgs {
  std::span<const double> x;
  std::span<const double> branch;  ///< output of F; empty: no branch
  TracePlacement placement = TracePlacement::kPost;
  NormOptions norm;               ///< kLayer or kRms
  std::span<const double> gamma;  ///< one number, or one for each of x; empty: 1
  std::span<const double> beta;   ///< the same; empty: 0
};

/// Every step, in float64.
struct Trace {
  std::vector<double> x;
  std::vector<double> branch;      ///< empty if there is none
  std::vector<double> sum;         ///< x + branch
  double mean = 0;                 ///< of x for kPre, else of the sum; 0 for kRms
  double variance = 0;             ///< without ε; the mean square for kRms
  double deviation = 0;            ///< with ε
  std::vector<double> normalized;  ///< (values − mean)/deviation; empty for kNone
  std::vector<double> gamma;       ///< one for each of x
  std::vector<double> beta;
  /// γ ⊙ normalized + β, the input of F for kPre; empty for kNone
  std::vector<double> norm_output;
  std::vector<double> output;  ///< the norm's output, or the sum
};

Trace trace(const TraceArgs& args);

/// The steps of one norm.
struct NormTrace {
  NormOptions options;
  bool is_unit = false;        ///< x/‖x‖: an RMSNorm whose output scale is 1/√d
  std::vector<double> values;  ///< input of the norm
  double mean = 0;             ///< as in Trace
  double variance = 0;
  double deviation = 0;
  std::vector<double> normalized;  ///< (values − mean)/deviation
  std::vector<double> gamma, beta;
  std::vector<double> output;  ///< output_scale·(γ ⊙ normalized + β)
};

/// γ and β are one number each, or one for each value; empty: 1 and 0.
NormTrace trace_norm(const NormOptions& options, std::span<const double> values,
                     std::span<const double> gamma = {}, std::span<const double> beta = {});

/// Returns `size` values from none, one or all of them. Throws an Error with their name if their
/// number is another one.
std::vector<double> widen(std::string_view name, std::span<const double> values, std::size_t size,
                          double otherwise);

/// {"x", "branch", "sum", "mean", "variance", "deviation", "normalized", "output"}; absent,
/// infinite and NaN values are null.
nlohmann::ordered_json to_json(const Trace& trace);

}  // namespace addnorm::lab
