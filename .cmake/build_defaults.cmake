# Defaults of the build for every target, unless the command line overrides them.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(CORDMA_CCACHE ccache)
  mark_as_advanced(CORDMA_CCACHE)
  if(CORDMA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # ccache needs this setting to cache files that use precompiled headers.
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros"
      "${CORDMA_CCACHE}")
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
endif()
