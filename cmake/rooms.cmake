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
  # Clang warns of loops that it leaves as they are where it is asked to make vectors of them.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE -Wno-pass-failed)
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
  # Sources compiled together share headers and templates; larger batches would keep processors idle.
  set_target_properties(longformer_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
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
  set_target_properties(longformer PROPERTIES LINKER_LANGUAGE CXX)
  # A wheel has no links, and would hold a library with a version three times.
  if(NOT SKBUILD)
    set_target_properties(longformer PROPERTIES VERSION ${PROJECT_VERSION}
                                                SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
endfunction()
