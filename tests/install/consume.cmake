# Installs the build into an empty prefix. Then it configures, builds and runs a project that uses
# only find_package(cordma). Then the same project with the sources in a separate folder: only their
# runtime is built, which is enough to check that the project is not treated as cordma's own.
set(prefix "${FOLDER}/prefix")
file(REMOVE_RECURSE "${prefix}" "${FOLDER}/build" "${FOLDER}/embedded")

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${status}): ${command}")
  endif()
endfunction()

step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${prefix}")
step("${CMAKE_COMMAND}" -G Ninja -S "${CONSUMER}" -B "${FOLDER}/build"
  "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DEXPECTED_VERSION=${VERSION}")
step("${CMAKE_COMMAND}" --build "${FOLDER}/build")
step("${FOLDER}/build/consumer")

step("${CMAKE_COMMAND}" -G Ninja -S "${CONSUMER}" -B "${FOLDER}/embedded" "-DCORDMA_SOURCE=${SOURCE}"
  "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
  "-DEXPECTED_VERSION=${VERSION}")
step("${CMAKE_COMMAND}" --build "${FOLDER}/embedded" --target cordma_runtime)
