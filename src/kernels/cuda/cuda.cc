#include "addnorm/cuda.h"

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/add_norm.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/lanes.h"

namespace addnorm::kernels::cuda {
namespace {

void check_features(std::string_view where, std::size_t features, std::size_t most) {
  require(features <= most, "{}: there are {} features, must be at most {}", where, features, most);
}

void check_supported(std::string_view where, const NormOptions& options, std::size_t features) {
  require(normalizes_rows(options.kind), "{}: the norm is of kind {}, must be layer or rms", where,
          to_string(options.kind));
  check_features(where, features, kMostFeatures);
}

template <typename S, typename B>
void check_supported(std::string_view where, const LanesForward<S, B>& args) {
  const LaneCounts lanes(args);
  require((lanes.x == 2 || lanes.x == 4) && lanes.made == lanes.x,
          "{}: there are {} lanes of x and {} of X′, must be 2 or 4 of both", where, lanes.x,
          lanes.made);
  require(lanes.branch <= 1 && lanes.reads <= 1,
          "{}: there are {} lanes of the branch and {} reads, must be at most 1", where,
          lanes.branch, lanes.reads);
  check_features(where, args.x.features, kMostLaneFeatures);
}

constexpr std::uintptr_t kBytes = 16;  // of one access

bool aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kBytes == 0;
}
template <typename T>
bool aligned(const MatrixView<T>& matrix) {
  return matrix.empty() || (aligned(matrix.data) && matrix.stride * sizeof(T) % kBytes == 0);
}
template <typename T>
bool aligned(const LanesView<T>& view) {
  return view.empty() ||
         (aligned(view.data) && (view.rows < 2 || view.row_stride * sizeof(T) % kBytes == 0) &&
          (view.lanes < 2 || view.lane_stride * sizeof(T) % kBytes == 0));
}
template <typename T>
bool is_number(const Scale<T>& scale) {
  return scale.vector.empty();
}

/// Returns the arguments with null pointers for empty lanes and mixes: kernels test only pointers.
template <typename S, typename B>
LanesForward<S, B> without_empty(LanesForward<S, B> args) {
  if (args.branch.lanes == 0) args.branch = {}, args.write = {};
  if (args.carry.cols == 0) args.carry = {};
  if (args.read.cols == 0) args.read = {}, args.y = {};
  return args;
}

template <typename S, typename B>
bool is_fast(const AddNormForward<S, B>& args) {
  const ResidualAdd<S, B>& add = args.add;
  return add.x.cols % kVector == 0 && is_number(add.skip) && is_number(add.gain) &&
         !add.dropout.active() && aligned(add.x) && aligned(add.branch) && aligned(args.sum) &&
         aligned(args.y) && aligned(args.gamma.data()) && aligned(args.beta.data());
}
template <typename S, typename B>
bool is_fast(const AddNormBackward<S, B>& args) {
  return args.s.cols % kVector == 0 && aligned(args.s) && aligned(args.dy) &&
         aligned(args.d_residual) && aligned(args.dx) && aligned(args.gamma.data()) &&
         aligned(args.skip.vector.data()) && aligned(args.workspace.data());
}
template <typename S, typename B>
bool is_fast(const LanesForward<S, B>& args) {
  return args.x.features % kVector == 0 && !args.dropout.active() && aligned(args.x) &&
         aligned(args.branch) && aligned(args.sum) && aligned(args.y) &&
         aligned(args.gamma.data()) && aligned(args.beta.data());
}
template <typename S, typename B>
bool is_fast(const LanesBackward<S, B>& args) {
  return is_fast(args.forward) && aligned(args.d_sum) && aligned(args.dy) && aligned(args.dx) &&
         aligned(args.d_branch) && aligned(args.workspace.data());
}

}  // namespace
}  // namespace addnorm::kernels::cuda

namespace addnorm::cuda {

using namespace kernels::cuda;

bool available() {
  constexpr int kSharedMemory = 227 << 10;  // for a block; 12.x does not have it
  int device = 0, major = 0, shared = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) ==
             cudaSuccess &&
         major >= 9 && shared >= kSharedMemory;
}

template <typename S, typename B>
void add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                      StreamHandle stream) {
  constexpr const char* kWhere = "cuda::add_norm_forward";
  kernels::check_add_norm_forward(kWhere, options, args);
  check_supported(kWhere, options, args.y.cols);
  if (args.y.rows == 0) return;
  launch_add_norm_forward(options, args, plan_rows(args.y.cols, kForward), is_fast(args), stream);
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                       StreamHandle stream) {
  constexpr const char* kWhere = "cuda::add_norm_backward";
  check_supported(kWhere, options, args.s.cols);
  kernels::check_add_norm_backward(kWhere, options, args,
                                   add_norm_workspace(args.s.rows, args.s.cols));
  launch_add_norm_backward(options, args, plan_rows(args.s.cols, kBackward), is_fast(args), stream);
}

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  check_features("cuda::add_norm_workspace", features, kMostFeatures);
  return 2 * features * striding_blocks(plan_rows(features, kBackward), rows, kBackward.blocks[0]);
}

template <typename S, typename B>
void lanes_forward(const LanesForward<S, B>& args, StreamHandle stream) {
  constexpr const char* kWhere = "cuda::lanes_forward";
  kernels::check_lanes_forward(kWhere, args);
  check_supported(kWhere, args);
  if (args.x.rows == 0) return;
  launch_lanes_forward(without_empty(args), plan_rows(args.x.features, kLanesForward),
                       is_fast(args), stream);
}

template <typename S, typename B>
void lanes_backward(const LanesBackward<S, B>& args, StreamHandle stream) {
  constexpr const char* kWhere = "cuda::lanes_backward";
  const auto& x = args.forward.x;
  kernels::check_lanes_backward(kWhere, args);
  check_supported(kWhere, args.forward);
  const bool sums = !args.d_gamma.empty() || !args.d_beta.empty() || !args.d_carry.empty() ||
                    !args.d_write.empty() || !args.d_read.empty();
  const std::size_t least = lanes_workspace(x.rows, x.lanes, x.features);
  require(!sums || args.workspace.size() >= least,
          "{}: workspace has {} values, must have at least {}", kWhere, args.workspace.size(),
          least);
  LanesBackward<S, B> wanted = args;
  wanted.forward = without_empty(args.forward);
  if (args.d_branch.lanes == 0) wanted.d_branch = {};
  launch_lanes_backward(wanted, plan_rows(x.features, kLanesBackward), is_fast(args), stream);
}

std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features) {
  check_features("cuda::lanes_workspace", features, kMostLaneFeatures);
  const RowPlan plan = plan_rows(features, kLanesBackward);
  const std::size_t mixes = static_cast<std::size_t>(plan.rows) * (lanes * lanes + 2 * lanes);
  return striding_blocks(plan, rows, kLanesBackward.blocks[0]) * (2 * features + mixes);
}

#define ADDNORM_INSTANTIATE(S, B) ADDNORM_INSTANTIATE_CUDA(S, B)
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::cuda
