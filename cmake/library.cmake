# libfacula: compiled once into objects, linked into the shared library that users get and into a static one whose
# internals the unit tests see. Files named *.isa.c are compiled once per instruction set, with FAC_ISA saying which.

file(GLOB_RECURSE facula_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
file(GLOB_RECURSE facula_isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/*.isa.c)
list(FILTER facula_sources EXCLUDE REGEX "\\.isa\\.c$|/src/base/|/src/simcuda/|/kernels/sim_image\\.c")

if(FACULA_ONEDNN)
    list(FILTER facula_sources EXCLUDE REGEX "/onednn_none\\.c$")
else()
    list(FILTER facula_sources EXCLUDE REGEX "/onednn(_conv)?\\.c$|/conv_library\\.c$")
endif()
if(FACULA_LAPACK)
    list(FILTER facula_sources EXCLUDE REGEX "/lapack_none\\.c$")
    cmake_path(GET FACULA_LAPACK_LIBRARY FILENAME facula_lapack_name)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/lapack.c PROPERTIES
        COMPILE_DEFINITIONS "FAC_LAPACK_NAME=\"${facula_lapack_name}\";FAC_LAPACK_PATH=\"${FACULA_LAPACK_LIBRARY}\"")
else()
    list(FILTER facula_sources EXCLUDE REGEX "/lapack\\.c$")
endif()
foreach(kind png jpeg)
    string(TOUPPER ${kind} upper)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/data/image_${kind}.c PROPERTIES
        COMPILE_DEFINITIONS FAC_HAVE_${upper}=$<TARGET_EXISTS:facula_dep::${kind}>)
endforeach()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/start/start.c PROPERTIES COMPILE_DEFINITIONS FAC_HAVE_CUDA=$<BOOL:${FACULA_CUDA}>)
if(NOT FACULA_CUDA) # the compilers of src/jit/ serve device code
    list(FILTER facula_sources EXCLUDE REGEX "/backend/cuda/|/src/jit/")
endif()

# What all objects of the library are compiled with.
add_library(facula_internal INTERFACE)
target_include_directories(facula_internal INTERFACE
    ${PROJECT_SOURCE_DIR}/include ${FACULA_GEN_DIR}/include ${PROJECT_SOURCE_DIR}/src ${FACULA_GEN_DIR})
target_link_libraries(facula_internal INTERFACE facula_flags Threads::Threads
    $<TARGET_NAME_IF_EXISTS:facula_dep::oneDNN> $<TARGET_NAME_IF_EXISTS:facula_dep::SLEEF>
    $<TARGET_NAME_IF_EXISTS:facula_dep::png> $<TARGET_NAME_IF_EXISTS:facula_dep::jpeg>
    facula_dep::jansson facula_dep::zlib m ${CMAKE_DL_LIBS})

add_library(facula_objects OBJECT ${facula_sources} ${facula_texts} ${FACULA_GEN_SOURCES})
target_link_libraries(facula_objects PRIVATE facula_internal)
target_compile_definitions(facula_objects PRIVATE FACULA_BUILDING)
add_dependencies(facula_objects facula_gen)
# Nobody steps through what opgen writes: a debug build, and one with sanitizers above all, is made sooner without optimising it.
set_source_files_properties(${FACULA_GEN_SOURCES} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Debug>:-O0>)
# That is most of the library, and small is better than fast for it, as it is for composites and formulas, whose time is that of the
# operators they call. Tables for unwinding are half as large with frame pointers. What every call goes through is compiled for speed alone.
set(facula_fast_families binary copy creation dispatch fill reduce unary view)
list(TRANSFORM facula_fast_families REPLACE "(.+)" "${FACULA_GEN_DIR}/ops_\\1.c")
set(facula_small_sources ${FACULA_GEN_SOURCES})
list(REMOVE_ITEM facula_small_sources ${facula_fast_families})
set(facula_framed_sources ${facula_sources} ${facula_small_sources})
list(FILTER facula_framed_sources EXCLUDE REGEX "/src/(core|dispatch|autograd|base)/")
set_property(SOURCE ${facula_framed_sources} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-fno-omit-frame-pointer>)
list(APPEND facula_small_sources ${facula_sources})
list(FILTER facula_small_sources INCLUDE REGEX
     "/gen/|/src/(ops/(composite|batch|sparse)|autograd/formulas|jit|io)/|/src/data/(dataset|loader|image)|/cpu/kernels/quantized_linear\\.c$")
list(FILTER facula_small_sources EXCLUDE REGEX "/sparse/(check|host|merge|order|rows)\\.c$") # loops over elements
set_property(SOURCE ${facula_small_sources} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
# An error handler that is called from here may throw.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/core/error.c PROPERTIES COMPILE_OPTIONS -fexceptions)
set(facula_all_objects $<TARGET_OBJECTS:facula_objects>)
if(FACULA_CUDA)
    list(APPEND facula_all_objects $<TARGET_OBJECTS:facula_kernel_table>)
endif()
if(TARGET facula_base)
    list(APPEND facula_all_objects $<TARGET_OBJECTS:facula_base>)
endif()

if(facula_x86 AND FACULA_LEVELS)
    set(facula_isas default avx2 avx512)
else()
    set(facula_isas default)
endif()
set(facula_isa_flags_default "")
set(facula_isa_flags_avx2 -mavx2 -mfma -mf16c)
set(facula_isa_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq ${facula_isa_flags_avx2})
# What GCC knows of a static function's registers makes it forget, at a return after its call, that the upper halves of vector registers
# are in use. Many Intel processors then take a hundred cycles for the next scalar instruction of the base level.
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    list(APPEND facula_isa_flags_avx2 -fno-ipa-ra)
    list(APPEND facula_isa_flags_avx512 -fno-ipa-ra)
endif()
# GCC's frames that outlive their function are aligned to 32 bytes only, and vectors of 64 bytes fault there.
if(FACULA_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    list(APPEND facula_isa_flags_avx512 "SHELL:--param asan-use-after-return=0")
endif()
# Whose loops are of vectors as they stand: a compiler that looks for more of them writes each many times over. Code that is ordered for
# a processor with such vectors is faster by a twentieth on others too.
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    set(facula_fft_tune "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,facula_avx512>:-mtune=skylake-avx512>")
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/fft/fft.isa.c PROPERTIES
        COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2;-fno-tree-vectorize;${facula_fft_tune}>")
    # Whose loops are as long as a vector.
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/kernels/rnn.isa.c PROPERTIES
        COMPILE_OPTIONS "$<$<STREQUAL:$<TARGET_PROPERTY:NAME>,facula_avx512>:-mprefer-vector-width=512>")
endif()
if(facula_isa_sources)
    foreach(isa IN LISTS facula_isas)
        add_library(facula_${isa} OBJECT ${facula_isa_sources})
        target_link_libraries(facula_${isa} PRIVATE facula_internal)
        target_compile_definitions(facula_${isa} PRIVATE FACULA_BUILDING FAC_ISA=${isa}
            FAC_HAVE_SLEEF=$<TARGET_EXISTS:facula_dep::SLEEF>)
        # Sinking would put a call of an elementary function under the condition of the selection that follows it, and a
        # loop with a conditional call does not vectorise.
        # A short loop that lies across two lines of the instruction cache is slower by up to a tenth, and which do so would
        # change with every line of code before it.
        # Where there are better levels the default one is for processors of before 2013: it may be smaller and slower.
        set(facula_isa_speed -O3 -falign-functions=64 -falign-loops=64)
        if(isa STREQUAL avx2) # whose processors decode 32 bytes at a time
            set(facula_isa_speed -O3 -falign-functions=32 -falign-loops=32)
        elseif(isa STREQUAL default AND NOT facula_isas STREQUAL default AND CMAKE_C_COMPILER_ID STREQUAL GNU)
            set(facula_isa_speed -O2 -ftree-vectorize -fvect-cost-model=dynamic)
        endif()
        target_compile_options(facula_${isa} PRIVATE ${facula_isa_flags_${isa}} "$<$<CONFIG:Release>:${facula_isa_speed}>"
            $<$<C_COMPILER_ID:GNU>:-fno-tree-sink>)
        add_dependencies(facula_${isa} facula_gen)
        list(APPEND facula_all_objects $<TARGET_OBJECTS:facula_${isa}>)
    endforeach()
endif()
# GCC would unroll what is left of a loop after whole vectors, up to 31 elements one by one. That is half of the code of these files.
set(facula_plain_loops activation arith cast compare complex fold grid math order scan scatter_runs special)
list(TRANSFORM facula_plain_loops REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/backend/cpu/kernels/\\1.isa.c")
set_property(SOURCE ${facula_plain_loops} APPEND PROPERTY COMPILE_OPTIONS
             "$<$<AND:$<CONFIG:Release>,$<C_COMPILER_ID:GNU>>:--param=max-completely-peeled-insns=60>")
# Which variants exist, for the code that chooses one at start.
foreach(isa IN LISTS facula_isas)
    string(TOUPPER ${isa} upper)
    target_compile_definitions(facula_internal INTERFACE FAC_HAVE_ISA_${upper}=1)
endforeach()

# facula_relocatable(NAME FLAG COMMAND...): all objects as one, in <build>/NAME, which the command then changes in place.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/objects.rsp CONTENT "$<JOIN:${facula_all_objects},\n>\n")
function(facula_relocatable name flag)
    add_custom_command(
        OUTPUT ${PROJECT_BINARY_DIR}/${name}
        COMMAND ${CMAKE_LINKER} -r ${flag} -o ${name} @objects.rsp
        COMMAND ${ARGN} ${name}
        DEPENDS ${facula_all_objects}
        WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
        COMMENT "Joining the library's objects into ${name}"
        VERBATIM)
endfunction()

# What the library offers: all that is FAC_API, or what the list of a selective build names. The linker takes what that reaches:
# src/dispatch/gather.h.
include(CheckLinkerFlag)
set(facula_map ${PROJECT_SOURCE_DIR}/cmake/facula.map)
set(facula_gather -Wl,-z,nostart-stop-gc)
if(FACULA_OPERATORS)
    if(NOT EXISTS ${FACULA_OPERATORS} OR IS_DIRECTORY ${FACULA_OPERATORS})
        message(FATAL_ERROR "FACULA_OPERATORS: there is no file ${FACULA_OPERATORS}")
    elseif(NOT FACULA_PYTHON)
        message(FATAL_ERROR "FACULA_OPERATORS needs python3")
    endif()
    set(facula_select ${FACULA_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/exports.py)
    set(facula_not_selected "")
    if(NOT FACULA_CUDA)
        set(facula_not_selected --without-cuda)
    endif()
    execute_process(COMMAND ${facula_select} check ${FACULA_OPERATORS} ${PROJECT_SOURCE_DIR} ${facula_not_selected}
                    RESULT_VARIABLE unknown OUTPUT_VARIABLE notes ERROR_VARIABLE lines)
    if(notes)
        string(STRIP "${notes}" notes)
        message(STATUS "FACULA_OPERATORS: ${notes}")
    endif()
    if(unknown)
        string(REPLACE "\n" "\n  " lines "\n${lines}") # indented lines stay lines
        message(FATAL_ERROR "FACULA_OPERATORS:${lines}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FACULA_OPERATORS})
    # What only some kinds of tensors and the special functions need is started if the list speaks of them.
    file(READ ${FACULA_OPERATORS} facula_list)
    foreach(kind "SPARSE;sparse|to_dense|coalesce" "NESTED;nested" "VENDOR;mkldnn" "CODED;quantize|float8|scaled_mm"
            "SPECIAL;special|gamma|erfinv|i0|zeta|kaiser" "BATCHED;vmap|func_")
        list(GET kind 0 name)
        list(GET kind 1 pattern)
        if(NOT facula_list MATCHES "${pattern}")
            target_compile_definitions(facula_objects PRIVATE FAC_HAVE_${name}=0)
        endif()
    endforeach()
    set(facula_map ${PROJECT_BINARY_DIR}/selected.map)
    add_custom_command(
        OUTPUT ${facula_map}
        COMMAND ${facula_select} map ${FACULA_OPERATORS} ${PROJECT_SOURCE_DIR} ${FACULA_GEN_DIR}/ops_names.txt ${facula_map}
                ${facula_not_selected}
        DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.py ${FACULA_OPERATORS} ${FACULA_GEN_DIR}/ops_names.txt
        COMMENT "Selecting what ${FACULA_OPERATORS} names"
        VERBATIM)
    add_custom_target(facula_selection DEPENDS ${facula_map})
    set(facula_gather -Wl,-z,start-stop-gc)
endif()
check_linker_flag(C ${facula_gather} FACULA_LINKER_GATHERS)
if(NOT FACULA_LINKER_GATHERS)
    if(FACULA_OPERATORS)
        message(FATAL_ERROR "FACULA_OPERATORS needs GNU ld 2.37 or later, or lld 13: the linker does not know -z start-stop-gc.")
    endif()
    set(facula_gather "") # as an older linker always does
endif()

add_library(facula SHARED ${facula_all_objects})
if(TARGET facula_selection)
    add_dependencies(facula facula_selection)
endif()
add_library(facula::facula ALIAS facula)
# Before 1.0 a minor version may change the interface, so the name that programs are linked with says it.
set_target_properties(facula PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINK_DEPENDS ${facula_map})
target_link_libraries(facula PRIVATE facula_internal)
target_include_directories(facula PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${FACULA_GEN_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_dependencies(facula facula_gen)
if(NOT APPLE)
    # Calls of our own public functions are bound here rather than through the table that programs could interpose in.
    target_link_options(facula PRIVATE -Wl,--version-script=${facula_map} -Wl,-Bsymbolic-functions)
    target_link_options(facula PRIVATE $<$<CONFIG:Release,MinSizeRel>:-Wl,--gc-sections> ${facula_gather} ${facula_packed_relocations})
    # Once loaded it stays: threads that end later run its destructors, and a second dlopen finds no room for its thread-local memory.
    target_link_options(facula PRIVATE -Wl,-z,nodelete)
    target_link_options(facula PRIVATE -Wl,--compress-debug-sections=zlib)
    if(NOT FACULA_SANITIZE)
        target_link_options(facula PRIVATE -Wl,--no-undefined)
    endif()
endif()

# The library for programs that contain it: one object, in which the linker leaves out the functions that nothing reaches, and whose
# names of our own are local, so that none can clash with the program's. Sections of one name, as those of two files' functions `run`,
# stay apart in it, else a program that needs one would have both.
if(APPLE OR FACULA_LTO)
    add_library(facula_archive STATIC ${facula_all_objects})
else()
    facula_relocatable(facula-static.o --unique ${CMAKE_OBJCOPY} --strip-debug --localize-hidden)
    add_library(facula_archive STATIC ${PROJECT_BINARY_DIR}/facula-static.o)
endif()
set_target_properties(facula_archive PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME facula)

# What the tests link to: the same objects as one shared library that shows its internals, so that they do not lie in each of some
# hundred programs. A test is compiled with -fPIC: it may not hold a copy of the library's data. A release build's has no debug
# information, which would be a tenth of the build folder: tests are debugged in a debug build.
set(facula_shared_internals ON)
if(APPLE OR FACULA_LTO OR NOT FACULA_PYTHON OR FACULA_SANITIZE MATCHES fuzzer OR CMAKE_C_FLAGS MATCHES "--coverage")
    set(facula_shared_internals OFF) # what counts reached lines does so in each object alone, and starts in the program
endif()
if(facula_shared_internals)
    facula_relocatable(facula-internals.o $<IF:$<CONFIG:Release,MinSizeRel>,--strip-debug,--compress-debug-sections=zlib>
        ${FACULA_PYTHON} ${PROJECT_SOURCE_DIR}/cmake/expose.py)
    add_library(facula_internals SHARED EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/facula-internals.o)
    target_link_options(facula_internals PRIVATE -Wl,-Bsymbolic -Wl,--compress-debug-sections=zlib)
    target_compile_options(facula_internals INTERFACE -fPIC)
    target_link_options(facula_internals INTERFACE -Wl,-z,nocopyreloc)
else()
    add_library(facula_internals STATIC EXCLUDE_FROM_ALL ${facula_all_objects})
endif()
set_target_properties(facula_internals PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME facula-internals)
target_link_libraries(facula_internals PUBLIC facula_internal)
add_dependencies(facula_internals facula_gen)
# For a test that runs as a user who may not look into the build folder: the same in the program.
add_library(facula_internals_inside INTERFACE)
if(facula_shared_internals)
    target_link_libraries(facula_internals_inside INTERFACE ${PROJECT_BINARY_DIR}/facula-internals.o facula_internal)
    add_dependencies(facula_internals_inside facula_internals)
else()
    target_link_libraries(facula_internals_inside INTERFACE facula_internals)
endif()

# What programs of ours that use the public interface alone are compiled with: the promise to users is C11 without warnings,
# and they make no use of C's conversions.
add_library(facula_user INTERFACE)
target_link_libraries(facula_user INTERFACE facula facula_flags)
target_compile_options(facula_user INTERFACE -Wpedantic)
target_compile_definitions(facula_user INTERFACE FACULA_STRICT)
