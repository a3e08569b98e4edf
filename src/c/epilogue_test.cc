/// The C interface to epilogues has the same bits as the C++ functions.

#include <gmock/gmock.h>

#include "addnorm.h"
#include "support/c_values.h"

namespace addnorm::c::epilogue_test {
namespace {

using testing::kDtype;
using testing::same_bits;

constexpr std::size_t kRows = 6, kCols = 96, kStride = 100, kSamples = 2;
constexpr std::size_t kSize = kRows * kStride;

/// Inputs and outputs of an epilogue and its backward.
template <typename S, typename B>
struct Memory {
  using V = Arithmetic<S>;

  std::vector<S> x = numbers<S>(kSize, 1), dx = x;
  std::vector<B> z = numbers<B>(kSize, 2), dy = numbers<B>(kSize, 3), y = z, dz = z;
  std::vector<V> beta = numbers<V>(kCols, 4), d_beta = beta;
  std::vector<V> scale = numbers<V>(kSamples * kCols, 5), shift = numbers<V>(kSamples * kCols, 6);
  std::vector<V> d_scale = scale, d_shift = shift, unrounded = std::vector<V>(kSize);
  std::vector<V> workspace = std::vector<V>(epilogue_workspace(kRows, kCols, kSamples));
  std::vector<std::int8_t> int8 = std::vector<std::int8_t>(kSize);
  std::vector<Float8E4M3> float8 = std::vector<Float8E4M3>(kSize);
  std::vector<Q8Block> q8_0 = std::vector<Q8Block>(kRows * kCols / 32);
  std::vector<float> scales = std::vector<float>(kRows * kCols / 32);
  std::vector<NormStatistics<V>> statistics = std::vector<NormStatistics<V>>(kRows);

  template <typename T>
  static std::vector<T> numbers(std::size_t size, std::size_t seed) {
    TorchGenerator generator(seed);
    std::vector<T> values;
    for (const float v : testing::random_vector<float>(generator, size)) values.push_back(T(v));
    return values;
  }
  template <typename T>
  static MatrixView<T> view(std::vector<T>& values) {
    return {values.data(), kRows, kCols, kStride};
  }
  static MatrixView<V> by_sample(std::vector<V>& values) {
    return {values.data(), kSamples, kCols};
  }
  bool operator==(const Memory& o) const {
    return same_bits(y, o.y) && same_bits(unrounded, o.unrounded) && same_bits(int8, o.int8) &&
           same_bits(float8, o.float8) && same_bits(q8_0, o.q8_0) && same_bits(scales, o.scales) &&
           same_bits(dx, o.dx) && same_bits(dz, o.dz) && same_bits(d_beta, o.d_beta) &&
           same_bits(d_scale, o.d_scale) && same_bits(d_shift, o.d_shift);
  }
};

template <typename S, typename B>
void run(Memory<S, B>& m, addnorm_quantized_type type, GatePlace place) {
  const Gate<B> gate{.z = m.view(m.z), .function = GateFunction::kSigmoid, .place = place};
  const Modulation<Arithmetic<S>> modulation{m.by_sample(m.scale), m.by_sample(m.shift)};
  Quantized quantized;
  if (type == ADDNORM_INT8) {
    quantized = {.int8 = m.view(m.int8), .block = 32, .scales = {m.scales.data(), kRows, 3}};
  } else if (type == ADDNORM_FLOAT8_E4M3) {
    quantized = {.float8 = m.view(m.float8), .given_scale = 0.01F};
  } else if (type == ADDNORM_Q8_0) {
    quantized = {.q8_0 = {m.q8_0.data(), kRows, kCols / 32}};
  }
  AddNormForward<S, B> forward{.add = {.x = m.view(m.x)},
                               .beta = m.beta,
                               .statistics = m.statistics,
                               .epilogue = {.gate = gate,
                                            .modulation = modulation,
                                            .quantized = quantized,
                                            .unrounded = m.view(m.unrounded)}};
  if (type == ADDNORM_NOT_QUANTIZED) forward.y = m.view(m.y);
  add_norm_forward<S, B>({}, forward);
  add_norm_backward<S, B>({}, {.s = m.view(m.x),
                               .statistics = m.statistics,
                               .dy = m.view(m.dy),
                               .dx = m.view(m.dx),
                               .d_beta = m.d_beta,
                               .workspace = m.workspace,
                               .epilogue = {.gate = gate,
                                            .modulation = modulation,
                                            .beta = m.beta,
                                            .dz = m.view(m.dz),
                                            .d_scale = m.by_sample(m.d_scale),
                                            .d_shift = m.by_sample(m.d_shift)}});
}

template <typename S, typename B>
addnorm_epilogue c_epilogue(Memory<S, B>& m, addnorm_quantized_type type, GatePlace place) {
  addnorm_epilogue e = {.size = sizeof e,
                        .z = m.z.data(),
                        .z_stride = kStride,
                        .gate_function = ADDNORM_GATE_SIGMOID,
                        .gate_place = static_cast<std::int32_t>(place),
                        .scale = m.scale.data(),
                        .shift = m.shift.data(),
                        .samples = kSamples,
                        .quantized_type = type,
                        .quantized_stride = kStride,
                        .unrounded = m.unrounded.data(),
                        .unrounded_stride = kStride};
  if (type == ADDNORM_INT8) {
    e.quantized = m.int8.data(), e.block = 32, e.scales = m.scales.data();
  } else if (type == ADDNORM_FLOAT8_E4M3) {
    e.quantized = m.float8.data(), e.given_scale = 0.01F;
  } else if (type == ADDNORM_Q8_0) {
    e.quantized = m.q8_0.data(), e.quantized_stride = 0;
  }
  return e;
}

template <typename S, typename B>
void run_c(Memory<S, B>& m, addnorm_quantized_type type, GatePlace place) {
  const addnorm_norm_options norm = addnorm_norm(ADDNORM_LAYER_NORM);
  const addnorm_epilogue epilogue = c_epilogue(m, type, place);
  const addnorm_add_norm_forward_args forward = {
      .size = sizeof forward,
      .dtype = kDtype<S, B>,
      .rows = kRows,
      .features = kCols,
      .norm = &norm,
      .add = {.x = m.x.data(), .x_stride = kStride},
      .beta = m.beta.data(),
      .y = type == ADDNORM_NOT_QUANTIZED ? m.y.data() : nullptr,
      .y_stride = kStride,
      .statistics = m.statistics.data(),
      .epilogue = &epilogue};
  ASSERT_EQ(addnorm_add_norm_forward(&forward), ADDNORM_OK) << addnorm_last_error();
  const addnorm_epilogue_backward of_epilogue = {.size = sizeof of_epilogue,
                                                 .forward = &epilogue,
                                                 .beta = m.beta.data(),
                                                 .dz = m.dz.data(),
                                                 .dz_stride = kStride,
                                                 .d_scale = m.d_scale.data(),
                                                 .d_shift = m.d_shift.data()};
  const addnorm_add_norm_backward_args backward = {
      .size = sizeof backward,
      .dtype = kDtype<S, B>,
      .rows = kRows,
      .features = kCols,
      .norm = &norm,
      .s = m.x.data(),
      .s_stride = kStride,
      .statistics = m.statistics.data(),
      .dy = m.dy.data(),
      .dy_stride = kStride,
      .dx = m.dx.data(),
      .dx_stride = kStride,
      .d_beta = m.d_beta.data(),
      .workspace = m.workspace.data(),
      .workspace_size = addnorm_epilogue_workspace(kRows, kCols, kSamples),
      .epilogue = &of_epilogue};
  ASSERT_EQ(addnorm_add_norm_backward(&backward), ADDNORM_OK) << addnorm_last_error();
}

template <typename S, typename B>
void expect_same() {
  for (const auto type : {ADDNORM_NOT_QUANTIZED, ADDNORM_INT8, ADDNORM_FLOAT8_E4M3, ADDNORM_Q8_0}) {
    for (const GatePlace place : {GatePlace::kAfterNorm, GatePlace::kBeforeNorm}) {
      Memory<S, B> m, expected;
      run(expected, type, place);
      run_c(m, type, place);
      EXPECT_TRUE(m == expected) << type << " " << to_string(place);
    }
  }
}
TEST(CEpilogue, HasTheBitsOfCpp) {
  expect_same<float, float>();
  expect_same<double, double>();
  expect_same<BFloat16, BFloat16>();
  expect_same<float, Float16>();
}

TEST(CEpilogue, RefusesWrongArguments) {
  struct Wrong {
    void (*change)(addnorm_epilogue& e);
    const char* message;
  };
  const Wrong all[] = {
      {[](auto& e) { e.size = 4; }, "add_norm_forward: the size of epilogue is 4"},
      {[](auto& e) { e.gate_function = 3; },
       "add_norm_forward: gate_function is 3, must be 0 to 2"},
      {[](auto& e) { e.gate_place = 2; }, "add_norm_forward: gate_place is 2, must be 0 to 1"},
      {[](auto& e) { e.samples = 4; },
       "add_norm_forward: epilogue.modulation has 4 samples, which must divide the 6 rows"},
      {[](auto& e) { e.samples = 0; },
       "add_norm_forward: epilogue.samples is 0, but scale and shift are not both NULL"},
      {[](auto& e) { e.scale = e.shift = nullptr; },
       "add_norm_forward: epilogue.samples is 2, but scale and shift are NULL"},
      {[](auto& e) { e.quantized_type = 4; },
       "add_norm_forward: quantized_type is 4, must be 0 to 3"},
      {[](auto& e) { e.quantized_type = 0; },
       "add_norm_forward: epilogue.quantized is not NULL, but has no type"},
      {[](auto& e) { e.quantized = nullptr; },
       "add_norm_forward: epilogue.quantized.int8 is absent, must be 6 × 96"},
      {[](auto& e) { e.block = 64; },
       "add_norm_forward: epilogue.quantized.block is 64, must divide the 96 features"},
      {[](auto& e) { e.scales = nullptr; },
       "add_norm_forward: epilogue.quantized.scales is absent, must be 6 × 3"},
  };
  for (const Wrong& wrong : all) {
    Memory<float, float> m;
    addnorm_epilogue e = c_epilogue(m, ADDNORM_INT8, GatePlace::kAfterNorm);
    wrong.change(e);
    const addnorm_add_norm_forward_args args = {.size = sizeof args,
                                                .rows = kRows,
                                                .features = kCols,
                                                .add = {.x = m.x.data(), .x_stride = kStride},
                                                .epilogue = &e};
    EXPECT_EQ(addnorm_add_norm_forward(&args), ADDNORM_INVALID_ARGUMENT);
    EXPECT_THAT(addnorm_last_error(), ::testing::StartsWith(wrong.message));
  }
}

}  // namespace
}  // namespace addnorm::c::epilogue_test
