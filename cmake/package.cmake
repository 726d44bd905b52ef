# Installation: library, headers, and what find_package(longformer) reads.
include(CMakePackageConfigHelpers)

function(longformer_package)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/longformer)
  install(TARGETS longformer EXPORT longformer-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/longformer
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
  install(EXPORT longformer-targets NAMESPACE longformer:: DESTINATION ${folder} COMPONENT library)
  configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/longformer-config.cmake.in
    ${PROJECT_BINARY_DIR}/longformer-config.cmake INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/longformer-config-version.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/longformer-config.cmake
                ${PROJECT_BINARY_DIR}/longformer-config-version.cmake
                ${PROJECT_SOURCE_DIR}/cmake/Findonednn.cmake ${PROJECT_SOURCE_DIR}/cmake/Findlibstemmer.cmake
          DESTINATION ${folder} COMPONENT library)
endfunction()
