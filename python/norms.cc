// The functions of addnorm.h on Python's arrays. python/addnorm/_kernels.py packs the arguments;
// array_functions.py allocates the results and documents the functions.

#include <algorithm>
#include <new>
#include <string>

#include "array.h"
#include "call.h"

namespace addnorm::python {
namespace {

/// The message of this thread's last failed call.
std::string& last_message() {
  thread_local std::string message;
  return message;
}

/// Stores the message of addnorm_last_error() without the name of a function of addnorm.h, which a
/// Python caller does not know.
int failed(addnorm_status status) {
  if (status == ADDNORM_OK) return static_cast<int>(Status::kOk);
  if (status == ADDNORM_OUT_OF_MEMORY) return static_cast<int>(Status::kOutOfMemory);
  const std::string_view message = addnorm_last_error();
  const std::size_t name = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const bool is_named = name != message.npos && message.substr(name).starts_with(": ");
  last_message() = is_named ? message.substr(name + 2) : message;
  return static_cast<int>(Status::kError);
}

/// Returns the Status of run(), which returns an addnorm_status.
template <typename Run>
int guarded(const Run& run) noexcept {
  try {
    return failed(run());
  } catch (const std::bad_alloc&) {
    return static_cast<int>(Status::kOutOfMemory);
  } catch (const TypeError& error) {
    last_message() = error.what();
    return static_cast<int>(Status::kTypeError);
  } catch (const std::exception& error) {
    last_message() = error.what();
    return static_cast<int>(Status::kError);
  }
}

// The structs that _kernels.py packs, in the same order.

struct Dropout {
  double probability;
  std::uint64_t seed, offset;
};

/// The arrays of an addnorm_residual.
struct ResidualArrays {
  Given x, branch, skip, gain;
  Dropout dropout;
};
struct ResidualAddCall {
  ResidualArrays add;
  Given out;
};
struct ResidualAddBackwardCall {
  ResidualArrays add;
  Given d_sum, d_branch, d_skip, d_gain;
};
struct AddNormCall {
  const addnorm_norm_options* norm;
  std::size_t threads;
  ResidualArrays add;
  Given gamma, beta, alpha, shift, sum, out, statistics;
};
struct AddNormBackwardCall {
  const addnorm_norm_options* norm;
  std::size_t threads;
  Given dy, s, statistics, gamma, alpha, shift, d_residual, skip;
  Given dx, d_gamma, d_beta, d_alpha, d_shift;
};
/// The arrays of an addnorm_lanes; X′ has `made` lanes.
struct LaneArrays {
  Given x, branch, carry, write, read;
  Dropout dropout;
  std::size_t made;
};
struct LanesCall {
  const addnorm_norm_options* norm;  ///< null: none
  LaneArrays mix;
  Given gamma, beta, sum, out, statistics;
};
struct LanesBackwardCall {
  const addnorm_norm_options* norm;
  LaneArrays mix;
  Given d_sum, dy, statistics, gamma;
  Given dx, d_branch, d_carry, d_write, d_read, d_gamma, d_beta;
};

/// Sets the fields that all structs begin with.
template <typename Args>
void begin(Args& args, const Call& call) {
  args.size = sizeof args;
  args.rows = call.rows();
  args.features = call.features();
}

template <typename Args>
void fill(Args& args, Call& call, const ResidualArrays& arrays) {
  begin(args, call);
  const Matrix x = call.matrix("x", arrays.x, Role::kStream, Access::kRead);
  const Matrix branch = call.matrix("branch", arrays.branch, Role::kBranch, Access::kRead);
  const Values skip = call.factor("skip", arrays.skip, Access::kRead);
  const Values gain = call.factor("gain", arrays.gain, Access::kRead);
  args.add = {.x = x.data,
              .x_stride = x.stride,
              .branch = branch.data,
              .branch_stride = branch.stride,
              .skip = skip.data,
              .skip_count = skip.count,
              .gain = gain.data,
              .gain_count = gain.count,
              .dropout_probability = arrays.dropout.probability,
              .dropout_seed = arrays.dropout.seed,
              .dropout_offset = arrays.dropout.offset};
}

/// Reads a number, or an array of one value.
void* one_value(Call& call, const char* name, const Given& given, Access access) {
  const Values value = call.factor(name, given, access);
  require(given.is_none() || value.count == 1, "{} has {} values, must have 1", name, value.count);
  return value.data;
}

addnorm_status residual_add(const ResidualAddCall& given) {
  Call call("x", given.add.x);
  addnorm_residual_add_args args{};
  fill(args, call, given.add);
  const Matrix sum = call.matrix("out", given.out, Role::kStream, Access::kWrite);
  args.sum = sum.data, args.sum_stride = sum.stride;
  args.dtype = call.dtype();
  return addnorm_residual_add(&args);
}

addnorm_status residual_add_backward(const ResidualAddBackwardCall& given) {
  Call call("d_sum", given.d_sum);
  addnorm_residual_add_backward_args args{};
  fill(args, call, given.add);
  const Matrix ds = call.matrix("d_sum", given.d_sum, Role::kStream, Access::kRead);
  const Matrix db = call.matrix("d_branch", given.d_branch, Role::kBranch, Access::kWrite);
  const Values dk = call.factor("d_skip", given.d_skip, Access::kWrite);
  const Values dg = call.factor("d_gain", given.d_gain, Access::kWrite);
  args.d_sum = ds.data, args.d_sum_stride = ds.stride;
  args.d_branch = db.data, args.d_branch_stride = db.stride;
  args.d_skip = dk.data, args.d_skip_count = dk.count;
  args.d_gain = dg.data, args.d_gain_count = dg.count;
  args.dtype = call.dtype();
  return addnorm_residual_add_backward(&args);
}

addnorm_status add_norm(const AddNormCall& given) {
  Call call("x", given.add.x);
  addnorm_add_norm_forward_args args{};
  fill(args, call, given.add);
  args.norm = given.norm;
  const Matrix s = call.matrix("sum", given.sum, Role::kStream, Access::kWrite);
  const Matrix y = call.matrix("out", given.out, Role::kBranch, Access::kWrite);
  args.sum = s.data, args.sum_stride = s.stride;
  args.y = y.data, args.y_stride = y.stride;
  args.gamma = call.per_feature("gamma", given.gamma, Access::kRead);
  args.beta = call.per_feature("beta", given.beta, Access::kRead);
  args.alpha = one_value(call, "alpha", given.alpha, Access::kRead);
  args.shift = one_value(call, "shift", given.shift, Access::kRead);
  args.statistics = call.statistics(given.statistics, Access::kWrite);
  args.dtype = call.dtype();
  args.threads = given.threads;
  return addnorm_add_norm_forward(&args);
}

addnorm_status add_norm_backward(const AddNormBackwardCall& given) {
  Call call("s", given.s);
  const Matrix s = call.matrix("s", given.s, Role::kStream, Access::kRead);
  const Matrix dy = call.matrix("dy", given.dy, Role::kBranch, Access::kRead);
  const Matrix residual = call.matrix("d_residual", given.d_residual, Role::kStream, Access::kRead);
  const Values skip = call.factor("skip", given.skip, Access::kRead);
  const Matrix dx = call.matrix("dx", given.dx, Role::kStream, Access::kWrite);
  addnorm_add_norm_backward_args args{
      .size = sizeof args,
      .dtype = call.dtype(),
      .parameter_gradients = ADDNORM_GRADIENT_OVERWRITE,
      .rows = call.rows(),
      .features = call.features(),
      .norm = given.norm,
      .s = s.data,
      .s_stride = s.stride,
      .statistics = call.statistics(given.statistics, Access::kRead),
      .gamma = call.per_feature("gamma", given.gamma, Access::kRead),
      .dy = dy.data,
      .dy_stride = dy.stride,
      .d_residual = residual.data,
      .d_residual_stride = residual.stride,
      .skip = skip.data,
      .skip_count = skip.count,
      .dx = dx.data,
      .dx_stride = dx.stride,
      .d_gamma = call.per_feature("d_gamma", given.d_gamma, Access::kWrite),
      .d_beta = call.per_feature("d_beta", given.d_beta, Access::kWrite),
      .threads = given.threads,
      .alpha = one_value(call, "alpha", given.alpha, Access::kRead),
      .shift = one_value(call, "shift", given.shift, Access::kRead),
      .d_alpha = one_value(call, "d_alpha", given.d_alpha, Access::kWrite),
      .d_shift = one_value(call, "d_shift", given.d_shift, Access::kWrite)};
  if (args.d_gamma != nullptr || args.d_beta != nullptr || args.d_alpha != nullptr) {
    addnorm_norm_sizes(args.norm, args.rows, args.features, 1, nullptr, &args.workspace_size);
    args.workspace = workspace(args.workspace_size);
  }
  return addnorm_add_norm_backward(&args);
}

template <typename Args>
void fill(Args& args, Call& call, const LaneArrays& arrays) {
  begin(args, call);
  const std::size_t made = arrays.made;
  require(made > 0 || call.lanes() == 0, "carry makes 0 lanes, must make some");
  const Matrix x = call.lanes("x", arrays.x, call.lanes(), Role::kStream, Access::kRead);
  const Matrix branch = call.matrix("branch", arrays.branch, Role::kBranch, Access::kRead);
  const Mix carry = call.mix("carry", arrays.carry, {made, call.lanes()}, Access::kRead);
  const Mix write = call.mix("write", arrays.write, {made}, Access::kRead);
  const Mix read = call.mix("read", arrays.read, {made}, Access::kRead);
  args.mix.lanes = call.lanes();
  args.mix.made_lanes = made;
  args.mix.x = x.data, args.mix.x_stride = x.stride;
  args.mix.branch = branch.data, args.mix.branch_stride = branch.stride;
  args.mix.carry = carry.data, args.mix.carry_rows = carry.rows;
  args.mix.write = write.data, args.mix.write_rows = write.rows;
  args.mix.read = read.data, args.mix.read_rows = read.rows;
  args.mix.dropout_probability = arrays.dropout.probability;
  args.mix.dropout_seed = arrays.dropout.seed;
  args.mix.dropout_offset = arrays.dropout.offset;
}

addnorm_status lanes(const LanesCall& given) {
  Call call("x", given.mix.x, Of::kLanes);
  addnorm_lanes_forward_args args{};
  fill(args, call, given.mix);
  args.norm = given.norm;
  const Matrix s = call.lanes("sum", given.sum, given.mix.made, Role::kStream, Access::kWrite);
  const Matrix y = call.matrix("out", given.out, Role::kBranch, Access::kWrite);
  args.sum = s.data, args.sum_stride = s.stride;
  args.y = y.data, args.y_stride = y.stride;
  args.gamma = call.per_feature("gamma", given.gamma, Access::kRead);
  args.beta = call.per_feature("beta", given.beta, Access::kRead);
  args.statistics = call.statistics(given.statistics, Access::kWrite);
  args.dtype = call.dtype();
  return addnorm_lanes_forward(&args);
}

addnorm_status lanes_backward(const LanesBackwardCall& given) {
  const std::size_t made = given.mix.made;
  Call call("x", given.mix.x, Of::kLanes);
  addnorm_lanes_backward_args args{};
  fill(args, call, given.mix);
  args.parameter_gradients = ADDNORM_GRADIENT_OVERWRITE;
  args.norm = given.norm;
  const Matrix ds = call.lanes("d_sum", given.d_sum, made, Role::kStream, Access::kRead);
  const Matrix dy = call.matrix("dy", given.dy, Role::kBranch, Access::kRead);
  const Matrix dx = call.lanes("dx", given.dx, call.lanes(), Role::kStream, Access::kWrite);
  const Matrix df = call.matrix("d_branch", given.d_branch, Role::kBranch, Access::kWrite);
  args.d_sum = ds.data, args.d_sum_stride = ds.stride;
  args.dy = dy.data, args.dy_stride = dy.stride;
  args.dx = dx.data, args.dx_stride = dx.stride;
  args.d_branch = df.data, args.d_branch_stride = df.stride;
  args.statistics = call.statistics(given.statistics, Access::kRead);
  args.gamma = call.per_feature("gamma", given.gamma, Access::kRead);
  args.d_carry = call.mix("d_carry", given.d_carry, {made, call.lanes()}, Access::kWrite).data;
  args.d_write = call.mix("d_write", given.d_write, {made}, Access::kWrite).data;
  args.d_read = call.mix("d_read", given.d_read, {made}, Access::kWrite).data;
  args.d_gamma = call.per_feature("d_gamma", given.d_gamma, Access::kWrite);
  args.d_beta = call.per_feature("d_beta", given.d_beta, Access::kWrite);
  args.workspace_size =
      addnorm_lanes_workspace(args.rows, std::max(call.lanes(), made), args.features);
  args.workspace = workspace(args.workspace_size);
  args.dtype = call.dtype();
  return addnorm_lanes_backward(&args);
}

}  // namespace
}  // namespace addnorm::python

/// The functions of _kernels.py. They return a Status, by its numbers in _library.py.
extern "C" {

ADDNORM_API int addnorm_python_residual_add(const addnorm::python::ResidualAddCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::residual_add(*call); });
}
ADDNORM_API int addnorm_python_residual_add_backward(
    const addnorm::python::ResidualAddBackwardCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::residual_add_backward(*call); });
}
ADDNORM_API int addnorm_python_add_norm(const addnorm::python::AddNormCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::add_norm(*call); });
}
ADDNORM_API int addnorm_python_add_norm_backward(const addnorm::python::AddNormBackwardCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::add_norm_backward(*call); });
}
ADDNORM_API int addnorm_python_lanes(const addnorm::python::LanesCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::lanes(*call); });
}
ADDNORM_API int addnorm_python_lanes_backward(const addnorm::python::LanesBackwardCall* call) {
  return addnorm::python::guarded([&] { return addnorm::python::lanes_backward(*call); });
}
/// Returns the message of this thread's last failed call of a kernel.
ADDNORM_API const char* addnorm_python_last_message() {
  return addnorm::python::last_message().c_str();
}

}  // extern "C"
