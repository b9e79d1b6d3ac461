# Flags that every target of ours is built with, as the interface target facula_flags.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()
set(FACULA_DEBUG_INFO -g CACHE STRING "How much debug information: -g, -g1 (lines of backtraces) or -g0 (builds fastest)")
set(CMAKE_C_FLAGS_RELEASE "-O2 ${FACULA_DEBUG_INFO} -DNDEBUG")
set(CMAKE_C_FLAGS_MINSIZEREL "-Os ${FACULA_DEBUG_INFO} -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 ${FACULA_DEBUG_INFO} -fno-omit-frame-pointer -DFAC_DEBUG=1")
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)

find_program(FACULA_CCACHE ccache)
mark_as_advanced(FACULA_CCACHE)
if(FACULA_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${FACULA_CCACHE})
endif()

add_library(facula_flags INTERFACE)
target_compile_options(facula_flags INTERFACE
    -Wall -Wextra -Wconversion -Werror=implicit-function-declaration -Werror=int-conversion
    -Werror=incompatible-pointer-types
    # Nobody reads errno or the floating-point flags after an operator, and both stop loops from vectorising. Contraction
    # is off so that a formula gives the same bits in every instruction set; where a fused multiply-add is wanted it is
    # written as one.
    -fno-math-errno -fno-trapping-math -ffp-contract=off
    -fno-semantic-interposition
    # Errors name the library's files as they stand in the tree, wherever that is.
    -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
    # The linker leaves out what nothing reaches.
    $<$<CONFIG:Release,MinSizeRel>:-ffunction-sections;-fdata-sections>
    # A sixth of a small library would tell how to unwind it.
    $<$<CONFIG:MinSizeRel>:-fno-asynchronous-unwind-tables;-fno-unwind-tables>)
if(FACULA_WERROR)
    target_compile_options(facula_flags INTERFACE -Werror)
endif()
if(FACULA_SANITIZE)
    target_compile_options(facula_flags INTERFACE -fsanitize=${FACULA_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(facula_flags INTERFACE -fsanitize=${FACULA_SANITIZE})
endif()

if(FACULA_LTO)
    include(CheckIPOSupported)
    check_ipo_supported()
    set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
    add_compile_definitions(FAC_LTO=1)
endif()

# Relative relocations in a bitmap: a sixteenth of the library would be theirs. The loader has to know it, as glibc 2.36 does.
include(CheckCSourceCompiles)
check_c_source_compiles("#include <features.h>
#if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 36)
#error \"the loader does not know them\"
#endif
int main(void) { return 0; }" FACULA_LOADER_UNPACKS)
set(facula_packed_relocations $<$<BOOL:${FACULA_LOADER_UNPACKS}>:-Wl,-z,pack-relative-relocs>)
