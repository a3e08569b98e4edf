// The boundary between a program and the library: the library's exception type crosses it, its
// inner headers and those of its dependencies do not.

#include <cstdio>
#include <string_view>

#include "addnorm.h"
#include "addnorm/error.h"
#include "addnorm/norm.h"

#if __has_include("base/require.h")
#error "src/ is on the include path"
#endif

int main() {
  try {
    addnorm::residual_add<float>({}, {nullptr, 3, 4});
  } catch (const addnorm::Error& error) {
    std::puts(error.what());
    return std::string_view(addnorm_version()).empty();
  }
  return 1;
}
