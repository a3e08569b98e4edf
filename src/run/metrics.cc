#include "run/metrics.h"

#include <cmath>
#include <filesystem>
#include <sstream>

#include "io/file.h"
#include "io/json.h"

namespace addnorm::run {
namespace {

io::Json number(double value) {
  return std::isfinite(value) ? io::Json(value) : io::Json(nullptr);
}

double number(const io::Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

std::size_t count(const io::Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_unsigned() ? found->get<std::size_t>() : 0;
}

/// Calls body(text, line) for each complete line that is a JSON object; a killed writer may have
/// left other lines.
template <typename Body>
void for_each_line(const std::string& file, const Body& body) {
  if (!std::filesystem::exists(file)) return;
  std::istringstream lines(io::read_file(file));
  for (std::string text; std::getline(lines, text) && !lines.eof();) {
    if (const auto line = io::try_parse_json(text)) body(text, *line);
  }
}

}  // namespace

MetricsLog::MetricsLog(const std::string& file, std::size_t steps) : file_(file) {
  keep_steps(file, steps);
}

void MetricsLog::add(const StepMetrics& m) {
  io::append_file(file_, io::Json{{"step", m.step},
                                  {"loss", number(m.loss)},
                                  {"gradient_norm", number(m.gradient_norm)},
                                  {"learning_rate", number(m.learning_rate)},
                                  {"tokens", m.tokens},
                                  {"seconds", std::round(1000 * m.seconds) / 1000}}
                                 .dump() +
                             '\n');
}

void MetricsLog::add(const Validation& v) {
  io::append_file(file_,
                  io::Json{{"step", v.step}, {"validation_loss", number(v.loss)}}.dump() + '\n');
}

void MetricsLog::stopped(std::size_t step, const std::string& why) {
  io::append_file(file_, io::Json{{"step", step}, {"stopped", why}}.dump() + '\n');
}

Metrics read_metrics(const std::string& file) {
  Metrics metrics;
  for_each_line(file, [&](const std::string&, const io::Json& line) {
    const std::size_t step = count(line, "step");
    if (line.contains("stopped") && line["stopped"].is_string()) {
      metrics.stopped = line["stopped"].get<std::string>();
    } else if (line.contains("validation_loss")) {
      metrics.validations.push_back({step, number(line, "validation_loss")});
    } else {
      metrics.steps.push_back({.step = step,
                               .loss = number(line, "loss"),
                               .gradient_norm = number(line, "gradient_norm"),
                               .learning_rate = number(line, "learning_rate"),
                               .tokens = count(line, "tokens"),
                               .seconds = number(line, "seconds")});
    }
  });
  return metrics;
}

void keep_steps(const std::string& file, std::size_t steps) {
  if (!std::filesystem::exists(file)) return;
  std::string kept;
  for_each_line(file, [&](const std::string& text, const io::Json& line) {
    if (count(line, "step") <= steps) kept += text + '\n';
  });
  if (kept.size() != std::filesystem::file_size(file)) io::write_files({{file, kept}});
}

}  // namespace addnorm::run
