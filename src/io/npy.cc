#include "io/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "base/require.h"
#include "io/file.h"

namespace addnorm::io {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy data is read and written as it is");

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string_view dtype;
  bool fortran_order = false;
  Shape shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. It supports those Python
/// literals that NumPy writes there, in any order and spacing.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file)
      : text_(text), rest_(text), file_(file) {}

  Header parse() {
    Header header;
    std::set<std::string_view> keys;
    expect('{');
    items('}', [&] {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        header.dtype = dtype();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else if (key == "shape") {
        header.shape = tuple();
      } else {
        malformed("'descr', 'fortran_order' or 'shape'");
      }
      keys.insert(key);
    });
    if (keys.size() != 3) malformed("'descr', 'fortran_order' and 'shape'");
    skip_space();
    if (!rest_.empty()) malformed("nothing more");
    return header;
  }

 private:
  [[noreturn]] void malformed(std::string_view expected) const {
    fail(fmt::format("{}: malformed header: expected {} at its byte {}", file_, expected,
                     text_.size() - rest_.size()));
  }
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(char token) {
    if (!accept({&token, 1})) malformed(fmt::format("'{}'", token));
  }

  /// Reads item, item, … close; a trailing comma is allowed.
  template <typename Item>
  void items(char close, const Item& item) {
    while (!accept({&close, 1})) {
      item();
      if (!accept(",")) return expect(close);
    }
  }
  std::string_view string() {
    const char quote = accept("\"") ? '"' : '\'';
    if (quote == '\'') expect(quote);
    const std::size_t size = rest_.find(quote);
    const std::string_view value = rest_.substr(0, size);
    const bool printable = std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; });
    if (size == rest_.npos || !printable) malformed("a string");
    rest_.remove_prefix(size + 1);
    return value;
  }
  std::string_view dtype() {
    require(!accept("["), "{}: structured arrays are not supported; expected '<f4' or '<f8'",
            file_);
    return string();
  }
  bool boolean() {
    if (accept("True")) return true;
    if (!accept("False")) malformed("True or False");
    return false;
  }
  std::size_t integer() {
    skip_space();
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) malformed("a size");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    accept("L");  // Python 2's long
    return value;
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    items(')', [&] { shape.push_back(integer()); });
    return shape;
  }

  std::string_view text_;
  std::string_view rest_;
  const std::string& file_;
};

/// Removes the magic, the version and the header from the front of `bytes`.
Header take_header(std::string_view& bytes, const std::string& file) {
  require(bytes.starts_with(kMagic), "{}: is not a .npy file; write one with numpy.save", file);
  const auto take = [&](std::size_t size) {
    require(bytes.size() >= size, "{}: truncated in the header", file);
    const std::string_view front = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return front;
  };
  take(kMagic.size());
  const std::string_view version = take(2);
  const int major = static_cast<unsigned char>(version[0]);
  const int minor = static_cast<unsigned char>(version[1]);
  require(major >= 1 && major <= 3 && minor == 0,
          "{}: .npy version {}.{} is not supported; expected 1.0, 2.0 or 3.0", file, major, minor);
  const std::string_view length_bytes = take(major == 1 ? 2 : 4);
  std::size_t length = 0;
  std::memcpy(&length, length_bytes.data(), length_bytes.size());
  return HeaderParser(take(length), file).parse();
}

template <typename T>
std::vector<T> copy_values(std::string_view data) {
  std::vector<T> values(data.size() / sizeof(T));
  std::ranges::copy(data, reinterpret_cast<char*>(values.data()));
  return values;
}

/// Writes the header like numpy.lib.format: room for the first size to grow to 21 digits, then
/// spaces up to a multiple of 64 bytes, and 64 spaces where none are needed.
std::string header_bytes(std::string_view dtype, const Shape& shape) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kGrowthDigits = 21;
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   dtype, shape_text(shape));
  if (!shape.empty()) header.append(kGrowthDigits - fmt::formatted_size("{}", shape[0]), ' ');
  const std::size_t prefix = kMagic.size() + 4;
  header.append(kAlignment - (prefix + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  return fmt::format("{}\x01{}{}{}", kMagic, '\0',
                     std::string_view(reinterpret_cast<const char*>(&length), sizeof length),
                     header);
}

template <typename T>
std::string npy_bytes(const Shape& shape, std::span<const T> values) {
  require(shape.size() <= 32, "to_npy: rank {} is more than NumPy's 32", shape.size());
  require(shape_bytes(shape, sizeof(T)) == values.size_bytes(),
          "to_npy: {} values do not fill the shape {}", values.size(), shape_text(shape));
  std::string bytes = header_bytes(sizeof(T) == 4 ? "<f4" : "<f8", shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

/// Throws an Error unless `bytes` are the items of the header's shape, in C order.
void check_data(const Header& header, std::size_t item_bytes, std::string_view bytes,
                const std::string& file) {
  const auto size = shape_bytes(header.shape, item_bytes);
  const std::string shape = shape_text(header.shape);
  require(size.has_value(), "{}: shape {} is too large", file, shape);
  require(bytes.size() >= *size, "{}: truncated: {} bytes of data, but shape {} of '{}' takes {}",
          file, bytes.size(), shape, header.dtype, *size);
  require(bytes.size() == *size, "{}: {} bytes too many after the data of shape {}", file,
          bytes.size() - *size, shape);
  // Both orders are the same if at most one size is larger than 1.
  const auto moving = std::ranges::count_if(header.shape, [](std::size_t n) { return n > 1; });
  require(!header.fortran_order || moving <= 1 || bytes.empty(),
          "{}: Fortran order is not supported; save it with numpy.ascontiguousarray", file);
}

}  // namespace

NpyArray read_npy(const std::string& file) {
  return parse_npy(read_file(file), file);
}

NpyArray parse_npy(std::string_view bytes, const std::string& file) {
  Header header = take_header(bytes, file);
  require(header.dtype == "<f4" || header.dtype == "<f8",
          "{}: dtype '{}' is not supported; expected '<f4' or '<f8': save array.astype('<f4')",
          file, header.dtype);
  const bool is_float = header.dtype == "<f4";
  check_data(header, is_float ? sizeof(float) : sizeof(double), bytes, file);
  if (is_float) return {std::move(header.shape), copy_values<float>(bytes)};
  return {std::move(header.shape), copy_values<double>(bytes)};
}

NpyIntegers read_npy_integers(const std::string& file) {
  return parse_npy_integers(read_file(file), file);
}

NpyIntegers parse_npy_integers(std::string_view bytes, const std::string& file) {
  Header header = take_header(bytes, file);
  require(header.dtype == "<i4" || header.dtype == "<i8",
          "{}: dtype '{}' is not supported; expected '<i4' or '<i8': save array.astype('<i8')",
          file, header.dtype);
  const bool is_int = header.dtype == "<i4";
  check_data(header, is_int ? sizeof(std::int32_t) : sizeof(std::int64_t), bytes, file);
  if (!is_int) return {std::move(header.shape), copy_values<std::int64_t>(bytes)};
  const auto narrow = copy_values<std::int32_t>(bytes);
  return {std::move(header.shape), {narrow.begin(), narrow.end()}};
}

std::string to_npy(const Shape& shape, std::span<const float> values) {
  return npy_bytes(shape, values);
}

std::string to_npy(const Shape& shape, std::span<const double> values) {
  return npy_bytes(shape, values);
}

}  // namespace addnorm::io
