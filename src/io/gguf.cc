#include "io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/require.h"
#include "io/file.h"

namespace addnorm::io {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::size_t kLongestKey = 65535;  // bytes, by the specification
constexpr std::size_t kLongestName = 64;    // likewise
constexpr std::size_t kMostSizes = 4;       // likewise
constexpr std::size_t kMostKeys = 10'000;   // real files have a few dozen
constexpr std::size_t kMostListed = 4096;   // values of a list that is kept
constexpr int kMostNested = 4;              // levels of lists in lists
constexpr const char* kAlignmentKey = "general.alignment";

/// The types of metadata, by their numbers.
enum class Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
/// The least bytes of a value of each type.
constexpr std::size_t kLeastBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

/// The dtypes by their numbers in the file. Other numbers are unused or obsolete.
struct GgufType {
  std::uint32_t number;
  Dtype dtype;
};
constexpr GgufType kGgufTypes[] = {
    {0, Dtype::kF32},     {1, Dtype::kF16},    {2, Dtype::kQ40},     {3, Dtype::kQ41},
    {6, Dtype::kQ50},     {7, Dtype::kQ51},    {8, Dtype::kQ80},     {10, Dtype::kQ2K},
    {11, Dtype::kQ3K},    {12, Dtype::kQ4K},   {13, Dtype::kQ5K},    {14, Dtype::kQ6K},
    {16, Dtype::kIQ2XXS}, {17, Dtype::kIQ2XS}, {18, Dtype::kIQ3XXS}, {19, Dtype::kIQ1S},
    {20, Dtype::kIQ4NL},  {21, Dtype::kIQ3S},  {22, Dtype::kIQ2S},   {23, Dtype::kIQ4XS},
    {24, Dtype::kI8},     {25, Dtype::kI16},   {26, Dtype::kI32},    {27, Dtype::kI64},
    {28, Dtype::kF64},    {29, Dtype::kIQ1M},  {30, Dtype::kBF16},   {34, Dtype::kTQ10},
    {35, Dtype::kTQ20},   {39, Dtype::kMXFP4}};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

/// Returns the shortest decimal of a float32, 1e-5 instead of 9.99999974e-06: the number before it
/// became a float32.
double shortest(float value) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{}", value);
  double written = 0;
  std::from_chars(text.data(), text.data() + text.size(), written);
  return written;
}

/// Returns a number ≥ 0 as an unsigned one, whatever its type in the file.
template <typename T>
Json whole_number(T value) {
  return value < 0 ? Json(static_cast<std::int64_t>(value))
                   : Json(static_cast<std::uint64_t>(value));
}

/// Returns null if the text is not UTF-8.
Json text_value(std::string_view text) {
  const Json value = std::string(text);
  try {
    value.dump();
  } catch (const Json::exception&) {
    return nullptr;
  }
  return value;
}

/// Reads one value after the other from the front of a file.
class Cursor {
 public:
  Cursor(std::string_view bytes, const std::string& file)
      : bytes_(bytes), rest_(bytes), file_(file) {}

  std::size_t position() const { return bytes_.size() - rest_.size(); }
  std::size_t left() const { return rest_.size(); }
  const std::string& file() const { return file_; }

  std::string_view take(std::size_t size, std::string_view what) {
    require(size <= rest_.size(), "{}: truncated: {} takes {} bytes from byte {} on, {} are left",
            file_, what, size, position(), rest_.size());
    const std::string_view front = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return front;
  }

  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  /// Reads the number of items that take at least `least` bytes each.
  std::size_t count(std::size_t least, std::string_view what) {
    const auto value = number<std::uint64_t>(what);
    require(value <= rest_.size() / least,
            "{}: truncated or damaged: {} is {}, more than the {} bytes behind it can hold", file_,
            what, value, rest_.size());
    return value;
  }

  /// Reads a text; `what` names it in messages.
  std::string_view text(std::size_t most, std::string_view what) {
    const auto size = number<std::uint64_t>(what);
    require(size <= most, "{}: {} at byte {} has {} bytes, must have at most {}", file_, what,
            position(), size, most);
    return take(size, what);
  }

  /// Reads a key of metadata or a tensor's name.
  std::string name(std::size_t most, std::string_view what) {
    const std::size_t begin = position();
    const std::string_view value = text(most, what);
    require(!value.empty() && is_printable(value),
            "{}: {} at byte {} is empty or not ASCII; expected printable letters", file_, what,
            begin);
    return std::string(value);
  }

 private:
  std::string_view bytes_, rest_;
  const std::string& file_;
};

class MetadataReader {
 public:
  explicit MetadataReader(Cursor& cursor) : cursor_(cursor) {}

  std::map<std::string, Json> read(std::size_t count) {
    std::map<std::string, Json> metadata;
    for (std::size_t i = 0; i < count; ++i) {
      key_ = cursor_.name(kLongestKey, "a key");
      const auto [place, is_new] = metadata.try_emplace(key_, value(type(), 0));
      require(is_new, "{}: the key {} occurs twice", cursor_.file(), key_);
    }
    return metadata;
  }

 private:
  Type type() {
    const auto number = cursor_.number<std::uint32_t>(key_);
    require(number < std::size(kLeastBytes), "{}: {} has the type {}, must have 0 to {}",
            cursor_.file(), key_, number, std::size(kLeastBytes) - 1);
    return Type{number};
  }

  Json value(Type type, int depth) {
    switch (type) {
      case Type::kU8:
        return whole_number(cursor_.number<std::uint8_t>(key_));
      case Type::kI8:
        return whole_number(cursor_.number<std::int8_t>(key_));
      case Type::kU16:
        return whole_number(cursor_.number<std::uint16_t>(key_));
      case Type::kI16:
        return whole_number(cursor_.number<std::int16_t>(key_));
      case Type::kU32:
        return whole_number(cursor_.number<std::uint32_t>(key_));
      case Type::kI32:
        return whole_number(cursor_.number<std::int32_t>(key_));
      case Type::kU64:
        return whole_number(cursor_.number<std::uint64_t>(key_));
      case Type::kI64:
        return whole_number(cursor_.number<std::int64_t>(key_));
      case Type::kF32:
        return shortest(cursor_.number<float>(key_));
      case Type::kF64:
        return cursor_.number<double>(key_);
      case Type::kBool:
        return flag();
      case Type::kString:
        return text_value(cursor_.text(cursor_.left(), key_));
      case Type::kArray:
        return list(depth + 1);
    }
    return nullptr;
  }

  bool flag() {
    const auto value = cursor_.number<std::uint8_t>(key_);
    require(value <= 1, "{}: {} is {}, must be 0 (false) or 1 (true)", cursor_.file(), key_, value);
    return value == 1;
  }

  Json list(int depth) {
    require(depth <= kMostNested, "{}: {} is a list of lists nested more than {} deep",
            cursor_.file(), key_, kMostNested);
    const Type each = type();
    const std::size_t count =
        cursor_.count(kLeastBytes[static_cast<std::size_t>(each)], "the length of " + key_);
    Json list = count <= kMostListed ? Json::array() : Json();
    for (std::size_t i = 0; i < count; ++i) {
      Json one = value(each, depth);
      if (list.is_array()) list.push_back(std::move(one));
    }
    return list;
  }

  Cursor& cursor_;
  std::string key_;
};

std::size_t alignment_of(const std::map<std::string, Json>& metadata, const std::string& file) {
  const auto found = metadata.find(kAlignmentKey);
  if (found == metadata.end()) return 32;
  const Json& value = found->second;
  require(value.is_number_unsigned() && value.get<std::uint64_t>() <= (1U << 30) &&
              std::has_single_bit(value.get<std::uint64_t>()),
          "{}: {} is {}, must be a power of two, at most 2^30", file, kAlignmentKey,
          excerpt(value));
  return value.get<std::size_t>();
}

/// A tensor of the table, before its bytes are located.
struct Entry {
  StoredTensor tensor;
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

Dtype dtype_at(Cursor& cursor, const std::string& name) {
  const auto number = cursor.number<std::uint32_t>("the type of tensor '" + name + "'");
  const auto* known = std::ranges::find(kGgufTypes, number, &GgufType::number);
  require(known != std::end(kGgufTypes),
          "{}: tensor '{}' has the type {}, must have one of ggml's, 0 (F32) to 39 (MXFP4)",
          cursor.file(), name, number);
  return known->dtype;
}

/// Reads a shape; the file has the fastest size first.
Shape shape_at(Cursor& cursor, const std::string& name) {
  const std::string what = "the shape of tensor '" + name + "'";
  const auto sizes = cursor.number<std::uint32_t>(what);
  require(sizes <= kMostSizes, "{}: tensor '{}' has {} sizes, must have at most {}", cursor.file(),
          name, sizes, kMostSizes);
  Shape shape(sizes);
  for (std::size_t i = sizes; i-- > 0;) shape[i] = cursor.number<std::uint64_t>(what);
  return shape;
}

Entry entry_at(Cursor& cursor) {
  Entry entry;
  std::string& name = entry.tensor.name;
  name = cursor.name(kLongestName, "a tensor's name");
  Shape& shape = entry.tensor.shape;
  shape = shape_at(cursor, name);
  entry.tensor.dtype = dtype_at(cursor, name);
  entry.offset = cursor.number<std::uint64_t>("the offset of tensor '" + name + "'");
  const DtypeInfo& kind = info(entry.tensor.dtype);
  const std::size_t row = shape.empty() ? 1 : shape.back();
  require(row % kind.values == 0,
          "{}: tensor '{}' has rows of {} values, must be a multiple of {} in {}", cursor.file(),
          name, row, kind.values, kind.name);
  // The shape must have whole blocks. Both the values and the bytes must fit a size_t.
  const std::optional<std::size_t> bytes = shape_bytes(shape, kind.bytes);
  require(bytes.has_value(), "{}: tensor '{}' has the shape {}, too large for any file",
          cursor.file(), name, shape_text(shape));
  entry.size = *bytes / kind.values;
  return entry;
}

std::vector<Entry> read_entries(Cursor& cursor, std::size_t count) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(entry_at(cursor));
    require(names.insert(entries.back().tensor.name).second, "{}: tensor '{}' occurs twice",
            cursor.file(), entries.back().tensor.name);
  }
  return entries;
}

/// Locates the tensors' bytes in `data`, which is everything after the table.
std::vector<StoredTensor> place(std::vector<Entry> entries, std::span<const std::byte> data,
                                std::size_t alignment, const std::string& file) {
  std::ranges::stable_sort(entries, {}, &Entry::offset);
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  std::uint64_t end = 0;
  for (Entry& entry : entries) {
    const std::string& name = entry.tensor.name;
    require(entry.offset % alignment == 0,
            "{}: tensor '{}' is at offset {}, must be a multiple of {}", file, name, entry.offset,
            alignment);
    require(
        entry.offset <= data.size() && entry.size <= data.size() - entry.offset,
        "{}: truncated: tensor '{}' has {} bytes at offset {} of the data, of which there are {}",
        file, name, entry.size, entry.offset, data.size());
    require(entry.offset >= end, "{}: tensor '{}' at offset {} overlaps the one before it", file,
            name, entry.offset);
    end = entry.offset + entry.size;
    entry.tensor.bytes = data.subspan(entry.offset, entry.size);
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

void check_version(std::uint32_t version, const std::string& file) {
  require(version < 1U << 16,
          "{}: is a GGUF file of a big-endian machine; expected a little-endian one", file);
  require(version == 2 || version == 3, "{}: GGUF version {} is not supported; expected 2 or 3",
          file, version);
}

Gguf parse_whole(const FileBytes& bytes, const std::string& file) {
  constexpr std::size_t kLeastEntry = 8 + 1 + 4 + 4 + 8;  // a name, no sizes, a type and an offset
  constexpr std::size_t kLeastPair = 8 + 1 + 4 + 1;       // a key, a type and a value of one byte
  require(bytes.view.starts_with(kGgufMagic), "{}: is not a GGUF file: it does not begin with {}",
          file, kGgufMagic);
  Cursor cursor(bytes.view, file);
  cursor.take(kGgufMagic.size(), "the header");
  check_version(cursor.number<std::uint32_t>("the header"), file);
  const std::size_t tensors = cursor.count(kLeastEntry, "the number of tensors");
  const std::size_t pairs = cursor.count(kLeastPair, "the number of keys");
  require(pairs <= kMostKeys, "{}: the number of keys is {}, must be at most {}", file, pairs,
          kMostKeys);
  std::map<std::string, Json> metadata = MetadataReader(cursor).read(pairs);
  const std::size_t alignment = alignment_of(metadata, file);
  std::vector<Entry> entries = read_entries(cursor, tensors);
  const std::size_t padding = (alignment - cursor.position() % alignment) % alignment;
  if (!entries.empty()) cursor.take(padding, "the space before the tensors");
  const auto data = std::as_bytes(std::span(bytes.view)).subspan(cursor.position());
  return {{file, place(std::move(entries), data, alignment, file), bytes.owner},
          std::move(metadata)};
}

/// Returns the number of files of a model; 1: it is not split.
std::size_t parts_of(const Gguf& first) {
  const auto count = first.metadata.find("split.count");
  if (count == first.metadata.end() || count->second == 0) return 1;
  constexpr std::size_t kMost = 65535;  // the largest value of the key's type
  require(fits<std::size_t>(count->second) && count->second <= kMost,
          "{}: split.count is {}, must be a whole number up to {}", first.file,
          excerpt(count->second), kMost);
  const auto number = first.metadata.find("split.no");
  require(number == first.metadata.end() || number->second == 0,
          "{}: is a later part of a model; expected its first part, …-00001-of-{:05}.gguf",
          first.file, count->second.get<std::size_t>());
  return count->second.get<std::size_t>();
}

std::string part_name(const std::string& first, std::size_t part, std::size_t count) {
  const std::string end = fmt::format("-00001-of-{:05}.gguf", count);
  require(first.ends_with(end), "{}: is the first of {} parts; its name must end with {}", first,
          count, end);
  return fmt::format("{}-{:05}-of-{:05}.gguf", first.substr(0, first.size() - end.size()), part,
                     count);
}

/// Throws if a later part says that it is another part, or a part of another model.
void check_part(const Gguf& first, const Gguf& part, std::size_t number, std::size_t count) {
  const auto expect = [&](const char* key, const Json& expected) {
    const auto found = part.metadata.find(key);
    if (found == part.metadata.end()) return;
    require(found->second == expected, "{}: {} is {}, must be {}, as part {} of {}", part.file, key,
            excerpt(found->second), excerpt(expected), number, first.file);
  };
  expect("split.no", number - 1);
  expect("split.count", count);
  const auto architecture = first.metadata.find("general.architecture");
  if (architecture != first.metadata.end()) expect("general.architecture", architecture->second);
}

}  // namespace

Gguf read_gguf(const std::string& file) {
  Gguf whole = parse_whole(map_file(file), file);
  const std::size_t count = parts_of(whole);
  if (count == 1) return whole;
  std::vector<std::shared_ptr<const void>> owners{whole.storage};
  std::unordered_set<std::string> names;
  for (const StoredTensor& tensor : whole.tensors) names.insert(tensor.name);
  for (std::size_t part = 2; part <= count; ++part) {
    const std::string name = part_name(file, part, count);
    Gguf more = parse_whole(map_file(name), name);
    check_part(whole, more, part, count);
    for (const StoredTensor& tensor : more.tensors) {
      require(names.insert(tensor.name).second, "{}: tensor '{}' is in an earlier part too", name,
              tensor.name);
    }
    std::ranges::move(more.tensors, std::back_inserter(whole.tensors));
    owners.push_back(std::move(more.storage));
  }
  whole.storage =
      std::make_shared<const std::vector<std::shared_ptr<const void>>>(std::move(owners));
  return whole;
}

Gguf parse_gguf(std::string bytes, const std::string& file) {
  const auto storage = std::make_shared<const std::string>(std::move(bytes));
  return parse_whole({*storage, storage}, file);
}

}  // namespace addnorm::io
