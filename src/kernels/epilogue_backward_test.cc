/// The backward of epilogues, compared with central differences and with calls without them.

#include <gmock/gmock.h>

#include "addnorm/norm.h"
#include "kernels/reference.h"
#include "support/gradient_check.h"
#include "support/instruction_sets.h"
#include "support/norm_case.h"

namespace addnorm::kernels::epilogue_backward_test {
namespace {

using testing::gradient_error;
using testing::random_vector;
using testing::relative_error;
using testing::same_bits;

/// A norm with a gate and a modulation, forward and backward.
template <typename T>
struct Case {
  std::size_t samples, rows, cols;
  NormOptions options;
  GateFunction function;
  GatePlace place;
  bool gates = true, modulates = true;
  TorchGenerator generator{7};
  std::vector<T> x = random(rows), z = random(rows), dy = random(rows), past = random(rows);
  std::vector<T> gamma = random(1), beta = random(1);
  std::vector<T> scale = random(samples), shift = random(samples);
  std::vector<T> y = x, dx = x, dz = x, d_gamma = gamma, d_beta = beta, d_scale = scale,
                 d_shift = shift;
  std::vector<T> workspace = std::vector<T>(epilogue_workspace(rows, cols, samples));
  std::vector<NormStatistics<T>> statistics = std::vector<NormStatistics<T>>(rows);

  std::vector<T> random(std::size_t count) { return random_vector<T>(generator, count * cols); }
  MatrixView<T> view(std::vector<T>& values) const {
    return {values.data(), values.size() / cols, cols};
  }
  Gate<T> gate() { return gates ? Gate<T>{view(z), function, place} : Gate<T>{}; }
  Modulation<T> modulation() {
    return modulates ? Modulation<T>{view(scale), view(shift)} : Modulation<T>{};
  }
  AddNormForward<T> forward_args() {
    return {.add = {.x = view(x)},
            .gamma = gamma,
            .beta = beta,
            .y = view(y),
            .statistics = statistics,
            .epilogue = {.gate = gate(), .modulation = modulation()}};
  }
  AddNormBackward<T> backward_args() {
    AddNormBackward<T> args{.s = view(x),
                            .statistics = statistics,
                            .gamma = gamma,
                            .dy = view(dy),
                            .d_residual = view(past),
                            .skip = {.constant = T(0.5)},
                            .dx = view(dx),
                            .d_gamma = d_gamma,
                            .d_beta = d_beta,
                            .workspace = workspace,
                            .parameter_gradients = GradientMode::kOverwrite,
                            .epilogue = {.gate = gate(), .modulation = modulation(), .beta = beta}};
    if (gates) args.epilogue.dz = view(dz);
    if (modulates) args.epilogue.d_scale = view(d_scale), args.epilogue.d_shift = view(d_shift);
    return args;
  }
  void run(std::size_t threads = 0) {
    add_norm_forward<T>(options, forward_args(), threads);
    add_norm_backward<T>(options, backward_args(), threads);
  }
  /// Σ y ⊙ dy + 0.5·Σ x ⊙ past
  double loss() {
    add_norm_forward<T>(options, forward_args());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i] + T(0.5) * x[i] * past[i];
    return sum;
  }
};

constexpr GateFunction kFunctions[] = {GateFunction::kIdentity, GateFunction::kSigmoid,
                                       GateFunction::kSilu};
constexpr GatePlace kPlaces[] = {GatePlace::kAfterNorm, GatePlace::kBeforeNorm};

TEST(EpilogueBackward, EqualsCentralDifferences) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (const GateFunction function : kFunctions) {
      for (const GatePlace place : kPlaces) {
        for (const bool all : {true, false}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(kind), to_string(function),
                                   to_string(place), all));
          Case<double> c{.samples = 3,
                         .rows = 6,
                         .cols = 9,
                         .options = {.kind = kind,
                                     .gamma_form = all ? GammaForm::kOnePlus : GammaForm::kPlain,
                                     .output_scale = all ? 0.7 : 1.0},
                         .function = function,
                         .place = place,
                         .modulates = all};
          c.run();
          const auto expect = [&](const char* name, std::vector<double>& values,
                                  const std::vector<double>& analytic) {
            EXPECT_LE(gradient_error(values, analytic, [&] { return c.loss(); }), 1e-8) << name;
          };
          expect("dx", c.x, c.dx);
          expect("dz", c.z, c.dz);
          expect("d_gamma", c.gamma, c.d_gamma);
          expect("d_beta", c.beta, c.d_beta);
          if (!all) continue;
          expect("d_scale", c.scale, c.d_scale);
          expect("d_shift", c.shift, c.d_shift);
        }
      }
    }
  }
}

TEST(EpilogueBackward, OfAModulationHasTheBitsOfSeparateSteps) {
  for (const std::size_t cols : {5, 64, 700}) {
    Case<float> c{.samples = 10, .rows = 300, .cols = cols, .gates = false};
    c.run();
    std::vector<float> d_normed = c.dy, dx = c.dx;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      d_normed[i] *= 1 + c.scale[i / cols / 30 * cols + i % cols];
    }
    auto args = c.backward_args();
    std::vector<float> d_gamma(cols), d_beta(cols);
    args.epilogue = {};
    args.dy = c.view(d_normed);
    args.dx = c.view(dx);
    args.d_gamma = d_gamma, args.d_beta = d_beta;
    add_norm_backward<float>(c.options, args);
    EXPECT_TRUE(same_bits(dx, c.dx));
    EXPECT_TRUE(same_bits(d_gamma, c.d_gamma));
    EXPECT_TRUE(same_bits(d_beta, c.d_beta));
  }
}

TEST(EpilogueBackward, SumsOverSamplesAreThoseOfTheReferenceOnAnyNumberOfThreads) {
  struct Shape {
    std::size_t samples, rows, cols;
  };
  const std::string usual(instruction_set());
  for (const Shape shape :
       {Shape{1, 700, 33}, {700, 700, 33}, {7, 700, 33}, {50, 100, 1500}, {2, 6, 16384}}) {
    SCOPED_TRACE(fmt::format("{} of {} × {}", shape.samples, shape.rows, shape.cols));
    const auto make = [&] {
      return Case<float>{.samples = shape.samples,
                         .rows = shape.rows,
                         .cols = shape.cols,
                         .function = GateFunction::kSilu};
    };
    Case<float> first = make();
    first.run();
    const auto wide = [](const std::vector<float>& v) { return testing::to_double(v); };
    const auto truth = reference::epilogue_backward({.norm = {.options = first.options,
                                                              .shape = {shape.rows, shape.cols},
                                                              .x = wide(first.x),
                                                              .gamma = wide(first.gamma),
                                                              .beta = wide(first.beta)},
                                                     .z = wide(first.z),
                                                     .samples = shape.samples,
                                                     .scale = wide(first.scale),
                                                     .shift = wide(first.shift)},
                                                    wide(first.dy));
    EXPECT_LE(relative_error(first.d_scale, truth.d_scale), 2e-6);
    EXPECT_LE(relative_error(first.d_shift, truth.d_shift), 2e-6);
    EXPECT_LE(relative_error(first.dz, truth.dz), 2e-6);
    EXPECT_LE(relative_error(first.d_gamma, truth.d_gamma), 2e-6);
    for (const std::string& name : testing::all_instruction_sets()) {
      use_instruction_set(name);
      for (const std::size_t threads : {1, 2, 5}) {
        Case<float> again = make();
        again.run(threads);
        EXPECT_TRUE(same_bits(again.dx, first.dx)) << name << threads;
        EXPECT_TRUE(same_bits(again.dz, first.dz)) << name << threads;
        EXPECT_TRUE(same_bits(again.d_scale, first.d_scale)) << name << threads;
        EXPECT_TRUE(same_bits(again.d_shift, first.d_shift)) << name << threads;
        EXPECT_TRUE(same_bits(again.d_gamma, first.d_gamma)) << name << threads;
      }
    }
    use_instruction_set(usual);
  }
}

TEST(EpilogueBackward, GradientsOfAModulationAreAddedOrOverwritten) {
  Case<float> c{.samples = 4, .rows = 40, .cols = 50};
  c.run();
  const std::vector<float> scale = c.d_scale, shift = c.d_shift;
  auto args = c.backward_args();
  args.parameter_gradients = GradientMode::kAccumulate;
  add_norm_backward<float>(c.options, args);
  for (std::size_t i = 0; i < scale.size(); ++i) {
    EXPECT_EQ(c.d_scale[i], 2 * scale[i]);
    EXPECT_EQ(c.d_shift[i], 2 * shift[i]);
  }
}

TEST(EpilogueBackward, OutputsInPlaceAreTheSame) {
  for (const GatePlace place : kPlaces) {
    Case<float> c{.samples = 2, .rows = 40, .cols = 50, .place = place};
    c.run();
    for (const bool over_inputs : {false, true}) {
      Case<float> again{.samples = 2, .rows = 40, .cols = 50, .place = place};
      add_norm_forward<float>(c.options, again.forward_args());
      auto args = again.backward_args();
      args.dx = again.view(over_inputs ? again.x : again.past);
      args.epilogue.dz = again.view(over_inputs ? again.dy : again.z);
      add_norm_backward<float>(c.options, args);
      EXPECT_TRUE(same_bits(over_inputs ? again.x : again.past, c.dx));
      EXPECT_TRUE(same_bits(over_inputs ? again.dy : again.z, c.dz));
    }
  }
}

}  // namespace
}  // namespace addnorm::kernels::epilogue_backward_test
