// Add & Norm on an NVIDIA GPU: each call's bandwidth relative to a copy on the same device. The
// data is several times the L2; times are medians of device events.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "addnorm/cuda.h"
#include "kernels/cuda/error.h"

namespace {

using namespace addnorm;
using kernels::cuda::check;

/// Returns the median time of `work` in milliseconds.
double median_of(const std::function<void()>& work, int repetitions = 21) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) work();
  std::vector<float> times;
  for (int i = 0; i < repetitions; ++i) {
    check(cudaEventRecord(begin));
    work();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end));
    times.push_back(time);
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[repetitions / 2];
}
/// Returns the microseconds of one of many calls in a graph, which excludes launch times.
double in_graph(const std::function<void(cudaStream_t)>& work) {
  constexpr int kCalls = 200;
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < kCalls; ++i) work(stream);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  return 1000 * median_of([&] { check(cudaGraphLaunch(executable, nullptr)); }, 9) / kCalls;
}

template <typename T>
T* device_memory(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)));
  return static_cast<T*>(memory);
}

/// Several sets of matrices, which calls use one after the other.
struct Memory {
  BFloat16 *x, *branch, *sum, *y;
  float *gamma, *beta, *d_gamma, *d_beta, *workspace, *mixes, *d_mixes;
  NormStatistics<float>* statistics;
  std::size_t count;

  explicit Memory(std::size_t values)
      : x(device_memory<BFloat16>(values)),
        branch(device_memory<BFloat16>(values)),
        sum(device_memory<BFloat16>(values)),
        y(device_memory<BFloat16>(values)),
        gamma(device_memory<float>(1 << 16)),
        beta(device_memory<float>(1 << 16)),
        d_gamma(device_memory<float>(1 << 16)),
        d_beta(device_memory<float>(1 << 16)),
        workspace(device_memory<float>(1 << 27)),
        mixes(device_memory<float>(1 << 20)),
        d_mixes(device_memory<float>(1 << 21)),
        statistics(device_memory<NormStatistics<float>>(1 << 20)),
        count(values) {
    fill(x), fill(branch), fill(sum), fill(y);
    const std::vector<float> ones(1 << 16, 1.0F), quarters(1 << 20, 0.25F);
    check(cudaMemcpy(mixes, quarters.data(), quarters.size() * 4, cudaMemcpyHostToDevice));
    for (float* const to : {gamma, beta}) {
      check(cudaMemcpy(to, ones.data(), ones.size() * 4, cudaMemcpyHostToDevice));
    }
  }
  /// Fills with uniform values in [−1, 1).
  void fill(BFloat16* to) const {
    std::vector<BFloat16> values(1 << 24);
    unsigned state = 1;
    for (BFloat16& value : values) {
      state = state * 1664525 + 1013904223;
      value = BFloat16(static_cast<float>(state >> 8) / (1 << 23) - 1);
    }
    for (std::size_t at = 0; at < count; at += values.size()) {
      check(cudaMemcpy(to + at, values.data(), std::min(values.size(), count - at) * 2,
                       cudaMemcpyHostToDevice));
    }
  }
};

AddNormForward<BFloat16> forward_of(const Memory& m, std::size_t rows, std::size_t cols) {
  return {.add = {.x = {m.x, rows, cols}, .branch = {m.branch, rows, cols}},
          .sum = {m.sum, rows, cols},
          .gamma = {m.gamma, cols},
          .beta = {m.beta, cols},
          .y = {m.y, rows, cols},
          .statistics = {m.statistics, rows}};
}
AddNormBackward<BFloat16> backward_of(const Memory& m, std::size_t rows, std::size_t cols) {
  return {.s = {m.x, rows, cols},
          .statistics = {m.statistics, rows},
          .gamma = {m.gamma, cols},
          .dy = {m.branch, rows, cols},
          .d_residual = {m.sum, rows, cols},
          .dx = {m.y, rows, cols},
          .d_gamma = {m.d_gamma, cols},
          .d_beta = {m.d_beta, cols},
          .workspace = {m.workspace, cuda::add_norm_workspace(rows, cols)},
          .parameter_gradients = GradientMode::kOverwrite};
}

constexpr std::size_t kLanes = 4;

LanesForward<BFloat16> lanes_of(const Memory& m, std::size_t rows, std::size_t cols,
                                std::size_t mix_rows) {
  const auto mix = [&](std::size_t count) { return LaneMix<float>{m.mixes, mix_rows, count}; };
  return {.x = {m.x, rows, kLanes, cols},
          .branch = {m.branch, rows, 1, cols},
          .carry = mix(kLanes * kLanes),
          .write = mix(kLanes),
          .sum = {m.sum, rows, kLanes, cols},
          .read = mix(kLanes),
          .norm = NormOptions{.kind = NormKind::kRms},
          .gamma = {m.gamma, cols},
          .y = {m.y, rows, 1, cols},
          .statistics = {m.statistics, rows}};
}
LanesBackward<BFloat16> lanes_backward_of(const Memory& m, std::size_t rows, std::size_t cols,
                                          std::size_t mix_rows) {
  const auto gradient = [&](int place, std::size_t count) {
    return MatrixView<float>{m.d_mixes + place * rows * kLanes * kLanes, mix_rows, count};
  };
  return {.forward = lanes_of(m, rows, cols, mix_rows),
          .d_sum = {m.sum, rows, kLanes, cols},
          .dy = {m.branch + rows * cols, rows, 1, cols},
          .dx = {m.y, rows, kLanes, cols},
          .d_branch = {m.branch + 2 * rows * cols, rows, 1, cols},
          .d_carry = gradient(0, kLanes * kLanes),
          .d_write = gradient(1, kLanes),
          .d_read = gradient(2, kLanes),
          .d_gamma = {m.d_gamma, cols},
          .workspace = {m.workspace, cuda::lanes_workspace(rows, kLanes, cols)},
          .parameter_gradients = GradientMode::kOverwrite};
}

/// Returns the speed of a copy of `bytes` in GB/s, read and written.
double speed_of_copy(const Memory& memory, std::size_t bytes) {
  const double time = median_of([&] {
    check(cudaMemcpyAsync(memory.sum, memory.x, bytes, cudaMemcpyDeviceToDevice, nullptr));
  });
  return 2e-6 * static_cast<double>(bytes) / time;
}
constexpr std::size_t kCopied = std::size_t{1} << 32;

constexpr std::size_t kRows = 32768;

/// Returns "µs, GB/s, share of the copy" for a call that reads and writes `megabytes`.
std::string speed(double milliseconds, double megabytes, double of_copy) {
  const double speed = megabytes / milliseconds;
  return fmt::format("{:8.1f} {:6.0f} {:5.1f} %", 1e3 * milliseconds, speed, 100 * speed / of_copy);
}

void print_norms(const Memory& memory, double of_copy) {
  fmt::print("rows × features, kind; forward: µs, GB/s, of the copy; backward; copy of as much\n");
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    for (std::size_t cols = 1024; cols <= 65536; cols *= 2) {
      const NormOptions options{.kind = kind};
      const double megabytes = 8e-6 * static_cast<double>(kRows * cols);
      const double forward =
          median_of([&] { cuda::add_norm_forward(options, forward_of(memory, kRows, cols)); });
      const double backward =
          median_of([&] { cuda::add_norm_backward(options, backward_of(memory, kRows, cols)); });
      fmt::print("{} × {:<6} {:<6} {}   {}   {:.0f}\n", kRows, cols, to_string(kind),
                 speed(forward, megabytes, of_copy), speed(backward, megabytes, of_copy),
                 speed_of_copy(memory, std::min(4 * kRows * cols, kCopied)));
    }
  }
}

void print_lanes(const Memory& memory, double of_copy) {
  fmt::print("4 lanes with RMSNorm, mixes for all rows or for each\n");
  for (const std::size_t cols : {1024, 2048, 4096, 8192}) {
    for (const std::size_t mix_rows : {std::size_t{1}, kRows}) {
      const double megavalues = 1e-6 * static_cast<double>(kRows * cols);
      const double forward =
          median_of([&] { cuda::lanes_forward(lanes_of(memory, kRows, cols, mix_rows)); });
      const double backward = median_of(
          [&] { cuda::lanes_backward(lanes_backward_of(memory, kRows, cols, mix_rows)); });
      fmt::print("{} × {:<6} {:<6} {}   {}\n", kRows, cols, mix_rows == 1 ? "all" : "each",
                 speed(forward, 20 * megavalues, of_copy),
                 speed(backward, 30 * megavalues, of_copy));
    }
  }
}

void print_small_batches(const Memory& memory) {
  const NormOptions options{.kind = NormKind::kRms};
  for (const std::size_t rows : {1, 140}) {
    const double one =
        median_of([&] { cuda::add_norm_forward(options, forward_of(memory, rows, 4096)); });
    const double many = in_graph([&](cudaStream_t stream) {
      cuda::add_norm_forward(options, forward_of(memory, rows, 4096), stream);
    });
    fmt::print("{} × 4096: one call {:.1f} µs, in a graph {:.1f} µs\n", rows, 1e3 * one, many);
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  const Memory memory(std::size_t{1} << 31);
  const double of_copy = speed_of_copy(memory, kCopied);
  fmt::print("{}, L2 {} MB; bfloat16; copy of 4 GB: {:.0f} GB/s\n", device.name,
             device.l2CacheSize >> 20, of_copy);
  print_norms(memory, of_copy);
  print_lanes(memory, of_copy);
  print_small_batches(memory);
  check(cudaDeviceSynchronize());
}
