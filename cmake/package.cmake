# Installation: library, headers, and what find_package(longformer) reads.
include(CMakePackageConfigHelpers)

# Pages of the program; Debian's zsh looks elsewhere below /usr.
set(LONGFORMER_BASH_FOLDER ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
set(LONGFORMER_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr" AND EXISTS /etc/debian_version)
  set(LONGFORMER_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()
set(LONGFORMER_FISH_FOLDER ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

function(longformer_package)
  # Folders that are not there yet are noted before anything is installed.
  set(LONGFORMER_SHARED_FOLDERS ${LONGFORMER_BASH_FOLDER} ${LONGFORMER_ZSH_FOLDER} ${LONGFORMER_FISH_FOLDER}
                                ${CMAKE_INSTALL_DATADIR}/doc/longformer ${CMAKE_INSTALL_DATADIR}/doc/longformer-dev)
  list(JOIN LONGFORMER_SHARED_FOLDERS " " LONGFORMER_SHARED_FOLDERS)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/made_folders.cmake.in ${PROJECT_BINARY_DIR}/made_folders.cmake @ONLY)
  install(SCRIPT ${PROJECT_BINARY_DIR}/made_folders.cmake ALL_COMPONENTS)

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
