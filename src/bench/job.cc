#include "bench/job.h"

#include <fmt/format.h>

#include <charconv>

#include "base/require.h"

namespace addnorm::bench {
namespace {

constexpr Kernel kKernels[] = {
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

/// Parses a whole number ≥ 1; returns 0 for other text.
std::size_t parse_size(std::string_view text) {
  std::size_t size = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, size);
  return stop == end && error == std::errc{} ? size : 0;
}

}  // namespace

std::span<const Kernel> all_kernels() {
  return kKernels;
}

Shape parse_shape(std::string_view text) {
  const std::size_t x = std::min(text.find('x'), text.size());
  const Shape shape{parse_size(text.substr(0, x)),
                    parse_size(text.substr(std::min(x + 1, text.size())))};
  require(shape.rows > 0 && shape.cols > 0,
          "shape '{}': expected rows and features such as 8192x4096", text);
  require(shape.rows <= kMostValues / shape.cols, "shape '{}': expected at most {} values", text,
          kMostValues);
  return shape;
}

std::string to_text(const Shape& shape) {
  return fmt::format("{}x{}", shape.rows, shape.cols);
}

std::vector<Shape> default_shapes() {
  return {{8192, 4096}, {32768, 512}, {8192, 768}, {64, 768}, {16, 512}, {1024, 64}};
}

std::vector<Shape> sweep_shapes() {
  std::vector<Shape> shapes;
  for (std::size_t rows = 1; rows <= 65536; rows *= 2) {
    for (std::size_t cols = 8; cols <= 16384 && rows * cols <= std::size_t{1} << 27; cols *= 2) {
      shapes.push_back({rows, cols});
    }
  }
  return shapes;
}

std::vector<Job> all_jobs(const std::vector<Kernel>& kernels, const std::vector<Shape>& shapes,
                          const std::vector<std::string>& dtypes) {
  std::vector<Job> jobs;
  for (const std::string& dtype : dtypes) {
    for (const Kernel& kernel : kernels) {
      for (const Shape& shape : shapes) jobs.push_back({kernel, shape, dtype});
    }
  }
  return jobs;
}

}  // namespace addnorm::bench
