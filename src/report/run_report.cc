#include "report/run_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "io/file.h"
#include "io/profile.h"
#include "report/html.h"
#include "run/metrics.h"

namespace addnorm::report {
namespace {

constexpr std::size_t kMostPoints = 400;  // of a curve: the resolution of a chart of this width

/// Returns the means of groups of steps, as many groups as a chart can show.
Series curve(const std::vector<run::StepMetrics>& steps, std::string name,
             double run::StepMetrics::*member) {
  Series series{.name = std::move(name)};
  const std::size_t group = steps.size() / kMostPoints + 1;
  for (std::size_t begin = 0; begin < steps.size(); begin += group) {
    const std::size_t end = std::min(begin + group, steps.size());
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += steps[i].*member;
    series.x.push_back(static_cast<double>(steps[end - 1].step));
    series.y.push_back(sum / static_cast<double>(end - begin));
  }
  return series;
}

Chart step_chart(const run::Metrics& metrics, const char* title, const char* label, AxisScale scale,
                 double run::StepMetrics::*member) {
  return {.title = title,
          .x = {.label = "step"},
          .y = {.label = label, .scale = scale},
          .series = {curve(metrics.steps, label, member)}};
}

/// Returns the entries of each profiled step, in the order of the steps.
std::vector<std::vector<probe::ProfileEntry>> by_step(const run::RunFiles& files) {
  std::vector<std::vector<probe::ProfileEntry>> steps;
  if (!std::filesystem::exists(files.profile)) return steps;
  for (const io::Profile& profile :
       io::parse_profiles(io::read_file(files.profile), files.profile)) {
    for (const probe::ProfileEntry& entry : profile.entries) {
      if (steps.empty() || steps.back().front().step != entry.step) steps.emplace_back();
      steps.back().push_back(entry);
    }
  }
  return steps;
}

/// Returns at most this many elements, including the first and the last.
template <typename T>
std::vector<T> spread_out(const std::vector<T>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

Chart layer_chart(const std::vector<std::vector<probe::ProfileEntry>>& steps, std::size_t layers,
                  const char* title, const char* label, double probe::ProfileEntry::*member) {
  Chart chart{
      .title = title, .x = {.label = "layer"}, .y = {.label = label, .scale = AxisScale::kLog}};
  for (const std::vector<probe::ProfileEntry>& entries : spread_out(steps, 5)) {
    Series series{.name = fmt::format("step {}", entries.front().step)};
    for (std::size_t place = 0; place <= layers; ++place) {
      series.x.push_back(static_cast<double>(place));
      series.y.push_back(probe::stream_entry(entries, place, layers).*member);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Table settings_table(const run::RunConfig& config) {
  Table table({{"setting", Align::kLeft}, {"value", Align::kLeft}});
  const nlohmann::ordered_json settings = to_json(config);
  for (const auto& [name, value] : settings.items()) {
    table.add_row({name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return table;
}

std::string lead(const run::RunConfig& config, const run::Metrics& metrics) {
  std::string text =
      fmt::format("{} of width {}, {}-norm, {}", format_count(config.layers, "layer"), config.width,
                  config.placement, config.dtype);
  if (!metrics.steps.empty()) {
    const run::StepMetrics& last = metrics.steps.back();
    text +=
        fmt::format("; {} of {}, {} bytes of text in {:.0f} seconds", format_count(last.step),
                    format_count(config.steps, "step"), format_count(last.tokens), last.seconds);
  }
  if (!metrics.validations.empty()) {
    text += fmt::format("; validation loss {}", loss_text(metrics.validations.back().loss));
  }
  return text + ".";
}

}  // namespace

std::string loss_text(double nats) {
  return fmt::format("{:.3f} nats, {:.3f} bits per byte", nats, nats / std::numbers::ln2);
}

Chart loss_chart(const run::Metrics& metrics) {
  Series validation{.name = "validation"};
  for (const run::Validation& v : metrics.validations) {
    validation.x.push_back(static_cast<double>(v.step));
    validation.y.push_back(v.loss);
  }
  Chart chart{.title = "Loss",
              .x = {.label = "step"},
              .y = {.label = "nats per byte"},
              .series = {curve(metrics.steps, "training", &run::StepMetrics::loss)}};
  if (!validation.x.empty()) chart.series.push_back(std::move(validation));
  return chart;
}

std::string run_html(const run::RunConfig& config, const run::RunFiles& files) {
  const run::Metrics metrics = run::read_metrics(files.metrics);
  const auto profiles = by_step(files);
  HtmlPage page("Training run " + std::filesystem::path(files.folder).filename().string(),
                lead(config, metrics));
  if (!metrics.stopped.empty()) page.paragraph(metrics.stopped, {"Stopped", Ink::kBad});
  if (!metrics.steps.empty()) {
    page.section("Training")
        .figure(loss_chart(metrics),
                "The training loss before each step's update, averaged over neighbouring steps, "
                "and the validation loss.")
        .figure(step_chart(metrics, "Gradient norm", "gradient norm", AxisScale::kLog,
                           &run::StepMetrics::gradient_norm),
                "The norm of all parameters together, before clipping.")
        .figure(step_chart(metrics, "Learning rate", "learning rate", AxisScale::kLinear,
                           &run::StepMetrics::learning_rate),
                "AdamW's.");
  }
  if (!profiles.empty()) {
    page.section("Signal and gradient by layer")
        .figure(layer_chart(profiles, config.layers, "The residual stream", "RMS",
                            &probe::ProfileEntry::rms),
                "The stream that each layer reads, on one batch of the training text; the last "
                "point is the output of the last layer.")
        .figure(layer_chart(profiles, config.layers, "Its gradient", "gradient's RMS",
                            &probe::ProfileEntry::grad_rms),
                "The gradient of the loss with respect to that stream.");
  }
  page.section("Settings").table(settings_table(config), "As in config.json.");
  return page.str();
}

}  // namespace addnorm::report
