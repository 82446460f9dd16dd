# Enables C++. A compiler that is missing, too old or unfit ends the configuration with one sentence
# that contains the command to fix it.
set(cordma_remedy "apt-get install clang-19, then in an empty build folder: cmake -DCMAKE_CXX_COMPILER=clang++-19")

set(cordma_named "${CMAKE_CXX_COMPILER}")
if(NOT cordma_named AND DEFINED ENV{CXX})
  set(cordma_named "$ENV{CXX}")
endif()
if(cordma_named)
  string(REGEX REPLACE " .*" "" cordma_named_program "${cordma_named}")  # CXX may contain options
  find_program(cordma_named_path NAMES "${cordma_named}" "${cordma_named_program}" NO_CACHE)
  if(NOT cordma_named_path)
    message(FATAL_ERROR "The C++ compiler '${cordma_named}' is not installed: ${cordma_remedy}")
  endif()
else()
  include(CheckLanguage)
  check_language(CXX)
  if(NOT CMAKE_CXX_COMPILER)
    message(FATAL_ERROR "No C++ compiler is installed: ${cordma_remedy}")
  endif()
endif()
enable_language(CXX)

include(CheckCXXSourceCompiles)
file(READ "${CMAKE_CURRENT_LIST_DIR}/check_compiler.cpp" cordma_check)
set(CMAKE_REQUIRED_FLAGS "${CMAKE_CXX20_STANDARD_COMPILE_OPTION}")
check_cxx_source_compiles("${cordma_check}" CORDMA_COMPILER_FITS)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT CMAKE_CXX_COMPILER_ID OR NOT CORDMA_COMPILER_FITS)  # without an ID: no compiler at all
  message(FATAL_ERROR
    "'${CMAKE_CXX_COMPILER}' ${CMAKE_CXX_COMPILER_VERSION} cannot build cordma, which needs clang++ 17, g++ 12 or newer "
    "and C++20 coroutines: ${cordma_remedy}")
endif()
