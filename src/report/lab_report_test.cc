#include "report/lab_report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "addnorm/error.h"
#include "report/svg.h"
#include "report/terminal.h"
#include "report/theme.h"

namespace addnorm::report {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr lab::Figure kFigure{
    .name = "a-figure",
    .title = "A title",
    .question = "Is 1 < 2?",
    .source = "Nobody 2000",
    .defaults = [] { return lab::FigureOptions{.layers = {4}, .seeds = 2}; }};

lab::Check check_of(double measured) {
  return {.claim = "It is so", .source = "a book", .measured = measured, .low = 1, .high = 2};
}

LabRun some_run() {
  LabRun run{kFigure, {.layers = {4}, .seeds = 2, .seed = 7}, {}};
  lab::Panel panel{.title = "A panel",
                   .x = {"layer"},
                   .y = {"size", AxisScale::kLog},
                   .caption = "What it shows.",
                   .measured = {{"here", {0, 1}, {1, NAN}, {1, 1}, {2, HUGE_VAL}}},
                   .predicted = {{"here", {0, 1}, {1, 2}}, {"there", {0, 1}, {}, {1, 1}, {3, 3}}}};
  run.result = {{panel}, {check_of(1.5), check_of(3)}};
  run.result.checks.push_back(check_of(9));
  run.result.checks.back().unmet = "the stack has no skip";
  return run;
}

TEST(LabReport, LaysAPredictionOverItsMeasurement) {
  const Chart chart = to_charts(some_run().result.panels)[0];
  ASSERT_EQ(chart.series.size(), 3u);
  EXPECT_EQ(chart.y.scale, AxisScale::kLog);
  EXPECT_EQ(chart.series[0].look, Look::kSolid);
  EXPECT_EQ(chart.series[1].look, Look::kPrediction);
  EXPECT_EQ(chart.series[1].color, chart.series[0].color);
  EXPECT_EQ(chart.series[1].name, "");
  EXPECT_EQ(chart.series[2].look, Look::kPrediction);
  EXPECT_NE(chart.series[2].color, chart.series[0].color);
  EXPECT_EQ(chart.series[2].name, "there");
}

TEST(LabReport, HasHeatMapsInEveryForm) {
  LabRun run{kFigure, {.layers = {4}, .seeds = 2}, {}};
  run.result.panels = {{.title = "A panel",
                        .caption = "What it shows.",
                        .maps = {{"predicted", {{1}, {0.5, 2}}}, {"measured", {{1}, {NAN, 2}}}},
                        .value = "weight"}};
  const Json panel = Json::parse(lab_json(run))["panels"][0];
  EXPECT_EQ(panel["value"], "weight");
  EXPECT_EQ(panel["maps"][0], Json::parse(R"({"name":"predicted","rows":[[1.0],[0.5,2.0]]})"));
  EXPECT_EQ(panel["maps"][1]["rows"][1], Json::parse("[null,2.0]"));
  EXPECT_EQ(Json::parse(lab_page_json(run))["panels"][0]["maps"], panel["maps"]);
  EXPECT_THAT(adapt(lab_text(run, 80), {}), HasSubstr("weight:  · 0  ░ 0.50"));
}

TEST(LabReport, TellsMoreCurvesThanColorsApart) {
  lab::Panel panel;
  for (int i = 0; i < 12; ++i) panel.measured.push_back({std::to_string(i), {0}, {1}});
  panel.predicted = {{"10", {0}, {1}}};
  const Chart chart = to_charts({&panel, 1})[0];
  EXPECT_EQ(chart.series[7].look, Look::kSolid);
  EXPECT_EQ(chart.series[8].look, Look::kDashed);
  EXPECT_EQ(chart.series[12].color, chart.series[10].color);
}

TEST(LabReport, SaysWhatWasFoundAndOfWhat) {
  const std::string text = adapt(lab_text(some_run(), 80), {});
  for (const char* part :
       {"A title\n", "Is 1 < 2?\n", "4 layers; 2 seeds from 7\n", "What it shows.\n",
        "inside: It is so; measured 1.500, expected 1.000 to 2.000 (a book).\n",
        "outside: It is so; measured 3.000",
        "not applicable: It is so; but the stack has no skip (a book)",
        "Verdict: outside, 1 of 2 checks inside, 1 not applicable\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  const std::vector<LabRun> runs{some_run()};
  EXPECT_THAT(adapt(lab_summary(runs, 80), {}),
              HasSubstr("a-figure  outside  1 of 2, 1 not applicable\n"));
}

TEST(LabReport, NamesALimitThatThereIsOnly) {
  LabRun run = some_run();
  run.result.checks = {check_of(1.5), check_of(1.5), check_of(1.5)};
  run.result.checks[0].high = HUGE_VAL;
  run.result.checks[1].low = -HUGE_VAL;
  run.result.checks[2].detail = "farthest at 3";
  const std::string text = adapt(lab_text(run, 80), {});
  EXPECT_THAT(text, HasSubstr("measured 1.500, expected at least 1.000 (a book)"));
  EXPECT_THAT(text, HasSubstr("measured 1.500, expected at most 2.000 (a book)"));
  EXPECT_THAT(text, HasSubstr("It is so; farthest at 3 (a book)"));
}

TEST(LabReport, SaysWhatWasBroken) {
  LabRun run = some_run();
  run.options.bug = &lab::find_silent_bug("rms-for-layer");
  EXPECT_THAT(adapt(lab_text(run, 80), {}), HasSubstr("RMSNorm is used instead of"));
  EXPECT_EQ(Json::parse(lab_json(run))["options"]["bug"], "rms-for-layer");
}

TEST(LabReport, IsThePromisedJson) {
  const Json json = Json::parse(lab_json(some_run()));
  EXPECT_EQ(json["figure"], "a-figure");
  EXPECT_EQ(json["options"], Json({{"layers", {4}}, {"seeds", 2}, {"seed", 7}}));
  const Json& panel = json["panels"][0];
  EXPECT_EQ(panel["y"], Json({{"label", "size"}, {"scale", "log"}}));
  EXPECT_EQ(panel["x"]["scale"], "linear");
  EXPECT_EQ(panel["measured"][0]["y"], Json({1.0, nullptr}));
  EXPECT_EQ(panel["measured"][0]["high"], Json({2.0, nullptr}));
  EXPECT_EQ(panel["predicted"][1]["y"], Json::array());
  EXPECT_EQ(json["checks"][1]["verdict"], "outside");
  EXPECT_EQ(json["checks"][2]["unmet"], "the stack has no skip");
  EXPECT_EQ(json["verdict"], "outside");
}

TEST(LabReport, HasWhatAPageShowsBesideTheNumbers) {
  const LabRun run = some_run();
  Json json = Json::parse(lab_page_json(run));
  const Json numbers = Json::parse(lab_json(run));
  EXPECT_THAT(json["panels"][0]["caption"].get<std::string>(),
              HasSubstr("What it shows. Pale and wide"));
  const Chart chart = to_charts(run.result.panels)[0];
  EXPECT_EQ(json["panels"][0]["x"]["range"], Json({x_range(chart).low, x_range(chart).high}));
  EXPECT_EQ(json["panels"][0]["y"]["range"], Json({y_range(chart).low, y_range(chart).high}));
  std::size_t series = 0;
  for (const char* curves : {"measured", "predicted"}) {
    for (std::size_t i = 0; i < json["panels"][0][curves].size(); ++i, ++series) {
      Json& curve = json["panels"][0][curves][i];
      EXPECT_EQ(curve["color"], chart.series[series].color);
      EXPECT_EQ(curve["key"], chart.series[series].name);
      curve.erase("color");
      curve.erase("key");
      EXPECT_EQ(curve, numbers["panels"][0][curves][i]);
    }
  }
  EXPECT_THAT(json["checks"][2]["text"].get<std::string>(), HasSubstr("the stack has no skip"));
  EXPECT_THAT(json["tally"].get<std::string>(), HasSubstr("checks inside"));
  EXPECT_THAT(json["setting"].get<std::string>(), HasSubstr("2 seeds from 7"));
}

TEST(LabReport, NamesTheSeedOfAFigureThatDrawsOnce) {
  constexpr lab::Figure kOnce{.name = "once",
                              .defaults = [] { return lab::FigureOptions{.width = 16}; }};
  const LabRun run{kOnce, {.width = 16, .seed = 3}, {}};
  EXPECT_THAT(adapt(lab_text(run, 80), {}), HasSubstr("width 16; seed 3\n"));
  EXPECT_EQ(Json::parse(lab_json(run))["options"], Json({{"width", 16}, {"seed", 3}}));
  EXPECT_THAT(adapt(lab_list_text({&kOnce, 1}, 80), {}), HasSubstr("--width 16 --seed 0\n"));
}

TEST(LabReport, DrawsAllPanelsInOneImage) {
  const std::string svg = lab_svg(some_run());
  for (const char* part : {"<title>A title</title>", "Is 1 &lt; 2?", "Verdict: outside", "A panel",
                           "What it shows. Pale and wide"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
}

TEST(LabReport, IsAPageThatLeadsToItsFigures) {
  const std::vector<LabEntry> entries{lab_entry(some_run())};
  const std::string html = lab_html(entries);
  for (const char* part : {"<a href=\"#a-figure\">A title</a>", "<h2 id=\"a-figure\">A title</h2>",
                           "Is 1 &lt; 2?", "<strong class=\"bad\">outside:</strong>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("<script")));
}

TEST(LabReport, IsTheSamePageFromItsJson) {
  LabRun run{
      lab::find_figure("variance"), {.layers = {4}, .width = 16, .seeds = 2}, some_run().result};
  lab::Panel maps{.title = "Maps",
                  .x = {.label = "reads"},
                  .y = {.label = "read", .names = {"a", "b"}},
                  .caption = "Of what is read.",
                  .maps = {{"one", {{1, -2}, {NAN}}}},
                  .value = "weight"};
  run.result.panels.push_back(maps);
  run.result.panels[0].y.low = 0.5;
  run.result.panels[0].x.high = 3;
  run.result.panels[0].x.bounds = {0, 7};
  run.result.checks[0].high = HUGE_VAL;
  run.result.checks[1].low = -HUGE_VAL;
  const std::vector<LabEntry> entries{lab_entry(run)};
  const std::vector<LabEntry> read{read_lab_json(lab_json(run), "variance.json")};
  EXPECT_TRUE(lab_html(read) == lab_html(entries));
  EXPECT_EQ(read[0].result.checks[0].high, HUGE_VAL);
}

TEST(LabReport, RefusesAJsonThatIsNoFigure) {
  LabRun run{lab::find_figure("variance"), {.layers = {4}}, some_run().result};
  const nlohmann::ordered_json sound = nlohmann::ordered_json::parse(lab_json(run));
  for (const char* key : {"figure", "setting", "panels", "checks"}) {
    nlohmann::ordered_json json = sound;
    for (const nlohmann::ordered_json& value :
         {nlohmann::ordered_json(), nlohmann::ordered_json("?"), nlohmann::ordered_json({1, 2})}) {
      json[key] = value;
      if (key == std::string("setting") && value.is_string()) continue;
      EXPECT_THAT([&] { read_lab_json(json.dump(), "x.json"); },
                  ThrowsMessage<Error>(testing::StartsWith("x.json: ")))
          << key << " " << value;
    }
  }
  nlohmann::ordered_json json = sound;
  json["panels"][0]["measured"][0]["y"].push_back(1);  // more values than positions
  EXPECT_THROW(read_lab_json(json.dump(), "x.json"), Error);
  EXPECT_THROW(read_lab_json("[", "x.json"), Error);
}

TEST(LabReport, ListsFiguresWithTheirOptionsAndBugs) {
  const std::string text = adapt(lab_list_text({&kFigure, 1}, 80), {});
  EXPECT_THAT(text, HasSubstr("a-figure: A title\n  --layers 4 --seeds 2 --seed 0\n"));
  EXPECT_THAT(text, HasSubstr("residual-twice"));
  const Json json = Json::parse(lab_list_json({&kFigure, 1}));
  EXPECT_EQ(json["figures"][0]["options"], Json({{"layers", {4}}, {"seeds", 2}, {"seed", 0}}));
  EXPECT_EQ(json["figures"][0]["trains"], false);
  EXPECT_EQ(json["bugs"].size(), lab::silent_bugs().size());
}

}  // namespace
}  // namespace addnorm::report
