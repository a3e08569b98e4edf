#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/shape.h"

namespace addnorm::io {

/// The contents of a NumPy .npy file of float32 or float64, in C order (the last index fastest).
struct NpyArray {
  Shape shape;
  std::variant<std::vector<float>, std::vector<double>> values;
};

/// Reads a .npy file of format version 1.0, 2.0 or 3.0, any rank, '<f4' or '<f8'.
NpyArray read_npy(const std::string& file);

/// Like read_npy(), but from bytes; `file` appears in messages.
NpyArray parse_npy(std::string_view bytes, const std::string& file);

/// The contents of a NumPy .npy file of int32 or int64, in C order.
struct NpyIntegers {
  Shape shape;
  std::vector<std::int64_t> values;
};
NpyIntegers read_npy_integers(const std::string& file);
NpyIntegers parse_npy_integers(std::string_view bytes, const std::string& file);

/// Returns the bytes of a .npy file, equal to those that numpy.save writes.
std::string to_npy(const Shape& shape, std::span<const float> values);
std::string to_npy(const Shape& shape, std::span<const double> values);

}  // namespace addnorm::io
