# Finds Asio without Boost and defines cordma::asio with the definitions that cordma and its users
# must share. Installed beside cordmaConfig.cmake, which also uses it.
find_path(ASIO_INCLUDE_DIR asio.hpp)
mark_as_advanced(ASIO_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(AsioStandalone
  REQUIRED_VARS ASIO_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install libasio-dev")

if(AsioStandalone_FOUND AND NOT TARGET cordma::asio)
  add_library(cordma::asio INTERFACE IMPORTED)
  # Asio 1.22 turns its coroutine support on by itself under GCC, but under Clang only with libc++.
  # With libstdc++ it needs a definition, which every translation unit of a program must share.
  set_target_properties(cordma::asio PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${ASIO_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "ASIO_STANDALONE;ASIO_HAS_CO_AWAIT;ASIO_HAS_STD_COROUTINE")
endif()
