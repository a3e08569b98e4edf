#pragma once

/// The exports of every module, which the page and Node call by name.
///
/// Numbers and texts are passed in the module's own memory. A function with invalid arguments
/// traps, and last_failure() returns the reason; after that the instance is unusable.

#define ADDNORM_EXPORT(name) extern "C" [[clang::export_name(#name)]]
