# Compresses the files that Debian requires compressed, after CPack has laid out the packages.
file(GLOB_RECURSE files ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.1
                        ${CPACK_TEMPORARY_DIRECTORY}/*/changelog)
execute_process(COMMAND gzip -9n ${files} COMMAND_ERROR_IS_FATAL ANY)
