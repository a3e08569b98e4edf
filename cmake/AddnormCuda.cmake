# src/kernels/cuda as the target addnorm_cuda: the kernels for NVIDIA GPUs or, without ADDNORM_CUDA, functions of the
# same names that throw.

set(folder ${PROJECT_SOURCE_DIR}/src/kernels/cuda)
if(ADDNORM_CUDA)
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
    message(FATAL_ERROR "CUDA is ${CMAKE_CUDA_COMPILER_VERSION}, must be 12 or above, which knows C++20")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*.cu)
  list(FILTER sources EXCLUDE REGEX "(_test|absent)\\.cc$")
  set(tests ${folder}/add_norm_test.cc ${folder}/c_interface_test.cc ${folder}/lanes_test.cc ${folder}/plan_test.cc)
else()
  set(sources ${folder}/absent.cc ${folder}/plan.cc)
  set(tests ${folder}/absent_test.cc ${folder}/plan_test.cc)
endif()

add_library(addnorm_cuda STATIC ${sources})
set_target_properties(addnorm_cuda PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF
  OPTIMIZE_DEPENDENCIES ON)  # compiling it does not wait for the CPU's kernels
target_link_libraries(addnorm_cuda PUBLIC addnorm_kernels)
if(ADDNORM_CUDA)
  # Products and sums round separately, as on the CPU, except where a kernel fuses them explicitly.
  set_target_properties(addnorm_cuda PROPERTIES CUDA_VISIBILITY_PRESET hidden
                        CUDA_ARCHITECTURES "${ADDNORM_CUDA_ARCHITECTURES}")
  target_compile_options(addnorm_cuda PRIVATE
    # 554: the conversion of a view of constants to itself is never called.
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-fmad=false;--expt-relaxed-constexpr;-diag-suppress=554>")
  target_compile_options(addnorm_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:$<TARGET_PROPERTY:addnorm_options,INTERFACE_COMPILE_OPTIONS>>)
  target_include_directories(addnorm_cuda SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
else()
  target_link_libraries(addnorm_cuda PRIVATE addnorm_options)
endif()

# The kernels and their C interface as a library of its own, for the wheel of scripts/build-cuda-wheel.sh. It has the
# argument checks of the other folders compiled in, and needs only glibc, libgcc and the driver, which it loads itself.
# A static libgcc would need glibc 2.35, which Red Hat 9 does not have.
if(ADDNORM_CUDA)
  set(checks base/fmt base/names base/require kernels/aliasing kernels/argument_memory kernels/check kernels/epilogue c/call c/cuda)
  list(TRANSFORM checks PREPEND ${PROJECT_SOURCE_DIR}/src/)
  list(TRANSFORM checks APPEND .cc)
  add_library(addnorm_cuda_shared SHARED EXCLUDE_FROM_ALL ${checks} $<TARGET_OBJECTS:addnorm_cuda>)
  set_target_properties(addnorm_cuda_shared PROPERTIES LINKER_LANGUAGE CXX UNITY_BUILD OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(addnorm_cuda_shared PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  find_library(ADDNORM_CUDART cudart_static REQUIRED HINTS ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES}
               ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/../lib)
  target_link_libraries(addnorm_cuda_shared PRIVATE addnorm_options fmt_headers ${ADDNORM_CUDART} ${CMAKE_DL_LIBS} rt)
  set(map ${PROJECT_SOURCE_DIR}/python/cuda/library.map)
  target_link_options(addnorm_cuda_shared PRIVATE LINKER:--version-script=${map} LINKER:--gc-sections -static-libstdc++)
  set_target_properties(addnorm_cuda_shared PROPERTIES OUTPUT_NAME addnorm_cuda LINK_DEPENDS ${map})
endif()
if(ADDNORM_TESTS)
  addnorm_tests(addnorm_cuda_test SOURCES ${tests} LIBRARIES addnorm_cuda addnorm_c)
endif()
