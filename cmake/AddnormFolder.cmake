# One CMake target for each folder of src/, and one test program for the tests in that folder.

# Warnings and the floating-point rules of docs/numerics.md, for every target of ours.
add_library(addnorm_options INTERFACE)
target_compile_features(addnorm_options INTERFACE cxx_std_20)
target_compile_options(addnorm_options INTERFACE
  # designated initializers leave defaults
  -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fno-trapping-math)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")  # highway's NEON needs AES enabled
  target_compile_options(addnorm_options INTERFACE -march=armv8-a+crypto)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # GCC 12 warns of overlaps in std::string's operator+
  target_compile_options(addnorm_options INTERFACE -Wno-restrict)
endif()

# Warnings are errors on the compilers that are tested. A newer compiler may have more warnings, and pip installs other
# headers.
if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD AND (
    (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15) OR
    (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 20)))
  target_compile_options(addnorm_options INTERFACE -Werror)
endif()

# Hardening with Debian's options. Sanitizers replace it, and WebAssembly's toolchain lacks it.
if(NOT ADDNORM_WASM AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  include(CheckCXXCompilerFlag)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "ADDNORM_HAS${flag}" has)
    check_cxx_compiler_flag(${flag} ${has})
    if(${has})
      target_compile_options(addnorm_options INTERFACE ${flag})
    endif()
  endforeach()
  # FORTIFY needs an optimizer; some compilers define it themselves.
  target_compile_options(addnorm_options INTERFACE
                         $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
  target_link_options(addnorm_options INTERFACE LINKER:-z,relro,-z,now)
endif()

# addnorm_tests(<name> SOURCES <files> LIBRARIES <targets>): a GoogleTest program, registered with ctest.
function(addnorm_tests name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)  # support/
  target_link_libraries(${name} PRIVATE addnorm_options ${ARG_LIBRARIES} GTest::gmock_main
                                        rapidcheck)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)  # 16 tests take two minutes
  # The tested code keeps its optimization. The tests themselves should compile fast rather than run fast.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(TARGET addnorm_base_test AND NOT name STREQUAL addnorm_base_test)
    target_precompile_headers(${name} REUSE_FROM addnorm_base_test)
  else()
    target_precompile_headers(${name} PRIVATE <gmock/gmock.h>)  # a third of a test's compile time
  endif()
  target_compile_definitions(${name} PRIVATE ADDNORM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST)
endfunction()

# addnorm_folder(<folder> [APART] [COLD] DEPENDS <targets> [WITHOUT <units>] [PRECOMPILED <headers>]):
# src/<folder>/*.cc as addnorm_<folder>, src/<folder>/*_test.cc as addnorm_<folder>_test. In a build that compiles
# several files as one (CMAKE_UNITY_BUILD), the files of an APART folder are still compiled one by one. A COLD folder
# spends little time in its own code, so it is optimized for a short compile time. In pip's build (SKBUILD),
# python/CMakeLists.txt compiles the sources of all cold folders with the module, in a few units: that takes half as
# long.
function(addnorm_folder folder)
  cmake_parse_arguments(ARG "APART;COLD" "" "DEPENDS;WITHOUT;PRECOMPILED" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
  foreach(unit ${ARG_WITHOUT})
    list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/src/${folder}/${unit}.cc)
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(ARG_COLD AND SKBUILD)
    set_property(GLOBAL APPEND PROPERTY ADDNORM_COLD_SOURCES ${sources})
    add_library(addnorm_${folder} INTERFACE)
    target_link_libraries(addnorm_${folder} INTERFACE ${ARG_DEPENDS})
    return()
  endif()
  add_library(addnorm_${folder} STATIC ${sources})
  # The shared library needs this; WebAssembly has none.
  set_target_properties(addnorm_${folder} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                                     VISIBILITY_INLINES_HIDDEN ON)
  if(NOT ADDNORM_WASM)
    set_property(TARGET addnorm_${folder} PROPERTY POSITION_INDEPENDENT_CODE ON)
  endif()
  if(ARG_APART)
    set_property(TARGET addnorm_${folder} PROPERTY UNITY_BUILD OFF)
  endif()
  if(ARG_PRECOMPILED)
    target_precompile_headers(addnorm_${folder} PRIVATE ${ARG_PRECOMPILED})
  endif()
  if(ARG_COLD)
    target_compile_options(addnorm_${folder} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_compile_features(addnorm_${folder} PUBLIC cxx_std_20)
  target_include_directories(addnorm_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                      ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(addnorm_${folder} PUBLIC ${ARG_DEPENDS} PRIVATE addnorm_options)
  list(FILTER ARG_DEPENDS INCLUDE REGEX "^addnorm_")  # for layering_test.cc, as "lab:train,theory"
  list(JOIN ARG_DEPENDS "," folders)
  string(REPLACE "addnorm_" "" folders "${folders}")
  set_property(GLOBAL APPEND PROPERTY ADDNORM_FOLDERS "${folder}:${folders}")
  if(ADDNORM_TESTS AND tests)
    addnorm_tests(addnorm_${folder}_test SOURCES ${tests} LIBRARIES addnorm_${folder})
  endif()
endfunction()

# addnorm_embed(<target> <folder>/<name>.<extension> <constant>): the text of a file of src/ as a constant of
# <folder>/<name>_script.h, for the target.
function(addnorm_embed target file constant)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${file})
  file(READ ${PROJECT_SOURCE_DIR}/src/${file} text)
  cmake_path(REMOVE_EXTENSION file)
  set(made ${PROJECT_BINARY_DIR}/embedded)
  file(CONFIGURE OUTPUT ${made}/${file}_script.h @ONLY CONTENT
       "inline constexpr const char* @constant@ = R\"py(@text@)py\";\n")
  target_include_directories(${target} PRIVATE ${made})
endfunction()
