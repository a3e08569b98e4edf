// The bits of the kernels in WebAssembly, for web/packages/addnorm/test/bits.test.ts.

#include "support/bits.h"

#include <fmt/format.h>

#include <string>

#include "wasm/module.h"

namespace addnorm {

/// Returns the types of storage whose bits differ from those of every machine, a line each.
ADDNORM_EXPORT(other_bits) const char* other_bits() {
  static std::string lines;
  lines.clear();
  const auto expected = testing::bits_of_every_machine();
  const auto actual = testing::bits_of_this_machine();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    lines += fmt::format("{}: norms {:#X}, lanes {:#X}\n", actual[i].storage, actual[i].norms,
                         actual[i].lanes);
  }
  return lines.c_str();
}

}  // namespace addnorm
