#include "addnorm/cuda.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "kernels/add_norm.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/lanes.h"

namespace addnorm::kernels::cuda {
namespace {

constexpr std::size_t kHopperMemory = 227 << 10;  // of a block, in bytes; 12.x does not have it

/// Returns the properties of a device, or nothing if the driver has no such device.
std::optional<Device> query(int device, int* capability) {
  int major = 0, minor = 0, shared = 0;
  const auto read = [device](int* value, cudaDeviceAttr attribute) {
    return cudaDeviceGetAttribute(value, attribute, device) == cudaSuccess;
  };
  if (!read(&major, cudaDevAttrComputeCapabilityMajor) ||
      !read(&minor, cudaDevAttrComputeCapabilityMinor) ||
      !read(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin)) {
    cudaGetLastError();  // it does not concern later calls
    return {};
  }
  *capability = 10 * major + minor;
  return Device{.clusters = major >= 9, .shared_memory = static_cast<std::size_t>(shared)};
}

/// Throws unless the kernels of this build run on the device.
Device check_device(std::string_view where, int number) {
  int driver = 0, count = 0;
  check(cudaDriverGetVersion(&driver));
  require(driver > 0, "{}: there is no GPU to run on: no CUDA driver is installed", where);
  require(driver / 1000 >= CUDART_VERSION / 1000,
          "{}: the driver is for CUDA {}.{}, must be for {}.0 or above", where, driver / 1000,
          driver % 1000 / 10, CUDART_VERSION / 1000);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) cudaGetLastError();  // it does not concern later calls
  require(status == cudaSuccess, "{}: there is no GPU to run on: {}", where,
          cudaGetErrorString(status));
  require(number >= 0 && number < count, "{}: the device is {}, must be 0 to {}", where, number,
          count - 1);
  int capability = 0;
  const std::optional<Device> device = query(number, &capability);
  require(device.has_value(), "{}: device {} does not answer", where, number);
  require(capability >= 80 && (capability < 90 || device->shared_memory >= kHopperMemory),
          "{}: device {} has compute capability {}.{}, must have 8.x, 9.0 or 10.x", where, number,
          capability / 10, capability % 10);
  int current = 0;
  check(cudaGetDevice(&current));
  require(current != number || has_code(*device),
          "{}: this build has no code for compute capability {}.{}; CMake's "
          "-DADDNORM_CUDA_ARCHITECTURES adds it",
          where, capability / 10, capability % 10);
  return *device;
}

/// Returns the current device's properties. The first call for a device checks them, and later
/// calls remember them. Nothing here waits for the device.
Device current_device(std::string_view where) {
  constexpr int kRemembered = 64;
  static std::array<std::atomic<std::size_t>, kRemembered> shared_memory{};  // 0: not checked yet
  static std::array<std::atomic<bool>, kRemembered> clusters{};
  int number = 0;
  const cudaError_t status = cudaGetDevice(&number);
  if (status != cudaSuccess) return check_device(where, 0);
  if (number < kRemembered) {
    if (const std::size_t bytes = shared_memory[number].load(std::memory_order_acquire)) {
      return {.clusters = clusters[number], .shared_memory = bytes};
    }
  }
  const Device device = check_device(where, number);
  if (number < kRemembered) {
    clusters[number] = device.clusters;
    shared_memory[number].store(device.shared_memory, std::memory_order_release);
  }
  return device;
}

void check_features(std::string_view where, std::size_t features, std::size_t most) {
  require(features <= most, "{}: there are {} features, must be at most {}", where, features, most);
}
/// Throws unless a block holds a row, where there are no clusters.
void check_features(std::string_view where, std::size_t features, const Device& device,
                    std::size_t most_of_block) {
  require(device.clusters || features <= most_of_block,
          "{}: there are {} features, must be at most {} on a GPU of compute capability 8.x", where,
          features, most_of_block);
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
  try {
    current_device("cuda::available");
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_support(int device, std::size_t features, std::size_t lanes) {
  constexpr const char* kWhere = "cuda::check_support";
  require(lanes == 0 || lanes == 2 || lanes == 4, "{}: there are {} lanes, must be 0, 2 or 4",
          kWhere, lanes);
  check_features(kWhere, features, lanes == 0 ? kMostFeatures : kMostLaneFeatures);
  check_features(kWhere, features, check_device(kWhere, device),
                 lanes == 0 ? kMostFeaturesOfBlock : kMostLaneFeaturesOfBlock);
}

template <typename S, typename B>
void add_norm_forward(const NormOptions& options, const AddNormForward<S, B>& args,
                      StreamHandle stream) {
  constexpr const char* kWhere = "cuda::add_norm_forward";
  kernels::check_add_norm_forward(kWhere, options, args);
  require(args.epilogue.empty(), "{}: there is an epilogue, which is for the CPU alone", kWhere);
  require(args.add.sample_gain.empty(), "{}: there is a sample_gain, which is for the CPU alone",
          kWhere);
  check_supported(kWhere, options, args.y.cols);
  if (args.y.rows == 0) return;
  check_features(kWhere, args.y.cols, current_device(kWhere), kMostFeaturesOfBlock);
  launch_add_norm_forward(options, args, plan_rows(args.y.cols, kForward), is_fast(args), stream);
}

template <typename S, typename B>
void add_norm_backward(const NormOptions& options, const AddNormBackward<S, B>& args,
                       StreamHandle stream) {
  constexpr const char* kWhere = "cuda::add_norm_backward";
  check_supported(kWhere, options, args.s.cols);
  require(args.epilogue.empty(), "{}: there is an epilogue, which is for the CPU alone", kWhere);
  kernels::check_add_norm_backward(kWhere, options, args,
                                   add_norm_workspace(args.s.rows, args.s.cols));
  const Device device = current_device(kWhere);
  check_features(kWhere, args.s.cols, device, kMostFeaturesOfBlock);
  launch_add_norm_backward(options, args, device, is_fast(args), stream);
}

std::size_t add_norm_workspace(std::size_t rows, std::size_t features) {
  check_features("cuda::add_norm_workspace", features, kMostFeatures);
  const auto blocks = [&](bool clusters) {
    const RowPlan plan = plan_rows(features, kBackward, kDirectBackward, clusters);
    return striding_blocks(plan, rows, kBackward, kDirectBackward, 0, clusters);
  };
  const bool fits_block = features <= kMostFeaturesOfBlock;
  return 2 * features * std::max(blocks(true), fits_block ? blocks(false) : 0);
}

template <typename S, typename B>
void lanes_forward(const LanesForward<S, B>& args, StreamHandle stream) {
  constexpr const char* kWhere = "cuda::lanes_forward";
  kernels::check_lanes_forward(kWhere, args);
  check_supported(kWhere, args);
  if (args.x.rows == 0) return;
  const Device device = current_device(kWhere);
  check_features(kWhere, args.x.features, device, kMostLaneFeaturesOfBlock);
  launch_lanes_forward(without_empty(args), device, is_fast(args), stream);
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
  const Device device = current_device(kWhere);
  check_features(kWhere, x.features, device, kMostLaneFeaturesOfBlock);
  launch_lanes_backward(wanted, device, is_fast(args), stream);
}

std::size_t lanes_workspace(std::size_t rows, std::size_t lanes, std::size_t features) {
  check_features("cuda::lanes_workspace", features, kMostLaneFeatures);
  const auto values = [&](bool clusters) {
    const RowPlan plan = plan_rows(features, kLanesBackward, kDirectLanes, clusters);
    const std::size_t mixes = static_cast<std::size_t>(plan.rows) * (lanes * lanes + 2 * lanes);
    return striding_blocks(plan, rows, kLanesBackward, kDirectLanes, 0, clusters) *
           (2 * features + mixes);
  };
  const bool fits_block = features <= kMostLaneFeaturesOfBlock;
  return std::max(values(true), fits_block ? values(false) : 0);
}

#define ADDNORM_INSTANTIATE(S, B) ADDNORM_INSTANTIATE_CUDA(S, B)
ADDNORM_FOR_CUDA_STORAGES(ADDNORM_INSTANTIATE)
#undef ADDNORM_INSTANTIATE

}  // namespace addnorm::cuda
