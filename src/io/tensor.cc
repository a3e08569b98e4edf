#include "io/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/parallel.h"
#include "base/require.h"
#include "io/half.h"
#include "io/quantized.h"

namespace addnorm::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is read and written as it is");

constexpr DtypeInfo kDtypes[] = {
    {"F64", 1, 8},        {"F32", 1, 4},        {"F16", 1, 2},        {"BF16", 1, 2},
    {"I64", 1, 8},        {"I32", 1, 4},        {"I16", 1, 2},        {"I8", 1, 1},
    {"U8", 1, 1},         {"BOOL", 1, 1},       {"F8_E4M3", 1, 1},    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},     {"Q8_0", 32, 34},
    {"Q2_K", 256, 84},    {"Q3_K", 256, 110},   {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},   {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136}, {"IQ1_S", 256, 50},
    {"IQ1_M", 256, 56},   {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110},  {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},
    {"MXFP4", 32, 17},    {"F4", 2, 1},         {"F8_E8M0", 1, 1},
};

template <typename T>
T widen(T value) {
  return value;
}

template <typename From, typename T>
void convert(std::span<const std::byte> bytes, std::span<T> values) {
  parallel_ranges(values.size(), 1 << 16, 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      From value;
      std::memcpy(&value, &bytes[i * sizeof(From)], sizeof(From));
      values[i] = static_cast<T>(widen(value));
    }
  });
}

/// Converts whole blocks; the first `skipped` values are dropped.
template <typename T>
void convert_blocks(const DtypeInfo& kind, Dequantize dequantize_block,
                    std::span<const std::byte> bytes, std::size_t skipped, std::span<T> values) {
  const std::size_t blocks = (skipped + values.size() + kind.values - 1) / kind.values;
  parallel_ranges(blocks, 1 << 10, 1, [&](std::size_t begin, std::size_t end) {
    std::array<float, kLargestBlock> block;
    for (std::size_t b = begin; b < end; ++b) {
      dequantize_block(&bytes[b * kind.bytes], block.data());
      const std::size_t first = std::max(b * kind.values, skipped);
      const std::size_t last = std::min((b + 1) * kind.values, skipped + values.size());
      for (std::size_t i = first; i < last; ++i) {
        values[i - skipped] = static_cast<T>(block[i - b * kind.values]);
      }
    }
  });
}

template <typename T>
StoredTensor view(std::string name, Dtype dtype, Shape shape, std::span<const T> values) {
  return {std::move(name), dtype, std::move(shape), std::as_bytes(values)};
}

}  // namespace

std::span<const DtypeInfo> dtypes() {
  return kDtypes;
}

const DtypeInfo& info(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

bool is_readable(Dtype dtype) {
  return info(dtype).values == 1 || dequantize(dtype) != nullptr;
}

StoredTensor stored_tensor(std::string name, Shape shape, std::span<const float> values) {
  return view(std::move(name), Dtype::kF32, std::move(shape), values);
}
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const double> values) {
  return view(std::move(name), Dtype::kF64, std::move(shape), values);
}
StoredTensor stored_tensor(std::string name, Shape shape, std::span<const std::int64_t> values) {
  return view(std::move(name), Dtype::kI64, std::move(shape), values);
}

std::size_t StoredTensor::count() const {
  return bytes.size() / info(dtype).bytes * info(dtype).values;
}

template <typename T>
void read_values(const StoredTensor& tensor, std::size_t first, std::span<T> values) {
  require(first + values.size() <= tensor.count(),
          "read_values: tensor '{}' has {} values, and {} from index {} on were requested",
          tensor.name, tensor.count(), values.size(), first);
  const DtypeInfo& kind = info(tensor.dtype);
  const auto bytes = tensor.bytes.subspan(first / kind.values * kind.bytes);
  switch (tensor.dtype) {
    case Dtype::kF64:
      return convert<double, T>(bytes, values);
    case Dtype::kF32:
      return convert<float, T>(bytes, values);
    case Dtype::kF16:
      return convert<Half, T>(bytes, values);
    case Dtype::kBF16:
      return convert<Bfloat16, T>(bytes, values);
    case Dtype::kI64:
      return convert<std::int64_t, T>(bytes, values);
    case Dtype::kI32:
      return convert<std::int32_t, T>(bytes, values);
    case Dtype::kI16:
      return convert<std::int16_t, T>(bytes, values);
    case Dtype::kI8:
      return convert<std::int8_t, T>(bytes, values);
    case Dtype::kF8E4M3:
      return convert<Float8, T>(bytes, values);
    case Dtype::kF8E8M0:
      return convert<PowerOf2, T>(bytes, values);
    case Dtype::kU8:
    case Dtype::kBool:
      return convert<std::uint8_t, T>(bytes, values);
    default:
      break;
  }
  const Dequantize dequantize_block = dequantize(tensor.dtype);
  require(dequantize_block != nullptr, "tensor '{}' has the dtype {}, which is not supported here",
          tensor.name, kind.name);
  convert_blocks(kind, dequantize_block, bytes, first % kind.values, values);
}

template <typename T>
std::vector<T> tensor_values(const StoredTensor& tensor) {
  std::vector<T> values(tensor.count());
  read_values<T>(tensor, 0, values);
  return values;
}

template void read_values(const StoredTensor&, std::size_t, std::span<float>);
template void read_values(const StoredTensor&, std::size_t, std::span<double>);
template std::vector<float> tensor_values(const StoredTensor&);
template std::vector<double> tensor_values(const StoredTensor&);

const StoredTensor* TensorFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

const StoredTensor& TensorFile::at(std::string_view name) const {
  const StoredTensor* found = find(name);
  require(found != nullptr, "{}: no tensor '{}' among its {}", file, name, tensors.size());
  return *found;
}

}  // namespace addnorm::io
