# Finds what Facula is built from. A missing library ends the configuration with one line that names the package; the
# reasons for each are in docs/dependencies.md.

# Makes the imported target facula_dep::<name> from a header and a library.
function(facula_dependency name header library debian fedora)
    find_path(FACULA_${name}_INCLUDE ${header})
    find_library(FACULA_${name}_LIBRARY ${library})
    mark_as_advanced(FACULA_${name}_INCLUDE FACULA_${name}_LIBRARY)
    if(NOT FACULA_${name}_INCLUDE OR NOT FACULA_${name}_LIBRARY)
        message(FATAL_ERROR "${name} was not found: install ${debian} (Debian, Ubuntu) or ${fedora} (Fedora), "
                            "or run scripts/setup.sh.")
    endif()
    add_library(facula_dep::${name} UNKNOWN IMPORTED)
    set_target_properties(facula_dep::${name} PROPERTIES IMPORTED_LOCATION ${FACULA_${name}_LIBRARY}
                          INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${FACULA_${name}_INCLUDE})
endfunction()

facula_dependency(libyaml yaml.h yaml libyaml-dev libyaml-devel)
facula_dependency(oneDNN oneapi/dnnl/dnnl.h dnnl libdnnl-dev onednn-devel)
facula_dependency(SLEEF sleef.h sleef libsleef-dev sleef-devel)
facula_dependency(jansson jansson.h jansson libjansson-dev jansson-devel)
facula_dependency(libzip zip.h zip libzip-dev libzip-devel)
facula_dependency(zlib zlib.h z zlib1g-dev zlib-devel)
if(FACULA_TESTS)
    facula_dependency(cmocka cmocka.h cmocka libcmocka-dev libcmocka-devel)
endif()

find_package(Threads REQUIRED)

# The system's interpreter first: that is where distribution packages such as python3-torch are.
find_program(FACULA_PYTHON python3 HINTS /usr/bin)
mark_as_advanced(FACULA_PYTHON)
