#include "report/lab_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/require.h"
#include "io/json.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/table.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

Series drawn(Series series, Look look, std::size_t color) {
  series.look = look;
  series.color = static_cast<int>(color);
  return series;
}

using Colors = std::map<std::string, std::size_t>;

/// Gives each of the panel's curves a colour: that of its name in earlier panels, or the first
/// unused one.
void choose_colors(const lab::Panel& panel, Colors& colors) {
  std::vector<std::string> names;
  for (const auto* curves : {&panel.measured, &panel.predicted}) {
    for (const Series& curve : *curves) names.push_back(curve.name);
  }
  auto is_taken = [&](std::size_t color) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      const auto chosen = colors.find(name);
      return chosen != colors.end() && chosen->second == color;
    });
  };
  for (const std::string& name : names) {
    if (colors.contains(name)) continue;
    std::size_t color = 0;
    while (is_taken(color)) ++color;
    colors.emplace(name, color);
  }
}

/// A prediction has the colour of the measured curve with its name, and then no legend entry.
Chart to_chart(const lab::Panel& panel, const Colors& colors) {
  Chart chart{.title = panel.title.text(),
              .x = panel.x,
              .y = panel.y,
              .maps = panel.maps,
              .value = panel.value};
  for (const Series& curve : panel.measured) {
    const std::size_t color = colors.at(curve.name);
    const Look look = color < kSeriesColors ? Look::kSolid : Look::kDashed;
    chart.series.push_back(drawn(curve, look, color));
  }
  for (const Series& curve : panel.predicted) {
    chart.series.push_back(drawn(curve, Look::kPrediction, colors.at(curve.name)));
    const bool is_measured = std::ranges::count(panel.measured, curve.name, &Series::name) > 0;
    if (is_measured) chart.series.back().name.clear();
  }
  if (!panel.x.names.empty()) {  // the axis names them, in one colour
    for (Series& s : chart.series) {
      if (std::ranges::count(panel.x.names, s.name) > 0) s.name.clear();
      if (!s.name.empty()) continue;
      s.color = 0;
      if (s.look == Look::kDashed) s.look = Look::kSolid;
    }
  }
  return chart;
}

}  // namespace

std::vector<Chart> to_charts(std::span<const lab::Panel> panels) {
  Colors colors;
  std::vector<Chart> charts;
  for (const lab::Panel& panel : panels) {
    choose_colors(panel, colors);
    charts.push_back(to_chart(panel, colors));
  }
  return charts;
}

namespace {

Ink ink_of(lab::Verdict verdict) {
  switch (verdict) {
    case lab::Verdict::kInside:
      return Ink::kGood;
    case lab::Verdict::kOutside:
      return Ink::kBad;
    default:
      return Ink::kFaint;
  }
}

Cell verdict_cell(lab::Verdict verdict) {
  return {std::string(to_string(verdict)), ink_of(verdict)};
}

enum class Tally { kNumbers, kInWords };

/// Returns "7 of 10 checks inside, 2 not applicable" or, in numbers, "7 of 10, 2 not applicable".
Message tally(const lab::FigureResult& result, Tally form) {
  const auto count = [&](lab::Verdict v) {
    return std::ranges::count(result.checks, v, &lab::Check::verdict);
  };
  const auto inside = count(lab::Verdict::kInside);
  const auto not_applicable = count(lab::Verdict::kNotApplicable);
  const auto judged = inside + count(lab::Verdict::kOutside);
  const Message text = form == Tally::kInWords ? msg("{} of {} checks inside", inside, judged)
                                               : msg("{} of {}", inside, judged);
  return not_applicable == 0 ? text : msg("{}, {} not applicable", text, not_applicable);
}

/// Returns "12 layers, width 128, 8 seeds from 0".
Message setting(const LabRun& run) {
  const lab::FigureOptions& o = run.options;
  Message text;
  const auto add = [&](const Message& part) {
    text = text.empty() ? part : msg("{}; {}", text, part);
  };
  const auto count = [](std::size_t n) { return Message::number(format_count(n)); };
  if (o.layers.size() == 1) {
    add(o.layers[0] == 1 ? msg("1 layer") : msg("{} layers", count(o.layers[0])));
  } else if (!o.layers.empty()) {
    add(msg("{} layers", fmt::format("{}", fmt::join(o.layers, ", "))));
  }
  if (o.width != 0) add(msg("width {}", o.width));
  add(o.seeds == 0   ? msg("seed {}", o.seed)
      : o.seeds == 1 ? msg("1 seed from {}", o.seed)
                     : msg("{} seeds from {}", count(o.seeds), o.seed));
  if (!o.placements.empty()) add(fmt::format("{}", fmt::join(o.placements, ", ")));
  if (run.figure.trains) add(msg("{} bytes of text", count(o.text.size())));
  return o.bug == nullptr ? text : msg("{}; broken on purpose: {}", text, o.bug->meaning);
}

/// Returns "measured 0.52, expected 0.4 to 0.6".
Message numbers(const lab::Check& check) {
  if (!check.detail.empty()) return check.detail;
  const Message measured = to_message(check.measured, 4);
  const Message low = to_message(check.low, 4), high = to_message(check.high, 4);
  if (std::isinf(check.high)) return msg("measured {}, expected at least {}", measured, low);
  if (std::isinf(check.low)) return msg("measured {}, expected at most {}", measured, high);
  return msg("measured {}, expected {} to {}", measured, low, high);
}

/// Sorts the checks: refuted ones first, not applicable ones last.
std::vector<lab::Check> in_order(std::vector<lab::Check> checks) {
  constexpr lab::Verdict kOrder[] = {lab::Verdict::kOutside, lab::Verdict::kInside,
                                     lab::Verdict::kNotApplicable};
  std::ranges::stable_sort(checks, std::less<>(), [&](const lab::Check& check) {
    return std::ranges::find(kOrder, check.verdict()) - kOrder;
  });
  return checks;
}

Message check_text(const lab::Check& check) {
  if (!check.unmet.empty()) {
    return msg("{}; but {} ({}).", check.claim, check.unmet, check.source);
  }
  return msg("{}; {} ({}).", check.claim, numbers(check), check.source);
}

/// Returns the caption, with an explanation of the panel's curves.
Message caption_of(const lab::Panel& panel) {
  auto any = [](const std::vector<Series>& curves, const auto& holds) {
    return std::ranges::any_of(curves, holds);
  };
  auto is_measured = [&](const Series& predicted) {
    return !predicted.y.empty() && any(panel.measured, [&](const Series& measured) {
      return measured.name == predicted.name;
    });
  };
  auto has_band = [](const Series& curve) { return !curve.low.empty(); };
  auto is_cut = [](const Series& curve) { return breaks_at(curve).has_value(); };
  Message text = panel.caption;
  const auto add = [&](bool holds, const char* sentence) {
    if (holds) text = msg("{} {}", text, sentence);
  };
  add(any(panel.predicted, is_measured), msg("Pale and wide line: the prediction of theory."));
  add(any(panel.predicted, has_band), msg("Dotted edges: the range that agrees with it."));
  add(any(panel.measured, is_cut), msg("Cross: the last point before a run diverged."));
  add(any(panel.measured, has_band), msg("Band of a line: from the smallest to the largest seed."));
  return text;
}

/// Lines of at most `width` columns, the second and what follows indented.
std::string hanging(std::string_view text, int width) {
  std::string lines = wrap(text, width - 2);
  for (std::size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 3) {
    lines.replace(at, 1, "\n  ");
  }
  return lines + "\n";
}

}  // namespace

std::string lab_text(const LabRun& run, int width) {
  const auto lines = [&](std::string_view text) { return wrap(text, width) + "\n"; };
  const auto faint = [&](std::string_view text) {
    return paint(Ink::kFaint, wrap(text, width)) + "\n";
  };
  std::string out = paint(Ink::kStrong, wrap(run.figure.title, width)) + "\n" +
                    lines(run.figure.question) + faint(setting(run).text());
  const std::vector<Chart> charts = to_charts(run.result.panels);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += "\n" + draw_plot(charts[i], width) + faint(run.result.panels[i].caption.text());
  }
  out += "\n";
  for (const lab::Check& c : in_order(run.result.checks)) {
    const Cell verdict = verdict_cell(c.verdict());
    out += hanging(paint(verdict.ink, verdict.text) + ": " + check_text(c).text(), width);
  }
  const Cell verdict = verdict_cell(run.result.verdict());
  out += fmt::format("Verdict: {}, {}\n", paint(verdict.ink, verdict.text),
                     tally(run.result, Tally::kInWords));
  if (run.options.bug != nullptr && run.result.verdict() != lab::Verdict::kOutside) {
    out += lines(fmt::format("This figure does not detect the bug: {}.", run.options.bug->meaning));
  }
  return out;
}

namespace {

/// Returns a table of runs or entries, whose figures are named by the label.
template <typename Run>
Table summary(std::span<const Run> runs, std::string_view lab::Figure::*label) {
  Table table(
      {{"figure", Align::kLeft}, {"verdict", Align::kLeft}, {"checks inside", Align::kLeft}});
  for (const Run& run : runs) {
    table.add_row({{std::string(run.figure.*label), Ink::kPlain, std::string(run.figure.name)},
                   verdict_cell(run.result.verdict()),
                   tally(run.result, Tally::kNumbers).text()});
  }
  return table;
}

}  // namespace

std::string lab_summary(std::span<const LabRun> runs, int width) {
  return to_text(summary(runs, &lab::Figure::name), width);
}

namespace {

using io::Json;

Json axis_json(const Axis& axis) {
  Json json{{"label", axis.label}, {"scale", axis.scale == AxisScale::kLog ? "log" : "linear"}};
  if (axis.low) json["low"] = *axis.low;
  if (axis.high) json["high"] = *axis.high;
  if (axis.bounds) json["bounds"] = *axis.bounds;
  if (!axis.names.empty()) json["names"] = axis.names;
  return json;
}

Json curves_json(const std::vector<Series>& curves) {
  Json json = Json::array();
  for (const Series& c : curves) {
    json.push_back({{"name", c.name}, {"x", c.x}, {"y", c.y}, {"low", c.low}, {"high", c.high}});
    if (!c.error.empty()) json.back()["standard_error"] = c.error;
  }
  return json;
}

Json panel_json(const lab::Panel& panel) {
  Json json{{"title", panel.title.text()},
            {"x", axis_json(panel.x)},
            {"y", axis_json(panel.y)},
            {"caption", panel.caption.text()},
            {"measured", curves_json(panel.measured)},
            {"predicted", curves_json(panel.predicted)}};
  if (panel.maps.empty()) return json;
  json["value"] = panel.value;
  for (const HeatMap& map : panel.maps) {
    json["maps"].push_back({{"name", map.name}, {"rows", map.rows}});
  }
  return json;
}

Json check_json(const lab::Check& c) {
  return {{"claim", c.claim.text()}, {"source", c.source.text()},
          {"measured", c.measured},  {"low", c.low},
          {"high", c.high},          {"detail", c.detail.text()},
          {"unmet", c.unmet.text()}, {"verdict", to_string(c.verdict())}};
}

Json run_json(const LabRun& run, const Language& language) {
  const auto in_language = [&](const Message& message) { return message.text(language); };
  Json json{{"figure", run.figure.name},
            {"title", in_language(run.figure.title)},
            {"question", in_language(run.figure.question)},
            {"source", in_language(run.figure.source)},
            {"options", lab::options_json(run.figure, run.options)},
            {"setting", in_language(setting(run))},
            {"panels", Json::array()},
            {"checks", Json::array()},
            {"verdict", to_string(run.result.verdict())}};
  for (const lab::Panel& panel : run.result.panels) json["panels"].push_back(panel_json(panel));
  for (const lab::Check& check : run.result.checks) json["checks"].push_back(check_json(check));
  return json;
}

}  // namespace

std::string lab_json(const LabRun& run) {
  return run_json(run, {}).dump(1) + "\n";
}

namespace {

/// Returns the panel with its names in this language.
lab::Panel translated(lab::Panel panel, const Language& language) {
  const auto translate = [&](std::string& name) { name = Message(name).text(language); };
  panel.title = panel.title.text(language);
  translate(panel.value);
  for (Axis* axis : {&panel.x, &panel.y}) {
    translate(axis->label);
    std::ranges::for_each(axis->names, translate);
  }
  for (auto* curves : {&panel.measured, &panel.predicted}) {
    for (Series& curve : *curves) translate(curve.name);
  }
  for (HeatMap& map : panel.maps) translate(map.name);
  return panel;
}

/// Adds the ends of the axes, and the colour of each curve with its name in the legend, if it has
/// an entry there.
void add_drawing(Json& panel, const Chart& chart) {
  check(chart);
  if (!chart.maps.empty()) return;
  const Range x = x_range(chart), y = y_range(chart);
  panel["x"]["range"] = {x.low, x.high};
  panel["y"]["range"] = {y.low, y.high};
  auto series = chart.series.begin();
  for (const char* curves : {"measured", "predicted"}) {
    for (Json& curve : panel[curves]) {
      curve["color"] = *series->color;
      curve["key"] = (series++)->name;
    }
  }
}

}  // namespace

std::string lab_page_json(LabRun run, const Language& language) {
  for (lab::Panel& panel : run.result.panels) panel = translated(std::move(panel), language);
  Json json = run_json(run, language);
  json["tally"] = tally(run.result, Tally::kInWords).text(language);
  const std::vector<Chart> charts = to_charts(run.result.panels);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    add_drawing(json["panels"][i], charts[i]);
    json["panels"][i]["caption"] = caption_of(run.result.panels[i]).text(language);
  }
  json["checks"] = Json::array();
  for (const lab::Check& check : in_order(run.result.checks)) {
    json["checks"].push_back(check_json(check));
    json["checks"].back()["text"] = check_text(check).text(language);
  }
  return json.dump();
}

std::string lab_svg(const LabRun& run) {
  ChartSheet sheet{.title = std::string(run.figure.title),
                   .lead = {std::string(run.figure.question), setting(run).text(),
                            fmt::format("Verdict: {}, {}", to_string(run.result.verdict()),
                                        tally(run.result, Tally::kInWords))}};
  const std::vector<Chart> charts = to_charts(run.result.panels);
  for (std::size_t i = 0; i < charts.size(); ++i) {
    sheet.parts.push_back({charts[i], caption_of(run.result.panels[i]).text()});
  }
  return to_svg(sheet);
}

LabEntry lab_entry(const LabRun& run) {
  return {run.figure, setting(run).text(), run.result};
}

std::string lab_html(std::span<const LabEntry> entries) {
  HtmlPage page("The lab: measurement and theory",
                "Random networks are measured and compared with theory on the same axes. Each "
                "claim gets a verdict: inside if the measurement agrees with the prediction, "
                "outside if it does not, not applicable if an assumption of the claim does not "
                "hold here. ± is four standard errors of a mean over seeds.");
  page.table(summary(entries, &lab::Figure::title),
             "Each figure checks several claims. A claim is inside if the measurement agrees with "
             "the prediction.");
  for (const auto& [figure, setting, result] : entries) {
    page.section(figure.title, figure.name);
    page.paragraph(figure.question);
    page.paragraph(fmt::format("{}. After {}.", setting, figure.source), "Setting");
    page.paragraph(fmt::format("{}.", tally(result, Tally::kInWords)),
                   verdict_cell(result.verdict()));
    const std::vector<Chart> charts = to_charts(result.panels);
    for (std::size_t i = 0; i < charts.size(); ++i) {
      page.figure(charts[i], caption_of(result.panels[i]).text());
    }
    std::vector<HtmlPage::Item> checks;
    for (const lab::Check& c : in_order(result.checks)) {
      checks.push_back({verdict_cell(c.verdict()), check_text(c).text()});
    }
    page.list(checks);
  }
  return page.str();
}

namespace {

/// Returns the figure's options as flags with their default values.
std::string flags_of(const lab::Figure& figure) {
  const lab::FigureOptions own = figure.defaults();
  std::vector<std::string> flags;
  for (const lab::FigureOption& option : lab::figure_options()) {
    if (option.is_set(own)) flags.push_back(fmt::format("{} {}", option.flag, option.text(own)));
  }
  flags.push_back(fmt::format("--seed {}", own.seed));
  if (figure.trains) flags.emplace_back("--text FILE...");
  return fmt::format("{}", fmt::join(flags, " "));
}

}  // namespace

std::string lab_list_text(std::span<const lab::Figure> figures, int width) {
  std::string out;
  auto add = [&](std::string_view name, std::string_view text) {
    out += hanging(fmt::format("{}: {}", paint(Ink::kStrong, name), text), width);
  };
  for (const lab::Figure& figure : figures) {
    add(figure.name, figure.title);
    out += "  " + paint(Ink::kFaint, hanging(flags_of(figure), width - 2));
  }
  out += "\n" + wrap("--break puts one of these bugs into the measured network:", width) + "\n";
  for (const lab::SilentBug& bug : lab::silent_bugs()) add(bug.name, bug.meaning);
  return out;
}

std::string lab_list_json(std::span<const lab::Figure> figures) {
  Json json{{"figures", Json::array()}, {"bugs", Json::array()}};
  for (const lab::Figure& figure : figures) {
    json["figures"].push_back({{"name", figure.name},
                               {"title", figure.title},
                               {"question", figure.question},
                               {"source", figure.source},
                               {"options", lab::options_json(figure, figure.defaults())},
                               {"trains", figure.trains}});
  }
  for (const lab::SilentBug& bug : lab::silent_bugs()) {
    json["bugs"].push_back({{"name", bug.name}, {"meaning", bug.meaning}});
  }
  return json.dump(1) + "\n";
}

}  // namespace addnorm::report
