#pragma once

/// Highway for one instruction set, that of this object. CMake compiles each file of this folder
/// once for each set, with ADDNORM_TARGET, and once without it for the baseline. The compiler's
/// flags are the same for all: with flags for AVX, inline functions of the standard library would
/// have its instructions, and the linker could give these to every caller.

#ifdef HWY_HIGHWAY_INCLUDED
#error "highway.h was included before kernels/simd/target.h"
#endif
#include <hwy/detect_targets.h>

#ifdef ADDNORM_TARGET
#undef HWY_TARGET
#define HWY_TARGET ADDNORM_TARGET
#else
#if !HWY_ARCH_ARM && !HWY_ARCH_WASM  // loops over single values, with every compiler
#undef HWY_TARGET
#define HWY_TARGET HWY_SCALAR
#endif
#endif

#include <hwy/highway.h>

#include "kernels/storages.h"

/// The types that the kernels of this set are compiled for. Those of double serve references and
/// tests, so the baseline alone has them.
#ifdef ADDNORM_TARGET
#define ADDNORM_FOR_TYPES(use) use(float)
#define ADDNORM_FOR_PAIRS(use) ADDNORM_FOR_FLOAT_STORAGES(use)
#else
#define ADDNORM_FOR_TYPES(use) use(float) use(double)
#define ADDNORM_FOR_PAIRS(use) ADDNORM_FOR_STORAGES(use)
#endif
