#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/parallel.h"
#include "base/require.h"
#include "io/file.h"

namespace addnorm::io {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is read and written as it is");

using Json = nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr std::size_t kMaxHeader = 100'000'000;  // as the reference implementation
constexpr const char* kMetadata = "__metadata__";

struct DtypeInfo {
  std::string_view name;
  std::size_t bytes;
};
// In the order of Dtype.
constexpr std::array<DtypeInfo, 10> kDtypes{{{"F64", 8},
                                             {"F32", 4},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I64", 8},
                                             {"I32", 4},
                                             {"I16", 2},
                                             {"I8", 1},
                                             {"U8", 1},
                                             {"BOOL", 1}}};

const DtypeInfo& info(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

// Bits of a half or bfloat16, as types of their own.
enum class Half : std::uint16_t {};
enum class Bfloat16 : std::uint16_t {};

template <typename T>
T widen(T value) {
  return value;
}

float widen(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

float widen(Half value) {
  const auto bits = static_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = (bits & 0x7fff) << 13;
  // A half counts its exponent from 15, a float from 127; the product does subnormals as well.
  std::uint32_t wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if ((bits & 0x7c00) == 0x7c00) wide |= 0x7f800000;  // Inf and NaN
  return std::bit_cast<float>(wide | (bits & 0x8000) << 16);
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

template <typename T>
StoredTensor view(std::string name, Dtype dtype, Shape shape, std::span<const T> values) {
  return {std::move(name), dtype, std::move(shape), std::as_bytes(values)};
}

/// Checks the header's JSON and makes the tensors of it.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::span<const std::byte> data, const std::string& file)
      : data_(data), file_(file), header_(parse(text)) {}

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> result;
    if (!header_.contains(kMetadata)) return result;
    require(header_[kMetadata].is_object(), "{}: __metadata__ is not a JSON object", file_);
    for (const auto& [key, value] : header_[kMetadata].items()) {
      require(value.is_string(), "{}: __metadata__ '{}' is not a string", file_, key);
      result[key] = value.get<std::string>();
    }
    return result;
  }

  std::vector<StoredTensor> tensors() const {
    std::vector<StoredTensor> result;
    for (const auto& [name, entry] : header_.items()) {
      if (name != kMetadata) result.push_back(tensor(name, entry));
    }
    std::ranges::stable_sort(result, {}, [](const StoredTensor& t) {
      return std::pair(t.bytes.data(), t.bytes.size());
    });
    const std::byte* end = data_.data();
    for (const StoredTensor& t : result) {
      require(t.bytes.data() >= end, "{}: tensor '{}' overlaps the one before it", file_, t.name);
      require(t.bytes.data() == end, "{}: there is a hole before tensor '{}'", file_, t.name);
      end += t.bytes.size();
    }
    const auto left = data_.data() + data_.size() - end;
    require(left == 0, "{}: {} bytes too many after the last tensor", file_, left);
    return result;
  }

 private:
  Json parse(std::string_view text) const {
    std::set<std::string> names;
    const auto check = [&](int depth, Json::parse_event_t event, const Json& parsed) {
      require(depth <= 3, "{}: the header is nested too deeply", file_);
      const bool is_name = depth == 1 && event == Json::parse_event_t::key;
      if (is_name && !names.insert(parsed).second) {
        fail(fmt::format("{}: tensor {} stands twice in the header", file_, parsed.dump()));
      }
      return true;
    };
    try {
      Json header = Json::parse(text, check);
      require(header.is_object(), "{}: the header is not a JSON object", file_);
      return header;
    } catch (const Json::exception& error) {
      fail(fmt::format("{}: the header is not JSON: {}", file_, error.what()));
    }
  }

  Dtype dtype(const std::string& name, const Json& entry) const {
    const std::string text = entry.is_string() ? entry.get<std::string>() : entry.dump();
    const auto found = std::ranges::find(kDtypes, text, &DtypeInfo::name);
    if (found == kDtypes.end()) {
      std::string known;
      for (const DtypeInfo& one : kDtypes) known += fmt::format(" {}", one.name);
      fail(
          fmt::format("{}: tensor '{}' has dtype {}; expected one of{}", file_, name, text, known));
    }
    return static_cast<Dtype>(found - kDtypes.begin());
  }

  Shape sizes(const std::string& name, const Json& entry, const char* key) const {
    const Json& list = entry[key];
    const bool valid = list.is_array() && std::ranges::all_of(list, [](const Json& n) {
                         return n.is_number_unsigned();
                       });
    require(valid, "{}: tensor '{}': {} is not a list of sizes", file_, name, key);
    return list.get<Shape>();
  }

  StoredTensor tensor(const std::string& name, const Json& entry) const {
    const bool whole = entry.is_object() && entry.contains("dtype") && entry.contains("shape") &&
                       entry.contains("data_offsets");
    require(whole, "{}: tensor '{}': expected dtype, shape and data_offsets", file_, name);
    const Dtype type = dtype(name, entry["dtype"]);
    Shape shape = sizes(name, entry, "shape");
    const Shape range = sizes(name, entry, "data_offsets");
    require(range.size() == 2 && range[0] <= range[1] && range[1] <= data_.size(),
            "{}: tensor '{}': data_offsets {} are not a range of the file's {} bytes of data",
            file_, name, shape_text(range), data_.size());
    const std::size_t size = range[1] - range[0];
    require(shape_bytes(shape, info(type).bytes) == size,
            "{}: tensor '{}': {} bytes do not hold the shape {} of {}", file_, name, size,
            shape_text(shape), info(type).name);
    return {name, type, std::move(shape), data_.subspan(range[0], size)};
  }

  std::span<const std::byte> data_;
  const std::string& file_;
  Json header_;
};

Safetensors parse(const FileBytes& bytes, const std::string& file) {
  std::string_view rest = bytes.view;
  require(rest.size() >= kLengthBytes, "{}: is not a safetensors file: {} bytes", file,
          rest.size());
  std::uint64_t length = 0;
  std::memcpy(&length, rest.data(), kLengthBytes);
  rest.remove_prefix(kLengthBytes);
  require(length <= kMaxHeader,
          "{}: is not a safetensors file: header of {} bytes, at most {} allowed", file, length,
          kMaxHeader);
  require(length <= rest.size(), "{}: truncated: header of {} bytes in a file of {}", file, length,
          bytes.view.size());
  const HeaderReader header(rest.substr(0, length), std::as_bytes(std::span(rest.substr(length))),
                            file);
  return {file, header.tensors(), header.metadata(), bytes.owner};
}

std::string header_text(const std::vector<StoredTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names{kMetadata};
  std::size_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const auto& [name, dtype, shape, bytes] = tensor;
    require(names.insert(name).second, "to_safetensors: the name '{}' is taken", name);
    require(shape_bytes(shape, info(dtype).bytes) == bytes.size(),
            "to_safetensors: tensor '{}': {} bytes do not fill the shape {} of {}", name,
            bytes.size(), shape_text(shape), info(dtype).name);
    const std::size_t begin = std::exchange(end, end + bytes.size());
    header[name] = {{"dtype", info(dtype).name}, {"shape", shape}, {"data_offsets", {begin, end}}};
  }
  try {
    return header.dump();
  } catch (const Json::type_error& error) {
    fail(fmt::format("to_safetensors: a name or the metadata is not UTF-8: {}", error.what()));
  }
}

/// The header and its length.
std::string beginning(const std::vector<StoredTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string header = header_text(tensors, metadata);
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + header;
}

std::vector<std::string_view> pieces(std::string_view beginning,
                                     const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> all{beginning};
  for (const StoredTensor& tensor : tensors) {
    all.emplace_back(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  return all;
}

}  // namespace

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
  return bytes.size() / info(dtype).bytes;
}

template <typename T>
void read_values(const StoredTensor& tensor, std::size_t first, std::span<T> values) {
  require(first + values.size() <= tensor.count(),
          "read_values: tensor '{}' has {} values, not {} from {} on", tensor.name, tensor.count(),
          values.size(), first);
  const auto bytes = tensor.bytes.subspan(first * info(tensor.dtype).bytes);
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
    case Dtype::kU8:
    case Dtype::kBool:
      return convert<std::uint8_t, T>(bytes, values);
  }
  fail("read_values: no such dtype");
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

const StoredTensor& Safetensors::at(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  require(found != tensors.end(), "{}: no tensor '{}' among its {}", file, name, tensors.size());
  return *found;
}

Safetensors read_safetensors(const std::string& file) {
  return parse(map_file(file), file);
}

Safetensors parse_safetensors(std::string bytes, const std::string& file) {
  const auto storage = std::make_shared<const std::string>(std::move(bytes));
  return parse({*storage, storage}, file);
}

std::string to_safetensors(const std::vector<StoredTensor>& tensors,
                           const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  const std::string begin = beginning(tensors, metadata);
  for (const std::string_view piece : pieces(begin, tensors)) bytes += piece;
  return bytes;
}

void write_safetensors(const std::string& file, const std::vector<StoredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string begin = beginning(tensors, metadata);
  write_file(file, pieces(begin, tensors));
}

}  // namespace addnorm::io
