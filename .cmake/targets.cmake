# Functions that define the targets of this project: a library per layer, a program per file or
# folder.

# Sources are found, not listed: a new file is part of the next build.
function(cordma_glob out)
  file(GLOB found CONFIGURE_DEPENDS ${ARGN})
  list(SORT found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

# Headers are beside their sources. The build's include directory contains links to the three layers
# and to the umbrella header, so that <cordma/net/endpoint.hpp> works as in an installation, and
# nothing of apps/, bench/ or tests/ can be included that way.
function(cordma_link_headers)
  set(links "${PROJECT_BINARY_DIR}/include/cordma")
  file(MAKE_DIRECTORY "${links}")
  foreach(layer runtime net gpu)
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/${layer}" "${links}/${layer}" SYMBOLIC)
  endforeach()
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/net/cordma.hpp" "${links}/cordma.hpp" SYMBOLIC)
endfunction()

# cordma_layer(runtime SOURCES ... DEPENDS ... [PRECOMPILED <header>...]): static library cordma_runtime, alias
# cordma::runtime.
function(cordma_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;PRECOMPILED")
  add_library(cordma_${name} STATIC ${arg_SOURCES})
  add_library(cordma::${name} ALIAS cordma_${name})
  set_target_properties(cordma_${name} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF)
  target_compile_features(cordma_${name} PUBLIC cxx_std_20)
  target_include_directories(cordma_${name} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(cordma_${name} PUBLIC ${arg_DEPENDS}
    PRIVATE "$<BUILD_INTERFACE:cordma_flags>")
  target_precompile_headers(cordma_${name} PRIVATE ${arg_PRECOMPILED})
endfunction()

# cordma_own(target precompiled): settings of targets that are used only by programs of this
# project. Precompiled headers are those of another target, or a list of headers that most files of
# this target include.
function(cordma_own target precompiled)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF DISABLE_PRECOMPILE_HEADERS OFF)
  if(TARGET "${precompiled}")
    target_precompile_headers(${target} REUSE_FROM ${precompiled})
  else()
    target_precompile_headers(${target} PRIVATE ${precompiled})
  endif()
endfunction()

# With CORDMA_QUICK or a sanitizer, for code that parses options and reads and writes JSON:
# optimising CLI11 and nlohmann/json takes the compiler longer than all their use takes at run time.
# Clang can use headers precompiled for optimised code there too.
function(cordma_not_optimised)
  if(NOT CORDMA_QUICK AND NOT CORDMA_SANITIZE)
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O0;-Xclang;-fno-validate-pch")
  else()
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# With CORDMA_QUICK, GCC and the sanitizers' Clang compile several files at a time: the files share
# a third to two thirds of their compile time. Clang without sanitizers compiles each file
# separately, and also checks shadowing there. A file's group depends only on its folder and name,
# so that a new file changes no other group. Names in the unnamed namespaces of a group differ,
# except in files that are listed here after the target.
function(cordma_together target)
  if(NOT CORDMA_QUICK OR NOT (CORDMA_SANITIZE OR CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${ARGN})
  foreach(source IN LISTS sources)
    get_source_file_property(group "${source}" UNITY_GROUP)
    if(group)
      continue()
    endif()
    cmake_path(GET source STEM stem)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder STEM folder)
    string(MD5 number "${stem}")
    string(SUBSTRING "${number}" 0 1 number)
    math(EXPR number "0x${number} % 3")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${number}")
  endforeach()
  if(NOT TARGET cordma_together_flags)  # as a library, to be linked behind cordma_flags
    add_library(cordma_together_flags INTERFACE)
    target_compile_options(cordma_together_flags INTERFACE
      -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:cordma_together_flags>")
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# cordma_program(name SOURCES ... [LIBRARIES ...] [PRECOMPILED target or header...]): an executable
# of this project, with its flags; with the precompiled headers of that target, by default the
# umbrella header.
function(cordma_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES;PRECOMPILED")
  if(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED cordma_umbrella)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE cordma::cordma ${arg_LIBRARIES} cordma_flags)
  cordma_own(${name} "${arg_PRECOMPILED}")
endfunction()

# Half of the compile time of a file is parsing headers that all files include. They are parsed
# once; a build with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON checks that every file of the layers
# includes the headers it uses.
function(cordma_umbrella)
  set(source "${PROJECT_BINARY_DIR}/umbrella.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "#include <cordma/cordma.hpp>\n")
  add_library(cordma_umbrella OBJECT "${source}")
  set_target_properties(cordma_umbrella PROPERTIES CXX_EXTENSIONS OFF DISABLE_PRECOMPILE_HEADERS OFF)
  target_link_libraries(cordma_umbrella PRIVATE cordma::cordma cordma_flags)
  target_precompile_headers(cordma_umbrella PRIVATE <cordma/cordma.hpp>)
endfunction()
