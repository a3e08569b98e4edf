#include "cli/trace_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "report/bars.h"
#include "report/text.h"

namespace addnorm::cli {
namespace {

/// The colours of the vectors in document 004, as far as black and white paper both bear them.
enum Colour { kCyan = 37, kOrange = 172, kYellow = 178, kGreen = 71 };

/// x, F(x) and their sum are drawn on one scale, x̂ and y on another.
enum Scaling { kStream, kNormed };

/// A heading, lines of text, and bars that are labelled with their formulas.
struct Step {
  std::string title;
  std::string formula;
  std::string text = {};
  std::vector<double> values = {};
  std::vector<std::string> labels = {};  ///< of those values that have a bar, the first
  Colour colour = kCyan;
  Scaling scaling = kStream;
};

constexpr std::size_t kMostBars = 16;

/// Four digits without the zeros at the end.
std::string number(double value) {
  std::string text = report::format_number(value, 4);
  const std::string exponent = text.substr(std::min(text.find('e'), text.size()));
  text.resize(text.size() - exponent.size());
  if (text.find('.') != text.npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text + exponent;
}

int widest(const std::vector<std::string>& texts) {
  int width = 0;
  for (const std::string& text : texts) width = std::max(width, report::display_width(text));
  return width;
}

/// The numbers of the values that have a bar, all of one width.
std::vector<std::string> column(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(values.size(), kMostBars); ++i) {
    texts.push_back(number(values[i]));
  }
  const int width = widest(texts);
  for (std::string& text : texts) text = report::pad(text, width, report::Align::kRight);
  return texts;
}

/// "a + b + … + z": as many terms as fit into `room` columns, but always the first and the last.
std::string join(const std::vector<std::string>& terms, int room) {
  const std::string last = terms.size() > 1 ? " + " + terms.back() : "";
  std::string text = terms[0];
  for (std::size_t i = 1; i + 1 < terms.size(); ++i) {
    const std::string next = fmt::format("{} + {}", text, terms[i]);
    const std::string_view dots = i + 2 < terms.size() ? " + …" : "";
    if (report::display_width(next) + report::display_width(dots) + report::display_width(last) >
        room) {
      return fmt::format("{} + …{}", text, last);
    }
    text = next;
  }
  return text + last;
}

class TraceSteps {
 public:
  TraceSteps(const lab::Trace& trace, const lab::TraceArgs& args, int width)
      : trace_(trace),
        norm_(args.norm),
        width_(width),
        of_x_(args.placement == lab::TracePlacement::kPre || trace.branch.empty()),
        values_(of_x_ ? trace.x : trace.sum) {
    add_input();
    if (of_x_) add_norm();
    if (!trace.branch.empty()) add_sum();
    if (!of_x_) add_norm();
  }

  std::vector<Step> take() { return std::move(steps_); }

 private:
  bool is_rms() const { return norm_.kind == NormKind::kRms; }
  void add_input();
  void add_sum();
  void add_norm();
  std::string statistics() const;
  std::string quotient(const std::string& value, const std::string& mean,
                       const std::string& deviation) const;

  const lab::Trace& trace_;
  const NormOptions& norm_;
  const int width_;
  const bool of_x_;                    // what the norm is of, x or the sum,
  const std::vector<double>& values_;  // and its values
  std::vector<Step> steps_;
};

void TraceSteps::add_input() {
  std::vector<std::string> labels = column(trace_.x);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = fmt::format("x{}", i + 1);
  steps_.push_back({"Input", "x", "", trace_.x, labels, kCyan, kStream});
}

void TraceSteps::add_sum() {
  std::vector<std::string> sums = column(trace_.x);
  std::vector<std::string> branch = column(trace_.branch);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] += fmt::format(" + {} =", branch[i]);
    branch[i] = fmt::format("F{}", i + 1);
  }
  const std::string f = of_x_ ? "F(h)" : "F(x)";
  steps_.push_back({"Branch", f + ", what attention or feed-forward gives back", "", trace_.branch,
                    branch, kOrange, kStream});
  steps_.push_back({"Add", "s = x + " + f, "", trace_.sum, sums, kYellow, kStream});
}

std::string TraceSteps::statistics() const {
  const std::string mean = number(trace_.mean);
  const std::string variance = number(trace_.variance);
  const std::string epsilon = number(norm_.epsilon);
  std::vector<std::string> values;
  std::vector<std::string> squares;
  for (const double value : values_) {
    values.push_back(number(value));
    squares.push_back((is_rms() ? "(" + values.back() : "(" + values.back() + " − " + mean) + ")²");
  }
  const auto line = [&](const char* name, const auto& terms, std::size_t divisor,
                        const std::string& result) {
    const std::string end = fmt::format(") / {} = {}\n", divisor, result);
    return fmt::format("{} = ({}{}", name, join(terms, width_ - report::display_width(end) - 6),
                       end);
  };
  const std::size_t n = values.size();
  const std::size_t divisor = norm_.variance == Variance::kUnbiased ? n - 1 : n;
  const std::string root = norm_.epsilon_at == EpsilonAt::kVariance
                               ? fmt::format("√({} + {})", variance, epsilon)
                               : fmt::format("√{} + {}", variance, epsilon);
  return (is_rms() ? "" : line("μ ", values, n, mean)) + line("σ²", squares, divisor, variance) +
         fmt::format("σ  = {} = {}\n", root, number(trace_.deviation));
}

std::string TraceSteps::quotient(const std::string& value, const std::string& mean,
                                 const std::string& deviation) const {
  return is_rms() ? fmt::format("{} / {}", value, deviation)
                  : fmt::format("({} − {}) / {}", value, mean, deviation);
}

void TraceSteps::add_norm() {
  const std::string name = of_x_ ? "x" : "s";
  const bool unused = trace_.normalized.empty();
  steps_.push_back({is_rms() ? "Root mean square" : "Mean and deviation",
                    fmt::format("of {}{}", name, unused ? ", but nothing is normalized" : ""),
                    statistics()});
  if (unused) return;

  std::vector<std::string> labels = column(values_);
  for (std::string& label : labels) {
    label = quotient(label, number(trace_.mean), number(trace_.deviation)) + " =";
  }
  steps_.push_back({"Normalize", "x̂ = " + quotient(name, "μ", "σ"), "", trace_.normalized, labels,
                    kCyan, kNormed});

  labels = column(trace_.normalized);
  const std::vector<std::string> gamma = column(trace_.gamma);
  const std::vector<std::string> beta = column(trace_.beta);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = fmt::format("{} × {} + {} =", gamma[i], labels[i], beta[i]);
  }
  const bool feeds_branch = of_x_ && !trace_.branch.empty();
  steps_.push_back({"Scale and shift", feeds_branch ? "h = γ·x̂ + β, what F sees" : "y = γ·x̂ + β",
                    "", trace_.norm_output, labels, kGreen, kNormed});
}

/// draw_bars colours by sign; here the colour says which vector it is.
std::string recolour(std::string bars, Colour colour) {
  const std::string wanted = fmt::format("\x1b[38;5;{}m", static_cast<int>(colour));
  for (const report::Ink ink : {report::Ink::kPositive, report::Ink::kNegative}) {
    const std::string painted = report::paint(ink, "?");
    const std::string code = painted.substr(0, painted.find('?'));
    for (std::size_t at = 0; (at = bars.find(code, at)) != bars.npos; at += wanted.size()) {
      bars.replace(at, code.size(), wanted);
    }
  }
  return bars;
}

/// The bars of all steps with this scaling, one line each, so that their axes are one.
std::istringstream draw_scaling(const std::vector<Step>& steps, Scaling scaling, int width) {
  int label_width = 0;  // of all steps
  for (const Step& step : steps) label_width = std::max(label_width, widest(step.labels));
  std::vector<double> values;
  std::vector<std::string> labels;
  for (const Step& step : steps) {
    if (step.scaling != scaling) continue;
    for (std::size_t i = 0; i < step.labels.size(); ++i) {
      values.push_back(step.values[i]);
      labels.push_back(report::pad(step.labels[i], label_width, report::Align::kRight));
    }
  }
  return std::istringstream(report::draw_bars({.values = values, .labels = labels}, width));
}

}  // namespace

std::string trace_text(const lab::Trace& trace, const lab::TraceArgs& args, int width) {
  const std::vector<Step> steps = TraceSteps(trace, args, width).take();
  std::array bars{draw_scaling(steps, kStream, width), draw_scaling(steps, kNormed, width)};
  std::string text;
  for (const Step& step : steps) {
    text += fmt::format("{}{}  {}\n{}", text.empty() ? "" : "\n",
                        report::paint(report::Ink::kStrong, step.title),
                        report::paint(report::Ink::kFaint, step.formula), step.text);
    std::string line;
    for (std::size_t i = 0; i < step.labels.size(); ++i) {
      std::getline(bars[step.scaling], line);
      text += recolour(line, step.colour) + '\n';
    }
    const std::size_t more = step.values.size() - step.labels.size();
    if (more > 0) text += report::paint(report::Ink::kFaint, fmt::format("… and {} more\n", more));
  }
  return text;
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
                                     {"…", "..."}}) {
    for (std::size_t at = 0; (at = text.find(letter, at)) != text.npos; at += name.size()) {
      text.replace(at, letter.size(), name);
    }
  }
  return text;
}

}  // namespace addnorm::cli
