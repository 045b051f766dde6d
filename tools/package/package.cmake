# The Debian package, by cpack: ./build.sh package configures with -DGODWIT_DEBIAN=ON and -DCMAKE_INSTALL_PREFIX=/usr.
# It holds what `cmake --install` installs, and what Debian's policy asks for. DEBFULLNAME and DEBEMAIL, as for Debian's own
# tools, name who makes the package. SOURCE_DATE_EPOCH is the time of all that is in it.
set(folder ${CMAKE_SOURCE_DIR}/tools/package)
set(made ${CMAKE_BINARY_DIR}/package)
set(name "$ENV{DEBFULLNAME}")
set(address "$ENV{DEBEMAIL}")
if(NOT name)
  set(name "The Godwit authors")
endif()
if(NOT address)
  set(address "godwit@example.org")
endif()
set(maintainer "${name} <${address}>")
execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/tools/commit.cmake
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH
configure_file(${folder}/changelog.in ${made}/changelog @ONLY)
install(FILES ${made}/changelog ${folder}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${folder}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME godwit)
install(FILES ${CMAKE_SOURCE_DIR}/tools/systemd/example.conf DESTINATION /etc/godwit)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON) # /etc is no folder of the prefix
set(CPACK_PACKAGE_DIRECTORY ${made})
set(CPACK_PACKAGE_CONTACT "${maintainer}")
set(CPACK_PRE_BUILD_SCRIPTS ${folder}/finish.cmake)
set(CPACK_DEBIAN_PACKAGE_NAME godwit)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The serial OpenBLAS itself: what shlibdeps finds may be any of the builds of OpenBLAS.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-serial, systemd | systemd-standalone-sysusers | systemd-sysusers")
# They are opened while the program runs: for RDMA, for --webhook, and for faster encryption.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ibverbs-providers, libcurl4, libibverbs1, librdmacm1, libssl3 | libssl3t64")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gnuplot-nox, python3")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "long computations on a flock of peers that may die
Godwit runs one long computation, such as training a model, on a flock of
identical peers: one program, the same command on every node, no coordinator.
Any peer may die, hang or join at any moment; the result has the same bytes
whatever happened on the way.
.
The package has the program, its manual pages and completions, headers for
jobs of one's own, and units of systemd: godwit@NAME.service runs a peer as
/etc/godwit/NAME.conf says.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${folder}/conffiles ${folder}/postinst ${folder}/prerm ${folder}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
