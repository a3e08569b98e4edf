#pragma once

/// Marks what the shared library shows; everything else in it is hidden.
#define ADDNORM_API __attribute__((visibility("default")))
