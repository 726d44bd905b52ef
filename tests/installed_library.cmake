# Installs the library of BUILD, and builds examples/embed against the installed files only and runs it.
set(prefix ${BUILD}/installed/prefix)
set(example ${BUILD}/installed/embed)
file(REMOVE_RECURSE ${BUILD}/installed)

execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component library
                COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/examples/embed -B ${example} -G ${GENERATOR}
                        -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
                        -D CMAKE_CXX_FLAGS_DEBUG=${DEBUG_FLAGS} -D CMAKE_CXX_COMPILER=${COMPILER}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${example} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${example}/embed ${SOURCE}/tests/fixtures/tiny_bert "he was in the house" "she was"
                COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE printed)
if(NOT printed MATCHES "^-?[0-9]\\.[0-9]+  she was\n$")
  message(FATAL_ERROR "expected a cosine and the text 'she was', found: ${printed}")
endif()
