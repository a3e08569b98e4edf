#include <algorithm>
#include <cmath>
#include <cstdint>

#include "addnorm/torch_generator.h"
#include "base/parallel.h"
#include "lab/figures.h"
#include "lab/norm_sample.h"
#include "theory/norm_law.h"

namespace addnorm::lab {
namespace {

constexpr const char* kLayerVsBatchSource =
    msg("Ba et al. 2016; Ioffe and Szegedy 2015; docs/theory.md");
/// The error of an output in float32 that docs/numerics.md promises.
constexpr double kLayerVsBatchRounding = 2e-6;
/// The tolerance in standard deviations; 1 in 2 million draws exceeds it.
constexpr double kLayerVsBatchErrors = 5;

struct BatchNormOutput {
  Matrix<float> y;
  std::vector<theory::Moments> statistics;  ///< of each feature
};

/// LayerNorm and BatchNorm of rows, each with the bug.
class Norms {
 public:
  explicit Norms(const FigureOptions& options)
      : plan_(post_norm_plan({}, options.width, options.bug)) {}

  Matrix<float> layer(const Matrix<float>& x) const { return sample_norm(plan_, {x}).y; }

  BatchNormOutput batch(const Matrix<float>& x) const {
    NormOptions norm = plan_.block.norm;
    norm.kind = NormKind::kBatch;
    std::vector<float> workspace(norm_workspace(norm, x.rows(), x.cols()));
    std::vector<NormStatistics<float>> statistics(x.cols());
    BatchNormOutput output{.y = Matrix<float>(x.rows(), x.cols())};
    add_norm_forward<float>(
        norm, {.add = {.x = x}, .y = output.y, .statistics = statistics, .workspace = workspace});
    for (const auto& s : statistics) {
      output.statistics.push_back({s.mean(), s.variance / s.scale / s.scale});
    }
    return output;
  }

 private:
  StackPlan plan_;
};

Matrix<float> transpose(const Matrix<float>& x) {
  Matrix<float> t(x.cols(), x.rows());
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < x.cols(); ++c) t(c, r) = x(r, c);
  }
  return t;
}

std::vector<double> row_means(const Matrix<float>& x) {
  std::vector<double> means;
  for (std::size_t r = 0; r < x.rows(); ++r) means.push_back(mean(x.view().row(r)));
  return means;
}

/// Returns the largest error of a row's deviation after the norm.
double deviation_error(const Matrix<float>& x, const Matrix<float>& y) {
  double largest = 0;
  for (std::size_t r = 0; r < x.rows(); ++r) {
    const double want = theory::output_deviation({}, deviation(x.view().row(r)));
    const double error = std::abs(deviation(y.view().row(r)) - want);
    if (!(error <= largest)) largest = error;
  }
  return largest;
}

/// Token i of 16 is shifted, from −2 for the first to 2 for the last, and so is each feature.
Matrix<float> shifted_tokens(std::size_t features, TorchGenerator& generator) {
  constexpr std::size_t kTokens = 16;
  Matrix<float> x(kTokens, features);
  generator.fill_normal(x.flat());
  auto shift = [](std::size_t i, std::size_t n) {
    return 4 * static_cast<float>(i) / static_cast<float>(n - 1) - 2;
  };
  for (std::size_t r = 0; r < kTokens; ++r) {
    for (std::size_t c = 0; c < features; ++c) x(r, c) += shift(r, kTokens) + shift(c, features);
  }
  return x;
}

/// Shows the means along one direction of the table; `zero` is the norm that makes them 0.
Panel means_panel(Message title, std::string x_label, Message caption,
                  const std::vector<Series>& curves, std::string_view zero) {
  Panel panel{.title = std::move(title),
              .x = {std::move(x_label)},
              .y = {msg("mean")},
              .caption = std::move(caption),
              .measured = curves};
  const std::size_t n = curves[0].x.size();
  panel.predicted = {within(std::string(zero), curves[0].x, std::vector<double>(n),
                            std::vector<double>(n, kLayerVsBatchRounding))};
  return panel;
}

void add_directions(FigureResult& result, const FigureOptions& options) {
  const Norms norms(options);
  TorchGenerator generator(options.seed);
  const Matrix<float> x = shifted_tokens(options.width, generator);
  const Matrix<float> layer = norms.layer(x);
  const Matrix<float> batch = norms.batch(x).y;
  const Matrix<float> features = transpose(x);
  const Matrix<float> batch_features = transpose(batch);
  const std::vector<double> tokens_x = count_up(x.rows());
  const std::vector<double> features_x = count_up(x.cols());
  result.panels.push_back(means_panel(
      msg("Mean over the features of each token"), msg("token"),
      msg("One point for each row of a table of 16 tokens. LayerNorm sets these means to 0, "
          "BatchNorm leaves their differences."),
      {{msg("before"), tokens_x, row_means(x)},
       {"LayerNorm", tokens_x, row_means(layer)},
       {"BatchNorm", tokens_x, row_means(batch)}},
      "LayerNorm"));
  result.panels.push_back(means_panel(
      msg("Mean over the tokens of each feature"), msg("feature"),
      msg("One point for each column of the same table. Now it is BatchNorm that sets them "
          "to 0."),
      {{msg("before"), features_x, row_means(features)},
       {"LayerNorm", features_x, row_means(transpose(layer))},
       {"BatchNorm", features_x, row_means(batch_features)}},
      "BatchNorm"));
  const auto& panels = result.panels;
  result.checks.push_back(check_curve(msg("LayerNorm: each token has mean 0"), kLayerVsBatchSource,
                                      panels[0].measured[1], panels[0].predicted[0]));
  result.checks.push_back(check_curve(msg("BatchNorm: each feature has mean 0"),
                                      kLayerVsBatchSource, panels[1].measured[2],
                                      panels[1].predicted[0]));
  result.checks.push_back(
      {.claim = msg("LayerNorm: the largest distance of a token's deviation from "
                    "σ/√(σ² + ε), almost 1"),
       .source = kLayerVsBatchSource,
       .measured = deviation_error(x, layer),
       .high = kLayerVsBatchRounding});
  result.checks.push_back(
      {.claim = msg("BatchNorm: the largest distance of a feature's deviation from "
                    "σ/√(σ² + ε), almost 1"),
       .source = kLayerVsBatchSource,
       .measured = deviation_error(features, batch_features),
       .high = kLayerVsBatchRounding});
}

constexpr std::size_t kBatches[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
constexpr std::size_t kTrials = 2;  // for each seed and batch size

std::vector<double> batch_axis() {
  return {std::begin(kBatches), std::end(kBatches)};
}

/// Mean squares over features and trials, for each batch size.
struct BatchErrors {
  std::vector<double> mean, variance;
  /// change of a token's output when the other tokens change
  std::vector<double> layer_change, batch_change;
};

double mean_square_difference(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum / static_cast<double>(a.size());
}

void add_trial(const Norms& norms, TorchGenerator& generator, std::size_t batch,
               std::size_t features, BatchErrors& errors) {
  constexpr double kMean = 3;
  constexpr double kDeviation = 2;
  Matrix<float> x(batch, features);
  Matrix<float> others(batch, features);
  generator.fill_normal(x.flat(), kMean, kDeviation);
  generator.fill_normal(others.flat(), kMean, kDeviation);
  const double part = 1 / static_cast<double>(kTrials * features);
  const BatchNormOutput batch_output = norms.batch(x);
  for (const theory::Moments& m : batch_output.statistics) {
    errors.mean.back() += part * std::pow((m.mean - kMean) / kDeviation, 2);
    errors.variance.back() += part * std::pow(m.variance / (kDeviation * kDeviation) - 1, 2);
  }
  std::ranges::copy(x.view().row(0), others.data());
  auto change = [&](const Matrix<float>& a, const Matrix<float>& b) {
    return mean_square_difference(a.view().row(0), b.view().row(0)) / kTrials;
  };
  errors.layer_change.back() += change(norms.layer(x), norms.layer(others));
  errors.batch_change.back() += change(batch_output.y, norms.batch(others).y);
}

BatchErrors batch_errors(const FigureOptions& options, std::uint64_t seed) {
  const Norms norms(options);
  TorchGenerator generator(seed);
  BatchErrors errors;
  for (const std::size_t batch : kBatches) {
    for (auto* values :
         {&errors.mean, &errors.variance, &errors.layer_change, &errors.batch_change}) {
      values->push_back(0);
    }
    for (std::size_t t = 0; t < kTrials; ++t) {
      add_trial(norms, generator, batch, options.width, errors);
    }
  }
  return errors;
}

/// Returns the range for the root of a mean of n squares. If one square has the relative spread
/// `spread`, the root has spread/2√n.
Series within_sampling(std::string name, const std::vector<double>& y,
                       const std::vector<double>& spread, double n) {
  std::vector<double> tolerance;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double sampling = kLayerVsBatchErrors * spread[i] / (2 * std::sqrt(n));
    tolerance.push_back(y[i] * (sampling + kLayerVsBatchRounding));
  }
  return within(std::move(name), batch_axis(), y, tolerance);
}

/// Returns the largest value of BatchNorm's output for a batch of one.
double output_of_one_token(const FigureOptions& options) {
  TorchGenerator generator(options.seed);
  Matrix<float> x(1, options.width);
  generator.fill_normal(x.flat(), 3, 2);
  const Matrix<float> output = Norms(options).batch(x).y;
  return std::ranges::max(mapped(output.flat(), [](float y) { return std::abs(y); }));
}

void add_batch_sizes(FigureResult& result, const FigureOptions& options) {
  std::vector<BatchErrors> seeds(options.seeds);
  parallel_jobs(options.seeds,
                [&](std::size_t s) { seeds[s] = batch_errors(options, options.seed + s); });
  auto curve = [&](const char* name, std::vector<double> BatchErrors::*squares) {
    return rms_curve(name, batch_axis(), mapped(seeds, squares));
  };
  const double n = static_cast<double>(options.seeds * options.width * kTrials);
  const std::vector<double> of_normal(std::size(kBatches), std::sqrt(2.0));
  Panel estimates{
      .title = msg("Error of BatchNorm's statistics"),
      .x = {msg("batch size"), AxisScale::kLog},
      .y = {msg("relative error"), AxisScale::kLog},
      .caption = msg(
          "The error of the mean, in standard deviations, and of the variance. A batch four times "
          "as large halves the error of the mean and, if it is large, that of the variance."),
      .measured = {curve(msg("mean"), &BatchErrors::mean),
                   curve(msg("variance"), &BatchErrors::variance)},
      .predicted = {
          within_sampling(msg("mean"), mapped(kBatches, theory::batch_mean_error), of_normal, n),
          within_sampling(msg("variance"), mapped(kBatches, theory::batch_variance_error),
                          mapped(kBatches, theory::batch_variance_error_spread), n)}};
  Panel change{
      .title = msg("The same token in different batches"),
      .x = {msg("batch size"), AxisScale::kLog},
      .y = {msg("change of its output")},
      .caption = msg(
          "All other tokens of the batch are drawn anew. BatchNorm's output for the token changes, "
          "LayerNorm's does not."),
      .measured = {curve("LayerNorm", &BatchErrors::layer_change),
                   curve("BatchNorm", &BatchErrors::batch_change)},
      .predicted = {within("LayerNorm", batch_axis(), std::vector<double>(of_normal.size()),
                           std::vector<double>(of_normal.size()))}};
  result.checks.push_back(check_curve(msg("BatchNorm's mean is off by 1/√B standard deviations"),
                                      kLayerVsBatchSource, estimates.measured[0],
                                      estimates.predicted[0]));
  result.checks.push_back(check_curve(msg("BatchNorm's variance is off by √(2B − 1)/B"),
                                      kLayerVsBatchSource, estimates.measured[1],
                                      estimates.predicted[1]));
  result.checks.push_back(
      check_curve(msg("LayerNorm's output for a token does not depend on the batch"),
                  kLayerVsBatchSource, change.measured[0], change.predicted[0]));
  result.checks.push_back({.claim = msg("BatchNorm gives β, which is 0, for a batch of one token"),
                           .source = kLayerVsBatchSource,
                           .measured = output_of_one_token(options)});
  result.panels.push_back(std::move(estimates));
  result.panels.push_back(std::move(change));
}

/// A batch of 8 sequences in 16 slots each, for each share of padding: statistics of the first
/// feature, and the number of tokens whose LayerNorm bits change because of the padding.
struct PaddingDraw {
  std::vector<double> mean, variance, predicted_mean, predicted_variance;
  std::size_t changed = 0;
};
constexpr std::size_t kSlots = 16;
const std::vector<double> kShares{0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875};

/// Returns whether the slot holds a token; every second sequence is a little longer than the
/// others.
bool holds_token(std::size_t slot, double share) {
  const double spread = share == 0 ? 0 : slot / kSlots % 2 == 0 ? 1 : -1;
  return static_cast<double>(slot % kSlots) < kSlots * (1 - share) + spread;
}

void add_share(const Norms& norms, double share, Matrix<float>& x, PaddingDraw& draw) {
  const Matrix<float> unpadded = norms.layer(x);
  std::vector<float> tokens;  // the first feature of each
  for (std::size_t r = 0; r < x.rows(); ++r) {
    if (holds_token(r, share)) {
      tokens.push_back(x(r, 0));
    } else {
      std::ranges::fill(x.view().row(r), 0.0F);
    }
  }
  const Matrix<float> layer = norms.layer(x);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    const bool same = std::ranges::equal(layer.view().row(r), unpadded.view().row(r));
    draw.changed += holds_token(r, share) && !same;
  }
  const theory::Moments measured = norms.batch(x).statistics[0];
  const theory::Moments predicted =
      theory::padded({mean(tokens), covariance(tokens, tokens)}, share);
  draw.mean.push_back(measured.mean);
  draw.variance.push_back(measured.variance);
  draw.predicted_mean.push_back(predicted.mean);
  draw.predicted_variance.push_back(predicted.variance);
}

PaddingDraw draw_padding(const FigureOptions& options, std::uint64_t seed) {
  const Norms norms(options);
  TorchGenerator generator(seed);
  PaddingDraw draw;
  for (const double share : kShares) {
    Matrix<float> x(8 * kSlots, options.width);
    generator.fill_normal(x.flat(), 2, 1);
    add_share(norms, share, x, draw);
  }
  return draw;
}

void add_padding(FigureResult& result, const FigureOptions& options) {
  std::vector<PaddingDraw> seeds(options.seeds);
  parallel_jobs(options.seeds,
                [&](std::size_t s) { seeds[s] = draw_padding(options, options.seed + s); });
  std::size_t changed = 0;
  for (const PaddingDraw& seed : seeds) changed += seed.changed;
  auto curve = [&](const char* name, std::vector<double> PaddingDraw::*values) {
    return mean_curve(name, kShares, mapped(seeds, values));
  };
  auto predict = [&](const char* name, std::vector<double> PaddingDraw::*values) {
    return within(name, kShares, curve(name, values).y,
                  std::vector<double>(kShares.size(), kLayerVsBatchRounding));
  };
  Panel panel{
      .title = msg("Sequences of different lengths, padded with 0"),
      .x = {msg("padded share of the batch")},
      .y = {msg("the feature's statistics")},
      .caption =
          msg("One feature of mean 2 and variance 1. BatchNorm treats the padding as data: its "
              "mean falls, its variance first grows."),
      .measured = {curve(msg("BatchNorm's mean"), &PaddingDraw::mean),
                   curve(msg("BatchNorm's variance"), &PaddingDraw::variance)},
      .predicted = {predict(msg("BatchNorm's mean"), &PaddingDraw::predicted_mean),
                    predict(msg("BatchNorm's variance"), &PaddingDraw::predicted_variance)}};
  result.checks.push_back(
      check_curve(msg("With a padded share p, BatchNorm's mean is (1 − p) times the mean"),
                  kLayerVsBatchSource, panel.measured[0], panel.predicted[0]));
  result.checks.push_back(check_curve(msg("… and its variance is (1 − p)·(σ² + p·μ²)"),
                                      kLayerVsBatchSource, panel.measured[1], panel.predicted[1]));
  result.checks.push_back({.claim = msg("Padding changes no bit of LayerNorm's output for a token"),
                           .source = kLayerVsBatchSource,
                           .measured = static_cast<double>(changed)});
  result.panels.push_back(std::move(panel));
}

}  // namespace

FigureResult layer_vs_batch(const FigureOptions& options) {
  FigureResult result;
  add_directions(result, options);
  add_batch_sizes(result, options);
  add_padding(result, options);
  return result;
}

}  // namespace addnorm::lab
