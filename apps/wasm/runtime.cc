// Stubs for functions that wasi-libc and libc++ link: the host's files, which number formatting
// links and nothing here uses, and abort messages, which become a trap. So the module has no
// imports.

#include <__verbose_abort>
#include <cstdint>

#include "base/require.h"

extern "C" {

constexpr std::int32_t kNotSupported = 58;  // WASI's ENOTSUP

std::int32_t __imported_wasi_snapshot_preview1_fd_close(std::int32_t) {
  return kNotSupported;
}
std::int32_t __imported_wasi_snapshot_preview1_fd_seek(std::int32_t, std::int64_t, std::int32_t,
                                                       std::int32_t) {
  return kNotSupported;
}
std::int32_t __imported_wasi_snapshot_preview1_fd_write(std::int32_t, std::int32_t, std::int32_t,
                                                        std::int32_t) {
  return kNotSupported;
}

/// The only thread never ends, so its thread-local objects are never destroyed.
int __cxa_thread_atexit(void (*)(void*), void*, void*) {
  return 0;
}

std::uintptr_t __stack_chk_guard = 0x5AFE57AC;

[[noreturn]] void __stack_chk_fail() {
  addnorm::fail("the stack was overwritten");
}

/// libc++abi's abort message, such as for a call of a pure virtual function.
[[noreturn]] void abort_message(const char* format, ...) {
  addnorm::fail(format);
}

}  // extern "C"

namespace std {
inline namespace _LIBCPP_ABI_NAMESPACE {
[[noreturn]] void __libcpp_verbose_abort(const char* format, ...) {
  addnorm::fail(format);
}
}  // namespace _LIBCPP_ABI_NAMESPACE
}  // namespace std
