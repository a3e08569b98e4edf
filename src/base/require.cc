#include "base/require.h"

#include <array>
#include <string>

namespace addnorm {
inline namespace base {

#ifdef __cpp_exceptions

void fail(std::string_view message) {
  throw Error(std::string(message));
}

#else

namespace {
std::array<char, 1024> failure{};
}  // namespace

void fail(std::string_view message) {
  const std::size_t length = message.copy(failure.data(), failure.size() - 1);
  failure[length] = '\0';
  __builtin_trap();
}

const char* last_failure() {
  return failure.data();
}

#endif

}  // namespace base
}  // namespace addnorm
