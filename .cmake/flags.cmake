# cordma_flags: the compile flags of this project's code. Linked by every target of the project,
# never exported. Only generic flags: a binary built here runs on every x86-64 and every arm64
# machine.

add_library(cordma_flags INTERFACE)
target_compile_features(cordma_flags INTERFACE cxx_std_20)
target_compile_definitions(cordma_flags INTERFACE "CORDMA_VERSION=\"${PROJECT_VERSION}\"")

# The libraries can be part of a shared object; the programs are compiled with the same flags,
# because they share precompiled headers. In a program the linker turns the accesses back into
# direct ones. With this flag, GCC also inlines functions that another library could replace.
# Thread-local variables are in the static block, of which a plugin that is loaded later may take a
# part (a few hundred bytes): with a call for each access a pass of a reactor would take 14 % more
# instructions.
target_compile_options(cordma_flags INTERFACE -fPIC -ftls-model=initial-exec
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)

# GCC 12 reports false positives of these, in code that Clang and AddressSanitizer check as well:
# * -Wnull-dereference: it does not connect std::variant's index() with the result of get_if(), and warns wherever a
#   result<T> is taken apart after a test;
# * -Wmismatched-new-delete: for the frames of Asio's own coroutines;
# * -Wrestrict, -Wstringop-overflow, -Warray-bounds: for `"text" + std::string` at -O3, where it follows branches on
#   lengths that cannot occur (GCC bug 105651).
target_compile_options(cordma_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Wcast-align -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wnull-dereference>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>
  $<$<BOOL:${CORDMA_WERROR}>:-Werror>)

if(CORDMA_SANITIZE STREQUAL "address")
  set(cordma_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(CORDMA_SANITIZE STREQUAL "thread")
  set(cordma_sanitizers -fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "CORDMA_SANITIZE=thread needs Clang: GCC's runtime dies in deep chains of "
      "symmetric transfer. Use -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
elseif(NOT CORDMA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "CORDMA_SANITIZE is '${CORDMA_SANITIZE}'; it can be address, thread or empty")
endif()

if(CORDMA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CORDMA_FUZZ needs Clang's libFuzzer. Use -DCMAKE_CXX_COMPILER=clang++-19")
  elseif(NOT CORDMA_SANITIZE STREQUAL "address")
    message(FATAL_ERROR "CORDMA_FUZZ needs -DCORDMA_SANITIZE=address")
  endif()
  target_compile_options(cordma_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(cordma_sanitizers)
  target_compile_options(cordma_flags INTERFACE ${cordma_sanitizers} -fno-omit-frame-pointer)
  target_link_options(cordma_flags INTERFACE ${cordma_sanitizers})
endif()

# Environment of a sanitised program; the tests set it, so that plain ctest uses it too.
# Use-after-return is off: its fake stacks defeat the bound on the real one.
set(CORDMA_SANITIZER_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=0:strict_string_checks=1"
  "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
