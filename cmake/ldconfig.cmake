# Run at the end of an installation, with the library's folder in facula_libdir: the loader's cache takes the library in, if the
# loader looks there and we may write it; otherwise the user is told what is left to do. Under DESTDIR the files are only on their
# way into a package.
if(NOT "$ENV{DESTDIR}" STREQUAL "" OR NOT CMAKE_HOST_SYSTEM_NAME STREQUAL Linux)
    return()
endif()
find_program(LDCONFIG ldconfig PATHS /sbin /usr/sbin)
execute_process(COMMAND ${LDCONFIG} -v -N -X OUTPUT_VARIABLE folders ERROR_QUIET)
execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT "\n${folders}" MATCHES "\n${facula_libdir}:")
    message(STATUS "The loader does not look into ${facula_libdir}: link programs with -Wl,-rpath,${facula_libdir} or set "
                   "LD_LIBRARY_PATH; set PKG_CONFIG_PATH=${facula_libdir}/pkgconfig for pkg-config")
elseif(user EQUAL 0)
    execute_process(COMMAND ${LDCONFIG})
else()
    message(STATUS "Run 'sudo ldconfig', so that the loader finds the library in ${facula_libdir}")
endif()
