# The Debian packages of a build for the prefix /usr (`make package`): one for each component, and both kinds of the
# library in libaddnorm-dev.

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The addnorm developers <developers@addnorm.invalid>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/compress.cmake)

set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(made ${PROJECT_BINARY_DIR}/debian)
# SOURCE_DATE_EPOCH is set by `make package`
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${debian}/changelog.in ${made}/changelog @ONLY)
configure_file(${debian}/shlibs.in ${made}/shlibs @ONLY)

# addnorm_debian_package(<package> <section> <component>... DESCRIPTION <synopsis and text>)
macro(addnorm_debian_package package section)
  cmake_parse_arguments(ARG "" "DESCRIPTION" "" ${ARGN})
  list(GET ARG_UNPARSED_ARGUMENTS 0 first)
  install(FILES ${debian}/copyright ${made}/changelog DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
          COMPONENT ${first})
  string(TOUPPER ${package} group)
  foreach(component ${ARG_UNPARSED_ARGUMENTS})
    string(TOUPPER ${component} COMPONENT)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    set(CPACK_COMPONENT_${COMPONENT}_GROUP ${package})
  endforeach()
  set(CPACK_DEBIAN_${group}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${group}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${group}_DESCRIPTION ${ARG_DESCRIPTION})
endmacro()

addnorm_debian_package(libaddnorm${soversion} libs library DESCRIPTION
"Add & Norm for Transformers (shared library)
Residual connections and normalization, forward and backward, in float64,
float32, bfloat16 and float16, with the same bits on every instruction set.")
set(CPACK_DEBIAN_LIBADDNORM${soversion}_PACKAGE_CONTROL_EXTRA ${made}/shlibs ${debian}/triggers)

addnorm_debian_package(libaddnorm-dev libdevel shared static DESCRIPTION
"Add & Norm for Transformers (headers and static library)
What programs in C and C++ are built with: headers, the static library, and
files for CMake's find_package and for pkg-config.")
set(CPACK_DEBIAN_LIBADDNORM-DEV_PACKAGE_DEPENDS
    # the last is for dnnl's package
    "libaddnorm${soversion} (= ${PROJECT_VERSION}), libhwy-dev, libdnnl-dev, ocl-icd-opencl-dev")
set(CPACK_DEBIAN_LIBADDNORM-DEV_PACKAGE_SHLIBDEPS OFF)

addnorm_debian_package(addnorm science program DESCRIPTION
"residual connections and normalization of Transformers, measured
A program that shows Add & Norm step by step, trains small Transformers on the
CPU, lays theory over measurements of signal and gradient, and finds what is
wrong in a network's plumbing. It has an interactive tutorial for the browser.")

set(CPACK_DEBIAN_ADDNORM_PACKAGE_DEPENDS bible-kjv)  # training text of the study

if(ADDNORM_PYTHON)
  addnorm_debian_package(python3-addnorm python python DESCRIPTION
"Add & Norm for Transformers (Python 3)
Norms and residual sums on NumPy's arrays and by DLPack without copies, as
layers of PyTorch, and the figures and studies of addnorm as plain data.")
  find_package(Python REQUIRED COMPONENTS Interpreter)
  math(EXPR next "${Python_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON3-ADDNORM_PACKAGE_DEPENDS
      "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next}), python3-numpy")
  set(CPACK_DEBIAN_PYTHON3-ADDNORM_PACKAGE_SUGGESTS python3-torch)
  set(CPACK_DEBIAN_PYTHON3-ADDNORM_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm)
endif()

include(CPack)
