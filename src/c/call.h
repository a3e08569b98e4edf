#pragma once

/// The parts that all functions of addnorm.h share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "addnorm.h"
#include "addnorm/norm.h"
#include "base/require.h"
#include "c/memory.h"

namespace addnorm::c {

/// Calls run(body) and catches all exceptions. Returns its status, and stores its message for
/// addnorm_last_error().
addnorm_status run_guarded(void (*run)(const void* body), const void* body) noexcept;

/// Like run_guarded(), for body().
template <typename Body>
addnorm_status guarded(const Body& body) noexcept {
  return run_guarded([](const void* b) { (*static_cast<const Body*>(b))(); }, &body);
}

/// The largest size of any version's struct: a larger size is an uninitialized value.
inline constexpr std::size_t kLargestStruct = 4096;

/// Returns the caller's struct, of any version: fields that an older one lacks are zero, and fields
/// that a newer one adds must be zero.
template <typename Struct>
Struct read_struct(std::string_view where, std::string_view name, const Struct* given) {
  require(given != nullptr, "{}: {} is NULL", where, name);
  std::size_t size;
  std::memcpy(&size, given, sizeof size);
  require(size >= sizeof size && size <= kLargestStruct && size % alignof(Struct) == 0,
          "{}: the size of {} is {}, must be its sizeof, here {}", where, name, size,
          sizeof(Struct));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    require(bytes[i] == 0,
            "{}: {} has a size of {}, of a newer version, and byte {} is not 0; this library knows "
            "{} bytes",
            where, name, size, i, sizeof(Struct));
  }
  Struct known{};
  std::memcpy(&known, given, std::min(size, sizeof(Struct)));
  return known;
}

/// Returns the enumerator with the number `value`; `last` is the last valid one.
template <typename Enum>
Enum choice(std::string_view where, std::string_view name, std::int32_t value, Enum last) {
  require(value >= 0 && value <= static_cast<std::int32_t>(last), "{}: {} is {}, must be 0 to {}",
          where, name, value, static_cast<std::int32_t>(last));
  return static_cast<Enum>(value);
}

/// Returns the enumerator of an enum that has names.
template <typename Enum>
Enum choice(std::string_view where, std::string_view name, std::int32_t value) {
  return choice(where, name, value, static_cast<Enum>(names_of(Enum{}).size() - 1));
}

NormOptions norm_options(std::string_view where, const addnorm_norm_options* given);

/// Calls body<T>(args, memory) with float or double, the only types of norms over channels.
template <typename Args, typename Body>
addnorm_status call_with_type(std::string_view where, const Args* given,
                              const Body& body) noexcept {
  return guarded([&] {
    const Args args = read_struct(where, "args", given);
    const CallMemory memory(where);
    if (choice(where, "dtype", args.dtype, ADDNORM_F64) == ADDNORM_F32) {
      body.template operator()<float>(args, memory);
    } else {
      body.template operator()<double>(args, memory);
    }
  });
}

/// Calls body<Stream, Branch>(args, memory) with the types of the struct's dtype. WebAssembly has
/// no 16-bit types, because its modules are downloaded.
template <typename Args, typename Body>
addnorm_status call_with_storage(std::string_view where, const Args* given,
                                 const Body& body) noexcept {
#ifdef __wasm__
  return call_with_type(where, given, [&]<typename T>(const Args& args, const CallMemory& memory) {
    body.template operator()<T, T>(args, memory);
  });
#else
  return guarded([&] {
    const Args args = read_struct(where, "args", given);
    const CallMemory memory(where);
    switch (choice(where, "dtype", args.dtype, ADDNORM_F32_F16)) {
      case ADDNORM_F32:
        return body.template operator()<float, float>(args, memory);
      case ADDNORM_F64:
        return body.template operator()<double, double>(args, memory);
      case ADDNORM_BF16:
        return body.template operator()<BFloat16, BFloat16>(args, memory);
      case ADDNORM_F16:
        return body.template operator()<Float16, Float16>(args, memory);
      case ADDNORM_F32_BF16:
        return body.template operator()<float, BFloat16>(args, memory);
      case ADDNORM_F32_F16:
        return body.template operator()<float, Float16>(args, memory);
    }
  });
#endif
}

}  // namespace addnorm::c
