#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm/norm.h"

namespace addnorm::bench {

/// The subject of a benchmark: a norm, alone or with the residual around it.
struct Kernel {
  std::string_view name;
  NormKind norm = NormKind::kLayer;
  bool add = false;       ///< s = x + branch before the norm; backward: + d_residual after it
  bool backward = false;  ///< dx, dγ and dβ (RMSNorm: without β)
  bool in_place = false;  ///< with `add`: s overwrites x, and dx the residual's gradient

  /// Returns the number of matrices that must at least be read or written: x, y; x, branch, s, y;
  /// s, dy, dx; s, dy, d_residual, dx. It is the same in place, where a matrix is both read and
  /// written.
  std::size_t matrices() const { return add ? 4 : backward ? 3 : 2; }
  /// The index in that order of the sum of an add, and of dx.
  std::size_t sum() const { return in_place ? 0 : 2; }
  std::size_t dx() const { return in_place ? 2 : matrices() - 1; }
};

/// Returns every kernel that can be measured.
std::span<const Kernel> all_kernels();

struct Shape {
  std::size_t rows = 0;
  std::size_t cols = 0;

  std::size_t size() const { return rows * cols; }
  bool operator==(const Shape&) const = default;
};

/// Parses "8192x4096". Throws an Error for anything else.
Shape parse_shape(std::string_view text);
std::string to_text(const Shape& shape);

/// Returns shapes from large to small: batches of models in training, and shapes that fit a cache.
std::vector<Shape> default_shapes();

/// Returns rows from 1 to 65536 by features from 8 to 16384 in powers of two, up to 2²⁷ values.
std::vector<Shape> sweep_shapes();

struct Job {
  Kernel kernel;
  Shape shape;
  std::string dtype;  ///< one of all_dtypes()
  float epsilon = 1e-5F;
};

/// Returns every kernel with every shape and type, sorted by type, then kernel.
std::vector<Job> all_jobs(const std::vector<Kernel>& kernels, const std::vector<Shape>& shapes,
                          const std::vector<std::string>& dtypes);

}  // namespace addnorm::bench
