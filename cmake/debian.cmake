# Debian packages by `cpack -G DEB`: longformer, the program with its pages and units; longformer-dev, the library.

function(longformer_debian)
  set(doc ${CMAKE_INSTALL_DATADIR}/doc)
  set(changelog ${PROJECT_BINARY_DIR}/debian/changelog)
  # CMake honours SOURCE_DATE_EPOCH here.
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
  set(maintainer "longformer.cpp authors <authors@longformer.invalid>")
  if(DEFINED ENV{DEBEMAIL})
    set(name "longformer.cpp authors")
    if(DEFINED ENV{DEBFULLNAME})
      set(name "$ENV{DEBFULLNAME}")
    endif()
    set(maintainer "${name} <$ENV{DEBEMAIL}>")
  endif()
  file(WRITE ${changelog} "longformer (${PROJECT_VERSION}) unstable; urgency=medium

  * Version ${PROJECT_VERSION}; its changes are in CHANGELOG.md.gz.

 -- ${maintainer}  ${date}
")
  find_program(GZIP gzip)
  mark_as_advanced(GZIP)
  if(GZIP)
    # Without names and times in them, equal sources give equal files.
    file(COPY_FILE ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_BINARY_DIR}/debian/CHANGELOG.md)
    set(pages changelog.gz CHANGELOG.md.gz)
    execute_process(COMMAND ${GZIP} -9nkf changelog CHANGELOG.md WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/debian
                    COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md)
  endif()
  foreach(component program library)
    set(package longformer)
    if(component STREQUAL "library")
      set(package longformer-dev)
    endif()
    install(FILES ${PROJECT_SOURCE_DIR}/packaging/copyright DESTINATION ${doc}/${package} COMPONENT ${component})
    foreach(page ${pages})
      install(FILES ${PROJECT_BINARY_DIR}/debian/${page} DESTINATION ${doc}/${package} COMPONENT ${component})
    endforeach()
  endforeach()
  # systemd looks below /usr and /usr/local.
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/longformer@.service ${PROJECT_SOURCE_DIR}/packaging/longformer@.socket
          DESTINATION lib/systemd/system COMPONENT program)

  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME longformer)
  set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
  set(CPACK_PACKAGE_CONTACT ${maintainer})
  set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                  WORLD_READ WORLD_EXECUTE)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_ALL program library)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME longformer)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
  # libcurl is loaded when a model is fetched.
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "libcurl4, ca-certificates")
  # pdftotext reads PDF.
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "poppler-utils")
  set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "transformers for long documents, on CPUs
The program searches, classifies, tags, questions and summarises documents
of any length with models of Hugging Face (Longformer, LED, BigBird, BERT,
ModernBERT and others), trains such models, and serves them over HTTP.")

  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME longformer-dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
  # Packages that find_package(longformer) finds.
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS
      "libdnnl-dev, libhwy-dev, libfmt-dev, libutf8proc-dev, libpugixml-dev, libsqlite3-dev, libstemmer-dev, libmd4c-dev, libmd4c-html0-dev, zlib1g-dev, liblzma-dev, libzstd-dev, pkgconf")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "longformer (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "transformers for long documents, C++ library
Headers, the static library and the CMake package of longformer.cpp. It runs
and trains models of Hugging Face for long documents in C++20.")
  include(CPack)
endfunction()
