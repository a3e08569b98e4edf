# The packages that the library needs, as imported targets.

function(addnorm_missing what debian_package)
  message(FATAL_ERROR "${what} is missing: apt-get install ${debian_package} "
                      "(or scripts/install-packages.sh for everything)")
endfunction()

# find_package with an error that names the package to install.
macro(addnorm_require_package package debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    addnorm_missing(${package} ${debian_package})
  endif()
endmacro()

# The same for a package that only pkg-config knows: PkgConfig::<package>.
macro(addnorm_require_pkg package debian_package)
  addnorm_require_package(PkgConfig pkg-config)
  pkg_check_modules(${package} QUIET IMPORTED_TARGET GLOBAL ${package})
  if(NOT ${package}_FOUND)
    addnorm_missing(${package} ${debian_package})
  endif()
endmacro()

# addnorm_require_headers(<target> <folder> <Debian package>): only headers, through a link to their folder, for a
# compiler that must not see the rest of the machine's /usr/include.
function(addnorm_require_headers target folder debian_package)
  if(NOT IS_DIRECTORY ${folder})
    addnorm_missing(${folder} ${debian_package})
  endif()
  cmake_path(GET folder FILENAME name)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
  file(CREATE_LINK ${folder} ${CMAKE_BINARY_DIR}/include/${name} SYMBOLIC)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${CMAKE_BINARY_DIR}/include)
endfunction()

if(ADDNORM_WASM)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED GLOBAL)  # one thread
  addnorm_require_headers(fmt_headers /usr/include/fmt libfmt-dev)
  target_compile_definitions(fmt_headers INTERFACE FMT_STATIC_THOUSANDS_SEPARATOR)
  target_compile_options(fmt_headers INTERFACE  # fmt's own function prints, and would need stdio
    "-DFMT_ASSERT(condition,message)=((condition)?(void)0:__builtin_trap())")
  addnorm_require_headers(hwy::hwy /usr/include/hwy libhwy-dev)
  addnorm_require_headers(Eigen3::Eigen /usr/include/eigen3/Eigen libeigen3-dev)
  addnorm_require_headers(nlohmann_json::nlohmann_json /usr/include/nlohmann nlohmann-json3-dev)
  target_compile_definitions(nlohmann_json::nlohmann_json INTERFACE JSON_NO_IO)
  return()
endif()

addnorm_require_package(OpenMP g++)
addnorm_require_package(fmt libfmt-dev)
add_library(fmt_headers INTERFACE)  # base/fmt.cc has the compiled part
target_include_directories(fmt_headers SYSTEM INTERFACE
                           $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
addnorm_require_package(hwy libhwy-dev)
if(ADDNORM_NN)
  addnorm_require_package(Eigen3 libeigen3-dev)
  if(ADDNORM_ONEDNN)
    addnorm_require_package(dnnl libdnnl-dev)
  endif()
endif()
if(NOT ADDNORM_LIBRARY_ONLY)
  addnorm_require_package(nlohmann_json nlohmann-json3-dev)
endif()
if(ADDNORM_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings, which MPI has removed
  addnorm_require_package(MPI libopenmpi-dev)
endif()
if(ADDNORM_TESTS)
  addnorm_require_package(GTest libgmock-dev)
  addnorm_require_package(rapidcheck librapidcheck-dev)
  enable_testing()
  include(GoogleTest)
endif()
