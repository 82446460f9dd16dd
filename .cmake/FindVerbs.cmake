# Finds libibverbs and librdmacm and defines cordma::verbs. Installed beside cordmaConfig.cmake,
# which also uses it.
find_path(VERBS_INCLUDE_DIR infiniband/verbs.h)
find_path(RDMACM_INCLUDE_DIR rdma/rdma_cma.h)
find_library(VERBS_LIBRARY ibverbs)
find_library(RDMACM_LIBRARY rdmacm)
mark_as_advanced(VERBS_INCLUDE_DIR RDMACM_INCLUDE_DIR VERBS_LIBRARY RDMACM_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Verbs
  REQUIRED_VARS VERBS_LIBRARY RDMACM_LIBRARY VERBS_INCLUDE_DIR RDMACM_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "on Debian: apt-get install libibverbs-dev librdmacm-dev")

if(Verbs_FOUND AND NOT TARGET cordma::verbs)
  add_library(cordma::verbs INTERFACE IMPORTED)
  set_target_properties(cordma::verbs PROPERTIES
    INTERFACE_LINK_LIBRARIES "${RDMACM_LIBRARY};${VERBS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${VERBS_INCLUDE_DIR};${RDMACM_INCLUDE_DIR}")
endif()
