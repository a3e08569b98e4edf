#include "bench/norm_accuracy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"
#include "bench/onednn_norm.h"
#include "kernels/reference.h"

namespace addnorm::bench {
namespace {

constexpr std::size_t kRows = 64;

/// Returns max |actual − expected| ÷ unit; NaN if any value is NaN.
double largest_error(std::span<const float> actual, const kernels::reference::Values& expected,
                     double unit) {
  double largest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]) / unit;
    if (!(error <= largest)) largest = error;
    if (std::isnan(largest)) break;
  }
  return largest;
}

/// x, dy, y and dx, one after the other, and the reference results.
class AccuracyData {
 public:
  explicit AccuracyData(const AccuracyJob& job) : job_(job), memory_(4, kRows * job.features) {
    TorchGenerator generator(job.features);
    generator.fill_normal(matrix(0), job.mean * job.deviation, job.deviation);
    generator.fill_normal(matrix(1));
    const auto x = matrix(0), dy = matrix(1);
    const kernels::reference::Norm norm{
        .options = options(), .shape = {kRows, job.features}, .x = {x.begin(), x.end()}};
    y_ = norm_forward(norm).y;
    dx_ = norm_backward(norm, {dy.begin(), dy.end()}).dx;
  }

  NormErrors ours() {
    std::vector<NormStatistics<float>> statistics(kRows);
    add_norm_forward<float>(options(),
                            {.add = {.x = view(0)}, .y = view(2), .statistics = statistics});
    add_norm_backward<float>(
        options(), {.s = view(0), .statistics = statistics, .dy = view(1), .dx = view(3)});
    return errors();
  }
  std::optional<NormErrors> onednn() {
    std::vector<float> scale_shift(2 * job_.features), d_scale_shift(2 * job_.features);
    std::fill_n(scale_shift.begin(), job_.features, 1.0F);
    auto run = [&](bool backward, std::vector<void*> matrices) {
      const std::function<void()> norm =
          onednn_norm({{.norm = NormKind::kLayer, .backward = backward},
                       {kRows, job_.features},
                       "f32",
                       job_.epsilon()},
                      {std::move(matrices), scale_shift.data(), d_scale_shift.data()});
      if (norm) norm();
      return norm != nullptr;
    };
    if (!run(true, {view(0).data, view(1).data, view(3).data})) return {};
    run(false, {view(0).data, view(2).data});
    return errors();
  }
  std::optional<NormErrors> pytorch(PythonRival& torch) {
    if (!torch.layer_norm(memory_.flat(), kRows, job_.epsilon())) return {};
    return errors();
  }

 private:
  NormOptions options() const { return {.epsilon = job_.epsilon()}; }
  std::span<float> matrix(std::size_t i) { return memory_.view().row(i); }
  MatrixView<float> view(std::size_t i) { return {matrix(i).data(), kRows, job_.features}; }
  NormErrors errors() {
    const auto [least, most] = std::ranges::minmax(dx_);
    return {largest_error(matrix(2), y_, 1), largest_error(matrix(3), dx_, std::max(-least, most))};
  }

  AccuracyJob job_;
  Matrix<float> memory_;
  kernels::reference::Values y_, dx_;
};

}  // namespace

std::vector<AccuracyJob> accuracy_jobs() {
  std::vector<AccuracyJob> jobs;
  for (const std::size_t features : {768, 4096}) {
    for (const double mean : {0.0, 10.0, 1e3, 1e4, 1e5}) jobs.push_back({features, mean, 1});
    for (const double deviation : {1e-30, 1e-10, 1e10, 1e30}) {
      jobs.push_back({features, 0, deviation});
    }
  }
  return jobs;
}

AccuracyResult measure_accuracy(const AccuracyJob& job, PythonRival* torch) {
  AccuracyData data(job);
  AccuracyResult result{job, data.ours(), data.onednn(), {}};
  if (torch != nullptr) result.pytorch = data.pytorch(*torch);
  return result;
}

}  // namespace addnorm::bench
