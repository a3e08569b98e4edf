#include "io/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "base/require.h"
#include "io/file.h"
#include "io/json.h"

namespace addnorm::io {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadata = "__metadata__";

/// Checks the header's JSON and creates the tensors.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::span<const std::byte> data, const std::string& file)
      : data_(data), file_(file), header_(parse_json(text, file + ": header")) {}

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
      require(t.bytes.data() == end, "{}: there are unused bytes before tensor '{}'", file_,
              t.name);
      end += t.bytes.size();
    }
    const auto left = data_.data() + data_.size() - end;
    require(left == 0, "{}: {} bytes too many after the last tensor", file_, left);
    return result;
  }

 private:
  Dtype dtype(const std::string& name, const Json& entry) const {
    const std::string text = entry.is_string() ? entry.get<std::string>() : excerpt(entry);
    const auto known_here = dtypes().first(kSafetensorsDtypes);
    const auto found = std::ranges::find(known_here, text, &DtypeInfo::name);
    if (found == known_here.end()) {
      std::string known;
      for (const DtypeInfo& one : known_here) known += fmt::format(" {}", one.name);
      fail(
          fmt::format("{}: tensor '{}' has dtype {}; expected one of{}", file_, name, text, known));
    }
    return static_cast<Dtype>(found - known_here.begin());
  }

  Shape sizes(const std::string& name, const Json& entry, const char* key) const {
    const Json& list = entry[key];
    require(fits<Shape>(list), "{}: tensor '{}': {} is not a list of sizes", file_, name, key);
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
  require(length <= kMostJsonBytes,
          "{}: is not a safetensors file: header of {} bytes, at most {} allowed", file, length,
          kMostJsonBytes);
  require(length <= rest.size(), "{}: truncated: header of {} bytes in a file of {}", file, length,
          bytes.view.size());
  const HeaderReader header(rest.substr(0, length), std::as_bytes(std::span(rest.substr(length))),
                            file);
  return {{file, header.tensors(), bytes.owner}, header.metadata()};
}

std::string header_text(const std::vector<StoredTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::set<std::string_view> names{kMetadata};
  std::size_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const auto& [name, dtype, shape, bytes] = tensor;
    require(names.insert(name).second, "to_safetensors: the name '{}' is used twice", name);
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

/// Returns the length of the header and the header.
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
