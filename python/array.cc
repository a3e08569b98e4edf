#include "array.h"

#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <cstring>

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

std::size_t size_of(const std::vector<std::ptrdiff_t>& shape) {
  std::size_t size = 1;
  for (const std::ptrdiff_t n : shape) size *= static_cast<std::size_t>(n);
  return size;
}

/// The documented layout of NumPy's __array_struct__, the same in NumPy 1 and 2.
struct NumPyArray {
  int two;
  int axes;
  char kind;
  int item_size;
  int flags;
  std::intptr_t* shape;
  std::intptr_t* strides;  ///< in bytes
  void* data;
};
constexpr int kNative = 0x200, kWriteable = 0x400;

[[noreturn]] void wrong_type(const char* name, const std::string& what) {
  throw TypeError(fmt::format("{} {}", name, what));
}

constexpr const char* kTypes = "must be float32, float64, float16 or bfloat16";

addnorm_dtype numpy_type(const char* name, const NumPyArray& array) {
  if (array.kind == 'f' && (array.flags & kNative) != 0) {
    if (array.item_size == 4) return ADDNORM_F32;
    if (array.item_size == 8) return ADDNORM_F64;
    if (array.item_size == 2) return ADDNORM_F16;
  }
  wrong_type(name,
             fmt::format("has NumPy's type \"{}{}\", {}", array.kind, array.item_size, kTypes));
}

Array read_numpy(const char* name, const NumPyArray& array) {
  Array result{.data = array.data,
               .dtype = numpy_type(name, array),
               .writable = (array.flags & kWriteable) != 0,
               .shape = {array.shape, array.shape + array.axes}};
  const std::ptrdiff_t size = array.item_size;
  for (int axis = 0; axis < array.axes; ++axis) {
    const std::ptrdiff_t stride = array.strides[axis];
    require(stride % size == 0 || size_of(result.shape) < 2,
            "{} has {} bytes from one value to the next, no multiple of the {} of a value", name,
            stride, size);
    result.strides.push_back(stride / size);
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

Array read_dlpack(const char* name, const DlTensor& tensor) {
  require(tensor.device.type == kCpu, "{} is on DLPack's device {}, must be on the CPU", name,
          tensor.device.type);
  Array result{.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset,
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

Array read_array(const char* name, const Given& given) {
  if (given.kind == Given::kNumPy)
    return read_numpy(name, *static_cast<const NumPyArray*>(given.address));
  if (given.kind == Given::kDlPack)
    return read_dlpack(name, *static_cast<const DlTensor*>(given.address));
  wrong_type(name, fmt::format("is {}, must be a NumPy array or have __dlpack__",
                               given.is_none() ? "None" : "a number"));
}

const char* name_of(addnorm_dtype dtype) {
  constexpr std::array<const char*, 4> kNames{"float32", "float64", "bfloat16", "float16"};
  return kNames[dtype];
}

std::string shape_text(const std::vector<std::ptrdiff_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Call::Call(const char* name, const Given& first, Of of) {
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

Array Call::keep(const char* name, const Given& given, Access access) {
  Array array = read_array(name, given);
  require(access == Access::kRead || array.writable, "{} is read-only, but is written", name);
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

Matrix Call::matrix(const char* name, const Given& given, Role role, Access access) {
  return matrix(name, given, shape_, role, access);
}

Matrix Call::lanes(const char* name, const Given& given, std::size_t count, Role role,
                   Access access) {
  return matrix(name, given, of_rows({count, features_}), role, access);
}

Matrix Call::matrix(const char* name, const Given& given, const std::vector<std::ptrdiff_t>& shape,
                    Role role, Access access) {
  if (given.is_none()) return {};
  const Array array = keep(name, given, access);
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

Mix Call::mix(const char* name, const Given& given, const std::vector<std::size_t>& shape,
              Access access) {
  if (given.is_none()) return {};
  const Array array = keep(name, given, access);
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

Values Call::values(const char* name, const Given& given, Access access) {
  if (given.is_none()) return {};
  const Array array = keep(name, given, access);
  check_type(name, array.dtype, value_type());
  if (array.shape.size() != 1 || !without_gaps(array)) {
    fail(fmt::format("{} {}, must have one axis and no gaps", name, laid_out(array)));
  }
  return {array.data, static_cast<std::size_t>(array.shape[0])};
}

void* Call::per_feature(const char* name, const Given& given, Access access) {
  const Values found = values(name, given, access);
  require(given.is_none() || found.count == features_, "{} has {} values, must have {}", name,
          found.count, features_);
  return found.data;
}

Values Call::factor(const char* name, const Given& given, Access access) {
  if (given.kind != Given::kNumber) return values(name, given, access);
  double& number = numbers_.emplace_back(*static_cast<const double*>(given.address));
  if (value_type() == ADDNORM_F32) {
    const auto narrow = static_cast<float>(number);
    std::memcpy(&number, &narrow, sizeof narrow);
  }
  return {&number, 1};
}

void* Call::statistics(const Given& given, Access access) {
  if (given.is_none()) return nullptr;
  const Array array = keep("statistics", given, access);
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

}  // namespace addnorm::python
