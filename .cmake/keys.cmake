# cordma_kv: code shared by cordma-kv and cordma-kv-cli. Tests link it too, even if the programs are
# not built.
include(support)
file(GLOB kv CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/kv/*/*.cpp")
list(FILTER kv EXCLUDE REGEX "/(main|options)[.]cpp$|/cli/")
add_library(cordma_kv STATIC ${kv})
target_link_libraries(cordma_kv PUBLIC cordma_support cordma::xxhash cordma::isal
  PRIVATE OpenSSL::SSL cordma_flags)
set(cordma_kv_headers <cordma/cordma.hpp> "${PROJECT_SOURCE_DIR}/apps/kv/command/service.hpp")
cordma_own(cordma_kv "${cordma_kv_headers}")
file(GLOB apart "${PROJECT_SOURCE_DIR}/apps/kv/command/clients.cpp" "${PROJECT_SOURCE_DIR}/apps/kv/native/scan.cpp"
  "${PROJECT_SOURCE_DIR}/apps/kv/server/*.cpp")
cordma_together(cordma_kv ${apart})

# cordma_kv_cli: the code of cordma-kv-cli, without its command line.
file(GLOB kv_cli CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/apps/kv/cli/*.cpp")
list(FILTER kv_cli EXCLUDE REGEX "/(main|options)[.]cpp$")
add_library(cordma_kv_cli STATIC ${kv_cli})
target_link_libraries(cordma_kv_cli PUBLIC cordma_kv
  PRIVATE nlohmann_json::nlohmann_json cordma_flags)
cordma_own(cordma_kv_cli cordma_umbrella)
