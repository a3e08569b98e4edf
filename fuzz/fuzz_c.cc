#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>

#include "addnorm.h"
#include "fuzz.h"

namespace {

/// Random arguments. Pointers are NULL or point to enough memory.
class Arguments {
 public:
  Arguments(const std::uint8_t* data, std::size_t size) : from_(data, size) {
    const std::vector<std::uint8_t> values = from_.ConsumeBytes<std::uint8_t>(64);
    for (std::size_t i = 0; i < memory_.size(); i += 64) std::ranges::copy(values, &memory_[i]);
  }

  std::size_t call() { return from_.ConsumeIntegralInRange<std::size_t>(0, 7); }
  std::size_t count(std::size_t most) {
    if (rarely()) return std::numeric_limits<std::size_t>::max() - small(64);
    return small(most);
  }
  std::size_t stride() { return from_.ConsumeBool() ? 0 : count(16); }
  std::size_t workspace() { return rarely() ? count(600) : 600; }
  std::int32_t choice(std::int32_t last) {
    return rarely() ? from_.ConsumeIntegral<std::int32_t>()
                    : from_.ConsumeIntegralInRange<std::int32_t>(0, last);
  }
  double number() {
    if (rarely()) return from_.ConsumeFloatingPoint<double>();
    return from_.PickValueInArray({0.0, 0.5, 1e-5, -1.0});
  }
  std::size_t size(std::size_t right) { return rarely() ? small(right) : right; }
  /// Returns a pointer to unused memory, rarely NULL or memory that may overlap other arguments.
  void* memory() {
    if (rarely()) return nullptr;
    if (rarely()) return memory_.data() + small(memory_.size() - kRoom);
    return memory_.data() + kRoom * used_++;
  }
  /// Sets a vector and its length, or leaves both unset.
  template <typename Pointer>
  void vector(Pointer& data, std::size_t& size, std::size_t features) {
    if (from_.ConsumeBool()) return;
    data = memory();
    size = rarely() ? count(12) : from_.PickValueInArray({std::size_t{1}, features});
  }

  const addnorm_norm_options* norm() {
    if (rarely()) return nullptr;
    norm_ = {.size = size(sizeof norm_),
             .kind = choice(ADDNORM_DERF),
             .epsilon_at = choice(ADDNORM_EPSILON_AT_DEVIATION),
             .variance = choice(ADDNORM_VARIANCE_UNBIASED),
             .gamma_form = choice(ADDNORM_GAMMA_ONE_PLUS),
             .epsilon = number(),
             .output_scale = number(),
             .groups = count(4),
             .alpha = number()};
    return &norm_;
  }

  template <typename Args>
  Args of_rows() {
    Args args{};
    args.size = size(sizeof args);
    args.dtype = choice(ADDNORM_F32_F16);
    args.features = count(12);
    args.rows = args.features == 0 ? small(12) : count(12);
    return args;
  }
  template <typename Args>
  Args of_residual_add() {
    Args args = of_rows<Args>();
    args.add.x = memory(), args.add.x_stride = stride();
    args.add.branch = memory(), args.add.branch_stride = stride();
    vector(args.add.skip, args.add.skip_count, args.features);
    vector(args.add.gain, args.add.gain_count, args.features);
    args.add.dropout_probability = number();
    return args;
  }
  template <typename Args>
  void norm_of(Args& args) {
    args.norm = norm();
    args.positions = small(3);
    args.statistics_from = choice(ADDNORM_STATISTICS_GIVEN);
    args.statistics = memory(), args.gamma = memory();
    args.workspace = memory(), args.workspace_size = workspace();
    args.alpha = memory(), args.shift = memory();
  }

 private:
  static constexpr std::size_t kRoom = 8192;  ///< bytes of the largest argument

  bool rarely() { return from_.ConsumeIntegralInRange(0, 15) == 15; }
  std::size_t small(std::size_t most) { return from_.ConsumeIntegralInRange<std::size_t>(0, most); }

  FuzzedDataProvider from_;
  addnorm_norm_options norm_{};
  std::size_t used_ = 0;
  alignas(64) std::array<std::uint8_t, 15 * kRoom> memory_{};
};

addnorm_status call(Arguments& any) {
  switch (any.call()) {
    case 0: {
      auto args = any.of_residual_add<addnorm_residual_add_args>();
      args.sum = any.memory(), args.sum_stride = any.stride();
      return addnorm_residual_add(&args);
    }
    case 1: {
      auto args = any.of_residual_add<addnorm_residual_add_backward_args>();
      args.d_sum = any.memory(), args.d_sum_stride = any.stride();
      args.d_branch = any.memory(), args.d_branch_stride = any.stride();
      any.vector(args.d_skip, args.d_skip_count, args.features);
      any.vector(args.d_gain, args.d_gain_count, args.features);
      return addnorm_residual_add_backward(&args);
    }
    case 2:
    case 3: {
      auto args = any.of_residual_add<addnorm_add_norm_forward_args>();
      any.norm_of(args);
      args.sum = any.memory(), args.sum_stride = any.stride();
      args.beta = any.memory();
      args.y = any.memory(), args.y_stride = any.stride();
      return addnorm_add_norm_forward(&args);
    }
    case 4:
    case 5: {
      auto args = any.of_rows<addnorm_add_norm_backward_args>();
      args.parameter_gradients = any.choice(ADDNORM_GRADIENT_OVERWRITE);
      any.norm_of(args);
      args.s = any.memory(), args.s_stride = any.stride();
      args.dy = any.memory(), args.dy_stride = any.stride();
      args.d_residual = any.memory(), args.d_residual_stride = any.stride();
      any.vector(args.skip, args.skip_count, args.features);
      args.dx = any.memory(), args.dx_stride = any.stride();
      args.d_gamma = any.memory(), args.d_beta = any.memory();
      args.d_alpha = any.memory(), args.d_shift = any.memory();
      return addnorm_add_norm_backward(&args);
    }
    case 6: {
      const addnorm_running_statistics_args args = {.size = any.size(sizeof args),
                                                    .dtype = any.choice(ADDNORM_F64),
                                                    .channels = any.count(4),
                                                    .norm = any.norm(),
                                                    .mean = any.memory(),
                                                    .variance = any.memory(),
                                                    .statistics = any.memory(),
                                                    .momentum = any.number(),
                                                    .count = any.count(9)};
      return any.call() < 4 ? addnorm_update_running_statistics(&args)
                            : addnorm_running_to_norm_statistics(&args);
    }
    default: {
      std::size_t sets, workspace;
      return addnorm_norm_sizes(any.norm(), any.count(4), any.count(4), any.count(4), &sets,
                                &workspace);
    }
  }
}

}  // namespace

/// A call of the C interface must succeed, or report invalid arguments with a message.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Arguments any(data, size);
  const addnorm_status status = call(any);
  const bool said = addnorm_last_error()[0] != '\0';
  if (status != ADDNORM_OK && (status != ADDNORM_INVALID_ARGUMENT || !said)) std::abort();
  return 0;
}
