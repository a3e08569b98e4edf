#pragma once

/// What every module exports; the page and Node call it by name.
///
/// Numbers and texts come and go in the module's own memory. A function that cannot use its
/// arguments traps, and last_failure() says why; after that the instance is spent.

#define ADDNORM_EXPORT(name) extern "C" [[clang::export_name(#name)]]
