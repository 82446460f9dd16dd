# cordma_copy: what cordma-cp and cordma-cpd share, which tests link as well, also where the programs are not built.
find_package(Liburing REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS SSL)
find_package(Xxhash REQUIRED)

file(GLOB copy CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/cp/*.cpp")
list(FILTER copy EXCLUDE REGEX "/(main|options|report)[.]cpp$")
add_library(cordma_copy STATIC ${copy})
set_target_properties(cordma_copy PROPERTIES CXX_EXTENSIONS OFF)
target_link_libraries(cordma_copy PUBLIC cordma::cordma cordma::liburing cordma::xxhash
  PRIVATE OpenSSL::SSL cordma_flags)
target_precompile_headers(cordma_copy REUSE_FROM cordma_umbrella)
