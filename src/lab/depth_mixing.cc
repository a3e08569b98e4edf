#include "theory/depth_mixing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "lab/bare_stream.h"
#include "lab/figures.h"

namespace addnorm::lab {
namespace {

constexpr double kSpread = 0.3;  // of the offsets added to learned numbers
constexpr double kMixingTolerance = 1e-4;
constexpr double kSinkhornTolerance = 0.01;  // the error of 20 iterations

std::size_t sublayers_of(const std::vector<BlockPlacement>& placements) {
  std::size_t count = 0;
  for (const BlockPlacement& block : placements) {
    count += block.attention.sublayers == Sublayers::kParallel ? 1 : 2;
  }
  return count;
}

bool has_sinkhorn(const std::vector<BlockPlacement>& placements) {
  return std::ranges::any_of(placements, [](const BlockPlacement& block) {
    return block.attention.lanes.carry.map == MixForm::Map::kSinkhorn;
  });
}

/// M as measured, and as predicted by theory.
struct Mixing {
  std::vector<std::vector<double>> measured, predicted;
  bool has_learned = false;
};

Mixing mixing_of(const std::vector<BlockPlacement>& placements, const MixDraw& draw,
                 const SilentBug* bug) {
  const Blocks blocks(1 + sublayers_of(placements));
  BareStream stream(bare_plan(placements, blocks.d_model(), bug), draw);
  std::vector<Matrix<double>> branches;
  for (std::size_t l = 0; l < stream.sublayers(); ++l) branches.push_back(blocks.row(l + 1));
  Mixing m;
  for (const Matrix<double>& read : stream.forward(blocks.row(0), branches)) {
    m.measured.push_back(blocks.parts(read.view().row(0)));
  }
  m.predicted = theory::depth_mixing(
      {.placements = placements, .d_model = blocks.d_model(), .learned = stream.learned()});
  m.has_learned = std::ranges::any_of(stream.learned(), [](const theory::LearnedNumbers& n) {
    return !n.read.empty() || !n.carry.empty() || !n.write.empty();
  });
  return m;
}

Message reader(const Mixing& m, std::size_t row) {
  return row + 1 < m.predicted.size() ? msg("sublayer {}", row + 1) : msg("the exit");
}
Message source(std::size_t column) {
  return column > 0 ? msg("sublayer {}", column) : "x";
}

/// The largest difference of two entries, relative to the largest entry of their row.
Check check_entries(Message claim, const Mixing& m, double tolerance) {
  Check check{.claim = std::move(claim), .source = "docs/theory.md", .high = tolerance};
  for (std::size_t l = 0; l < m.predicted.size(); ++l) {
    double largest = 0;
    for (const double entry : m.predicted[l]) largest = std::max(largest, std::abs(entry));
    for (std::size_t j = 0; j < m.predicted[l].size(); ++j) {
      const double error = std::abs(m.measured[l][j] - m.predicted[l][j]) / largest;
      if (std::isnan(check.measured) || error < check.measured) continue;
      check.measured = error;
      check.detail = msg("{} reads {:.4g} of {}, predicted {:.4g}: off by {:.2g}", reader(m, l),
                         m.measured[l][j], source(j), m.predicted[l][j], error);
    }
  }
  return check;
}

/// Row l's shares of x and of the sublayers below it, divided like a norm divides them.
std::vector<double> normalized(std::vector<double> row, std::size_t l) {
  row.resize(l + 1);
  const double root = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  for (double& entry : row) entry /= root;
  return row;
}

Series curve(const std::string& name, const std::vector<double>& row, std::size_t l) {
  Series curve{.name = name, .x = {}, .y = normalized(row, l)};
  for (std::size_t j = 0; j <= l; ++j) curve.x.push_back(static_cast<double>(j));
  return curve;
}

/// The rows relative to their largest entry, so that all of them are visible.
HeatMap map(std::string name, const std::vector<std::vector<double>>& m) {
  HeatMap map{.name = std::move(name), .rows = {}};
  for (std::size_t l = 0; l < m.size(); ++l) {
    const auto entries = std::span(m[l]).first(l + 1);
    std::vector<double>& row = map.rows.emplace_back(entries.begin(), entries.end());
    double largest = 0;
    for (const double entry : row) largest = std::max(largest, std::abs(entry));
    for (double& entry : row) entry /= largest;
  }
  return map;
}

/// M as predicted by theory next to the measured one.
Panel map_panel(const std::string& title, const Mixing& m) {
  Panel panel{.title = title,
              .x = {msg("source: x and the sublayers")},
              .y = {msg("reader: the sublayers and the exit")},
              .caption = msg(
                  "The matrix M at the start of training. In each row, 1 marks the source with the "
                  "largest weight."),
              .maps = {map(msg("predicted"), m.predicted), map(msg("measured"), m.measured)},
              .value = msg("weight, relative to the largest in its row")};
  panel.x.names = {"x"};
  for (std::size_t l = 1; l < m.predicted.size(); ++l) {
    panel.x.names.push_back(std::to_string(l));
    panel.y.names.push_back(std::to_string(l));
  }
  panel.y.names.emplace_back(msg("exit"));
  return panel;
}

}  // namespace

FigureResult depth_mixing(const FigureOptions& options) {
  FigureResult result;
  const auto last_row = [](const char* title, const char* caption) {
    return Panel{.title = title,
                 .x = {msg("source: 0 is x, then the sublayers")},
                 .y = {msg("weight")},
                 .caption = caption};
  };
  Panel at_start = last_row(
      msg("The last sublayer"),
      msg("Pre-norm gives all sources the same weight; post-norm forgets sublayers far below."));
  Panel of_drawn =
      last_row(msg("The last sublayer, with random numbers"),
               msg("A random number from N(0, 0.3²) is added to each learned number."));
  for (const std::string& name : options.placements) {
    const std::vector<BlockPlacement> placements = parse_placements(name, options.layers[0]);
    const Message claim = msg("{}: sublayers read what theory predicts", name);
    if (!theory::covers_stream(placements)) {
      result.checks.push_back(
          {.claim = claim,
           .source = "docs/theory.md",
           .unmet =
               msg("the theory covers neither gates nor lanes that are parts of the features")});
      continue;
    }
    const auto add_curves = [&](Panel& panel, const Mixing& m) {
      const std::size_t last = m.predicted.size() - 2;
      panel.measured.push_back(curve(name, m.measured[last], last));
      panel.predicted.push_back(curve(name, m.predicted[last], last));
    };
    const Mixing start = mixing_of(placements, {}, options.bug);
    result.panels.push_back(map_panel(name, start));
    add_curves(at_start, start);
    const double tolerance = has_sinkhorn(placements) ? kSinkhornTolerance : kMixingTolerance;
    result.checks.push_back(check_entries(msg("{}, at the start", claim), start, tolerance));
    if (!start.has_learned) continue;
    const Mixing drawn =
        mixing_of(placements, {.spread = kSpread, .seed = options.seed}, options.bug);
    add_curves(of_drawn, drawn);
    result.checks.push_back(check_entries(msg("{}, with random numbers", claim), drawn, tolerance));
  }
  for (Panel& panel : {std::ref(at_start), std::ref(of_drawn)}) {
    if (!panel.measured.empty()) result.panels.push_back(std::move(panel));
  }
  return result;
}

}  // namespace addnorm::lab
