# Headers, library, tool, man pages, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS facula EXPORT facula-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS facula_simcuda facula_simkernels LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/facula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY ${FACULA_GEN_DIR}/include/facula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${FACULA_GEN_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 OPTIONAL FILES_MATCHING PATTERN "*.3")
install(FILES ${FACULA_GEN_DIR}/api.json DESTINATION ${CMAKE_INSTALL_DATADIR}/facula)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The file finds its prefix by its own place, so that `cmake --install --prefix` may put everything elsewhere.
file(RELATIVE_PATH facula_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/facula.pc.in facula.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/facula.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(facula_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/facula)
install(EXPORT facula-targets NAMESPACE facula:: DESTINATION ${facula_package_dir} FILE facula-config.cmake)
write_basic_package_version_file(facula-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/facula-config-version.cmake DESTINATION ${facula_package_dir})
