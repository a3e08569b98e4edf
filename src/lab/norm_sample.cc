#include "lab/norm_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "addnorm/float16.h"
#include "addnorm/nn/add_norm.h"
#include "base/parallel.h"

namespace addnorm::lab {
namespace {

void copy(MatrixView<const float> from, Matrix<float>& to) {
  to.resize(from.rows, from.cols);
  residual_add<float>({.x = from}, to);
}

class SampleProbe : public Probe<float> {
 public:
  explicit SampleProbe(NormSample& sample) : sample_(sample) {}

  void forward(const Site& site, MatrixView<const float> values) override {
    if (site.point == Point::kX) copy(values, sample_.x);
    if (site.point == Point::kBranch) copy(values, sample_.branch);
    if (site.point == Point::kSum) copy(values, sample_.sum);
  }
  void backward(const Site& site, MatrixView<const float> gradients) override {
    if (site.point == Point::kSum) copy(gradients, sample_.d_sum);
  }

 private:
  NormSample& sample_;
};

class GivenBranch : public Sublayer<float> {
 public:
  explicit GivenBranch(MatrixView<const float> values) : values_(values) {}

  void forward(MatrixView<const float>, MatrixView<float> y, const Pass<float>&) override {
    if (values_.empty()) {
      std::fill_n(y.data, y.size(), 0.0F);
    } else {
      residual_add<float>({.x = values_}, y);
    }
  }
  void backward(MatrixView<const float>, MatrixView<const float>, MatrixView<float> dx,
                const Pass<float>&) override {
    std::fill_n(dx.data, dx.size(), 0.0F);
  }

 private:
  MatrixView<const float> values_;
};

}  // namespace

StackPlan post_norm_plan(const NormOptions& norm, std::size_t d_model, const SilentBug* bug) {
  StackPlan plan{.block = {.d_model = d_model, .norm = norm},
                 .placements = parse_placements("post", 1)};
  if (bug != nullptr) bug->put_into(plan);
  return plan;
}

NormSample sample_sublayer(const StackPlan& plan, Sublayer<float>& f, MatrixView<const float> x,
                           MatrixView<const float> dy) {
  NormSample sample;
  SampleProbe probe(sample);
  Scratch<float> scratch;
  const Pass<float> pass{.length = x.rows, .scratch = &scratch, .probe = &probe};
  const Placement& placement = plan.placements[0].attention;
  AddNorm<float> add_norm(placement, {.d_model = x.cols, .norm = plan.block.norm});
  ResidualStream<float> stream(x);
  add_norm.forward(stream, f, pass);
  copy(stream.value(), sample.y);
  if (plan.statistics == StatisticsType::kFloat16 && placement.after == Slot::kNorm) {
    half_norm(plan.block.norm, sample.sum, sample.y);
  }
  if (dy.empty()) return sample;
  Matrix<float> gradient;
  copy(dy, gradient);
  add_norm.backward(gradient, f, pass);
  return sample;
}

NormSample sample_norm(const StackPlan& plan, const NormSampleArgs& args) {
  GivenBranch branch(args.branch);
  return sample_sublayer(plan, branch, args.x, args.dy);
}

namespace {

/// Returns each row once for every feature.
Matrix<float> repeated(MatrixView<const float> values) {
  Matrix<float> rows(values.size(), values.cols);
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    std::ranges::copy(values.row(r / values.cols), rows.view().row(r).begin());
  }
  return rows;
}

}  // namespace

std::vector<double> jacobian_norms(const StackPlan& plan, MatrixView<const float> x,
                                   MatrixView<const float> branch) {
  const std::size_t d = x.cols;
  Matrix<float> dy(x.size(), d);
  for (std::size_t r = 0; r < dy.rows(); ++r) dy(r, r % d) = 1;
  const Matrix<float> repeated_branch = branch.empty() ? Matrix<float>() : repeated(branch);
  const Matrix<float> d_sum = sample_norm(plan, {repeated(x), repeated_branch, dy}).d_sum;
  std::vector<double> norms;
  for (std::size_t r = 0; r < x.rows; ++r) {
    const auto all = d_sum.flat().subspan(r * d * d, d * d);
    norms.push_back(static_cast<double>(d) * std::sqrt(mean_product(all, all)));
  }
  return norms;
}

namespace {

float half(double value) {
  return static_cast<float>(Float16(static_cast<float>(value)));
}

void half_norm_of_row(const NormOptions& norm, std::span<const float> x, std::span<float> y) {
  std::ranges::transform(x, y.begin(), half);
  const float center = norm.kind == NormKind::kRms ? 0.0F : half(mean(y));
  std::vector<float> squares;
  for (float& v : y) {
    v = half(v - center);
    squares.push_back(half(v * v));
  }
  const float variance = half(mean(squares));
  const float epsilon = half(norm.epsilon);
  const float divisor = norm.epsilon_at == EpsilonAt::kVariance
                            ? half(std::sqrt(half(variance + epsilon)))
                            : half(half(std::sqrt(variance)) + epsilon);
  for (float& v : y) v = half(norm.output_scale * half(v / divisor));
}

}  // namespace

void half_norm(const NormOptions& norm, MatrixView<const float> x, MatrixView<float> y) {
  for (std::size_t r = 0; r < x.rows; ++r) half_norm_of_row(norm, x.row(r), y.row(r));
}

Matrix<float> draw_row(double center, double spread, std::size_t features,
                       TorchGenerator& generator) {
  Matrix<float> row(1, features);
  generator.fill_normal(row.flat());
  const double drawn_mean = mean(row.flat());
  const double scale = spread / deviation(row.flat());
  for (float& v : row.flat()) v = static_cast<float>((v - drawn_mean) * scale + center);
  return row;
}

std::vector<double> count_up(std::size_t n) {
  std::vector<double> values(n);
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

std::vector<std::vector<double>> draws_of(const FigureOptions& options,
                                          const std::vector<double>& values,
                                          const std::function<double(double, TorchGenerator&)>& f) {
  std::vector<std::vector<double>> draws(options.seeds);
  parallel_jobs(options.seeds, [&](std::size_t s) {
    TorchGenerator generator(options.seed + s);
    for (const double value : values) draws[s].push_back(f(value, generator));
  });
  return draws;
}

double mean(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double mean_product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum / static_cast<double>(a.size());
}

double covariance(std::span<const float> a, std::span<const float> b) {
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / static_cast<double>(a.size());
}

double deviation(std::span<const float> values) {
  return std::sqrt(covariance(values, values));
}

double cosine(std::span<const float> a, std::span<const float> b) {
  return mean_product(a, b) / std::sqrt(mean_product(a, a) * mean_product(b, b));
}

}  // namespace addnorm::lab
