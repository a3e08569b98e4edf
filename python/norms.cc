// The functions of addnorm.h on Python's arrays. addnorm/norms.py allocates the results and
// documents the functions.

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <tuple>

#include "array.h"
#include "module.h"

namespace addnorm::python {
namespace {

constexpr auto kAllKinds = names_of(NormKind{});

}  // namespace

NormOptions norm_options(const NormFields& norm) {
  const auto& [kind, epsilon, epsilon_at, variance, gamma_form, output_scale] = norm;
  constexpr auto kinds = std::span(kAllKinds).first(kRowNorms);
  return {.kind = static_cast<NormKind>(find_name("kind", kind, kinds)),
          .epsilon = epsilon,
          .epsilon_at = parse<EpsilonAt>("eps_at", epsilon_at),
          .variance = parse<Variance>("variance", variance),
          .gamma_form = parse<GammaForm>("gamma_form", gamma_form),
          .output_scale = output_scale};
}

namespace {

addnorm_norm_options to_c(const NormFields& fields) {
  const NormOptions norm = norm_options(fields);
  return {.size = sizeof(addnorm_norm_options),
          .kind = static_cast<int>(norm.kind),
          .epsilon_at = static_cast<int>(norm.epsilon_at),
          .variance = static_cast<int>(norm.variance),
          .gamma_form = static_cast<int>(norm.gamma_form),
          .epsilon = norm.epsilon,
          .output_scale = norm.output_scale};
}

/// The arrays of an addnorm_residual.
struct ResidualArrays {
  const py::object &x, &branch, &skip, &gain;
  const std::tuple<double, std::uint64_t, std::uint64_t>& dropout;
};
template <typename Args>
void fill(Args& args, Call& call, const ResidualArrays& arrays) {
  args.size = sizeof args;
  args.rows = call.rows();
  args.features = call.features();
  const Matrix x = call.matrix("x", arrays.x, Role::kStream, Access::kRead);
  const Matrix branch = call.matrix("branch", arrays.branch, Role::kBranch, Access::kRead);
  const Values skip = call.factor("skip", arrays.skip, Access::kRead);
  const Values gain = call.factor("gain", arrays.gain, Access::kRead);
  args.add.x = x.data, args.add.x_stride = x.stride;
  args.add.branch = branch.data, args.add.branch_stride = branch.stride;
  args.add.skip = skip.data, args.add.skip_count = skip.count;
  args.add.gain = gain.data, args.add.gain_count = gain.count;
  std::tie(args.add.dropout_probability, args.add.dropout_seed, args.add.dropout_offset) =
      arrays.dropout;
}

using Dropout = std::tuple<double, std::uint64_t, std::uint64_t>;

void residual_add(const py::object& x, const py::object& branch, const py::object& skip,
                  const py::object& gain, const Dropout& dropout, const py::object& out) {
  Call call("x", x);
  addnorm_residual_add_args args{};
  fill(args, call, {x, branch, skip, gain, dropout});
  const Matrix sum = call.matrix("out", out, Role::kStream, Access::kWrite);
  args.sum = sum.data, args.sum_stride = sum.stride;
  args.dtype = call.dtype();
  call.run([&] { return addnorm_residual_add(&args); });
}

void residual_add_backward(const py::object& d_sum, const py::object& x, const py::object& branch,
                           const py::object& skip, const py::object& gain, const Dropout& dropout,
                           const py::object& d_branch, const py::object& d_skip,
                           const py::object& d_gain) {
  Call call("d_sum", d_sum);
  addnorm_residual_add_backward_args args{};
  fill(args, call, {x, branch, skip, gain, dropout});
  const Matrix ds = call.matrix("d_sum", d_sum, Role::kStream, Access::kRead);
  const Matrix db = call.matrix("d_branch", d_branch, Role::kBranch, Access::kWrite);
  const Values dk = call.factor("d_skip", d_skip, Access::kWrite);
  const Values dg = call.factor("d_gain", d_gain, Access::kWrite);
  args.d_sum = ds.data, args.d_sum_stride = ds.stride;
  args.d_branch = db.data, args.d_branch_stride = db.stride;
  args.d_skip = dk.data, args.d_skip_count = dk.count;
  args.d_gain = dg.data, args.d_gain_count = dg.count;
  args.dtype = call.dtype();
  call.run([&] { return addnorm_residual_add_backward(&args); });
}

void add_norm(const NormFields& norm, const py::object& x, const py::object& branch,
              const py::object& skip, const py::object& gain, const Dropout& dropout,
              const py::object& gamma, const py::object& beta, const py::object& sum,
              const py::object& out, const py::object& statistics, std::size_t threads) {
  Call call("x", x);
  const addnorm_norm_options options = to_c(norm);
  addnorm_add_norm_forward_args args{};
  fill(args, call, {x, branch, skip, gain, dropout});
  args.norm = &options;
  const Matrix s = call.matrix("sum", sum, Role::kStream, Access::kWrite);
  const Matrix y = call.matrix("out", out, Role::kBranch, Access::kWrite);
  args.sum = s.data, args.sum_stride = s.stride;
  args.y = y.data, args.y_stride = y.stride;
  args.gamma = call.per_feature("gamma", gamma, Access::kRead);
  args.beta = call.per_feature("beta", beta, Access::kRead);
  args.statistics = call.statistics(statistics, Access::kWrite);
  args.dtype = call.dtype();
  args.threads = threads;
  call.run([&] { return addnorm_add_norm_forward(&args); });
}

void add_norm_backward(const NormFields& norm, const py::object& dy, const py::object& s,
                       const py::object& statistics, const py::object& gamma,
                       const py::object& d_residual, const py::object& skip, const py::object& dx,
                       const py::object& d_gamma, const py::object& d_beta, std::size_t threads) {
  Call call("s", s);
  const addnorm_norm_options options = to_c(norm);
  const Matrix s_in = call.matrix("s", s, Role::kStream, Access::kRead);
  const Matrix dy_in = call.matrix("dy", dy, Role::kBranch, Access::kRead);
  const Matrix residual = call.matrix("d_residual", d_residual, Role::kStream, Access::kRead);
  const Values factor = call.factor("skip", skip, Access::kRead);
  const Matrix dx_out = call.matrix("dx", dx, Role::kStream, Access::kWrite);
  addnorm_add_norm_backward_args args{.size = sizeof args,
                                      .dtype = call.dtype(),
                                      .parameter_gradients = ADDNORM_GRADIENT_OVERWRITE,
                                      .rows = call.rows(),
                                      .features = call.features(),
                                      .norm = &options,
                                      .s = s_in.data,
                                      .s_stride = s_in.stride,
                                      .statistics = call.statistics(statistics, Access::kRead),
                                      .gamma = call.per_feature("gamma", gamma, Access::kRead),
                                      .dy = dy_in.data,
                                      .dy_stride = dy_in.stride,
                                      .d_residual = residual.data,
                                      .d_residual_stride = residual.stride,
                                      .skip = factor.data,
                                      .skip_count = factor.count,
                                      .dx = dx_out.data,
                                      .dx_stride = dx_out.stride};
  args.d_gamma = call.per_feature("d_gamma", d_gamma, Access::kWrite);
  args.d_beta = call.per_feature("d_beta", d_beta, Access::kWrite);
  args.threads = threads;
  if (args.d_gamma != nullptr || args.d_beta != nullptr) {
    args.workspace_size = addnorm_add_norm_workspace(args.rows, args.features);
    args.workspace = workspace(args.workspace_size);
  }
  call.run([&] { return addnorm_add_norm_backward(&args); });
}

addnorm_norm_options squashing(const std::string& kind) {
  constexpr auto kinds = std::span(kAllKinds).subspan(kNormsWithStatistics);
  const std::size_t place = find_name("kind", kind, kinds);
  return addnorm_norm(static_cast<addnorm_norm_kind>(kNormsWithStatistics + place));
}
/// Reads a number, or an array of one value.
void* one_value(Call& call, const char* name, const py::object& object, Access access) {
  const Values value = call.factor(name, object, access);
  require(object.is_none() || value.count == 1, "{} has {} values, must have 1", name, value.count);
  return value.data;
}

void squash(const std::string& kind, const py::object& x, const py::object& alpha,
            const py::object& shift, const py::object& gamma, const py::object& beta,
            const py::object& out, std::size_t threads) {
  Call call("x", x);
  const addnorm_norm_options options = squashing(kind);
  const Matrix x_in = call.matrix("x", x, Role::kStream, Access::kRead);
  const Matrix y = call.matrix("out", out, Role::kBranch, Access::kWrite);
  const addnorm_add_norm_forward_args args{.size = sizeof args,
                                           .dtype = call.dtype(),
                                           .rows = call.rows(),
                                           .features = call.features(),
                                           .norm = &options,
                                           .add = {.x = x_in.data, .x_stride = x_in.stride},
                                           .gamma = call.per_feature("gamma", gamma, Access::kRead),
                                           .beta = call.per_feature("beta", beta, Access::kRead),
                                           .y = y.data,
                                           .y_stride = y.stride,
                                           .threads = threads,
                                           .alpha = one_value(call, "alpha", alpha, Access::kRead),
                                           .shift = one_value(call, "shift", shift, Access::kRead)};
  call.run([&] { return addnorm_add_norm_forward(&args); });
}

void squash_backward(const std::string& kind, const py::object& dy, const py::object& x,
                     const py::object& alpha, const py::object& shift, const py::object& gamma,
                     const py::object& dx, const py::object& d_gamma, const py::object& d_beta,
                     const py::object& d_alpha, const py::object& d_shift, std::size_t threads) {
  Call call("x", x);
  const addnorm_norm_options options = squashing(kind);
  const Matrix x_in = call.matrix("x", x, Role::kStream, Access::kRead);
  const Matrix dy_in = call.matrix("dy", dy, Role::kBranch, Access::kRead);
  const Matrix dx_out = call.matrix("dx", dx, Role::kStream, Access::kWrite);
  addnorm_add_norm_backward_args args{
      .size = sizeof args,
      .dtype = call.dtype(),
      .parameter_gradients = ADDNORM_GRADIENT_OVERWRITE,
      .rows = call.rows(),
      .features = call.features(),
      .norm = &options,
      .s = x_in.data,
      .s_stride = x_in.stride,
      .gamma = call.per_feature("gamma", gamma, Access::kRead),
      .dy = dy_in.data,
      .dy_stride = dy_in.stride,
      .dx = dx_out.data,
      .dx_stride = dx_out.stride,
      .d_gamma = call.per_feature("d_gamma", d_gamma, Access::kWrite),
      .d_beta = call.per_feature("d_beta", d_beta, Access::kWrite),
      .threads = threads,
      .alpha = one_value(call, "alpha", alpha, Access::kRead),
      .shift = one_value(call, "shift", shift, Access::kRead),
      .d_alpha = one_value(call, "d_alpha", d_alpha, Access::kWrite),
      .d_shift = one_value(call, "d_shift", d_shift, Access::kWrite)};
  addnorm_norm_sizes(&options, args.rows, args.features, 1, nullptr, &args.workspace_size);
  args.workspace = workspace(args.workspace_size);
  call.run([&] { return addnorm_add_norm_backward(&args); });
}

/// The arrays of an addnorm_lanes; X′ has `made` lanes.
struct LaneArrays {
  const py::object &x, &branch, &carry, &write, &read;
  const Dropout& dropout;
  std::size_t made;
};
template <typename Args>
void fill(Args& args, Call& call, const LaneArrays& arrays) {
  args.size = sizeof args;
  args.rows = call.rows();
  args.features = call.features();
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
  std::tie(args.mix.dropout_probability, args.mix.dropout_seed, args.mix.dropout_offset) =
      arrays.dropout;
}

void lanes(const std::optional<NormFields>& norm, const py::object& x, const py::object& branch,
           const py::object& carry, const py::object& write, const py::object& read,
           const Dropout& dropout, const py::object& gamma, const py::object& beta,
           std::size_t made, const py::object& sum, const py::object& out,
           const py::object& statistics) {
  Call call("x", x, Of::kLanes);
  addnorm_lanes_forward_args args{};
  fill(args, call, {x, branch, carry, write, read, dropout, made});
  const addnorm_norm_options options = norm ? to_c(*norm) : addnorm_norm_options{};
  if (norm) args.norm = &options;
  const Matrix s = call.lanes("sum", sum, made, Role::kStream, Access::kWrite);
  const Matrix y = call.matrix("out", out, Role::kBranch, Access::kWrite);
  args.sum = s.data, args.sum_stride = s.stride;
  args.y = y.data, args.y_stride = y.stride;
  args.gamma = call.per_feature("gamma", gamma, Access::kRead);
  args.beta = call.per_feature("beta", beta, Access::kRead);
  args.statistics = call.statistics(statistics, Access::kWrite);
  args.dtype = call.dtype();
  call.run([&] { return addnorm_lanes_forward(&args); });
}

void lanes_backward(const std::optional<NormFields>& norm, const py::object& d_sum,
                    const py::object& dy, const py::object& x, const py::object& branch,
                    const py::object& carry, const py::object& write, const py::object& read,
                    const py::object& statistics, const Dropout& dropout, const py::object& gamma,
                    std::size_t made, const py::object& dx, const py::object& d_branch,
                    const py::object& d_carry, const py::object& d_write, const py::object& d_read,
                    const py::object& d_gamma, const py::object& d_beta) {
  Call call("x", x, Of::kLanes);
  addnorm_lanes_backward_args args{};
  fill(args, call, {x, branch, carry, write, read, dropout, made});
  args.parameter_gradients = ADDNORM_GRADIENT_OVERWRITE;
  const addnorm_norm_options options = norm ? to_c(*norm) : addnorm_norm_options{};
  if (norm) args.norm = &options;
  const Matrix ds = call.lanes("d_sum", d_sum, made, Role::kStream, Access::kRead);
  const Matrix dy_in = call.matrix("dy", dy, Role::kBranch, Access::kRead);
  const Matrix dx_out = call.lanes("dx", dx, call.lanes(), Role::kStream, Access::kWrite);
  const Matrix df = call.matrix("d_branch", d_branch, Role::kBranch, Access::kWrite);
  args.d_sum = ds.data, args.d_sum_stride = ds.stride;
  args.dy = dy_in.data, args.dy_stride = dy_in.stride;
  args.dx = dx_out.data, args.dx_stride = dx_out.stride;
  args.d_branch = df.data, args.d_branch_stride = df.stride;
  args.statistics = call.statistics(statistics, Access::kRead);
  args.gamma = call.per_feature("gamma", gamma, Access::kRead);
  args.d_carry = call.mix("d_carry", d_carry, {made, call.lanes()}, Access::kWrite).data;
  args.d_write = call.mix("d_write", d_write, {made}, Access::kWrite).data;
  args.d_read = call.mix("d_read", d_read, {made}, Access::kWrite).data;
  args.d_gamma = call.per_feature("d_gamma", d_gamma, Access::kWrite);
  args.d_beta = call.per_feature("d_beta", d_beta, Access::kWrite);
  args.workspace_size =
      addnorm_lanes_workspace(args.rows, std::max(call.lanes(), made), args.features);
  args.workspace = workspace(args.workspace_size);
  args.dtype = call.dtype();
  call.run([&] { return addnorm_lanes_backward(&args); });
}

/// Returns the shape and the type of an array.
std::tuple<py::tuple, const char*> describe(const char* name, const py::object& object) {
  const Array array = read_array(name, object);
  py::tuple shape(array.shape.size());
  for (std::size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = array.shape[axis];
  return {shape, name_of(array.dtype)};
}

}  // namespace

void add_norms(py::module_& m) {
  m.def("check_norm", [](const NormFields& norm) { norm_options(norm); });
  m.def("describe", &describe);
  m.def("as_bfloat16", &as_bfloat16);
  m.def("residual_add", &residual_add);
  m.def("residual_add_backward", &residual_add_backward);
  m.def("add_norm", &add_norm);
  m.def("add_norm_backward", &add_norm_backward);
  m.def("squash", &squash);
  m.def("squash_backward", &squash_backward);
  m.def("lanes", &lanes);
  m.def("lanes_backward", &lanes_backward);
}

}  // namespace addnorm::python
