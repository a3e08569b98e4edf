#include "array.h"

#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace addnorm::python {
namespace {

/// DLPack's tensor in the memory layout of its version 0, the result of `__dlpack__`.
struct DlTensor {
  void* data;
  struct {
    std::int32_t type, id;
  } device;
  std::int32_t axes;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< NULL: without gaps
  std::uint64_t byte_offset;
};
constexpr std::int32_t kCpu = 1;
constexpr std::uint8_t kDlFloat = 2, kDlBfloat = 4;

std::string text(py::handle object) {
  return py::str(object);
}

[[noreturn]] void wrong_type(const char* name, const std::string& what) {
  throw py::type_error(fmt::format("{} {}", name, what));
}

constexpr const char* kTypes = "must be float32, float64, float16 or bfloat16";

/// NumPy is not imported for this test: its arrays exist only if it is imported.
bool is_numpy(const py::object& object) {
  PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  return numpy != nullptr && py::isinstance(object, py::handle(numpy).attr("ndarray"));
}

[[noreturn]] void wrong_numpy_type(const char* name, const py::object& array) {
  wrong_type(name, fmt::format("has the type {}, {}", text(array.attr("dtype")), kTypes));
}

/// Reads an array of NumPy by the buffer protocol, which does not depend on NumPy's version. Its C
/// interface does: NumPy 2 has other structs than NumPy 1.
Array read_numpy(const char* name, const py::object& array) {
  py::buffer_info buffer;
  try {
    buffer = py::reinterpret_borrow<py::buffer>(array).request();
  } catch (const py::error_already_set&) {  // NumPy exports no buffer of, for example, dates
    wrong_numpy_type(name, array);
  }
  constexpr std::string_view kFormats = "fde";  // in the notation of Python's struct module
  constexpr std::array kDtypes{ADDNORM_F32, ADDNORM_F64, ADDNORM_F16};
  std::string_view format = buffer.format;
  if (format.starts_with('=')) format.remove_prefix(1);  // NumPy's mark of misaligned memory
  const std::size_t found = format.size() == 1 ? kFormats.find(format) : std::string_view::npos;
  if (found == std::string_view::npos) wrong_numpy_type(name, array);
  Array result{.owner = array,
               .data = buffer.ptr,
               .dtype = kDtypes[found],
               .writable = !buffer.readonly,
               .shape = std::move(buffer.shape)};
  for (const py::ssize_t stride : buffer.strides) {
    require(stride % buffer.itemsize == 0 || buffer.size < 2,
            "{} has {} bytes from one value to the next, no multiple of the {} of a value", name,
            stride, buffer.itemsize);
    result.strides.push_back(stride / buffer.itemsize);
  }
  return result;
}

addnorm_dtype dlpack_type(const char* name, const DlTensor& tensor) {
  const auto [code, bits, lanes] = tensor.dtype;
  if (lanes == 1 && code == kDlFloat && bits == 64) return ADDNORM_F64;
  if (lanes == 1 && code == kDlFloat && bits == 32) return ADDNORM_F32;
  if (lanes == 1 && code == kDlFloat && bits == 16) return ADDNORM_F16;
  if (lanes == 1 && code == kDlBfloat && bits == 16) return ADDNORM_BF16;
  wrong_type(name, fmt::format("has DLPack's type ({}, {} bits, {} lanes), {}", code, bits, lanes,
                               kTypes));
}

/// The name says the layout: DLPack 1.0 has another struct under another name.
void check_capsule(const char* name, const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor") == 0) wrong_type(name, "has no DLPack tensor");
}

/// The capsule keeps the memory: it is not consumed, so its own destructor releases the memory.
Array read_capsule(const char* name, const py::object& capsule) {
  check_capsule(name, capsule);
  const DlTensor& tensor = *capsule.cast<py::capsule>().get_pointer<DlTensor>();
  require(tensor.device.type == kCpu, "{} is on DLPack's device {}, must be on the CPU", name,
          tensor.device.type);
  Array result{.owner = capsule,
               .data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
               .dtype = dlpack_type(name, tensor),
               .writable = true,
               .shape = {tensor.shape, tensor.shape + tensor.axes}};
  if (tensor.strides != nullptr) {
    result.strides.assign(tensor.strides, tensor.strides + tensor.axes);
    return result;
  }
  result.strides.resize(result.shape.size());
  std::ptrdiff_t stride = 1;
  for (std::size_t axis = result.shape.size(); axis-- > 0; stride *= result.shape[axis]) {
    result.strides[axis] = stride;
  }
  return result;
}

std::string laid_out(const Array& a) {
  return fmt::format("has the shape {} and strides of ({}) values", shape_text(a.shape),
                     fmt::join(a.strides, ", "));
}

/// Returns the distance of rows if it is uniform and rows have no gaps; else 0.
std::ptrdiff_t row_stride(const Array& a) {
  const std::size_t last = a.shape.size() - 1;
  const std::ptrdiff_t features = a.shape[last];
  if (features > 1 && a.strides[last] != 1) return 0;
  std::ptrdiff_t stride = 0;
  std::ptrdiff_t expected = 0;
  for (std::size_t axis = last; axis-- > 0;) {
    if (a.shape[axis] == 1) continue;
    if (stride == 0) stride = expected = a.strides[axis];
    if (a.strides[axis] != expected || stride < features) return 0;
    expected *= a.shape[axis];
  }
  return stride == 0 ? features : stride;
}

std::size_t size_of(const std::vector<std::ptrdiff_t>& shape) {
  std::size_t size = 1;
  for (const std::ptrdiff_t n : shape) size *= static_cast<std::size_t>(n);
  return size;
}

bool without_gaps(const Array& a) {
  if (size_of(a.shape) == 0) return true;
  std::ptrdiff_t expected = 1;
  for (std::size_t axis = a.shape.size(); axis-- > 0;) {
    if (a.shape[axis] != 1 && a.strides[axis] != expected) return false;
    expected *= a.shape[axis];
  }
  return true;
}

}  // namespace

Array read_array(const char* name, const py::object& object) {
  if (is_numpy(object)) return read_numpy(name, object);
  if (PyCapsule_CheckExact(object.ptr())) return read_capsule(name, object);
  if (py::hasattr(object, "__dlpack__")) return read_capsule(name, object.attr("__dlpack__")());
  const std::string type =
      object.is_none() ? "None" : "a " + text(py::type::of(object).attr("__name__"));
  wrong_type(name, fmt::format("is {}, must be a NumPy array or have __dlpack__", type));
}

py::capsule as_bfloat16(const py::capsule& capsule) {
  check_capsule("bits", capsule);
  capsule.get_pointer<DlTensor>()->dtype.code = kDlBfloat;
  return capsule;
}

const char* name_of(addnorm_dtype dtype) {
  constexpr std::array<const char*, 4> kNames{"float32", "float64", "bfloat16", "float16"};
  return kNames[dtype];
}

std::string shape_text(const std::vector<std::ptrdiff_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Call::Call(const char* name, const py::object& first, Of of) {
  const Array array = read_array(name, first);
  require(!array.shape.empty(), "{} is a single number, must have an axis of features", name);
  shape_ = array.shape;
  stream_ = array.dtype;
  features_ = static_cast<std::size_t>(shape_.back());
  if (of == Of::kLanes) {
    require(shape_.size() > 1,
            "{} has the shape {}, must have an axis of lanes before the features", name,
            shape_text(shape_));
    const auto axis = shape_.end() - 2;
    lanes_ = static_cast<std::size_t>(*axis);
    shape_.erase(axis);
  }
  rows_ = size_of({shape_.begin(), shape_.end() - 1});
}

addnorm_dtype Call::dtype() const {
  if (!branch_ || *branch_ == stream_) return stream_;
  return *branch_ == ADDNORM_BF16 ? ADDNORM_F32_BF16 : ADDNORM_F32_F16;
}

void Call::set_branch(const char* name, addnorm_dtype type) {
  const bool has_16_bits = type == ADDNORM_BF16 || type == ADDNORM_F16;
  if (type != stream_ && (stream_ != ADDNORM_F32 || !has_16_bits)) {
    wrong_type(name, fmt::format("has the type {}, must have {}{}", name_of(type), name_of(stream_),
                                 stream_ == ADDNORM_F32 ? ", bfloat16 or float16" : ""));
  }
  branch_ = type;
}

Array Call::keep(const char* name, const py::object& object, Access access) {
  Array array = read_array(name, object);
  require(access == Access::kRead || array.writable, "{} is read-only, but is written", name);
  kept_.push_back(array.owner);
  return array;
}

void Call::check_type(const char* name, addnorm_dtype type, addnorm_dtype expected) const {
  if (type == expected) return;
  wrong_type(name, fmt::format("has the type {}, must have {}", name_of(type), name_of(expected)));
}

std::vector<std::ptrdiff_t> Call::of_rows(const std::vector<std::size_t>& axes) const {
  std::vector<std::ptrdiff_t> shape(shape_.begin(), shape_.end() - 1);
  shape.insert(shape.end(), axes.begin(), axes.end());
  return shape;
}

Matrix Call::matrix(const char* name, const py::object& object, Role role, Access access) {
  return matrix(name, object, shape_, role, access);
}

Matrix Call::lanes(const char* name, const py::object& object, std::size_t count, Role role,
                   Access access) {
  return matrix(name, object, of_rows({count, features_}), role, access);
}

Matrix Call::matrix(const char* name, const py::object& object,
                    const std::vector<std::ptrdiff_t>& shape, Role role, Access access) {
  if (object.is_none()) return {};
  const Array array = keep(name, object, access);
  if (array.shape != shape) {
    fail(fmt::format("{} has the shape {}, must have {}", name, shape_text(array.shape),
                     shape_text(shape)));
  }
  if (role == Role::kBranch && !branch_) set_branch(name, array.dtype);
  check_type(name, array.dtype, role == Role::kStream ? stream_ : *branch_);
  if (size_of(shape) == 0) return {array.data, features_};
  const std::ptrdiff_t stride = row_stride(array);
  if (stride == 0) {
    fail(
        fmt::format("{} {}: its rows must be without gaps and equally far apart. "
                    "numpy.ascontiguousarray({}) and tensor.contiguous() are copies that are",
                    name, laid_out(array), name));
  }
  return {array.data, static_cast<std::size_t>(stride)};
}

Mix Call::mix(const char* name, const py::object& object, const std::vector<std::size_t>& shape,
              Access access) {
  if (object.is_none()) return {};
  const Array array = keep(name, object, access);
  check_type(name, array.dtype, value_type());
  const std::vector<std::ptrdiff_t> of_all(shape.begin(), shape.end());
  const std::vector<std::ptrdiff_t> of_each = of_rows(shape);
  const bool fits = array.shape == of_all || array.shape == of_each;
  if (!fits || !without_gaps(array)) {
    fail(fmt::format("{} {}, must have {} or {} and no gaps", name, laid_out(array),
                     shape_text(of_all), shape_text(of_each)));
  }
  if (array.shape == of_all) return {array.data, 1};
  return {rows_ == 0 && access == Access::kWrite ? nullptr : array.data, rows_};
}

Values Call::values(const char* name, const py::object& object, Access access) {
  if (object.is_none()) return {};
  const Array array = keep(name, object, access);
  check_type(name, array.dtype, value_type());
  if (array.shape.size() != 1 || !without_gaps(array)) {
    fail(fmt::format("{} {}, must have one axis and no gaps", name, laid_out(array)));
  }
  return {array.data, static_cast<std::size_t>(array.shape[0])};
}

void* Call::per_feature(const char* name, const py::object& object, Access access) {
  const Values found = values(name, object, access);
  require(object.is_none() || found.count == features_, "{} has {} values, must have {}", name,
          found.count, features_);
  return found.data;
}

Values Call::factor(const char* name, const py::object& object, Access access) {
  const bool is_number = PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
  if (!is_number || access == Access::kWrite) return values(name, object, access);
  double& number = numbers_.emplace_back(object.cast<double>());
  if (value_type() == ADDNORM_F32) {
    const auto narrow = static_cast<float>(number);
    std::memcpy(&number, &narrow, sizeof narrow);
  }
  return {&number, 1};
}

void* Call::statistics(const py::object& object, Access access) {
  if (object.is_none()) return nullptr;
  const Array array = keep("statistics", object, access);
  check_type("statistics", array.dtype, value_type());
  const std::vector<std::ptrdiff_t> expected =
      of_rows({sizeof(addnorm_statistics_f32) / sizeof(float)});
  if (array.shape != expected || !without_gaps(array)) {
    fail(fmt::format("statistics {}, must have {} and no gaps", laid_out(array),
                     shape_text(expected)));
  }
  return array.data;
}

void* workspace(std::size_t count) {
  thread_local std::vector<double> memory;
  if (memory.size() < count) memory.resize(count);
  return count == 0 ? nullptr : memory.data();
}

/// Returns the last message without the name of a function of addnorm.h, which a Python caller does
/// not know.
std::string Call::last_sentence() {
  const std::string_view message = addnorm_last_error();
  const std::size_t name = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const bool is_named = name != message.npos && message.substr(name).starts_with(": ");
  return std::string(is_named ? message.substr(name + 2) : message);
}

}  // namespace addnorm::python
