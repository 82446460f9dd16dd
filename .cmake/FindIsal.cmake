# Finds Intel's ISA-L and defines cordma::isal: CRC32C by the processor's instructions.
find_path(ISAL_INCLUDE_DIR isa-l/crc.h)
find_library(ISAL_LIBRARY isal)
mark_as_advanced(ISAL_INCLUDE_DIR ISAL_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Isal
  REQUIRED_VARS ISAL_LIBRARY ISAL_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install libisal-dev")

if(Isal_FOUND AND NOT TARGET cordma::isal)
  add_library(cordma::isal UNKNOWN IMPORTED)
  set_target_properties(cordma::isal PROPERTIES
    IMPORTED_LOCATION "${ISAL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${ISAL_INCLUDE_DIR}")
endif()
