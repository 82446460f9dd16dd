# Files of `cmake --install`: libraries, headers, programs and the package for find_package(cordma).
include(CMakePackageConfigHelpers)
set(cordma_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/cordma")

install(TARGETS cordma_runtime cordma_net cordma_gpu cordma_all EXPORT cordmaTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(layer runtime net gpu)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cordma"
    FILES_MATCHING PATTERN "*.hpp" PATTERN "cordma.hpp" EXCLUDE)
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/net/cordma.hpp" OPTIONAL
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cordma")

install(EXPORT cordmaTargets NAMESPACE cordma:: DESTINATION "${cordma_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/.cmake/cordmaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cordmaConfig.cmake" INSTALL_DESTINATION "${cordma_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cordmaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/cordmaConfig.cmake" "${PROJECT_BINARY_DIR}/cordmaConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindAsioStandalone.cmake"
  "${PROJECT_SOURCE_DIR}/.cmake/FindVerbs.cmake"
  DESTINATION "${cordma_package_dir}")
