# Finds liburing and defines cordma::liburing: for cordma-cp, and as a foreign loop in tests.
find_path(LIBURING_INCLUDE_DIR liburing.h)
find_library(LIBURING_LIBRARY uring)
mark_as_advanced(LIBURING_INCLUDE_DIR LIBURING_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Liburing
  REQUIRED_VARS LIBURING_LIBRARY LIBURING_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install liburing-dev")

if(Liburing_FOUND AND NOT TARGET cordma::liburing)
  add_library(cordma::liburing UNKNOWN IMPORTED)
  set_target_properties(cordma::liburing PROPERTIES
    IMPORTED_LOCATION "${LIBURING_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${LIBURING_INCLUDE_DIR}")
endif()
