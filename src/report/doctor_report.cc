#include "report/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/require.h"
#include "report/html.h"
#include "report/numbers.h"
#include "report/table.h"
#include "report/text.h"

namespace addnorm {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnknown = ProfileEntry::kUnknown;

struct SeverityLook {
  const char* name;
  const char* mark;
  Ink ink;
};
constexpr std::array<SeverityLook, 3> kSeverities{
    {{"broken", "✗", Ink::kBad}, {"suspicious", "!", Ink::kNegative}, {"note", "·", Ink::kFaint}}};

const SeverityLook& look(Severity severity) {
  return kSeverities[static_cast<std::size_t>(severity)];
}

/// What one layer shows, NaN where it was not measured.
struct LayerRow {
  std::size_t layer = 0;
  double stream = kUnknown;        ///< RMS of what it reads
  double attention = kUnknown;     ///< its branch ÷ the stream it reads
  double feed_forward = kUnknown;  ///< likewise
  double cosine = kUnknown;        ///< of what it reads and leaves
  double tokens = kUnknown;        ///< cosine of two tokens of what it reads
  double logits = kUnknown;        ///< largest of attention
  double entropy = kUnknown;
  double gradient = kUnknown;  ///< RMS, of what it reads
};

struct LayerColumn {
  const char* key;
  const char* name;
  double LayerRow::*member;
};
constexpr std::array<LayerColumn, 8> kColumns{{
    {"stream_rms", "stream", &LayerRow::stream},
    {"attention_share", "attn", &LayerRow::attention},
    {"feed_forward_share", "ff", &LayerRow::feed_forward},
    {"layer_cosine", "cosine", &LayerRow::cosine},
    {"token_cosine", "tokens", &LayerRow::tokens},
    {"logits_max", "logits", &LayerRow::logits},
    {"entropy", "entropy", &LayerRow::entropy},
    {"grad_rms", "gradient", &LayerRow::gradient},
}};

std::vector<LayerRow> layer_rows(const Subject& subject) {
  const Profile& profile = subject.profile;
  const std::size_t step = last_step(profile);
  std::vector<LayerRow> rows;
  for (std::size_t l = 0; l < profile.model.n_layers; ++l) {
    const auto at = [&](SublayerKind sublayer, Point point, double ProfileEntry::*member) {
      const ProfileEntry* entry = find_entry(profile, step, {l, sublayer, point});
      return entry == nullptr ? kUnknown : entry->*member;
    };
    using enum SublayerKind;
    const auto share = [&](SublayerKind sublayer) {
      double branch = at(sublayer, Point::kInside, &ProfileEntry::rms);
      if (std::isnan(branch)) branch = at(sublayer, Point::kBranch, &ProfileEntry::rms);
      return branch / at(sublayer, Point::kX, &ProfileEntry::rms);
    };
    double cosine = at(kFeedForward, Point::kAfter, &ProfileEntry::layer_cosine);
    if (std::isnan(cosine)) cosine = at(kFeedForward, Point::kSum, &ProfileEntry::layer_cosine);
    rows.push_back({.layer = l,
                    .stream = at(kAttention, Point::kX, &ProfileEntry::rms),
                    .attention = share(kAttention),
                    .feed_forward = share(kFeedForward),
                    .cosine = cosine,
                    .tokens = at(kAttention, Point::kX, &ProfileEntry::token_cosine),
                    .logits = at(kAttention, Point::kScores, &ProfileEntry::abs_max),
                    .entropy = at(kAttention, Point::kScores, &ProfileEntry::entropy),
                    .gradient = at(kAttention, Point::kX, &ProfileEntry::grad_rms)});
  }
  return rows;
}

std::string short_number(double value) {
  return std::isnan(value) ? "–" : fmt::format("{:.3g}", value);
}

/// All rows; of many, the first, the last and some between.
Table layer_table(const std::vector<LayerRow>& rows, std::size_t most) {
  std::vector<Column> columns{{"layer"}};
  std::vector<LayerColumn> known;
  for (const LayerColumn& column : kColumns) {
    const bool any = std::ranges::any_of(
        rows, [&](const LayerRow& row) { return !std::isnan(row.*column.member); });
    if (any) known.push_back(column);
  }
  for (const LayerColumn& column : known) columns.push_back({column.name});
  Table table(columns);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool shown = rows.size() <= most || i * (most - 1) / (rows.size() - 1) !=
                                                  (i + 1) * (most - 1) / (rows.size() - 1);
    if (!shown && i + 1 < rows.size()) continue;
    std::vector<Cell> cells{std::to_string(rows[i].layer)};
    for (const LayerColumn& column : known)
      cells.emplace_back(short_number(rows[i].*column.member));
    table.add_row(std::move(cells));
  }
  return table;
}

constexpr const char* kTableCaption =
    "stream: RMS of what a layer reads; attn, ff: RMS of attention and feed-forward as a share of "
    "it; cosine: of what the layer reads and leaves; tokens: mean cosine of two tokens; logits: "
    "the "
    "largest of attention, entropy: 1 where it looks everywhere; gradient: RMS at what the layer "
    "reads.";

std::string model_text(const ProfileModel& model) {
  std::vector<std::string> parts{model.model_type.empty() ? model.architecture : model.model_type};
  if (parts.front().empty()) parts.clear();
  if (!model.placement.empty()) parts.push_back(model.placement + "-norm");
  if (!model.norm.empty()) parts.emplace_back(model.norm == "rms" ? "RMSNorm" : "LayerNorm");
  if (model.eps > 0) parts.push_back(fmt::format("ε {:.0e}", model.eps));
  if (model.n_layers > 0) {
    parts.push_back(
        fmt::format("{} of width {}", format_count(model.n_layers, "layer"), model.d_model));
  }
  if (model.parameters > 0) parts.push_back(format_count(model.parameters) + " parameters");
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Findings of one rule that say the same of several places.
struct Group {
  std::vector<const Finding*> findings;
  const Finding& worst() const { return *findings.front(); }
};

std::vector<Group> grouped(const std::vector<Finding>& findings) {
  std::vector<Group> groups;
  for (const Finding& finding : findings) {
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.worst().rule == finding.rule && group.worst().fix == finding.fix;
    });
    if (same == groups.end()) {
      groups.push_back({{&finding}});
    } else {
      same->findings.push_back(&finding);
    }
  }
  return groups;
}

std::string places(const Group& group) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> names;
  for (const Finding* finding : group.findings) names.push_back(finding->where);
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, "; "));
  const std::size_t left = names.size() - kMost;
  names.resize(kMost);
  return fmt::format("{}; and {} more", fmt::join(names, "; "), left);
}

std::string indented(std::string_view label, std::string_view text, int width) {
  constexpr int kIndent = 12;
  std::string lines;
  std::istringstream wrapped(wrap(text, std::max(20, width - kIndent)));
  for (std::string line; std::getline(wrapped, line);) {
    const std::string head = lines.empty() ? fmt::format("  {}", label) : "";
    lines += pad(head, kIndent, Align::kLeft) + line + "\n";
  }
  return lines;
}

std::string group_text(const Group& group, int width) {
  const Finding& worst = group.worst();
  const SeverityLook& severity = look(worst.severity);
  std::string text =
      fmt::format("{} {}\n", paint(severity.ink, severity.mark), paint(Ink::kStrong, worst.rule));
  text += indented("where", places(group), width);
  text += indented("seen", worst.what, width);
  text +=
      indented(worst.severity == Severity::kNote ? "because" : "expected", worst.because, width);
  text += indented("fix", worst.fix, width);
  return text;
}

std::size_t count_defects(const std::vector<Group>& groups) {
  return static_cast<std::size_t>(std::ranges::count_if(
      groups, [](const Group& group) { return group.worst().severity != Severity::kNote; }));
}

std::string verdict_text(std::size_t defects) {
  return defects == 0 ? "no finding" : format_count(defects, "finding");
}

}  // namespace

bool Diagnosis::sound() const {
  return std::ranges::all_of(findings,
                             [](const Finding& f) { return f.severity == Severity::kNote; });
}

std::string doctor_text(const Diagnosis& diagnosis, int width) {
  const std::vector<Group> groups = grouped(diagnosis.findings);
  const std::size_t defects = count_defects(groups);
  std::string text = wrap(
      fmt::format("{}: {}", diagnosis.subject.name, model_text(diagnosis.subject.profile.model)),
      width);
  text +=
      fmt::format("\n{}\n", paint(defects == 0 ? Ink::kGood : Ink::kBad, verdict_text(defects)));
  for (const Group& group : groups) text += "\n" + group_text(group, width);
  const std::vector<LayerRow> rows = layer_rows(diagnosis.subject);
  if (!rows.empty()) {
    text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer"));
    text += to_text(layer_table(rows, 16), width);
    text += paint(Ink::kFaint, wrap(kTableCaption, width)) + "\n";
  }
  return text;
}

namespace {

/// What `one` finds and `other` does not, by rule and place.
std::string only_in(const Diagnosis& one, const Diagnosis& other, std::string_view label,
                    int width) {
  std::string text;
  for (const Finding& finding : one.findings) {
    const bool shared = std::ranges::any_of(other.findings, [&](const Finding& f) {
      return f.rule == finding.rule && f.where == finding.where;
    });
    if (shared || finding.severity == Severity::kNote) continue;
    text += wrap(fmt::format("{} {}: {}, {}: {}", look(finding.severity).mark, label, finding.rule,
                             finding.where, finding.what),
                 width) +
            "\n";
  }
  return text;
}

/// Where a number of both differs by more than a hundredth for the first time.
std::string parting(const std::vector<LayerRow>& one, const std::vector<LayerRow>& other) {
  for (std::size_t l = 0; l < std::min(one.size(), other.size()); ++l) {
    for (const LayerColumn& column : kColumns) {
      const double a = one[l].*column.member;
      const double b = other[l].*column.member;
      if (!(std::abs(a - b) > 0.01 * std::max(std::abs(a), std::abs(b)))) continue;
      return fmt::format("They part at layer {}: {} is {} and {}.", l, column.name, short_number(a),
                         short_number(b));
    }
  }
  return "No number by layer differs by more than 1 %.";
}

}  // namespace

std::string comparison_text(const Diagnosis& one, const Diagnosis& other, int width) {
  const std::vector<LayerRow> rows = layer_rows(one.subject);
  std::vector<LayerRow> ratios = layer_rows(other.subject);
  require(rows.size() == ratios.size(), "{} has {} layers, {} has {}: nothing to compare",
          one.subject.name, rows.size(), other.subject.name, ratios.size());
  std::string text =
      wrap(fmt::format("{} against {}", other.subject.name, one.subject.name), width);
  text += "\n" + only_in(one, other, "gone", width) + only_in(other, one, "new", width);
  text += parting(rows, ratios) + "\n";
  for (std::size_t l = 0; l < rows.size(); ++l) {
    for (const LayerColumn& column : kColumns) ratios[l].*column.member /= rows[l].*column.member;
  }
  text += fmt::format("\n{}\n", paint(Ink::kStrong, "By layer, as multiples"));
  return text + to_text(layer_table(ratios, 16), width);
}

std::string doctor_json(const Diagnosis& diagnosis) {
  const ProfileModel& model = diagnosis.subject.profile.model;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  Json findings = Json::array();
  for (const Finding& f : diagnosis.findings) {
    const bool in_layer = f.site.sublayer == SublayerKind::kAttention ||
                          f.site.sublayer == SublayerKind::kFeedForward;
    findings.push_back({{"rule", f.rule},
                        {"severity", look(f.severity).name},
                        {"where", f.where},
                        {"layer", in_layer ? Json(f.site.layer) : Json()},
                        {"sublayer", sublayer_name(f.site.sublayer)},
                        {"what", f.what},
                        {"because", f.because},
                        {"fix", f.fix},
                        {"measured", number(f.measured)},
                        {"expected", number(f.expected)}});
  }
  Json layers = Json::array();
  for (const LayerRow& row : layer_rows(diagnosis.subject)) {
    Json layer{{"layer", row.layer}};
    for (const LayerColumn& column : kColumns) {
      if (std::isfinite(row.*column.member)) layer[column.key] = row.*column.member;
    }
    layers.push_back(std::move(layer));
  }
  const Json document{{"target", diagnosis.subject.name},
                      {"status", diagnosis.sound() ? "sound" : "findings"},
                      {"model",
                       {{"type", model.model_type},
                        {"placement", model.placement},
                        {"norm", model.norm},
                        {"eps", model.eps},
                        {"d_model", model.d_model},
                        {"n_layers", model.n_layers},
                        {"parameters", model.parameters}}},
                      {"findings", std::move(findings)},
                      {"layers", std::move(layers)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

Chart chart_of(const std::vector<LayerRow>& rows, const char* title, const char* label,
               AxisScale scale, const std::vector<LayerColumn>& columns) {
  Chart chart{.title = title, .x = {.label = "layer"}, .y = {.label = label, .scale = scale}};
  for (const LayerColumn& column : columns) {
    Series series{.name = column.name};
    for (const LayerRow& row : rows) {
      if (std::isnan(row.*column.member)) continue;
      series.x.push_back(static_cast<double>(row.layer));
      series.y.push_back(row.*column.member);
    }
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  return chart;
}

/// Between branches that are independent of the stream, E‖x + f‖² = E‖x‖² + E‖f‖², and branches
/// that all point its way.
Series stream_band(const std::vector<LayerRow>& rows) {
  Series band{.name = "sums of the measured branches", .look = Look::kPrediction};
  double power = 0, length = 0;
  for (const LayerRow& row : rows) {
    if (std::isnan(row.stream) || std::isnan(row.attention) || std::isnan(row.feed_forward))
      return {};
    if (row.layer == 0) {
      power = row.stream * row.stream;
      length = row.stream;
    }
    band.x.push_back(static_cast<double>(row.layer));
    band.low.push_back(std::sqrt(power));
    band.high.push_back(length);
    const double attention = row.attention * row.stream;
    const double feed_forward = row.feed_forward * row.stream;
    power += attention * attention + feed_forward * feed_forward;
    length += attention + feed_forward;
  }
  return band;
}

}  // namespace

std::string doctor_html(const Diagnosis& diagnosis) {
  const std::vector<Group> groups = grouped(diagnosis.findings);
  HtmlPage page("Doctor: " + std::filesystem::path(diagnosis.subject.name).filename().string(),
                fmt::format("{}: {}.", model_text(diagnosis.subject.profile.model),
                            verdict_text(count_defects(groups))));
  page.section("Findings");
  if (groups.empty()) page.paragraph("Nothing was found, and there is nothing to note.");
  for (const Group& group : groups) {
    const Finding& worst = group.worst();
    page.paragraph(
        fmt::format("{}: {}. Expected: {}. Fix: {}.", places(group), worst.what, worst.because,
                    worst.fix),
        {fmt::format("{} ({})", worst.rule, look(worst.severity).name), look(worst.severity).ink});
  }
  const std::vector<LayerRow> rows = layer_rows(diagnosis.subject);
  if (rows.empty()) return page.str();
  page.section("By layer");
  const auto figure = [&](const Chart& chart, const char* caption) {
    if (!chart.series.empty()) page.figure(chart, caption);
  };
  Chart stream = chart_of(rows, "The residual stream", "RMS", AxisScale::kLog, {kColumns[0]});
  const std::string& placement = diagnosis.subject.profile.model.placement;
  if (placement == "pre" || placement == "sandwich" || placement == "reordered") {
    Series band = stream_band(rows);
    if (!band.x.empty()) stream.series.push_back(std::move(band));
  }
  figure(stream,
         "Of what each layer reads. The band runs from branches that are independent of the stream "
         "to branches that all point its way, of the sizes that were measured.");
  figure(chart_of(rows, "Branches", "share of the stream", AxisScale::kLog,
                  {kColumns[1], kColumns[2]}),
         "RMS of a branch as it goes into the sum, as a share of the stream that it joins.");
  figure(
      chart_of(rows, "Cosines", "cosine", AxisScale::kLinear, {kColumns[3], kColumns[4]}),
      "Of what a layer reads and leaves: near 1 it changes little. Of two tokens: near 1 they are "
      "all alike.");
  figure(chart_of(rows, "Attention logits", "largest logit", AxisScale::kLog, {kColumns[5]}),
         "Above 50 softmax in float32 passes one key.");
  figure(chart_of(rows, "Entropy of attention", "share of the largest possible", AxisScale::kLinear,
                  {kColumns[6]}),
         "1 where a query looks at all keys alike, 0 where it looks at one.");
  figure(chart_of(rows, "Gradient", "RMS", AxisScale::kLog, {kColumns[7]}),
         "Of the loss by what each layer reads.");
  page.table(layer_table(rows, rows.size()), kTableCaption);
  return page.str();
}

}  // namespace addnorm
