#pragma once

/// The arrays of one call from Python, used without copies.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm.h"
#include "base/require.h"

namespace addnorm::python {

/// Becomes Python's TypeError.
class TypeError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// An argument from Python, as _arrays.py packs it. Python keeps the memory during the call.
struct Given {
  enum Kind : std::int64_t {
    kNone,
    kNumPy,   ///< a PyArrayInterface, the contents of __array_struct__
    kDlPack,  ///< a DLTensor, the contents of a capsule of __dlpack__
    kNumber,  ///< a double
  };
  Kind kind;
  const void* address;

  bool is_none() const { return kind == kNone; }
};

/// The memory of an array.
struct Array {
  void* data = nullptr;
  addnorm_dtype dtype = ADDNORM_F32;  ///< of one value, so never mixed
  bool writable = false;
  std::vector<std::ptrdiff_t> shape;
  std::vector<std::ptrdiff_t> strides;  ///< in values
};

/// Throws TypeError for an unsupported type, and Error for memory that is not the CPU's.
Array read_array(const char* name, const Given& given);

/// Returns "float32", "float64", "bfloat16" or "float16".
const char* name_of(addnorm_dtype dtype);

/// Returns "(2, 3)".
std::string shape_text(const std::vector<std::ptrdiff_t>& shape);

/// A matrix in the form of addnorm.h's structs.
struct Matrix {
  void* data = nullptr;  ///< NULL for Python's None
  std::size_t stride = 0;
};
struct Values {
  void* data = nullptr;
  std::size_t count = 0;
};

/// The storage type of a matrix: the stream's or the branch's.
enum class Role { kStream, kBranch };
enum class Access { kRead, kWrite };

/// Returns memory for `count` values, the same for each call of this thread; NULL for 0.
void* workspace(std::size_t count);

/// The first array of a call: rows, or rows of lanes.
enum class Of { kRows, kLanes };

/// The numbers of a mix of lanes.
struct Mix {
  void* data = nullptr;
  std::size_t rows = 0;  ///< 1: one mix for all rows
};

/// The arrays of one call. Each matrix must have the shape of the first, and the types must match.
/// The C interface checks lengths, alignment and overlaps.
class Call {
 public:
  Call(const char* name, const Given& first, Of of = Of::kRows);

  std::size_t rows() const { return rows_; }
  std::size_t features() const { return features_; }
  std::size_t lanes() const { return lanes_; }  ///< of the first matrix
  /// Returns the dtype of the call; all matrices must have been read.
  addnorm_dtype dtype() const;

  Matrix matrix(const char* name, const Given& given, Role role, Access access);
  /// Reads matrices side by side: an axis of `count` lanes before that of features.
  Matrix lanes(const char* name, const Given& given, std::size_t count, Role role, Access access);
  /// Reads a mix of this shape, the same for all rows, or with the axes of the rows before it.
  /// Without rows it has no memory.
  Mix mix(const char* name, const Given& given, const std::vector<std::size_t>& shape,
          Access access);
  /// Reads one value for each feature.
  void* per_feature(const char* name, const Given& given, Access access);
  /// Reads one axis of values; an input may also be a Python number.
  Values factor(const char* name, const Given& given, Access access);
  /// Reads six values for each row.
  void* statistics(const Given& given, Access access);

 private:
  /// The type of γ, factors and statistics: float64 if the stream's is, else float32.
  addnorm_dtype value_type() const { return stream_ == ADDNORM_F64 ? ADDNORM_F64 : ADDNORM_F32; }
  Array keep(const char* name, const Given& given, Access access);
  Values values(const char* name, const Given& given, Access access);
  Matrix matrix(const char* name, const Given& given, const std::vector<std::ptrdiff_t>& shape,
                Role role, Access access);
  /// Returns the axes of the rows, followed by `axes`.
  std::vector<std::ptrdiff_t> of_rows(const std::vector<std::size_t>& axes) const;
  void set_branch(const char* name, addnorm_dtype type);
  void check_type(const char* name, addnorm_dtype type, addnorm_dtype expected) const;

  std::deque<double> numbers_;         ///< Python's numbers in the type of values
  std::vector<std::ptrdiff_t> shape_;  ///< of a matrix
  std::size_t rows_ = 1;
  std::size_t lanes_ = 1;
  std::size_t features_ = 0;
  addnorm_dtype stream_ = ADDNORM_F32;
  std::optional<addnorm_dtype> branch_;
};

}  // namespace addnorm::python
