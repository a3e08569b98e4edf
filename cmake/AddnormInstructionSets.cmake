# Compiles each file of src/kernels/simd once for each instruction set, into an object of its own.

set(ADDNORM_INSTRUCTION_SETS "all" CACHE STRING
    "The kernels to build: \"all\", \"native\" (the best of this computer), \"baseline\" or names, as \"avx2\"")

# addnorm_instruction_sets(): adds the objects to addnorm_kernels, and the list of the sets.
function(addnorm_instruction_sets)
  # For each name: Highway's target and namespace. On ARM there is one set: the size of SVE's vectors is unknown at
  # compile time, so they cannot be parts of a pack. SSSE3 is left out: it gains little for a fifth more code.
  set(set_avx512 HWY_AVX3 N_AVX3)
  set(set_avx2 HWY_AVX2 N_AVX2)
  set(set_sse4 HWY_SSE4 N_SSE4)
  set(set_scalar HWY_SCALAR N_SCALAR)  # loops over single values
  set(set_neon HWY_NEON N_NEON)
  set(set_wasm HWY_WASM N_WASM)
  if(ADDNORM_WASM)
    set(baseline wasm)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(baseline neon)
  else()
    set(baseline scalar)
  endif()
  set(wider "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT ADDNORM_WASM)
    set(wider avx512 avx2 sse4)
  endif()

  set(wanted "")
  if(ADDNORM_INSTRUCTION_SETS STREQUAL "native")
    include(CheckCXXSourceRuns)
    set(CMAKE_REQUIRED_LIBRARIES hwy::hwy)
    foreach(name ${wider})
      list(GET set_${name} 0 target)
      check_cxx_source_runs("#include <hwy/targets.h>
        int main() { return hwy::SupportedTargets() & ${target} ? 0 : 1; }" ADDNORM_RUNS_${name})
      if(ADDNORM_RUNS_${name})
        set(wanted ${name})
        break()
      endif()
    endforeach()
  elseif(ADDNORM_INSTRUCTION_SETS STREQUAL "all")
    set(wanted ${wider})
  else()
    set(wanted ${ADDNORM_INSTRUCTION_SETS})
    list(REMOVE_ITEM wanted ${baseline} baseline)
    foreach(name ${wanted})
      if(NOT name IN_LIST wider)
        message(FATAL_ERROR "ADDNORM_INSTRUCTION_SETS: '${name}' is not available here, expected: "
                            "all, native, baseline, ${wider}")
      endif()
    endforeach()
  endif()

  set(made ${PROJECT_BINARY_DIR}/instruction_sets)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/kernels/simd/*.cc)
  set(names "")
  set(uses "")
  foreach(name ${wider} ${baseline})  # the widest first
    list(GET set_${name} 0 target)
    list(GET set_${name} 1 space)
    if(name IN_LIST wanted OR name STREQUAL baseline)
      string(APPEND names "{\"${name}\", ${target}}, ")
      string(APPEND uses " use(${space}, __VA_ARGS__)")
      set(last ${space})
    endif()
    if(NOT name IN_LIST wanted)
      continue()
    endif()
    foreach(source ${sources})
      cmake_path(GET source FILENAME file)
      file(CONFIGURE OUTPUT ${made}/${name}/${file} CONTENT
           "#define ADDNORM_TARGET ${target}\n#include \"${source}\"\n")
      target_sources(addnorm_kernels PRIVATE ${made}/${name}/${file})
    endforeach()
  endforeach()
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/src/)
  target_sources(addnorm_kernels PRIVATE ${sources})
  file(CONFIGURE OUTPUT ${made}/kernels/instruction_sets.inc CONTENT
"#define ADDNORM_SET_NAMES ${names}
#define ADDNORM_FOR_SETS(use, ...)${uses}
#define ADDNORM_BASELINE ${last}
")
  target_include_directories(addnorm_kernels PRIVATE ${made})
endfunction()
addnorm_instruction_sets()
