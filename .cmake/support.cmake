# cordma_support: sources that several programs share. Tests link them too, even if the programs are
# not built.
include_guard(GLOBAL)
file(GLOB support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/support/*.cpp")
add_library(cordma_support STATIC ${support})
target_link_libraries(cordma_support PUBLIC cordma::cordma cordma::liburing PRIVATE OpenSSL::SSL cordma_flags)
cordma_own(cordma_support cordma_umbrella)
cordma_together(cordma_support)
