#pragma once

/// The functions that the Python package reaches by ctypes: text in, text out. Only the package
/// itself calls them, and it has already checked the types of the arguments. The kernels are those
/// of addnorm.h, in the same shared library.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "addnorm/norm.h"
#include "io/json.h"

namespace addnorm::python {

using io::Json;

/// Called during a long computation; any result but 0 stops it.
using Progress = int (*)(std::size_t done, std::size_t all);

struct Function {
  std::string_view name;
  /// Takes a JSON array of arguments, and returns a JSON value or a text.
  std::string (*run)(const Json& arguments, Progress progress);
};
std::span<const Function> lab_functions();
std::span<const Function> doctor_functions();
std::span<const Function> program_functions();

/// The result of a call, by its numbers in _library.py.
enum class Status { kOk, kError, kTypeError, kOutOfMemory, kOther };

/// Reads addnorm.Norm's fields: kind, ε, where ε goes, variance, γ's form, output scale. Throws an
/// Error for an unknown name, and for a kind that does not normalize rows.
NormOptions norm_options(const Json& fields);

/// Returns the bytes that Python decoded as Latin-1, for paths that need not be UTF-8.
std::string bytes_of(const Json& latin1);

}  // namespace addnorm::python
