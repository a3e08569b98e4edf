#include "race/race_job.h"

#include <fmt/format.h>

#include <charconv>

#include "base/require.h"

namespace addnorm::race {
namespace {

constexpr RaceKernel kKernels[] = {
    {.name = "layer_norm", .norm = NormKind::kLayer},
    {.name = "rms_norm", .norm = NormKind::kRms},
    {.name = "add_layer_norm", .norm = NormKind::kLayer, .add = true},
    {.name = "add_rms_norm", .norm = NormKind::kRms, .add = true},
    {.name = "layer_norm_backward", .norm = NormKind::kLayer, .backward = true},
    {.name = "rms_norm_backward", .norm = NormKind::kRms, .backward = true},
    {.name = "add_layer_norm_backward", .norm = NormKind::kLayer, .add = true, .backward = true},
    {.name = "add_rms_norm_backward", .norm = NormKind::kRms, .add = true, .backward = true},
};

/// Keeps bytes and offsets far from overflow.
constexpr std::size_t kMostValues = std::size_t{1} << 32;

/// A whole number ≥ 1, or 0 where the text is none.
std::size_t parse_size(std::string_view text) {
  std::size_t size = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size);
  return stop == end && error == std::errc{} ? size : 0;
}

}  // namespace

std::span<const RaceKernel> race_kernels() {
  return kKernels;
}

RaceShape parse_race_shape(std::string_view text) {
  const std::size_t x = std::min(text.find('x'), text.size());
  const RaceShape shape{parse_size(text.substr(0, x)),
                        parse_size(text.substr(std::min(x + 1, text.size())))};
  require(shape.rows > 0 && shape.cols > 0,
          "shape '{}': expected rows and features such as 8192x4096", text);
  require(shape.rows <= kMostValues / shape.cols, "shape '{}': expected at most {} values", text,
          kMostValues);
  return shape;
}

std::string to_text(const RaceShape& shape) {
  return fmt::format("{}x{}", shape.rows, shape.cols);
}

std::vector<RaceShape> default_race_shapes() {
  return {{8192, 4096}, {32768, 512}, {8192, 768}, {64, 768}, {16, 512}, {1024, 64}};
}

std::vector<RaceShape> sweep_shapes() {
  std::vector<RaceShape> shapes;
  for (std::size_t rows = 1; rows <= 65536; rows *= 2) {
    for (std::size_t cols = 8; cols <= 16384 && rows * cols <= std::size_t{1} << 27; cols *= 2) {
      shapes.push_back({rows, cols});
    }
  }
  return shapes;
}

std::vector<RaceJob> race_jobs(const std::vector<RaceKernel>& kernels,
                               const std::vector<RaceShape>& shapes,
                               const std::vector<std::string>& dtypes) {
  std::vector<RaceJob> jobs;
  for (const std::string& dtype : dtypes) {
    for (const RaceKernel& kernel : kernels) {
      for (const RaceShape& shape : shapes) jobs.push_back({kernel, shape, dtype});
    }
  }
  return jobs;
}

}  // namespace addnorm::race
