# Finds what Facula is built from. A missing library ends the configuration with one line that names the package; the
# reasons for each are in docs/dependencies.md.

# Makes the imported target facula_dep::<name> from a header and a library. A further argument says how to do without.
function(facula_dependency name header library debian fedora)
    find_path(FACULA_${name}_INCLUDE ${header})
    find_library(FACULA_${name}_LIBRARY ${library})
    mark_as_advanced(FACULA_${name}_INCLUDE FACULA_${name}_LIBRARY)
    if(NOT FACULA_${name}_INCLUDE OR NOT FACULA_${name}_LIBRARY)
        message(FATAL_ERROR "${name} was not found: install ${debian} (Debian, Ubuntu) or ${fedora} (Fedora), "
                            "or run scripts/setup.sh${ARGN}.")
    endif()
    add_library(facula_dep::${name} UNKNOWN IMPORTED)
    set_target_properties(facula_dep::${name} PROPERTIES IMPORTED_LOCATION ${FACULA_${name}_LIBRARY}
                          INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${FACULA_${name}_INCLUDE})
endfunction()

if(NOT FACULA_OPGEN)
    facula_dependency(libyaml yaml.h yaml libyaml-dev libyaml-devel)
endif()
if(FACULA_ONEDNN)
    facula_dependency(oneDNN oneapi/dnnl/dnnl.h dnnl libdnnl-dev onednn-devel ", or do without: -DFACULA_ONEDNN=OFF")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(facula_x86 ON)
else()
    set(facula_x86 OFF)
endif()
if(FACULA_SLEEF AND facula_x86) # elsewhere the compiler has no vector twins to call
    facula_dependency(SLEEF sleef.h sleef libsleef-dev sleef-devel ", or do without: -DFACULA_SLEEF=OFF")
endif()
# Loaded at run time, by its name and then by its place: nothing of it is needed to link, and no header. OpenBLAS has BLAS in it; another
# LAPACK brings the BLAS that it needs.
if(FACULA_LAPACK)
    find_library(FACULA_LAPACK_LIBRARY NAMES libopenblas.so.0 openblas liblapack.so.3 lapack)
    mark_as_advanced(FACULA_LAPACK_LIBRARY)
    if(NOT FACULA_LAPACK_LIBRARY)
        message(FATAL_ERROR "LAPACK was not found: install libopenblas0-serial (Debian, Ubuntu) or openblas-serial (Fedora), "
                            "or run scripts/setup.sh, or name a library in FACULA_LAPACK_LIBRARY, or do without: -DFACULA_LAPACK=OFF.")
    endif()
endif()
facula_dependency(jansson jansson.h jansson libjansson-dev jansson-devel)
facula_dependency(zlib zlib.h z zlib1g-dev zlib-devel)
# What reads images: without them reading such a file is an error that says so.
if(FACULA_IMAGES)
    foreach(kind "png;png.h;png" "jpeg;jpeglib.h;jpeg")
        list(GET kind 0 name)
        list(GET kind 1 header)
        list(GET kind 2 library)
        find_path(FACULA_${name}_INCLUDE ${header})
        find_library(FACULA_${name}_LIBRARY ${library})
        mark_as_advanced(FACULA_${name}_INCLUDE FACULA_${name}_LIBRARY)
        if(FACULA_${name}_INCLUDE AND FACULA_${name}_LIBRARY)
            add_library(facula_dep::${name} UNKNOWN IMPORTED)
            set_target_properties(facula_dep::${name} PROPERTIES IMPORTED_LOCATION ${FACULA_${name}_LIBRARY}
                                  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${FACULA_${name}_INCLUDE})
        else()
            message(STATUS "lib${library} was not found: ${name} images are not read")
        endif()
    endforeach()
endif()
if(FACULA_TESTS)
    facula_dependency(cmocka cmocka.h cmocka libcmocka-dev libcmocka-devel)
endif()

find_package(Threads REQUIRED)

# The system's interpreter first: that is where distribution packages such as python3-torch are.
find_program(FACULA_PYTHON python3 HINTS /usr/bin)
mark_as_advanced(FACULA_PYTHON)
