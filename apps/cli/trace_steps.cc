#include "cli/trace_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "report/bars.h"
#include "report/text.h"

namespace addnorm::cli {
namespace {

constexpr std::size_t kMostBars = 16;

int widest(const std::vector<std::string>& texts) {
  int width = 0;
  for (const std::string& text : texts) width = std::max(width, report::display_width(text));
  return width;
}

}  // namespace

std::string number(double value) {
  std::string text = report::format_number(value, 4);
  const std::string exponent = text.substr(std::min(text.find('e'), text.size()));
  text.resize(text.size() - exponent.size());
  if (text.find('.') != text.npos) text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text + exponent;
}

std::vector<std::string> column(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(values.size(), kMostBars); ++i) {
    texts.push_back(number(values[i]));
  }
  const int width = widest(texts);
  for (std::string& text : texts) text = report::pad(text, width, report::Align::kRight);
  return texts;
}

std::vector<std::string> names(std::string_view letter, const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (std::size_t i = 1; i <= std::min(values.size(), kMostBars); ++i) {
    texts.push_back(fmt::format("{}{}", letter, i));
  }
  return texts;
}

namespace {

/// Returns "a + b + … + z" with as many terms as fit into `room` columns, at least the first and
/// the last.
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

std::string statistics(const lab::NormTrace& norm, int width) {
  const bool is_rms = norm.options.kind == NormKind::kRms;
  const std::string mean = number(norm.mean);
  const std::string variance = number(norm.variance);
  const std::string epsilon = number(norm.options.epsilon);
  std::vector<std::string> values;
  std::vector<std::string> squares;
  for (const double value : norm.values) {
    values.push_back(number(value));
    squares.push_back((is_rms ? "(" + values.back() : "(" + values.back() + " − " + mean) + ")²");
  }
  const auto line = [&](const char* name, const auto& terms, std::size_t divisor,
                        const std::string& result) {
    const std::string end = fmt::format(") / {} = {}\n", divisor, result);
    return fmt::format("{} = ({}{}", name, join(terms, width - report::display_width(end) - 6),
                       end);
  };
  const std::size_t n = values.size();
  const std::size_t divisor = norm.options.variance == Variance::kUnbiased ? n - 1 : n;
  const std::string root = norm.options.epsilon_at == EpsilonAt::kVariance
                               ? fmt::format("√({} + {})", variance, epsilon)
                               : fmt::format("√{} + {}", variance, epsilon);
  return (is_rms ? "" : line("μ ", values, n, mean)) + line("σ²", squares, divisor, variance) +
         fmt::format("σ  = {} = {}\n", root, number(norm.deviation));
}

std::string quotient(const lab::NormTrace& norm, const std::string& value, const std::string& mean,
                     const std::string& deviation) {
  return norm.options.kind == NormKind::kRms
             ? fmt::format("{} / {}", value, deviation)
             : fmt::format("({} − {}) / {}", value, mean, deviation);
}

/// Returns x/‖x‖ in one step.
Step unit_step(const lab::NormTrace& norm, const NormWords& words) {
  const std::string length = number(norm.deviation / norm.options.output_scale);
  std::vector<std::string> labels = column(norm.values);
  for (std::string& label : labels) label = fmt::format("{} / {} =", label, length);
  return {"Divide by the length",
          fmt::format("{0} = {1} / ‖{1}‖{2}, ‖{1}‖ = √Σ{1}² = {3}", words.result, words.of,
                      words.meaning, length),
          "",
          norm.output,
          labels,
          kGreen,
          kNormed};
}

}  // namespace

Step statistics_step(const lab::NormTrace& norm, const NormWords& words, int width) {
  return {norm.options.kind == NormKind::kRms ? "Root mean square" : "Mean and deviation",
          fmt::format("of {}{}", words.of, words.meaning), statistics(norm, width)};
}

std::vector<Step> norm_steps(const lab::NormTrace& norm, const NormWords& words, int width) {
  if (norm.is_unit) return {unit_step(norm, words)};
  std::vector<Step> steps{statistics_step(norm, {words.of, {}}, width)};

  std::vector<std::string> labels = column(norm.values);
  for (std::string& label : labels) {
    label = quotient(norm, label, number(norm.mean), number(norm.deviation)) + " =";
  }
  steps.push_back({"Normalize", "x̂ = " + quotient(norm, words.of, "μ", "σ"), "", norm.normalized,
                   labels, kCyan, kNormed});

  labels = column(norm.normalized);
  const std::vector<std::string> gamma = column(norm.gamma);
  const std::vector<std::string> beta = column(norm.beta);
  const std::string scale = number(norm.options.output_scale);
  const bool scales = norm.options.output_scale != 1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    labels[i] = fmt::format("{} × {} + {}", gamma[i], labels[i], beta[i]);
    labels[i] = (scales ? fmt::format("{} × ({})", scale, labels[i]) : labels[i]) + " =";
  }
  const std::string formula = scales ? scale + " · (γ·x̂ + β)" : "γ·x̂ + β";
  steps.push_back({"Scale and shift",
                   fmt::format("{} = {}{}", words.result, formula, words.meaning), "", norm.output,
                   labels, kGreen, kNormed});
  return steps;
}

namespace {

/// Replaces draw_bars' colour of the sign by the colour of the vector.
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

/// Returns the bars of all steps with this scaling, one line each, so that they share one axis.
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

std::string draw(const std::vector<Step>& steps, int width) {
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

}  // namespace addnorm::cli
