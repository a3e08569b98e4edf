#include "cli/trace_text.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "cli/trace_steps.h"

namespace addnorm::cli {
namespace {

void append(std::vector<Step>& steps, std::vector<Step> more) {
  for (Step& step : more) steps.push_back(std::move(step));
}

/// s = x + F(x), or F(h).
void add_sum(std::vector<Step>& steps, const lab::Trace& trace, const std::string& f) {
  std::vector<std::string> sums = column(trace.x);
  const std::vector<std::string> branch = column(trace.branch);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += fmt::format(" + {} =", branch[i]);
  steps.push_back({"Branch", f + ", the output of attention or feed-forward", "", trace.branch,
                   names("F", trace.branch), kOrange, kStream});
  steps.push_back({"Add", "s = x + " + f, "", trace.sum, sums, kYellow, kStream});
}

}  // namespace

std::string trace_text(const lab::Trace& trace, const lab::TraceArgs& args, int width) {
  const bool has_branch = !trace.branch.empty();
  const bool of_x = args.placement == lab::TracePlacement::kPre || !has_branch;
  const lab::NormTrace norm{.options = args.norm,
                            .values = of_x ? trace.x : trace.sum,
                            .mean = trace.mean,
                            .variance = trace.variance,
                            .deviation = trace.deviation,
                            .normalized = trace.normalized,
                            .gamma = trace.gamma,
                            .beta = trace.beta,
                            .output = trace.norm_output};
  const auto steps_of_norm = [&]() -> std::vector<Step> {
    const std::string of = of_x ? "x" : "s";
    if (norm.normalized.empty()) {
      return {statistics_step(norm, {of, {}, ", but nothing is normalized"}, width)};
    }
    const bool feeds_branch = of_x && has_branch;
    return norm_steps(
        norm, feeds_branch ? NormWords{of, "h", ", the input of F"} : NormWords{of, "y"}, width);
  };
  std::vector<Step> steps{{"Input", "x", "", trace.x, names("x", trace.x), kCyan, kStream}};
  if (of_x) append(steps, steps_of_norm());
  if (has_branch) add_sum(steps, trace, of_x ? "F(h)" : "F(x)");
  if (!of_x) append(steps, steps_of_norm());
  return draw(steps, width);
}

std::string spell_out(std::string text) {
  using Spelling = std::pair<std::string_view, std::string_view>;
  for (const auto& [letter, name] : {Spelling{"μ  ", "mean "},
                                     {"σ² ", "var  "},
                                     {"σ  ", "dev  "},
                                     {"μ", "mean"},
                                     {"σ", "dev"},
                                     {"x̂", "x^"},
                                     {"√", "sqrt"},
                                     {"γ·", "gamma "},
                                     {"β", "beta"},
                                     {"²", "^2"},
                                     {"…", "..."},
                                     {"Σ", "sum of "}}) {
    for (std::size_t at = 0; (at = text.find(letter, at)) != text.npos; at += name.size()) {
      text.replace(at, letter.size(), name);
    }
  }
  return text;
}

}  // namespace addnorm::cli
