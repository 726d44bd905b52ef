# Finds Snowball's stemmers, which come without a CMake or pkg-config file, and makes the target
# libstemmer::libstemmer.
find_path(libstemmer_INCLUDE_DIR libstemmer.h)
find_library(libstemmer_LIBRARY stemmer)
mark_as_advanced(libstemmer_INCLUDE_DIR libstemmer_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  libstemmer REQUIRED_VARS libstemmer_LIBRARY libstemmer_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "libstemmer is Debian's package libstemmer-dev")

if(libstemmer_FOUND AND NOT TARGET libstemmer::libstemmer)
  add_library(libstemmer::libstemmer UNKNOWN IMPORTED)
  set_target_properties(libstemmer::libstemmer PROPERTIES
    IMPORTED_LOCATION ${libstemmer_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${libstemmer_INCLUDE_DIR})
endif()
