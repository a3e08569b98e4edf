#pragma once

/// \file
/// The types for which the library instantiates its templates. Any other type fails to compile,
/// with a message that lists them.

#include <type_traits>

#include "addnorm/float16.h"

namespace addnorm {

/// Whether T is one of these types.
template <typename T, typename... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);

/// A type that is not in the list.
template <typename T, typename... Types>
concept NoneOf = !kIsOneOf<T, Types...>;

/// Whether kernels can store the residual stream as Stream, and branches and outputs as Branch.
template <typename Stream, typename Branch>
inline constexpr bool kIsStorage = kIsOneOf<Stream, float, double, BFloat16, Float16> &&
                                   (std::is_same_v<Stream, Branch> ||
                                    (std::is_same_v<Stream, float> &&
                                     kIsOneOf<Branch, BFloat16, Float16>));

/// Fails to compile unless kernels support these storage types.
template <typename Stream, typename Branch>
constexpr bool check_storage() {
  static_assert(kIsStorage<Stream, Branch>,
                "addnorm: <Stream, Branch> must be one of <float, float>, <double, double>, "
                "<BFloat16, BFloat16>, <Float16, Float16>, <float, BFloat16>, <float, Float16>");
  return true;
}

/// Fails to compile unless kernels compute in this type.
template <typename T>
constexpr bool check_value() {
  static_assert(kIsOneOf<T, float, double>, "addnorm: the type must be float or double");
  return true;
}

/// Fails to compile unless modules support this type of branches and products.
template <typename T>
constexpr bool check_module() {
  static_assert(kIsOneOf<T, float, double, BFloat16>,
                "addnorm: the type of a module must be float, double or BFloat16");
  return true;
}

}  // namespace addnorm
