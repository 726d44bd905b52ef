# A room is a folder of src/: its sources become one object library, and the library `longformer` is
# made of all rooms. Tests link a room and those that it uses.

set(LONGFORMER_ROOMS "" CACHE INTERNAL "rooms in order")
set(LONGFORMER_LINKS "" CACHE INTERNAL "packages that the rooms link")

function(longformer_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
  # g++ 12 sees overlapping copies in the string concatenations of its own library, and, where several
  # sources are compiled at once, lists of strings that are freed in their middle.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-free-nonheap-object)
  endif()
  # g++ 14 thinks that a copied list of one number has two, and the copy too little room.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
    target_compile_options(${target} PRIVATE -Wno-array-bounds)
  endif()
  # Several sources compiled as one are "another file" to each other's unnamed namespaces.
  if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  if(LONGFORMER_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

function(longformer_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_library(longformer_${name} OBJECT ${sources})
  target_include_directories(longformer_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                       ${PROJECT_SOURCE_DIR}/src)
  # Plain lists: a generator expression inside the links of a used room would not be evaluated again.
  set(links ${ROOM_LINK})
  foreach(used ${ROOM_USES})
    list(APPEND links ${LONGFORMER_LINKS_OF_${used}})
  endforeach()
  list(REMOVE_DUPLICATES links)
  target_link_libraries(longformer_${name} PUBLIC ${links})
  set(LONGFORMER_LINKS_OF_${name} ${links} PARENT_SCOPE)
  set(LONGFORMER_USES_OF_${name} ${ROOM_USES} CACHE INTERNAL "rooms that ${name} uses")
  longformer_warnings(longformer_${name})
  set(LONGFORMER_ROOMS ${LONGFORMER_ROOMS} ${name} CACHE INTERNAL "rooms in order")
  set(LONGFORMER_LINKS ${LONGFORMER_LINKS} ${ROOM_LINK} CACHE INTERNAL "packages that the rooms link")
endfunction()

# The library of all rooms.
function(longformer_library)
  add_library(longformer)
  add_library(longformer::longformer ALIAS longformer)
  foreach(room ${LONGFORMER_ROOMS})
    target_sources(longformer PRIVATE $<TARGET_OBJECTS:longformer_${room}>)
  endforeach()
  # Header-only packages are used up here; a static library passes the others on to its users.
  set(links ${LONGFORMER_LINKS})
  list(REMOVE_DUPLICATES links)
  list(REMOVE_ITEM links nlohmann_json::nlohmann_json)
  target_link_libraries(longformer PRIVATE ${links})
  target_include_directories(longformer PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(longformer PUBLIC cxx_std_20)
  set_target_properties(longformer PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                              SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

# A GoogleTest program of tests/ROOM/NAME.cc that links the objects of a room and of those that it
# uses, or of tests/NAME.cc that links the library. A sanitized program starts slowly, so there all
# its cases are one test.
function(longformer_test name)
  cmake_parse_arguments(TEST "LIBRARY" "ROOM" "" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY LONGFORMER_TEST_NAMES ${name})
  if(LONGFORMER_SANITIZER STREQUAL "thread" AND NOT name IN_LIST threaded)
    return()
  endif()
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/${TEST_ROOM}/${name}.cc)
  set(room ${TEST_ROOM})
  if(room MATCHES "^(engine|tasks)$")
    set(room api)
  endif()
  foreach(room ${room} ${LONGFORMER_USES_OF_${room}})
    target_link_libraries(${name} PRIVATE longformer_${room})
  endforeach()
  if(TEST_LIBRARY)
    target_link_libraries(${name} PRIVATE longformer)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main)
  longformer_warnings(${name})
  if(CCACHE)
    # __FILE__ finds the fixtures; the cache's base folder would make a relative path of it.
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER ${CCACHE})
  endif()
  if(LONGFORMER_SANITIZER)
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1
             --gtest_output=xml:${PROJECT_BINARY_DIR}/junit-${name}.xml)
    set_tests_properties(${name} PROPERTIES LABELS unit)
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit)
  endif()
endfunction()
