#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Texts that a reader may see in another language than English.

namespace addnorm {
inline namespace base {

/// How a language writes messages; English by default. An id without a translation stays English.
struct Language {
  std::map<std::string, std::string, std::less<>> translations = {};
  bool decimal_comma = false;
};

/// A text. Its id is the English one, in which {0}, {1}, … are the places of its values. A value is
/// a number, or a text with an id of its own.
struct Message {
  std::string id;
  std::vector<Message> values;
  bool is_number = false;  ///< whether the id has digits that a language may write differently

  Message() = default;
  Message(std::string text) : id(std::move(text)) {}
  Message(std::string_view text) : id(text) {}
  Message(const char* text) : id(text) {}
  static Message number(std::string digits);

  bool empty() const { return id.empty(); }
  std::string text(const Language& language = {}) const;
};

/// Marks a text for the catalogues of translations (`npm run messages` in web/).
consteval const char* msg(const char* text) {
  return text;
}

namespace detail {
Message message_of(std::string_view format, std::vector<Message> values, fmt::format_args args);
}  // namespace detail

/// Returns the message of a format for fmt. In the catalogues its fields are {0}, {1}, ….
template <typename Arg, typename... Args>
Message msg(fmt::format_string<const Arg&, const Args&...> format, const Arg& arg,
            const Args&... args) {
  const auto value = []<typename T>(const T& v) {
    if constexpr (std::is_arithmetic_v<T>) {
      return Message::number({});
    } else {
      return Message(v);
    }
  };
  const fmt::string_view text = format;
  return detail::message_of({text.data(), text.size()}, {value(arg), value(args)...},
                            fmt::make_format_args(arg, args...));
}

}  // namespace base
}  // namespace addnorm

template <>
struct fmt::formatter<addnorm::Message> : fmt::formatter<std::string> {
  auto format(const addnorm::Message& message, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(message.text(), context);
  }
};
