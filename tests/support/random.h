#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "addnorm/matrix.h"
#include "addnorm/torch_generator.h"

namespace addnorm::testing {

struct Normal {
  double mean = 0;
  double deviation = 1;
};

template <typename T>
std::vector<T> random_vector(TorchGenerator& generator, std::size_t size, Normal normal = {}) {
  std::vector<T> values(size);
  generator.fill_normal<T>(values, normal.mean, normal.deviation);
  return values;
}

template <typename T>
Matrix<T> random_matrix(TorchGenerator& generator, std::size_t rows, std::size_t cols,
                        Normal normal = {}) {
  Matrix<T> matrix(rows, cols);
  generator.fill_normal<T>(matrix.flat(), normal.mean, normal.deviation);
  return matrix;
}

}  // namespace addnorm::testing
