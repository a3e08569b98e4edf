#pragma once

/// The arrays of one call from Python, read where they stand.

#include <pybind11/pybind11.h>

#include <cstddef>
#include <deque>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "addnorm.h"
#include "base/require.h"

namespace addnorm::python {

namespace py = pybind11;

/// The memory of a NumPy array, or of an object with __dlpack__ on the CPU.
struct Array {
  py::object owner;  ///< keeps the memory
  void* data = nullptr;
  addnorm_dtype dtype = ADDNORM_F32;  ///< of one value: no mixed one
  bool writable = false;
  std::vector<std::ptrdiff_t> shape;
  std::vector<std::ptrdiff_t> strides;  ///< in values
};

/// Of NumPy's array, what has __dlpack__, or the capsule that this gives. TypeError unless it is of
/// a type that the library knows, Error unless it is in the CPU's memory.
Array read_array(const char* name, const py::object& object);

/// The tensor of a DLPack capsule of uint16, called bfloat16 from now on.
py::capsule as_bfloat16(const py::capsule& capsule);

/// "float32", "float64", "bfloat16", "float16"
const char* name_of(addnorm_dtype dtype);

/// "(2, 3)"
std::string shape_text(const std::vector<std::ptrdiff_t>& shape);

/// As a struct of addnorm.h has them.
struct Matrix {
  void* data = nullptr;  ///< NULL where Python has None
  std::size_t stride = 0;
};
struct Values {
  void* data = nullptr;
  std::size_t count = 0;
};

/// Which of the two types of storage a matrix has.
enum class Role { kStream, kBranch };
enum class Access { kRead, kWrite };

/// Memory for as many values, the same for each call of this thread; NULL for none.
void* workspace(std::size_t count);

/// What the first array of a call is: rows, or rows of lanes.
enum class Of { kRows, kLanes };

/// Numbers that mix lanes.
struct Mix {
  void* data = nullptr;
  std::size_t rows = 0;  ///< 1: the same for all
};

/// The arrays of one call. Each matrix must have the shape of the first, and the types must go
/// together; the C interface checks what is left: lengths, alignment, overlaps.
class Call {
 public:
  Call(const char* name, const py::object& first, Of of = Of::kRows);

  std::size_t rows() const { return rows_; }
  std::size_t features() const { return features_; }
  std::size_t lanes() const { return lanes_; }  ///< of the first
  /// Of the call, once all matrices are read.
  addnorm_dtype dtype() const;

  Matrix matrix(const char* name, const py::object& object, Role role, Access access);
  /// So many matrices side by side: an axis of lanes before that of features.
  Matrix lanes(const char* name, const py::object& object, std::size_t count, Role role,
               Access access);
  /// Of this shape, the same for all rows, or with the axes of the rows before. Where these have no
  /// rows there is no memory either.
  Mix mix(const char* name, const py::object& object, const std::vector<std::size_t>& shape,
          Access access);
  /// One value for each feature.
  void* per_feature(const char* name, const py::object& object, Access access);
  /// One axis of values, or to be read also a Python number.
  Values factor(const char* name, const py::object& object, Access access);
  /// Six values for each row.
  void* statistics(const py::object& object, Access access);

  /// Calls f without the GIL; Error where its status says so.
  template <typename F>
  void run(const F& f) const {
    addnorm_status status;
    {
      const py::gil_scoped_release release;
      status = f();
    }
    if (status == ADDNORM_OUT_OF_MEMORY) throw std::bad_alloc();
    if (status != ADDNORM_OK) fail(last_sentence());
  }

 private:
  /// Of γ, factors, statistics: float64 where the stream is, else float32.
  addnorm_dtype value_type() const { return stream_ == ADDNORM_F64 ? ADDNORM_F64 : ADDNORM_F32; }
  Array keep(const char* name, const py::object& object, Access access);
  Values values(const char* name, const py::object& object, Access access);
  Matrix matrix(const char* name, const py::object& object,
                const std::vector<std::ptrdiff_t>& shape, Role role, Access access);
  /// The axes of the rows, and these.
  std::vector<std::ptrdiff_t> of_rows(const std::vector<std::size_t>& axes) const;
  void set_branch(const char* name, addnorm_dtype type);
  void check_type(const char* name, addnorm_dtype type, addnorm_dtype expected) const;
  static std::string last_sentence();

  std::vector<py::object> kept_;
  std::deque<double> numbers_;
  std::vector<std::ptrdiff_t> shape_;  ///< of a matrix
  std::size_t rows_ = 1;
  std::size_t lanes_ = 1;
  std::size_t features_ = 0;
  addnorm_dtype stream_ = ADDNORM_F32;
  std::optional<addnorm_dtype> branch_;
};

}  // namespace addnorm::python
