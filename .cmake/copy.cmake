# cordma_copy: code shared by cordma-cp and cordma-cpd. Tests link it too, even if the programs are
# not built.
include(CheckCXXSourceCompiles)
include(support)

file(GLOB copy CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/cp/*/*.cpp")
list(FILTER copy EXCLUDE REGEX "/(main|options|report)[.]cpp$")
add_library(cordma_copy STATIC ${copy})
target_link_libraries(cordma_copy PUBLIC cordma_support cordma::xxhash
  PRIVATE OpenSSL::SSL cordma_flags)
cordma_own(cordma_copy cordma_umbrella)
cordma_together(cordma_copy)

# The library selects code for the running processor, which hashes twice as fast as code for every
# processor.
find_library(XXHASH_LIBRARY xxhash)
mark_as_advanced(XXHASH_LIBRARY)
if(XXHASH_LIBRARY)
  set(CMAKE_REQUIRED_INCLUDES "${XXHASH_INCLUDE_DIR}")
  set(CMAKE_REQUIRED_LIBRARIES "${XXHASH_LIBRARY}")
  check_cxx_source_compiles("#include <xxh_x86dispatch.h>
    int main(int n, char** text) { return XXH3_64bits_dispatch(text[0], n) != 0; }" XXHASH_DISPATCHES)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(XXHASH_DISPATCHES)
  target_link_libraries(cordma_copy PRIVATE "${XXHASH_LIBRARY}")
  set_property(SOURCE "${PROJECT_SOURCE_DIR}/apps/cp/files/digest.cpp" APPEND PROPERTY
    COMPILE_DEFINITIONS CORDMA_XXHASH_DISPATCHES)
endif()
