# cpack runs this before it packs. Debian's policy has manual pages and the changelog compressed, and programs stripped, of
# the section that names the compiler, too.
set(prefix ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
file(GLOB pages ${prefix}/share/man/*/*.[1-9])
foreach(file ${pages} ${prefix}/share/doc/godwit/changelog)
  execute_process(COMMAND gzip --best --no-name ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND strip --remove-section=.comment ${prefix}/bin/godwit COMMAND_ERROR_IS_FATAL ANY)
