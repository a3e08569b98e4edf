#include "base/message.h"

#include <utility>

namespace addnorm {
inline namespace base {

Message Message::number(std::string digits) {
  Message message(std::move(digits));
  message.is_number = true;
  return message;
}

std::string Message::text(const Language& language) const {
  const auto translation = language.translations.find(id);
  std::string text = translation == language.translations.end() ? id : translation->second;
  if (is_number && language.decimal_comma) {
    for (char& c : text) c = c == '.' ? ',' : c == ',' ? '.' : c;
  }
  if (values.empty()) return text;  // its braces are no places
  std::string filled;
  std::size_t done = 0;
  for (std::size_t open; (open = text.find('{', done)) != text.npos;) {
    const std::size_t close = text.find('}', open);
    filled += text.substr(done, open - done);
    filled += values.at(std::stoul(text.substr(open + 1))).text(language);
    done = close + 1;
  }
  return filled + text.substr(done);
}

Message detail::message_of(std::string_view format, std::vector<Message> values,
                           fmt::format_args args) {
  Message message;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t open = format.find('{');
    const std::size_t close = format.find('}');
    const std::string_view spec = format.substr(open + 1, close - open - 1);
    if (values[i].is_number) values[i].id = fmt::vformat(fmt::format("{{{}{}}}", i, spec), args);
    message.id += fmt::format("{}{{{}}}", format.substr(0, open), i);
    format.remove_prefix(close + 1);
  }
  message.id += format;
  message.values = std::move(values);
  return message;
}

}  // namespace base
}  // namespace addnorm
