#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "report/doctor_bands.h"
#include "report/doctor_comparison.h"
#include "report/doctor_words.h"
#include "report/html.h"
#include "report/run_report.h"

namespace addnorm::report {
namespace {

std::string short_name(const doctor::Subject& subject) {
  const std::filesystem::path path(subject.name);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// The parts of one diagnosis that are drawn.
struct Drawn {
  const doctor::Subject& subject;
  std::vector<doctor::LayerNumbers> rows;
  std::string suffix;  ///< of the names of its curves
  Look look;
};
std::vector<Drawn> all_drawn(const Diagnosis& diagnosis, const Diagnosis* other) {
  const auto rows = [](const doctor::Subject& s) {
    return doctor::layer_numbers(s, doctor::last_step(s.profile));
  };
  std::vector<Drawn> all{{diagnosis.subject, rows(diagnosis.subject), "", Look::kSolid}};
  if (other != nullptr) {
    all.push_back(
        {other->subject, rows(other->subject), ", " + short_name(other->subject), Look::kDashed});
  }
  return all;
}

/// Curves of the same column have the same color.
Chart chart_of(const std::vector<Drawn>& drawn, const char* title, Axis y,
               const std::vector<LayerColumn>& columns) {
  Chart chart{.title = title, .x = {.label = "layer"}, .y = std::move(y)};
  for (const auto& [subject, rows, suffix, look] : drawn) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      Series series{.name = columns[c].name + suffix, .look = look, .color = static_cast<int>(c)};
      for (const doctor::LayerNumbers& row : rows) {
        if (std::isnan(row.*columns[c].member)) continue;
        series.x.push_back(static_cast<double>(row.layer));
        series.y.push_back(row.*columns[c].member);
      }
      if (!series.x.empty()) chart.series.push_back(std::move(series));
    }
  }
  return chart;
}

/// Draws the prediction of theory behind the first curve.
void lay_under(Chart& chart, const Band& band) {
  if (band.layer.empty() || chart.series.empty()) return;
  chart.series.push_back({.name = "theory",
                          .x = band.layer,
                          .low = band.low,
                          .high = band.high,
                          .look = Look::kPrediction});
}

std::string gain_name(const Site& site) {
  if (site.projection == Projection::kQuery) return "queries";
  if (site.projection == Projection::kKey) return "keys";
  const char* sublayer = site.sublayer == SublayerKind::kAttention ? "attn" : "ff";
  const char* slot = site.norm == NormSlot::kBefore   ? "before"
                     : site.norm == NormSlot::kInside ? "inside"
                                                      : "after";
  return fmt::format("{}, {}", sublayer, slot);
}

Chart gain_chart(const std::vector<Drawn>& drawn) {
  Chart chart{.title = "Gains of the norms", .x = {.label = "layer"}, .y = {.label = "RMS"}};
  for (const auto& [subject, rows, suffix, look] : drawn) {
    int color = 0;
    for (NormGains& norm : norm_gains(subject)) {
      chart.series.push_back({.name = gain_name(norm.site) + suffix,
                              .x = std::move(norm.layer),
                              .y = std::move(norm.gain),
                              .look = look,
                              .color = color++});
    }
  }
  return chart;
}

void add_findings(HtmlPage& page, const Diagnosis& diagnosis, const std::vector<Group>& groups) {
  page.section("Findings and notes");
  if (groups.empty()) page.paragraph("There are no findings and no notes.");
  for (const Group& group : groups) {
    const doctor::Finding& worst = group.worst();
    const SeverityLook& severity = look(worst.severity);
    page.paragraph(
        places(group),
        {fmt::format("{} {} ({})", severity.mark, worst.rule, severity.name), severity.ink});
    const char* expected = worst.severity == doctor::Severity::kNote ? "because" : "expected";
    std::vector<HtmlPage::Item> items{
        {"seen", worst.what}, {expected, worst.because}, {"fix", worst.fix}};
    if (const std::string effects = effects_text(group); !effects.empty()) {
      items.push_back({"leads to", effects});
    }
    for (const std::string& proof : proof_texts(diagnosis, group))
      items.push_back({"proof", proof});
    page.list(items);
  }
}

void add_comparison(HtmlPage& page, const Diagnosis& one, const Diagnosis& other) {
  const Comparison comparison = compare(one, other);
  page.section("Against " + short_name(other.subject));
  std::vector<HtmlPage::Item> items;
  const auto add = [&](const char* label, const std::vector<const doctor::Finding*>& findings) {
    for (const Group& group : grouped(findings)) {
      const SeverityLook& severity = look(group.worst().severity);
      items.push_back(
          {{fmt::format("{} {}", severity.mark, label), severity.ink}, group_text(group)});
    }
  };
  add("gone", comparison.gone);
  add("new", comparison.added);
  if (!items.empty()) page.list(items);
  page.paragraph(parting_text(comparison));
  page.table(layer_table(comparison.multiples, comparison.multiples.size()),
             fmt::format("Per-layer numbers of {}, divided by those of {}.", other.subject.name,
                         one.subject.name));
}

void add_charts(HtmlPage& page, const std::vector<Drawn>& drawn) {
  const doctor::Subject& subject = drawn.front().subject;
  const std::vector<doctor::LayerNumbers>& rows = drawn.front().rows;
  const auto figure = [&](const Chart& chart, std::string_view caption) {
    if (!chart.series.empty()) page.figure(chart, caption);
  };
  const auto& columns = kLayerColumns;
  const auto log = [](const char* label) { return Axis{.label = label, .scale = AxisScale::kLog}; };
  Chart stream = chart_of(drawn, "The residual stream", log("RMS"), {columns[0]});
  lay_under(stream, stream_band(subject, rows));
  figure(stream,
         "RMS of each layer's input. The band of theory, where there is one, reaches from branches "
         "that are independent of the stream to branches that all point in its direction. Their "
         "sizes are those measured, or 1 after a norm before training. A post-norm stack before "
         "training has RMS 1.");
  figure(chart_of(drawn, "Branches", log("share of the stream"), {columns[1], columns[2]}),
         "RMS of a branch where it enters the sum, as a share of the stream's RMS.");
  figure(chart_of(drawn, "Cosines", Axis{.label = "cosine", .bounds = {{-1, 1}}},
                  {columns[3], columns[4]}),
         "Between a layer's input and output: near 1, the layer changes little. Between two "
         "tokens: near 1, all tokens are alike. " +
             depth_text(rows));
  figure(chart_of(drawn, "Attention logits", log("largest logit"), {columns[5]}),
         "Above 50, softmax in float32 selects a single key.");
  figure(chart_of(drawn, "Entropy of attention",
                  Axis{.label = "share of the largest possible", .bounds = {{0, 1}}}, {columns[6]}),
         "1 where a query attends to all keys equally, 0 where it attends to a single key.");
  figure(gain_chart(drawn),
         "RMS over the features of γ, or of 1 + γ where γ stands for that. Gains start at 1; near "
         "0, nothing passes.");
  Chart gradient = chart_of(drawn, "Gradient", log("RMS"), {columns[7]});
  lay_under(gradient, gradient_band(subject, rows));
  figure(gradient,
         "The gradient of the loss with respect to each layer's input. The band of theory, for "
         "stacks that add to their stream, before training, reaches from the identity's part alone "
         "to branches whose gradients all point in its direction.");
}

void add_losses(HtmlPage& page, const doctor::Subject& subject) {
  if (subject.metrics.steps.empty()) return;
  Chart chart = loss_chart(subject.metrics);
  const bool is_known = std::isfinite(subject.unigram_loss);
  if (is_known) {
    const std::vector<double> ends{chart.series[0].x.front(), chart.series[0].x.back()};
    chart.series.push_back({.name = "byte frequencies",
                            .x = ends,
                            .y = {subject.unigram_loss, subject.unigram_loss},
                            .look = Look::kDashed});
  }
  page.section("Training")
      .figure(chart, is_known ? "The dashed line is the loss of a model that knows the text's byte "
                                "frequencies, but nothing about their order."
                              : "As logged by the run.");
}

}  // namespace

std::string doctor_html(const Diagnosis& diagnosis, const Diagnosis* other) {
  const doctor::Subject& subject = diagnosis.subject;
  const std::vector<Group> groups = grouped(diagnosis.findings);
  HtmlPage page("Doctor: " + short_name(subject),
                fmt::format("{}: {}. {}", model_text(subject), verdict(diagnosis).text,
                            subject.measured_on.empty() ? "" : input_text(subject)));
  for (const std::string& text :
       {coverage_text(subject.profile.coverage), left_out_text(subject.profile.coverage)}) {
    if (!text.empty()) page.paragraph(text);
  }
  add_findings(page, diagnosis, groups);
  if (other != nullptr) add_comparison(page, diagnosis, *other);
  add_losses(page, subject);
  const std::vector<Drawn> drawn = all_drawn(diagnosis, other);
  const std::vector<doctor::LayerNumbers>& rows = drawn.front().rows;
  if (rows.empty() || is_blind(subject.profile.coverage)) return page.str();
  page.section("By layer");
  add_charts(page, drawn);
  page.table(layer_table(rows, rows.size()), kLayerCaption);
  return page.str();
}

}  // namespace addnorm::report
