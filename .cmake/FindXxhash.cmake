# Finds xxHash and defines cordma::xxhash: headers only, which are compiled in.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(XXHASH_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Xxhash
  REQUIRED_VARS XXHASH_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install libxxhash-dev")

if(Xxhash_FOUND AND NOT TARGET cordma::xxhash)
  add_library(cordma::xxhash INTERFACE IMPORTED)
  set_target_properties(cordma::xxhash PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS XXH_INLINE_ALL)
endif()
