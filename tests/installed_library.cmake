# Installs the library of BUILD and builds and runs examples/embed against the installed files only.
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
