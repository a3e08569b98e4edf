#include "io/json.h"

#include <iterator>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/shorten.h"

namespace addnorm::io {
namespace {

constexpr std::size_t kMostDepth = 32;
constexpr std::size_t kMostQuoted = 100;  // bytes

/// An iterator over a text that counts the bytes that have been read.
class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, std::size_t& read) : at_(at), read_(&read) {}

  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* read_;
};

bool is_in_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '+' || c == '-' || c == '.';
}

/// Builds a value from the events of nlohmann's parser, which does not recurse.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// Returns whether the text is a JSON object; error() says why it is none.
  bool run();
  Json& value() { return value_; }
  const std::string& error() const { return error_; }

  // The parser calls these functions, and stops where one returns false.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // no text has one
  bool start_object(std::size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(std::string& name);
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error);

 private:
  /// An object or an array of which the parser has not read the end.
  struct Open {
    Json value;
    std::string key;  ///< of the object's next member
    std::unordered_set<std::string> keys;
  };
  /// The last word or other character that the parser has read.
  struct Found {
    std::size_t begin;
    std::string text;
  };

  bool open(Json&& empty);
  bool close();
  bool add(Json&& value);
  bool fail_at(std::size_t byte, std::string_view problem);
  bool syntax_error(std::size_t byte, std::string_view problem);
  std::string expected(std::string_view message) const;
  Found found() const;

  std::string_view text_;
  std::size_t read_ = 0;
  std::vector<Open> open_;
  bool is_whole_ = false;  ///< whether a whole value has been read
  Json value_;
  std::string error_;
};

bool Reader::run() {
  if (text_.size() > kMostJsonBytes) {
    error_ =
        fmt::format("has {} bytes of JSON, must have at most {}", text_.size(), kMostJsonBytes);
    return false;
  }
  const std::size_t zero = text_.find('\0');  // to the parser it would be the end
  if (zero != text_.npos) return syntax_error(zero, "unexpected byte 0x00");
  // Newer versions of the parser have a message of their own for no text at all.
  if (text_.empty()) return syntax_error(0, "unexpected end" + expected(""));
  const CountingIterator begin(text_.data(), read_), end(text_.data() + text_.size(), read_);
  if (!Json::sax_parse(begin, end, this)) return false;
  if (!value_.is_object()) error_ = fmt::format("is {}, must be a JSON object", excerpt(value_));
  return error_.empty();
}

bool Reader::open(Json&& empty) {
  if (open_.size() == kMostDepth) {
    return fail_at(read_ - 1, fmt::format("nested more than {} deep", kMostDepth));
  }
  open_.push_back({std::move(empty), {}, {}});
  return true;
}

bool Reader::close() {
  Json value = std::move(open_.back().value);
  open_.pop_back();
  return add(std::move(value));
}

bool Reader::key(std::string& name) {
  Open& object = open_.back();
  if (!object.keys.insert(name).second) {
    return fail_at(read_ - 1, fmt::format("the key {} occurs twice", excerpt(name)));
  }
  object.key = std::move(name);
  return true;
}

bool Reader::add(Json&& value) {
  if (open_.empty()) {
    value_ = std::move(value);
    is_whole_ = true;
  } else if (Open& in = open_.back(); in.value.is_array()) {
    in.value.push_back(std::move(value));
  } else {  // without ordered_json's search for the key, which takes time linear in the members
    Json::object_t::Container& members = in.value.get_ref<Json::object_t&>();
    members.emplace_back(std::move(in.key), std::move(value));
  }
  return true;
}

/// The parser's message is "[json.exception.parse_error.101] parse error at line 3, column 1:
/// syntax error while parsing object key - unexpected '}'; expected string literal", or ends in "-
/// invalid string: missing closing quote; last read: '"abc'".
bool Reader::parse_error(std::size_t, const std::string&,
                         const nlohmann::detail::exception& error) {
  constexpr int kOutOfRange = 406;
  const std::string_view message = error.what();
  std::string_view reason = message.substr(std::min(message.find(" - ") + 3, message.size()));
  reason = reason.substr(0, reason.find("; last read"));
  const auto [begin, text] = found();
  if (error.id == kOutOfRange) return fail_at(begin, text + " is too large for a number");
  if (reason.starts_with("unexpected end")) {
    return syntax_error(text_.size(), "unexpected end" + expected(message));
  }
  if (reason.starts_with("unexpected string")) {
    return syntax_error(read_ - 1, "unexpected string" + expected(message));
  }
  if (reason.starts_with("unexpected") || reason.starts_with("invalid literal") ||
      reason.starts_with("invalid number")) {
    return syntax_error(begin, "unexpected " + text + expected(message));
  }
  return syntax_error(read_ - 1, reason);
}

/// Sets error() to a problem at this byte of the text, and returns false.
bool Reader::fail_at(std::size_t byte, std::string_view problem) {
  const std::string_view before = text_.substr(0, byte);
  const std::size_t column = byte - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
  const bool is_line = text_.find('\n') == text_.npos;
  const auto line = 1 + std::ranges::count(before, '\n');
  error_ = fmt::format("{}column {}: {}", is_line ? "" : fmt::format("line {}, ", line), column,
                       problem);
  return false;
}

bool Reader::syntax_error(std::size_t byte, std::string_view problem) {
  fail_at(byte, problem);
  error_.insert(0, "is not JSON: ");
  return false;
}

Reader::Found Reader::found() const {
  std::size_t at = std::min(read_ > 0 ? read_ - 1 : 0, text_.size());
  const auto in_word = [&](std::size_t i) { return i < text_.size() && is_in_word(text_[i]); };
  if (!in_word(at) && at > 0 && in_word(at - 1)) --at;  // the parser reads one byte beyond a number
  if (!in_word(at)) {
    const char c = at < text_.size() ? text_[at] : ' ';
    const bool is_printable = c > ' ' && c <= '~';
    return {at, is_printable ? fmt::format("'{}'", c)
                             : fmt::format("byte {:#04x}", static_cast<unsigned char>(c))};
  }
  std::size_t begin = at, end = at + 1;
  while (begin > 0 && in_word(begin - 1)) --begin;
  while (in_word(end)) ++end;
  return {begin, shorten(text_.substr(begin, end - begin), kMostQuoted)};
}

std::string Reader::expected(std::string_view message) const {
  const auto while_parsing = [&](std::string_view what) {
    return message.find(fmt::format("while parsing {} - ", what)) != message.npos;
  };
  const char* what = "a value (JSON has no NaN and Infinity)";
  if (open_.empty()) {
    what = is_whole_ ? "the end" : "an object";
  } else if (while_parsing("object key")) {
    what = "a key in quotes";
  } else if (while_parsing("object separator")) {
    what = "':'";
  } else if (while_parsing("object")) {
    what = "',' or '}'";
  } else if (while_parsing("array")) {
    what = "',' or ']'";
  }
  return fmt::format(", expected {}", what);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  Reader reader(text);
  require(reader.run(), "{}: {}", source, reader.error());
  return std::move(reader.value());
}

std::optional<Json> try_parse_json(std::string_view text) {
  Reader reader(text);
  if (!reader.run()) return std::nullopt;
  return std::move(reader.value());
}

std::string excerpt(const Json& value) {
  return shorten(value.dump(-1, ' ', false, Json::error_handler_t::replace), kMostQuoted);
}

}  // namespace addnorm::io
