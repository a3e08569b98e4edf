#include "cli/http_origin.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace addnorm::cli {
namespace {

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

}  // namespace

bool names_this_machine(std::string_view host) {
  std::string name(host);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::string_view, 3> kNames{"localhost", "127.0.0.1", "[::1]"};
  return std::ranges::any_of(kNames, [&](std::string_view own) {
    if (!name.starts_with(own)) return false;
    const std::string_view rest = std::string_view(name).substr(own.size());
    return rest.empty() || (rest[0] == ':' && is_port(rest.substr(1)));
  });
}

bool is_from_this_machine(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return names_this_machine(origin.substr(scheme.size()));
  }
  return false;
}

}  // namespace addnorm::cli
