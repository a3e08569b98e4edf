/// Runs random epilogues on every instruction set: all have the same bits, and match the float64
/// reference. Quantized values are exactly those of plain scalar code.

#include <gmock/gmock.h>

#include <cstring>
#include <functional>

#include "kernels/reference.h"
#include "support/fuzz.h"
#include "support/norm_case.h"
#include "support/quantize.h"

namespace addnorm::kernels::epilogue_fuzz_test {
namespace {

using testing::Choices;
using testing::describe;
using testing::Expected;
using testing::fuzz;
using testing::is_near;
using testing::RowTruth;
using testing::same_numbers;

/// An Add & Norm with any epilogue and its backward.
template <typename S, typename B>
struct EpilogueCase {
  Choices choose;
  std::size_t samples = 1 + choose.below(4);
  std::size_t rows = samples * (1 + choose.below(choose.of<std::size_t>({4, 12})));
  std::size_t cols = choose.one_in(2) ? 32 * (1 + choose.below(choose.of<std::size_t>({4, 40})))
                                      : 1 + choose.below(choose.of<std::size_t>({40, 400, 3000}));
  std::size_t stride = cols + choose.of<std::size_t>({0, 0, 3, 16});
  NormOptions options =
      choose.options(choose.of({NormKind::kLayer, NormKind::kRms}), choose.one_in(2), cols > 1);
  bool with_branch = choose.one_in(2);
  bool with_gate = choose.one_in(2);
  bool with_scale = choose.one_in(3);
  bool with_shift = choose.one_in(3);
  float skip = choose.of({1.0F, 1.0F, -0.7F});
  GateFunction function =
      choose.of({GateFunction::kIdentity, GateFunction::kSigmoid, GateFunction::kSilu});
  GatePlace place = choose.of({GatePlace::kAfterNorm, GatePlace::kBeforeNorm});
  testing::QuantizedMemory quantized = make_quantized();

  std::vector<S> x = stored<S>(choose.of({0.0, 1.0, 100.0}));
  std::vector<B> branch = stored<B>(0), z = stored<B>(0, choose.of({1.0, 5.0})), dy = stored<B>(0);
  std::vector<float> gamma = choose.normals(choose.one_in(2) ? cols : 0, 1, 0.3);
  std::vector<float> beta = choose.normals(choose.one_in(2) ? cols : 0);
  std::vector<float> scale = choose.normals(samples * cols, 0, 0.3);
  std::vector<float> shift = choose.normals(samples * cols);

  std::vector<S> s = std::vector<S>(rows * stride), dx = s;
  std::vector<B> y = std::vector<B>(rows * stride), dz = y;
  std::vector<float> unrounded = std::vector<float>(rows * stride);
  std::vector<float> d_gamma = std::vector<float>(gamma.size());
  std::vector<float> d_beta = std::vector<float>(beta.size());
  std::vector<float> d_scale = std::vector<float>(samples * cols), d_shift = d_scale;
  std::vector<float> workspace = std::vector<float>(epilogue_workspace(rows, cols, samples));
  std::vector<NormStatistics<float>> statistics = std::vector<NormStatistics<float>>(rows);

  explicit EpilogueCase(std::uint64_t seed) : choose(seed) { options.epsilon = 1e-5; }

  testing::QuantizedMemory make_quantized() {
    const auto type = static_cast<testing::QuantizedType>(choose.below(4));
    const std::size_t block = choose.of<std::size_t>({0, 32, 128});
    const bool fits =
        cols % (type == testing::QuantizedType::kQ8_0 ? 32 : at_least_one(block)) == 0;
    if (!fits) return {testing::QuantizedType::kNone, rows, cols, stride, 0, 0};
    const float given = block == 0 && type != testing::QuantizedType::kQ8_0
                            ? choose.of({0.0F, 0.02F, 0.001F})
                            : 0.0F;
    return {type, rows, cols, stride, block, given};
  }
  static std::size_t at_least_one(std::size_t block) { return block == 0 ? 1 : block; }

  template <typename T>
  std::vector<T> stored(double mean, double deviation = 1) {
    std::vector<T> values(rows * stride, T(std::numeric_limits<float>::quiet_NaN()));
    for (std::size_t r = 0; r < rows; ++r) {
      const std::vector<float> row = choose.normals(cols, mean, deviation);
      for (std::size_t i = 0; i < cols; ++i) values[r * stride + i] = T(row[i]);
    }
    return values;
  }
  template <typename T>
  MatrixView<T> view(std::vector<T>& values, bool wanted = true) const {
    return wanted ? MatrixView<T>{values.data(), rows, cols, stride} : MatrixView<T>{};
  }
  MatrixView<const float> of_samples(const std::vector<float>& values, bool wanted) const {
    return wanted ? MatrixView<const float>{values.data(), samples, cols}
                  : MatrixView<const float>{};
  }

  void run() {
    const Gate<B> gate{view(z, with_gate), function, place};
    const Modulation<float> modulation{of_samples(scale, with_scale),
                                       of_samples(shift, with_shift)};
    add_norm_forward<S, B>(
        options,
        {.add = {.x = view(x), .branch = view(branch, with_branch), .skip = {.constant = skip}},
         .sum = view(s),
         .gamma = gamma,
         .beta = beta,
         .y = view(y),
         .statistics = statistics,
         .epilogue = {.gate = gate,
                      .modulation = modulation,
                      .quantized = quantized.view(),
                      .unrounded = view(unrounded)}});
    const bool modulates = with_scale || with_shift;
    add_norm_backward<S, B>(
        options,
        {.s = view(s),
         .statistics = statistics,
         .gamma = gamma,
         .dy = view(dy),
         .dx = view(dx),
         .d_gamma = d_gamma,
         .d_beta = d_beta,
         .workspace = workspace,
         .parameter_gradients = GradientMode::kOverwrite,
         .epilogue = {.gate = gate,
                      .modulation = modulation,
                      .beta = beta,
                      .dz = view(dz, with_gate),
                      .d_scale = modulates ? MatrixView<float>{d_scale.data(), samples, cols}
                                           : MatrixView<float>{},
                      .d_shift = modulates ? MatrixView<float>{d_shift.data(), samples, cols}
                                           : MatrixView<float>{}}});
  }

  bool same_outputs(const EpilogueCase& other) const {
    return same_numbers(s, other.s) && same_numbers(y, other.y) &&
           same_numbers(unrounded, other.unrounded) && quantized == other.quantized &&
           same_numbers(dx, other.dx) && same_numbers(dz, other.dz) &&
           same_numbers(d_gamma, other.d_gamma) && same_numbers(d_beta, other.d_beta) &&
           same_numbers(d_scale, other.d_scale) && same_numbers(d_shift, other.d_shift);
  }

  /// Returns the values of the rows in float64.
  template <typename T>
  std::vector<double> values(const std::vector<T>& stored) const {
    std::vector<double> all;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < cols; ++i) {
        all.push_back(static_cast<float>(stored[r * stride + i]));
      }
    }
    return all;
  }

  reference::Epilogue truth() const {
    const auto wide = [](const std::vector<float>& v) { return testing::to_double(v); };
    reference::Epilogue e{.norm = {options, {rows, cols}, values(s), wide(gamma), wide(beta)},
                          .function = function,
                          .place = place,
                          .samples = samples};
    if (with_gate) e.z = values(z);
    if (with_scale) e.scale = wide(scale);
    if (with_shift) e.shift = wide(shift);
    return e;
  }

  /// Compares with the reference. The norm's terms of a gradient are about 1/deviation; with few
  /// features, their sum is much smaller.
  void expect_right() const {
    const reference::Epilogue e = truth();
    expect_near("y", y, epilogue_forward(e), 2e-5);
    expect_near("unrounded", unrounded, epilogue_forward(e), 2e-5);
    for (std::size_t i = 0; i < rows * stride; ++i) {
      if (i % stride < cols) continue;
      ASSERT_EQ(unrounded[i], 0) << "behind a row";
      ASSERT_EQ(static_cast<float>(y[i]), 0) << "behind a row";
    }
    quantized.expect_of(unrounded);
    const auto gradients = epilogue_backward(e, values(dy));
    if (with_gate || with_scale || with_shift) {
      expect_near("dx", dx, gradients.ds, 2e-5, true);
    }
    if (with_gate) expect_near("dz", dz, gradients.dz, 2e-5, true);
    if (with_scale || with_shift) {
      EXPECT_LE(testing::relative_error(d_scale, gradients.d_scale, 1), 2e-5) << "d_scale";
      EXPECT_LE(testing::relative_error(d_shift, gradients.d_shift, 1), 2e-5) << "d_shift";
    }
  }
  /// Compares each row, relative to its largest value.
  template <typename T>
  void expect_near(const char* name, const std::vector<T>& actual,
                   const std::vector<double>& expected, double tolerance,
                   bool of_norm = false) const {
    const double rounding = testing::Rounding<T>::kRelative;
    for (std::size_t r = 0; r < rows; ++r) {
      double largest = of_norm ? statistics[r].reciprocal : 1e-3;
      for (std::size_t i = 0; i < cols; ++i) {
        largest = std::max(largest, std::abs(expected[r * cols + i]));
      }
      for (std::size_t i = 0; i < cols; ++i) {
        const double value = expected[r * cols + i];
        ASSERT_NEAR(static_cast<float>(actual[r * stride + i]), value,
                    tolerance * largest + rounding * std::abs(value) + 1e-7)
            << name << " " << r << ", " << i;
      }
    }
  }

  std::string text() const {
    return fmt::format(
        "{} × {}, stride {}, {} samples, branch {}, gate {} {} {}, scale {}, shift {}, {}", rows,
        cols, stride, samples, with_branch, with_gate, to_string(function), to_string(place),
        with_scale, with_shift, describe(options));
  }
};

TEST(Fuzz, EpiloguesOfFloat32) {
  fuzz<EpilogueCase<float, float>>();
}
TEST(Fuzz, EpiloguesOfBFloat16) {
  fuzz<EpilogueCase<BFloat16, BFloat16>>();
}
TEST(Fuzz, EpiloguesOfFloat16) {
  fuzz<EpilogueCase<Float16, Float16>>();
}
TEST(Fuzz, EpiloguesOfFloat32AndBFloat16) {
  fuzz<EpilogueCase<float, BFloat16>>();
}

}  // namespace
}  // namespace addnorm::kernels::epilogue_fuzz_test
