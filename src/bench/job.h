#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/norm.h"

namespace addnorm::bench {

/// What a benchmark is about: a norm, alone or with the residual around it.
struct Kernel {
  std::string_view name;
  NormKind norm = NormKind::kLayer;
  bool add = false;       ///< s = x + branch before it; backward: + d_residual after it
  bool backward = false;  ///< dx, dγ and dβ (RMSNorm: without β)
  bool in_place = false;  ///< of an add: s overwrites x, and dx the residual's gradient

  /// How many matrices must be read or written at least: x, y; x, branch, s, y; s, dy, dx; s, dy,
  /// d_residual, dx. In place as many: what is overwritten is read and written.
  std::size_t matrices() const { return add ? 4 : backward ? 3 : 2; }
  /// Which of them, in that order, the sum of an add goes to, and dx.
  std::size_t sum() const { return in_place ? 0 : 2; }
  std::size_t dx() const { return in_place ? 2 : matrices() - 1; }
};

/// Every kernel that can be measured.
std::span<const Kernel> all_kernels();

struct Shape {
  std::size_t rows = 0;
  std::size_t cols = 0;

  std::size_t size() const { return rows * cols; }
  bool operator==(const Shape&) const = default;
};

/// "8192x4096". Throws Error on anything else.
Shape parse_shape(std::string_view text);
std::string to_text(const Shape& shape);

/// From large to small: of models' batches in training, and what fits into a cache.
std::vector<Shape> default_shapes();

/// Rows 1 to 65536 by features 8 to 16384 in powers of two, up to 2²⁷ values.
std::vector<Shape> sweep_shapes();

struct Job {
  Kernel kernel;
  Shape shape;
  std::string dtype;  ///< one of all_dtypes()
  float epsilon = 1e-5F;
};

/// Every kernel with every shape and type, by type, then kernel.
std::vector<Job> all_jobs(const std::vector<Kernel>& kernels, const std::vector<Shape>& shapes,
                          const std::vector<std::string>& dtypes);

}  // namespace addnorm::bench
