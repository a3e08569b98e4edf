# The library as other projects build with it: addnorm::addnorm, in this build and with find_package(addnorm), and
# `pkg-config addnorm`.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The folders with public headers, and the C interface. Both libraries consist of their objects.
set(addnorm_public_folders base kernels cuda c)
if(ADDNORM_NN)
  list(APPEND addnorm_public_folders gemm nn train)
endif()

# The libraries that these link with; users of the static library need them too.
set(addnorm_links hwy::hwy OpenMP::OpenMP_CXX)
set(addnorm_static_packages [[
  find_dependency(hwy)
  find_dependency(OpenMP COMPONENTS CXX)
]])
list(JOIN OpenMP_CXX_LIB_NAMES " -l" openmp)
set(addnorm_static_libs "-lhwy -l${openmp} -lstdc++ -lm")
if(ADDNORM_NN AND ADDNORM_ONEDNN)
  list(APPEND addnorm_links DNNL::dnnl)
  string(APPEND addnorm_static_packages "  find_dependency(dnnl)\n")
  string(PREPEND addnorm_static_libs "-ldnnl ")
endif()
if(ADDNORM_CUDA)
  find_library(ADDNORM_CUDART cudart_static REQUIRED HINTS ${CMAKE_CUDA_HOST_IMPLICIT_LINK_DIRECTORIES}
               ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/../lib)
  list(APPEND addnorm_links ${ADDNORM_CUDART} ${CMAKE_DL_LIBS} rt)
  string(APPEND addnorm_static_libs " ${ADDNORM_CUDART} -lpthread -ldl -lrt")
endif()
if(NOT ADDNORM_NN)
  set(addnorm_headers_left_out PATTERN nn EXCLUDE PATTERN train EXCLUDE)
endif()

# One package for both libraries; it offers the installed ones.
set(addnorm_package ${CMAKE_INSTALL_LIBDIR}/cmake/addnorm)
set(addnorm_made ${PROJECT_BINARY_DIR}/cmake)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE addnorm_up)
configure_package_config_file(cmake/addnorm-config.cmake.in ${addnorm_made}/addnorm-config.cmake
                              INSTALL_DESTINATION ${addnorm_package} NO_SET_AND_CHECK_MACRO)
configure_file(cmake/addnorm.pc.in ${addnorm_made}/addnorm.pc @ONLY)
write_basic_package_version_file(${addnorm_made}/addnorm-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)

# addnorm_library(<static|shared>): the target addnorm_<kind>, and the files that `cmake --install <build>
# --component <kind>` installs for building with it. Files that programs load at run time are in the component
# `library`. With [NOT_ASKED_FOR] no other --install installs these files.
function(addnorm_library kind)
  cmake_parse_arguments(ARG "NOT_ASKED_FOR" "" "" ${ARGN})
  string(TOUPPER ${kind} KIND)
  set(target addnorm_${kind})
  add_library(${target} ${KIND})
  foreach(folder ${addnorm_public_folders})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:addnorm_${folder}>)
  endforeach()
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME addnorm EXPORT_NAME addnorm LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE ${addnorm_links})
  if(kind STREQUAL "shared")  # otherwise templates of the standard library are exported
    set(map ${PROJECT_SOURCE_DIR}/cmake/addnorm.map)
    target_link_libraries(${target} PRIVATE addnorm_options)  # for its link options
    target_link_options(${target} PRIVATE LINKER:--version-script=${map})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  endif()

  set(component COMPONENT ${kind})
  set(loaded COMPONENT library NAMELINK_COMPONENT ${kind})
  if(ARG_NOT_ASKED_FOR)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    list(APPEND component EXCLUDE_FROM_ALL)
    list(APPEND loaded EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS ${target} EXPORT addnorm_${kind}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${loaded})
  install(EXPORT addnorm_${kind} FILE addnorm-${kind}-targets.cmake NAMESPACE addnorm::
          DESTINATION ${addnorm_package} ${component})
  install(FILES ${addnorm_made}/addnorm-config.cmake ${addnorm_made}/addnorm-config-version.cmake
          DESTINATION ${addnorm_package} ${component})
  install(FILES ${addnorm_made}/addnorm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${component})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          ${component} ${addnorm_headers_left_out})
endfunction()

if(BUILD_SHARED_LIBS)
  addnorm_library(shared)
  addnorm_library(static NOT_ASKED_FOR)
  add_library(addnorm::addnorm ALIAS addnorm_shared)
else()
  addnorm_library(static)
  addnorm_library(shared NOT_ASKED_FOR)
  add_library(addnorm::addnorm ALIAS addnorm_static)
endif()
