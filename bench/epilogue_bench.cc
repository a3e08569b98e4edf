/// Measures Add & Norm with an epilogue, as a multiple of the time of plain add_norm_forward with
/// s and y, or of add_norm_backward. Times are medians of alternating runs. Behind each ratio is
/// that of the bytes that a call must read and write.
///
///     epilogue_bench [SECONDS_PER_RATIO [THREADS]]

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/norm.h"
#include "addnorm/torch_generator.h"
#include "stopwatch.h"

namespace addnorm {
namespace {

struct Shape {
  std::size_t rows, features;
};
constexpr Shape kShapes[] = {{1, 4096}, {64, 768}, {2048, 1024}, {8192, 4096}};

template <typename T>
struct Data {
  explicit Data(Shape shape)
      : rows(shape.rows),
        features(shape.features),
        samples(rows % 8 == 0 ? 8 : 1),
        int8(rows * features),
        float8(rows * features),
        q8_0(rows * features / 32),
        scales(rows * features / 32),
        gamma(1, features),
        modulation(2 * samples, features),
        d_modulation(2 * samples, features),
        d_gamma(1, features),
        workspace(1, epilogue_workspace(rows, features, samples)),
        statistics(rows, {.reciprocal = 1}) {
    TorchGenerator generator(0);
    Matrix<float> values(rows, features);
    for (Matrix<T>* matrix : {&x, &branch, &sum, &y, &z, &dz}) {
      matrix->resize(rows, features);
      generator.fill_uniform(values.flat(), -1, 1);
      std::ranges::transform(values.flat(), matrix->flat().begin(), [](float v) { return T(v); });
    }
    gamma.fill(1);
    modulation.fill(0.5F);
  }

  AddNormForward<T> forward() {
    return {.add = {.x = x, .branch = branch}, .sum = sum, .gamma = gamma.flat(), .y = y};
  }
  AddNormBackward<T> backward() {
    return {.s = x,
            .statistics = statistics,
            .gamma = gamma.flat(),
            .dy = y,
            .d_residual = branch,
            .dx = sum,
            .d_gamma = d_gamma.flat(),
            .workspace = workspace.flat()};
  }
  Quantized with_int8(std::size_t block) {
    return {.int8 = {int8.data(), rows, features}, .block = block, .scales = scales_of(block)};
  }
  Quantized with_float8(std::size_t block) {
    return {.float8 = {float8.data(), rows, features}, .block = block, .scales = scales_of(block)};
  }
  MatrixView<float> scales_of(std::size_t block) {
    return {scales.data(), rows, block == 0 ? 1 : features / block};
  }
  Modulation<float> modulate() {
    return {.scale = modulation.view().block(0, 0, samples, features),
            .shift = modulation.view().block(samples, 0, samples, features)};
  }

  std::size_t rows, features, samples;
  std::vector<std::int8_t> int8;
  std::vector<Float8E4M3> float8;
  std::vector<Q8Block> q8_0;
  std::vector<float> scales;
  Matrix<T> x, branch, sum, y, z, dz;
  Matrix<float> gamma, modulation, d_modulation, d_gamma, workspace;
  std::vector<NormStatistics<float>> statistics;
};

/// A call with an epilogue. `bytes` are those of a value in addition to the plain call's.
template <typename Args, typename T>
struct Row {
  const char* name;
  double bytes;
  void (*change)(Args& args, Data<T>& data);
};

template <typename T>
constexpr double kY = sizeof(T);

template <typename T>
constexpr Row<AddNormForward<T>, T> kForward[] = {
    {"int8 by row", 1 - kY<T>,
     [](auto& args, auto& data) { args.y = {}, args.epilogue.quantized = data.with_int8(0); }},
    {"int8 by 128", 1 - kY<T>,
     [](auto& args, auto& data) { args.y = {}, args.epilogue.quantized = data.with_int8(128); }},
    {"int8, given scale", 1 - kY<T>,
     [](auto& args, auto& data) {
       args.y = {}, args.epilogue.quantized = data.with_int8(0);
       args.epilogue.quantized.scales = {}, args.epilogue.quantized.given_scale = 0.05F;
     }},
    {"Q8_0", 34.0 / 32 - kY<T>,
     [](auto& args, auto& data) {
       args.y = {};
       args.epilogue.quantized.q8_0 = {data.q8_0.data(), data.rows, data.features / 32};
     }},
    {"float8 by row", 1 - kY<T>,
     [](auto& args, auto& data) { args.y = {}, args.epilogue.quantized = data.with_float8(0); }},
    {"float8 by 128", 1 - kY<T>,
     [](auto& args, auto& data) { args.y = {}, args.epilogue.quantized = data.with_float8(128); }},
    {"int8 by row and y", 1,
     [](auto& args, auto& data) { args.epilogue.quantized = data.with_int8(0); }},
    {"gate, silu", kY<T>, [](auto& args, auto& data) { args.epilogue.gate.z = data.z; }},
    {"gate, identity", kY<T>,
     [](auto& args, auto& data) {
       args.epilogue.gate = {.z = data.z, .function = GateFunction::kIdentity};
     }},
    {"gate before, silu", kY<T>,
     [](auto& args, auto& data) {
       args.epilogue.gate = {.z = data.z, .place = GatePlace::kBeforeNorm};
     }},
    {"modulation", 0, [](auto& args, auto& data) { args.epilogue.modulation = data.modulate(); }},
};

template <typename T>
constexpr Row<AddNormBackward<T>, T> kBackward[] = {
    {"gate, silu", 2 * kY<T>,
     [](auto& args, auto& data) {
       args.epilogue.gate.z = data.z;
       args.epilogue.dz = data.dz;
     }},
    {"gate before, silu", 2 * kY<T>,
     [](auto& args, auto& data) {
       args.epilogue.gate = {.z = data.z, .place = GatePlace::kBeforeNorm};
       args.epilogue.dz = data.dz;
     }},
    {"modulation", 0,
     [](auto& args, auto& data) {
       args.epilogue.modulation = data.modulate();
       args.epilogue.d_scale = data.d_modulation.view().block(0, 0, data.samples, data.features);
       args.epilogue.d_shift =
           data.d_modulation.view().block(data.samples, 0, data.samples, data.features);
     }},
};

template <typename T>
void call(const AddNormForward<T>& args, std::size_t threads) {
  add_norm_forward<T>({.kind = NormKind::kRms}, args, threads);
}
template <typename T>
void call(const AddNormBackward<T>& args, std::size_t threads) {
  add_norm_backward<T>({.kind = NormKind::kRms}, args, threads);
}

template <typename T, typename Table, typename Args>
void measure(double seconds, std::size_t threads, const char* title, const Table& table,
             Args (Data<T>::*plain)()) {
  fmt::print("{:<22}", title);
  for (const Shape shape : kShapes) {
    fmt::print("{:>11}", fmt::format("{}x{}", shape.rows, shape.features));
  }
  fmt::print("{:>11}\n", "bytes");
  for (const auto& row : table) {
    fmt::print("  {:<20}", row.name);
    for (const Shape shape : kShapes) {
      Data<T> data(shape);
      const Args plain_args = (data.*plain)();
      Args args = plain_args;
      row.change(args, data);
      fmt::print("{:>11.2f}", ratio(
                                  seconds, [&] { call<T>(plain_args, threads); },
                                  [&] { call<T>(args, threads); }));
      std::fflush(stdout);
    }
    fmt::print("{:>11.2f}\n", 1 + row.bytes / (4 * kY<T>));
  }
}

}  // namespace
}  // namespace addnorm

int main(int argc, char** argv) {
  using namespace addnorm;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  const auto threads = static_cast<std::size_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  measure<float>(seconds, threads, "forward, f32", kForward<float>, &Data<float>::forward);
  measure<BFloat16>(seconds, threads, "forward, bf16", kForward<BFloat16>,
                    &Data<BFloat16>::forward);
  measure<float>(seconds, threads, "backward, f32", kBackward<float>, &Data<float>::backward);
  measure<BFloat16>(seconds, threads, "backward, bf16", kBackward<BFloat16>,
                    &Data<BFloat16>::backward);
}
