#include "base/require.h"

#include <array>

namespace addnorm {

#ifdef __cpp_exceptions

void fail(const std::string& message) {
  throw Error(message);
}

#else

namespace {
std::array<char, 1024> failure{};
}  // namespace

void fail(const std::string& message) {
  const std::size_t length = message.copy(failure.data(), failure.size() - 1);
  failure[length] = '\0';
  __builtin_trap();
}

const char* last_failure() {
  return failure.data();
}

#endif

}  // namespace addnorm
