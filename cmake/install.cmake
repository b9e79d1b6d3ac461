# What `make install` puts down: headers, both libraries, the tool, man pages, documents, examples, and how pkg-config and CMake
# find it all.
include(CMakePackageConfigHelpers)

# What the library itself is linked with, which a program that contains it has to be linked with too: paths, and as flags.
set(facula_private_libs "")
foreach(name oneDNN SLEEF png jpeg jansson zlib)
    if(TARGET facula_dep::${name})
        list(APPEND facula_private_libs ${FACULA_${name}_LIBRARY})
    endif()
endforeach()
set(facula_private_flags "")
foreach(library IN LISTS facula_private_libs)
    cmake_path(GET library PARENT_PATH folder)
    cmake_path(GET library STEM name)
    string(REGEX REPLACE "^lib" "" name ${name})
    if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        string(APPEND facula_private_flags "-L${folder} ")
    endif()
    string(APPEND facula_private_flags "-l${name} ")
endforeach()
string(APPEND facula_private_flags "-lpthread -lm")
list(APPEND facula_private_libs m)
foreach(library IN LISTS CMAKE_DL_LIBS)
    list(APPEND facula_private_libs ${library})
    string(APPEND facula_private_flags " -l${library}")
endforeach()

install(TARGETS facula EXPORT facula-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS facula_archive ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(FACULA_CUDA)
    install(TARGETS facula_simcuda facula_simkernels LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/facula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY ${FACULA_GEN_DIR}/include/facula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${FACULA_GEN_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 OPTIONAL FILES_MATCHING PATTERN "*.3")
install(FILES ${FACULA_GEN_DIR}/api.json ${FACULA_GEN_DIR}/modules.json DESTINATION ${CMAKE_INSTALL_DATADIR}/facula)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# What `make docs` has written, if it has.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/html DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL PATTERN ".buildinfo" EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 OPTIONAL FILES_MATCHING PATTERN "*.7")
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "man" EXCLUDE)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/facula/examples PATTERN CMakeLists.txt EXCLUDE)

# The files find their prefix by their own place, so that `cmake --install --prefix` may put everything elsewhere.
file(RELATIVE_PATH facula_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(package facula facula-static)
    configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(facula_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/facula)
install(EXPORT facula-targets NAMESPACE Facula:: DESTINATION ${facula_package_dir})
configure_package_config_file(cmake/facula-config.cmake.in facula-config.cmake INSTALL_DESTINATION ${facula_package_dir}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(facula-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/facula-config.cmake ${PROJECT_BINARY_DIR}/facula-config-version.cmake
        DESTINATION ${facula_package_dir})

# The loader learns of the library, where that is ours to do; elsewhere the user is told what is left to do.
install(CODE "set(facula_libdir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\")")
install(SCRIPT cmake/ldconfig.cmake)
