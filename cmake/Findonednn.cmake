# Finds oneDNN by its header and its library and makes the target onednn::onednn. The CMake package
# that comes with it is passed over: on Debian 12 it fails without the development files of OpenCL,
# which nothing here includes and libdnnl-dev does not depend on.
find_path(onednn_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(onednn_LIBRARY dnnl)
mark_as_advanced(onednn_INCLUDE_DIR onednn_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  onednn REQUIRED_VARS onednn_LIBRARY onednn_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "oneDNN is Debian's package libdnnl-dev")

if(onednn_FOUND AND NOT TARGET onednn::onednn)
  add_library(onednn::onednn UNKNOWN IMPORTED)
  set_target_properties(onednn::onednn PROPERTIES
    IMPORTED_LOCATION ${onednn_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${onednn_INCLUDE_DIR})
endif()
