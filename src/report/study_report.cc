#include "report/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "io/json.h"
#include "io/profile.h"
#include "report/bars.h"
#include "report/html.h"
#include "report/table.h"

namespace addnorm::report {
namespace {

/// Returns "weight_decay" for "weight-decay".
std::string json_key(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

/// Returns "; decay cosine" for each setting that differs from a study's default and is not in
/// setting().
std::string other_settings(const run::RunConfig& config) {
  constexpr std::array<std::string_view, 12> kHaveWords{
      "norm",  "layers", "width",   "heads",      "init", "batch",
      "steps", "lr",     "context", "accumulate", "seed", "warm-up"};
  const io::Json given = run::to_json(config);
  const io::Json own = run::to_json(lab::study_config());
  std::string text;
  for (const run::Setting& setting : run::settings()) {
    const std::string name(setting.name);
    const bool has_words = std::ranges::count(kHaveWords, setting.name) > 0;
    if (!setting.in_study || has_words || given[name] == own[name]) continue;
    text +=
        fmt::format("; {} {}", name,
                    given[name].is_string() ? given[name].get<std::string>() : given[name].dump());
  }
  return text;
}

std::string setting(const lab::Study& study) {
  const lab::StudyOptions& o = study.options;
  const run::RunConfig& c = o.config;
  return fmt::format(
      "{}, width {}, {}, {}, {} weights; {}; {} of text, {} of {} a step, {}, learning rate {}, "
      "warm-up over {} or none, {}{}",
      format_count(c.layers, "layer"), c.width, format_count(c.heads, "head"),
      format_count(study.runs.front().parameters, "parameter"), c.initialization,
      title_of(parse<NormKind>("norm", c.norm)), format_count(study.text_bytes, "byte"),
      format_count(c.batch * c.accumulate, "window"), format_count(c.context, "byte"),
      format_count(c.steps, "step"), c.learning_rate, format_count(o.warm_up(), "step"),
      format_count(o.seeds, "seed"), other_settings(c));
}

Cell loss_cell(const lab::Spread& loss, const lab::Study& study) {
  if (!std::isfinite(loss.mean)) return {"diverged", Ink::kBad};
  std::string text = fmt::format("{:.2f}", loss.mean);
  if (study.options.seeds > 1) text += fmt::format("±{:.2f}", loss.deviation);
  return {text, loss.mean < study.unigram_loss - lab::kLearned ? Ink::kPlain : Ink::kBad};
}

Ink ink_of(lab::Strength strength) {
  return strength == lab::Strength::kKeeps ? Ink::kPlain : Ink::kBad;
}

Ink ink_of(lab::Holds holds) {
  return holds == lab::Holds::kNo ? Ink::kBad : Ink::kGood;
}

std::string word_of(lab::Holds holds) {
  switch (holds) {
    case lab::Holds::kYes:
      return "holds";
    case lab::Holds::kPartly:
      return "holds in part";
    default:
      return "not seen here";
  }
}

std::string claim_text(const lab::StudyClaim& claim) {
  return fmt::format("{}. {} ({}).", claim.claim, claim.evidence, claim.source);
}

/// Returns "0.81", "120", "2e-12"; red if the ratio leaves a layer no usable signal.
std::string ratio_text(double ratio) {
  if (std::isinf(ratio)) return "∞";
  return ratio >= 100 && ratio < 1e4 ? fmt::format("{:.0f}", ratio) : fmt::format("{:.2g}", ratio);
}

Cell curve_cell(const std::vector<double>& curve, double ratio, lab::Strength strength) {
  return {sparkline(curve, AxisScale::kLog) + " ×" + ratio_text(ratio), ink_of(strength)};
}

Table summary(const StudyReport& report) {
  Table table({{"placement", Align::kLeft},
               {"stream by layer", Align::kLeft},
               {"gradient by layer", Align::kLeft},
               {"loss"},
               {"warm-up"}});
  for (const lab::StudyFinding& f : report.findings) {
    table.add_row({{f.placement, Ink::kStrong},
                   curve_cell(f.stream_by_layer, f.ends.stream, f.stream),
                   curve_cell(f.gradient_by_layer, f.ends.gradient, f.gradient),
                   loss_cell(f.without_warm_up, report.study),
                   loss_cell(f.with_warm_up, report.study)});
  }
  return table;
}

constexpr const char* kHowToRead =
    "Stream and gradient: root mean square by layer before training, on a logarithmic scale, from "
    "the input of layer 0 to the output of the last layer. ×: last over first for the stream, "
    "layer 0 over the last for the gradient. Loss: nats per byte on held-out text, mean ± standard "
    "deviation over seeds. Red: beyond a hundredth or a hundredfold, or a loss not better than "
    "byte frequencies.";

std::string baseline(const lab::Study& study) {
  return fmt::format(
      "Byte frequencies alone give a loss of {:.2f}; a guess among 256 bytes gives {:.2f}.",
      study.unigram_loss, std::log(256.0));
}

}  // namespace

std::string study_text(const StudyReport& report, int width) {
  auto lines = [&](std::string_view text) { return wrap(text, width) + "\n"; };
  std::string out = lines(setting(report.study)) + "\n" + to_text(summary(report), width) + "\n" +
                    lines(kHowToRead) + lines(baseline(report.study)) + "\n";
  for (const lab::StudyFinding& f : report.findings) {
    out += lines(paint(Ink::kStrong, f.placement) + ": " + f.verdict.text());
  }
  if (!report.claims.empty())
    out += "\n" + paint(Ink::kStrong, "Claims from the literature") + "\n";
  for (const lab::StudyClaim& c : report.claims) {
    out += lines(paint(ink_of(c.holds), word_of(c.holds)) + ": " + claim_text(c));
  }
  return out;
}

namespace {

/// Returns, by layer, the geometric mean over seeds, and the band from the smallest to the largest
/// value.
Series layer_series(const std::string& name, const std::vector<double>& mean,
                    const std::vector<std::vector<double>>& seeds) {
  Series series{.name = name, .y = mean};
  for (std::size_t l = 0; l < mean.size(); ++l) {
    double low = seeds[0][l];
    double high = low;
    for (const auto& curve : seeds) {
      low = std::min(low, curve[l]);
      high = std::max(high, curve[l]);
    }
    series.x.push_back(static_cast<double>(l));
    series.low.push_back(low);
    series.high.push_back(high);
  }
  return series;
}

Chart layer_chart(const StudyReport& report, const char* title,
                  std::vector<double> lab::StudyFinding::*mean,
                  std::vector<std::vector<double>> lab::LayerCurves::*seeds) {
  Chart chart{.title = title,
              .x = {.label = "layer"},
              .y = {.label = "root mean square", .scale = AxisScale::kLog}};
  for (const lab::StudyFinding& f : report.findings) {
    chart.series.push_back(layer_series(f.placement, f.*mean, f.curves.*seeds));
  }
  return chart;
}

/// Returns a run's losses, averaged over `bucket` steps each.
std::vector<double> bucket_means(const lab::StudyRun& run, std::size_t bucket,
                                 std::size_t buckets) {
  std::vector<double> means;
  for (std::size_t b = 0; b < buckets; ++b) {
    double sum = 0;
    const std::size_t end = (b + 1) * bucket;
    for (std::size_t i = b * bucket; i < end; ++i) {
      sum += i < run.losses.size() ? run.losses[i] : std::nan("");
    }
    means.push_back(sum / static_cast<double>(bucket));
  }
  return means;
}

Series loss_series(const lab::Study& study, const std::string& placement, std::size_t warm_up) {
  const std::size_t bucket = std::max<std::size_t>(1, study.options.config.steps / 40);
  const std::size_t buckets = study.options.config.steps / bucket;
  std::vector<std::vector<double>> seeds;
  for (const lab::StudyRun& run : study.runs) {
    if (run.placement == placement && run.warm_up == warm_up) {
      seeds.push_back(bucket_means(run, bucket, buckets));
    }
  }
  Series series{.name = placement};
  for (std::size_t b = 0; b < buckets; ++b) {
    std::vector<double> values(seeds.size());
    for (std::size_t i = 0; i < seeds.size(); ++i) values[i] = seeds[i][b];
    const lab::Spread spread = lab::spread_of(values);
    series.x.push_back((static_cast<double>(b) + 0.5) * static_cast<double>(bucket));
    series.y.push_back(spread.mean);
    series.low.push_back(spread.mean - spread.deviation);
    series.high.push_back(spread.mean + spread.deviation);
  }
  return series;
}

/// Both loss charts have the same axis, so that they can be compared.
Chart loss_chart(const StudyReport& report, const char* title, std::size_t warm_up) {
  Chart chart{.title = title,
              .x = {.label = "step"},
              .y = {.label = "training loss, nats per byte", .high = 6.0}};
  for (const lab::StudyFinding& f : report.findings) {
    chart.series.push_back(loss_series(report.study, f.placement, warm_up));
  }
  const double steps = static_cast<double>(report.study.options.config.steps);
  const double unigram = report.study.unigram_loss;
  chart.series.push_back({.name = "byte frequencies alone",
                          .x = {0, steps},
                          .y = {unigram, unigram},
                          .look = Look::kPrediction});
  return chart;
}

}  // namespace

std::string study_html(const StudyReport& report) {
  HtmlPage page("Add & Norm: which stacks keep signal and gradient, and which train",
                "The same small Transformer, trained on the same text, with its residual "
                "connections and norms arranged in different ways. " +
                    setting(report.study) + ".");
  page.section("What was found");
  page.table(summary(report), std::string(kHowToRead) + " " + baseline(report.study));
  for (const lab::StudyFinding& f : report.findings) page.paragraph(f.verdict.text(), f.placement);
  page.section("Signal and gradient before training")
      .figure(layer_chart(report, "The residual stream by layer",
                          &lab::StudyFinding::stream_by_layer, &lab::LayerCurves::stream_rms),
              "Root mean square of the stream that each layer reads, at initialization; the last "
              "point is the output of the last layer. Line: geometric mean over seeds; band: from "
              "the smallest to the largest.")
      .figure(layer_chart(report, "The gradient by layer", &lab::StudyFinding::gradient_by_layer,
                          &lab::LayerCurves::gradient_rms),
              "Root mean square of the loss's gradient with respect to the same stream.");
  page.section("Training")
      .figure(loss_chart(report, "Without warm-up", 0),
              "The learning rate has its full size from the first step. Band: one standard "
              "deviation over seeds.");
  page.figure(loss_chart(report, "With warm-up", report.study.options.warm_up()),
              "The learning rate grows over the first " +
                  format_count(report.study.options.warm_up(), "step") + ".");
  if (!report.claims.empty()) page.section("Claims about these stacks, and what was measured");
  for (const lab::StudyClaim& c : report.claims) page.paragraph(claim_text(c), word_of(c.holds));
  return page.str();
}

std::string study_json(const StudyReport& report) {
  const lab::StudyOptions& o = report.study.options;
  io::Json options{{"placements", o.placements}, {"seeds", o.seeds}};
  const io::Json settings = run::to_json(o.config);
  for (const auto& [name, value] : settings.items()) {
    if (run::find_setting(name, "study").in_study) options[json_key(name)] = value;
  }
  options["warm_up"] = o.warm_up();
  io::Json json{{"options", std::move(options)},
                {"text_bytes", report.study.text_bytes},
                {"unigram_loss", report.study.unigram_loss}};
  auto spread = [](const lab::Spread& s) {
    return io::Json{{"mean", s.mean}, {"deviation", s.deviation}};
  };
  auto ends = [](const lab::StudyFinding& f) {
    io::Json by_initialization;
    auto put = [&](const lab::EndRatios& r) {
      by_initialization[to_string(r.initialization)] = {{"stream", r.stream},
                                                        {"gradient", r.gradient}};
    };
    put(f.ends);
    for (const lab::EndRatios& r : f.other_ends) put(r);
    return by_initialization;
  };
  for (const lab::StudyFinding& f : report.findings) {
    json["placements"].push_back({{"placement", f.placement},
                                  {"verdict", f.verdict.text()},
                                  {"stream_rms", f.curves.stream_rms},
                                  {"gradient_rms", f.curves.gradient_rms},
                                  {"end_ratios", ends(f)},
                                  {"loss_without_warm_up", spread(f.without_warm_up)},
                                  {"loss_with_warm_up", spread(f.with_warm_up)},
                                  {"diverged", f.diverged},
                                  {"agreeing_seeds", f.agreeing_seeds()}});
  }
  for (const lab::StudyClaim& c : report.claims) {
    json["claims"].push_back({{"claim", c.claim.text()},
                              {"source", c.source},
                              {"holds", word_of(c.holds)},
                              {"evidence", c.evidence.text()},
                              {"agreeing_seeds", c.agreeing_seeds}});
  }
  for (const lab::StudyRun& run : report.study.runs) {
    json["runs"].push_back({{"placement", run.placement},
                            {"seed", run.seed},
                            {"warm_up", run.warm_up},
                            {"parameters", run.parameters},
                            {"validation_loss", run.validation_loss},
                            {"losses", run.losses}});
  }
  return json.dump(1) + "\n";
}

std::string study_profile(const StudyReport& report) {
  const DecoderOptions model = run::decoder_options(report.study.options.config);
  std::string lines;
  for (const lab::StudyRun& run : report.study.runs) {
    if (run.warm_up != 0) continue;  // the same model before training
    lines += io::profile_json_lines({.d_model = model.block.d_model,
                                     .n_layers = model.placements.size(),
                                     .n_heads = model.block.n_heads,
                                     .d_ff = model.block.d_ff,
                                     .placement = run.placement,
                                     .norm = model.block.norm.kind,
                                     .eps = model.block.norm.epsilon,
                                     .parameters = run.parameters,
                                     .seed = run.seed},
                                    run.initial);
  }
  return lines;
}

}  // namespace addnorm::report
