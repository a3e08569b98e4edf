#include "wasm/module.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/require.h"

namespace addnorm {
namespace {

const std::new_handler without_memory =
    std::set_new_handler([] { fail("there is no memory left"); });

}  // namespace

/// Returns why the last call trapped.
ADDNORM_EXPORT(last_failure) const char* last_failure_of_module() {
  return last_failure();
}

ADDNORM_EXPORT(allocate) void* allocate(std::size_t bytes) {
  constexpr std::size_t kMost = SIZE_MAX / 2;
  void* memory = bytes <= kMost ? std::aligned_alloc(64, (bytes + 63) / 64 * 64) : nullptr;
  require(memory != nullptr, "there is no memory for {} bytes", bytes);
  return memory;
}
ADDNORM_EXPORT(release) void release(void* memory) {
  std::free(memory);
}

}  // namespace addnorm
