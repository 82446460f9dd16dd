# Enables C++. A compiler that is missing, too old or unfit ends the configuration with one sentence that holds
# the command that helps.
set(cordma_remedy "apt-get install clang-19, then in an empty build folder: cmake -DCMAKE_CXX_COMPILER=clang++-19")

set(cordma_named "${CMAKE_CXX_COMPILER}")
if(NOT cordma_named AND DEFINED ENV{CXX})
  set(cordma_named "$ENV{CXX}")
endif()
if(cordma_named)
  string(REGEX REPLACE " .*" "" cordma_named_program "${cordma_named}")  # CXX may hold options
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

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
  message(FATAL_ERROR
    "cordma needs Clang 17 or newer, this is ${CMAKE_CXX_COMPILER_VERSION}: ${cordma_remedy}")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR
    "cordma needs GCC 12 or newer, this is ${CMAKE_CXX_COMPILER_VERSION}: ${cordma_remedy}")
endif()

include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "${CMAKE_CXX20_STANDARD_COMPILE_OPTION}")
check_cxx_source_compiles("#include <coroutine>
  int main() { return std::coroutine_handle<>() ? 1 : 0; }" CORDMA_COROUTINES_COMPILE)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT CMAKE_CXX_COMPILER_ID OR NOT CORDMA_COROUTINES_COMPILE)  # without an ID: no compiler at all
  message(FATAL_ERROR
    "'${CMAKE_CXX_COMPILER}' cannot compile C++20 coroutines: ${cordma_remedy}")
endif()
