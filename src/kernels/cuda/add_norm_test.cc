#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "addnorm/cuda.h"
#include "addnorm/norm.h"
#include "kernels/reference.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/norm_case.h"
#include "support/random.h"

namespace addnorm::kernels::cuda {
namespace {

using testing::describe;
using testing::device_supports;
using testing::DeviceArray;
using testing::doubles;
using testing::every_option;
using ::testing::HasSubstr;
using testing::Normal;
using testing::random_vector;
using testing::same_bits;
using ::testing::ThrowsMessage;

constexpr NormKind kRowKinds[] = {NormKind::kLayer, NormKind::kRms};

template <typename T>
std::vector<T> random_stored(TorchGenerator& generator, std::size_t size, Normal normal) {
  std::vector<T> result;
  for (const float value : random_vector<float>(generator, size, normal)) {
    result.push_back(static_cast<T>(value));
  }
  return result;
}
/// Half of the distance from 1 to the next larger value.
template <typename T>
constexpr double kRounding = std::is_same_v<T, BFloat16>  ? 1.0 / 256
                             : std::is_same_v<T, Float16> ? 1.0 / 2048
                                                          : 1.0 / (1 << 24);

/// One call of forward and backward on the device, with all optional arguments.
template <typename S, typename B>
struct DeviceCase {
  std::size_t rows, cols;
  NormOptions options;
  std::vector<S> x, d_residual;
  std::vector<B> branch, dy;
  std::vector<float> gamma, beta;
  Scale<float> skip, gain;
  Dropout dropout;
  bool in_place = false;
  std::size_t stride;
  std::vector<S> sum, dx;
  std::vector<B> y;
  std::vector<NormStatistics<float>> statistics;
  std::vector<float> d_gamma, d_beta;

  DeviceCase(std::size_t rows_, std::size_t cols_, const NormOptions& options_ = {},
             Normal normal = {1, 2}, std::size_t gap = 0)
      : rows(rows_), cols(cols_), options(options_), stride(cols_ + gap) {
    TorchGenerator generator(rows * 1000 + cols);
    x = random_stored<S>(generator, rows * cols, normal);
    branch = random_stored<B>(generator, rows * cols, {normal.mean / 2, normal.deviation});
    d_residual = random_stored<S>(generator, rows * cols, {});
    dy = random_stored<B>(generator, rows * cols, {});
    gamma = random_vector<float>(generator, cols, {1, 0.3});
    beta = random_vector<float>(generator, cols);
  }

  /// Returns the rows with the stride `stride`.
  template <typename T>
  std::vector<T> spread(const std::vector<T>& values) const {
    std::vector<T> result(rows * stride);
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(values.begin() + r * cols, cols, result.begin() + r * stride);
    }
    return result;
  }
  template <typename T>
  std::vector<T> gathered(const std::vector<T>& values) const {
    std::vector<T> result(rows * cols);
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(values.begin() + r * stride, cols, result.begin() + r * cols);
    }
    return result;
  }
  template <typename T>
  MatrixView<T> view(const DeviceArray<T>& array) const {
    return {array.data(), rows, cols, stride};
  }

  void run() {
    DeviceArray<S> d_x(spread(x)), d_sum(rows * stride);
    DeviceArray<B> d_branch(spread(branch)), d_y(rows * stride);
    DeviceArray<float> d_gamma_in(gamma), d_beta_in(beta);
    DeviceArray<float> skip_in(std::vector<float>(skip.vector.begin(), skip.vector.end()));
    DeviceArray<float> gain_in(std::vector<float>(gain.vector.begin(), gain.vector.end()));
    const auto on_device = [](const Scale<float>& scale, const DeviceArray<float>& values) {
      return Scale<float>{
          .constant = scale.constant,
          .vector = scale.vector.empty() ? std::span<const float>() : values.span()};
    };
    DeviceArray<NormStatistics<float>> d_statistics(rows);
    const auto sum_view = view(in_place ? d_x : d_sum);
    addnorm::cuda::add_norm_forward<S, B>(options, {.add = {.x = view(d_x),
                                                            .branch = view(d_branch),
                                                            .skip = on_device(skip, skip_in),
                                                            .gain = on_device(gain, gain_in),
                                                            .dropout = dropout},
                                                    .sum = sum_view,
                                                    .gamma = d_gamma_in.span(),
                                                    .beta = d_beta_in.span(),
                                                    .y = view(in_place ? d_branch : d_y),
                                                    .statistics = d_statistics.span()});
    sum = gathered((in_place ? d_x : d_sum).values());
    y = gathered((in_place ? d_branch : d_y).values());
    statistics = d_statistics.values();

    DeviceArray<B> d_dy(spread(dy));
    DeviceArray<S> d_residual_in(spread(d_residual)), d_dx(rows * stride);
    DeviceArray<float> d_d_gamma(cols), d_d_beta(cols);
    DeviceArray<float> workspace(addnorm::cuda::add_norm_workspace(rows, cols));
    addnorm::cuda::add_norm_backward<S, B>(options,
                                           {.s = sum_view,
                                            .statistics = d_statistics.span(),
                                            .gamma = d_gamma_in.span(),
                                            .dy = view(d_dy),
                                            .d_residual = view(d_residual_in),
                                            .skip = on_device(skip, skip_in),
                                            .dx = in_place ? view(d_residual_in) : view(d_dx),
                                            .d_gamma = d_d_gamma.span(),
                                            .d_beta = d_d_beta.span(),
                                            .workspace = workspace.span(),
                                            .parameter_gradients = GradientMode::kOverwrite});
    dx = gathered((in_place ? d_residual_in : d_dx).values());
    d_gamma = d_d_gamma.values();
    d_beta = d_d_beta.values();
  }

  /// Returns the result of residual_add on the CPU.
  std::vector<S> expected_sum() {
    std::vector<S> result(rows * cols);
    residual_add<S, B>({.x = {x.data(), rows, cols},
                        .branch = {branch.data(), rows, cols},
                        .skip = skip,
                        .gain = gain,
                        .dropout = dropout},
                       MatrixView<S>{result.data(), rows, cols});
    return result;
  }

  /// Compares all results with the float64 reference for the rounded sums. A value stored in 16
  /// bits may differ in the last bit.
  void expect_equals_reference(double tolerance = 2e-6) {
    ASSERT_TRUE(same_bits(sum, expected_sum()));
    const reference::Norm norm{options,        {rows, cols, 1}, doubles(sum),
                               doubles(gamma), doubles(beta),   options.alpha};
    const reference::NormOutput out = norm_forward(norm);
    const reference::NormGradients gradients = norm_backward(norm, doubles(dy));
    testing::LargestError y_error, dx_error;
    for (std::size_t r = 0; r < rows; ++r) {
      double largest = 0;
      for (std::size_t c = 0; c < cols; ++c) {
        const std::size_t i = r * cols + c;
        y_error.add((std::abs(static_cast<float>(y[i]) - out.y[i]) -
                     1.01 * kRounding<B> * std::abs(out.y[i])) /
                        (1 + std::abs(out.y[i])),
                    i);
        const double g = std::abs(static_cast<float>(dy[i])) * 2;
        largest = std::max(largest, g / out.deviation[r]);
      }
      for (std::size_t c = 0; c < cols; ++c) {
        const std::size_t i = r * cols + c;
        const double expected = gradients.dx[i] + skip[c] * static_cast<float>(d_residual[i]);
        dx_error.add((std::abs(static_cast<float>(dx[i]) - expected) -
                      1.01 * kRounding<S> * std::abs(expected)) /
                         (largest + std::abs(expected)),
                     i);
      }
    }
    EXPECT_LE(y_error, tolerance + (sizeof(B) == 2 ? 1e-7 : 0));
    EXPECT_LE(dx_error, tolerance);
    const double terms = std::sqrt(static_cast<double>(rows)) + 4;
    EXPECT_LE(testing::max_error(d_gamma, gradients.d_gamma) / terms, tolerance);
    EXPECT_LE(testing::max_error(d_beta, gradients.d_beta) / terms, tolerance);
  }
};

template <typename Types>
class CudaAddNorm : public ::testing::Test {
 protected:
  using S = typename Types::Stream;
  using B = typename Types::Branch;
  using Case = DeviceCase<S, B>;
};
TYPED_TEST_SUITE(CudaAddNorm, testing::DeviceStorages);

constexpr std::size_t kWidths[] = {1,    2,     3,     7,     8,     9,     24,   33,
                                   64,   100,   256,   264,   500,   512,   520,  768,
                                   1000, 1024,  1032,  2048,  4096,  4099,  8192, 8200,
                                   9000, 16384, 16392, 20000, 32768, 50000, 65536};

TYPED_TEST(CudaAddNorm, EqualsTheReferenceForEveryShape) {
  for (const NormKind kind : kRowKinds) {
    for (const std::size_t cols : kWidths) {
      for (const std::size_t rows : {1, 3, 130}) {
        if (rows * cols > 150'000 || !device_supports(cols)) continue;
        SCOPED_TRACE(fmt::format("kind {}, {} × {}", static_cast<int>(kind), rows, cols));
        typename TestFixture::Case c(rows, cols, {.kind = kind});
        c.run();
        c.expect_equals_reference();
      }
    }
  }
}

TYPED_TEST(CudaAddNorm, EqualsTheReferenceForEveryOption) {
  for (const NormKind kind : kRowKinds) {
    for (const NormOptions& options : every_option(kind)) {
      SCOPED_TRACE(describe(options));
      typename TestFixture::Case c(5, 40, options);
      c.run();
      c.expect_equals_reference();
    }
  }
}

TYPED_TEST(CudaAddNorm, EqualsTheReferenceWithEveryWayToAdd) {
  for (const std::size_t cols : {33, 1024}) {
    typename TestFixture::Case c(7, cols);
    TorchGenerator generator(3);
    const auto skip = random_vector<float>(generator, cols);
    const auto gain = random_vector<float>(generator, cols);
    const Scale<float> scales[] = {{}, {.constant = 0.7F}, {.constant = 0}, {.vector = skip}};
    const Scale<float> gains[] = {{}, {.constant = 0.3F}, {.vector = gain}};
    for (const auto& s : scales) {
      for (const auto& g : gains) {
        for (const double probability : {0.0, 0.3}) {
          c.skip = s, c.gain = g;
          c.dropout = {.probability = probability, .seed = 5, .offset = 11};
          c.run();
          c.expect_equals_reference();
        }
      }
    }
  }
}

TYPED_TEST(CudaAddNorm, TakesRowsWithGapsAndInPlace) {
  for (const std::size_t gap : {0, 1, 8}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(fmt::format("gap {}, in place {}", gap, in_place));
      typename TestFixture::Case c(9, 1024, {}, {1, 2}, gap);
      c.in_place = in_place;
      c.run();
      c.expect_equals_reference();
    }
  }
}

TYPED_TEST(CudaAddNorm, GivesARowTheSameBitsInAnyBatchAndRun) {
  using C = typename TestFixture::Case;
  // The numbers of rows give each block several rows, one after the other.
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{10, 8},
                                   {20'000, 64},
                                   {9000, 100},
                                   {5000, 512},
                                   {3000, 1024},
                                   {1000, 4096},
                                   {300, 16384},
                                   {130, 40000}}) {
    if (!device_supports(cols)) continue;
    SCOPED_TRACE(fmt::format("{} × {}", rows, cols));
    C all(rows, cols);
    all.run();
    C again = all;
    again.run();
    EXPECT_TRUE(same_bits(all.y, again.y) && same_bits(all.dx, again.dx));
    EXPECT_TRUE(same_bits(all.d_gamma, again.d_gamma) && same_bits(all.d_beta, again.d_beta));
    for (const std::size_t r : {std::size_t{0}, all.rows / 2, all.rows - 1}) {
      C one(1, cols);
      const auto row_of = [&](auto& from, auto& to) {
        to.assign(from.begin() + r * cols, from.begin() + (r + 1) * cols);
      };
      one.gamma = all.gamma, one.beta = all.beta;
      row_of(all.x, one.x), row_of(all.branch, one.branch);
      row_of(all.dy, one.dy), row_of(all.d_residual, one.d_residual);
      one.run();
      decltype(one.y) y;
      decltype(one.dx) dx;
      row_of(all.y, y), row_of(all.dx, dx);
      EXPECT_TRUE(same_bits(one.y, y)) << "row " << r;
      EXPECT_TRUE(same_bits(one.dx, dx)) << "row " << r;
    }
  }
}

TYPED_TEST(CudaAddNorm, SumsParametersGradientsOverManyRows) {
  for (const auto& [rows, cols] :
       {std::pair<std::size_t, std::size_t>{20'000, 24}, {3000, 1000}, {900, 9000}}) {
    SCOPED_TRACE(fmt::format("{} × {}", rows, cols));
    typename TestFixture::Case c(rows, cols);
    c.run();
    std::vector<double> d_gamma(cols), d_beta(cols);
    for (std::size_t i = 0; i < rows * cols; ++i) {
      const auto& s = c.statistics[i / cols];
      const double dy = static_cast<float>(c.dy[i]);
      d_gamma[i % cols] += dy * (static_cast<float>(c.sum[i]) - s.mean()) / s.deviation();
      d_beta[i % cols] += dy;
    }
    const double terms = std::sqrt(static_cast<double>(rows));
    EXPECT_LE(testing::max_error(c.d_gamma, d_gamma) / terms, 2e-6);
    EXPECT_LE(testing::max_error(c.d_beta, d_beta) / terms, 2e-6);
  }
}

TEST(CudaNumerics, ErrorDoesNotGrowWithTheMeanOrTheScale) {
  for (const std::size_t cols : {768, 4096, 16384, 65536}) {
    if (!device_supports(cols)) continue;
    for (const double mean : {0.0, 1e3, 1e5}) {
      SCOPED_TRACE(fmt::format("{} features, mean {}", cols, mean));
      DeviceCase<float, float> c(3, cols, {.epsilon = 1e-12}, {mean, 1});
      std::fill(c.branch.begin(), c.branch.end(), 0.0F);
      c.run();
      c.expect_equals_reference();
    }
    for (const double deviation : {1e-36, 1e-30, 1e-20, 1e-10, 1e10, 1e20, 1e30, 1e37}) {
      SCOPED_TRACE(fmt::format("{} features, deviation {}", cols, deviation));
      for (const NormKind kind : kRowKinds) {
        DeviceCase<float, float> c(3, cols, {.kind = kind, .epsilon = 0}, {0, deviation});
        std::fill(c.d_residual.begin(), c.d_residual.end(), 0.0F);
        // The gradient itself would exceed float32.
        for (float& dy : c.dy) dy *= static_cast<float>(std::min(deviation, 1.0));
        c.run();
        ASSERT_TRUE(same_bits(c.sum, c.expected_sum()));
        const reference::Norm norm{c.options,        {c.rows, cols, 1}, doubles(c.sum),
                                   doubles(c.gamma), doubles(c.beta),   0.5};
        EXPECT_LE(testing::relative_error(c.y, norm_forward(norm).y), 2e-6);
        EXPECT_LE(testing::relative_error(c.dx, norm_backward(norm, doubles(c.dy)).dx), 2e-6);
      }
    }
  }
}

TEST(CudaNumerics, OneFarValueDoesNotSpoilTheOthers) {
  for (const std::size_t at : {0, 1, 700}) {
    DeviceCase<float, float> c(2, 1024);
    for (std::size_t r = 0; r < c.rows; ++r) c.x[r * 1024 + at] = 1e6F;
    c.run();
    c.expect_equals_reference();
  }
}

TEST(CudaNumerics, ConstantRowsGiveBetaAndNotNoise) {
  DeviceCase<float, float> c(2, 4096);
  std::fill(c.x.begin(), c.x.end(), 123456.7F);
  std::fill(c.branch.begin(), c.branch.end(), 0.1F);
  c.run();
  for (std::size_t i = 0; i < c.y.size(); ++i) ASSERT_EQ(c.y[i], c.beta[i % c.cols]);
}

TEST(CudaNumerics, KeepsNaNAndInfinityInTheirRow) {
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    for (const NormKind kind : kRowKinds) {
      for (const std::size_t cols : {40, 1024, 20000}) {
        DeviceCase<float, float> c(5, cols, {.kind = kind});
        c.x[2 * cols + cols / 2] = bad;
        c.run();
        for (std::size_t i = 0; i < c.y.size(); ++i) {
          ASSERT_EQ(std::isnan(c.y[i]), i / cols == 2) << i;
          ASSERT_EQ(std::isnan(c.dx[i]), i / cols == 2) << i;
        }
      }
    }
  }
}

TEST(CudaNumerics, StatisticsGoBetweenTheProcessors) {
  for (const std::size_t cols : {64, 4096}) {
    DeviceCase<float, float> c(9, cols);
    c.run();
    std::vector<float> dx(c.dx.size());
    add_norm_backward<float>(c.options, {.s = {c.sum.data(), c.rows, cols},
                                         .statistics = c.statistics,
                                         .gamma = c.gamma,
                                         .dy = {c.dy.data(), c.rows, cols},
                                         .d_residual = {c.d_residual.data(), c.rows, cols},
                                         .dx = {dx.data(), c.rows, cols}});
    EXPECT_LE(testing::relative_error(c.dx, dx), 2e-6);
  }
}

TEST(CudaGradient, IsAddedToWhatIsThere) {
  DeviceCase<float, float> c(70, 48);
  c.run();
  DeviceArray<float> s(c.sum), dy(c.dy), dx(c.dx.size()), d_beta(std::vector<float>(48, 8.0F));
  DeviceArray<float> workspace(addnorm::cuda::add_norm_workspace(70, 48));
  DeviceArray<NormStatistics<float>> statistics(c.statistics);
  addnorm::cuda::add_norm_backward<float>({}, {.s = s.matrix(70, 48),
                                               .statistics = statistics.span(),
                                               .dy = dy.matrix(70, 48),
                                               .dx = dx.matrix(70, 48),
                                               .d_beta = d_beta.span(),
                                               .workspace = workspace.span()});
  const std::vector<float> sums = d_beta.values();
  for (std::size_t i = 0; i < 48; ++i) EXPECT_EQ(sums[i], 8 + c.d_beta[i]);
}

TEST(CudaErrors, SayWhatIsWrong) {
  float value = 0;
  const MatrixView<float> one(&value, 1, 1);
  const auto forward = [&](const NormOptions& options, MatrixView<float> y) {
    return [=] { addnorm::cuda::add_norm_forward<float>(options, {.add = {.x = one}, .y = y}); };
  };
  EXPECT_THAT(forward({.kind = NormKind::kDyT}, one),
              ThrowsMessage<Error>(HasSubstr("of kind dyt, must be layer or rms")));
  EXPECT_THAT(forward({}, {&value, 2, 1}), ThrowsMessage<Error>(HasSubstr("y is 2 × 1, must be")));
  const MatrixView<float> wide(&value, 0, 65537);
  EXPECT_THAT([&] { addnorm::cuda::add_norm_forward<float>({}, {.add = {.x = wide}, .y = wide}); },
              ThrowsMessage<Error>(HasSubstr("there are 65537 features, must be at most 65536")));
}

}  // namespace
}  // namespace addnorm::kernels::cuda
