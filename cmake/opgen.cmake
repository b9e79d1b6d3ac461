# The operator generator and its output. Variables: FACULA_GEN_DIR, FACULA_GEN_SOURCES; target facula_gen.
# While there are no operator files, facula_gen is empty and the rest still builds.

set(FACULA_GEN_DIR ${PROJECT_BINARY_DIR}/gen)
set(FACULA_GEN_SOURCES "")
file(MAKE_DIRECTORY ${FACULA_GEN_DIR}/include)

# The floor of the library is objects of its own, so that the generator links it before anything is generated.
file(GLOB_RECURSE facula_base_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c)
file(GLOB facula_opgen_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/opgen/*.c)
file(GLOB facula_schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/schema/*.yaml)
set(facula_functions ${PROJECT_SOURCE_DIR}/src/functions.yaml ${PROJECT_SOURCE_DIR}/src/nn/modules.yaml)
file(GLOB facula_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/facula/*.h)
list(FILTER facula_headers EXCLUDE REGEX "/(facula|strict)\\.h$") # which declare nothing
# Where gradient formulas lead: opgen reads which operators they call.
file(GLOB facula_formulas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/autograd/formulas/*.[ch]
     ${PROJECT_SOURCE_DIR}/src/ops/composite/*.[ch] ${PROJECT_SOURCE_DIR}/src/ops/sparse/*.[ch] ${PROJECT_SOURCE_DIR}/src/ops/nested/*.[ch]
     ${PROJECT_SOURCE_DIR}/src/ops/vendor/*.[ch] ${PROJECT_SOURCE_DIR}/src/ops/*.[ch]
     ${PROJECT_SOURCE_DIR}/src/ops/scalar/*.h)

if(facula_base_sources)
    add_library(facula_base OBJECT ${facula_base_sources})
    target_link_libraries(facula_base PRIVATE facula_flags)
    target_include_directories(facula_base PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(facula_base PRIVATE FACULA_BUILDING FAC_FUTEX=$<AND:$<BOOL:${FACULA_FUTEX}>,$<PLATFORM_ID:Linux>>)
endif()

if(FACULA_OPGEN) # made for this machine, where the library is for another
    add_executable(opgen IMPORTED)
    set_target_properties(opgen PROPERTIES IMPORTED_LOCATION ${FACULA_OPGEN})
elseif(facula_base_sources AND facula_opgen_sources)
    # An archive rather than the objects: opgen takes only the members that it needs, and has its own error record.
    add_library(facula_base_archive STATIC $<TARGET_OBJECTS:facula_base>)
    set_target_properties(facula_base_archive PROPERTIES LINKER_LANGUAGE C)
    add_executable(opgen ${facula_opgen_sources} ${PROJECT_SOURCE_DIR}/src/dispatch/schema.c
                   ${PROJECT_SOURCE_DIR}/src/dispatch/schema_text.c)
    target_compile_definitions(opgen PRIVATE FACULA_BUILDING)
    target_include_directories(opgen PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(opgen PRIVATE facula_flags facula_base_archive facula_dep::libyaml Threads::Threads)
endif()

if(TARGET opgen AND facula_schemas)
    set(FACULA_GEN_SOURCES ${FACULA_GEN_DIR}/ops_dispatch.c ${FACULA_GEN_DIR}/ops_signatures.c ${FACULA_GEN_DIR}/ops_table.c
        ${FACULA_GEN_DIR}/keywords.c ${FACULA_GEN_DIR}/modules.c)
    foreach(schema IN LISTS facula_schemas)
        cmake_path(GET schema STEM family)
        list(APPEND FACULA_GEN_SOURCES ${FACULA_GEN_DIR}/ops_${family}.c)
    endforeach()
    set(facula_gen_headers ${FACULA_GEN_DIR}/ops_gen.h ${FACULA_GEN_DIR}/ops_unread.h ${FACULA_GEN_DIR}/keywords_gen.h
        ${FACULA_GEN_DIR}/modules_gen.h ${FACULA_GEN_DIR}/loops_gen.h)
    foreach(part keywords.h ops.h ops_decl.h ops_macros.h ops.hpp modules.h modules_macros.h)
        list(APPEND facula_gen_headers ${FACULA_GEN_DIR}/include/facula/${part})
    endforeach()
    foreach(header IN LISTS facula_headers)
        cmake_path(GET header STEM name)
        list(APPEND facula_gen_headers ${FACULA_GEN_DIR}/include/facula/${name}_macros.h)
    endforeach()
    set(facula_left_out "")
    if(NOT FACULA_CUDA)
        set(facula_left_out --without CUDA)
    endif()
    add_custom_command(
        OUTPUT ${FACULA_GEN_SOURCES} ${facula_gen_headers} ${FACULA_GEN_DIR}/ops_test.json ${FACULA_GEN_DIR}/ops_names.txt
               ${FACULA_GEN_DIR}/api.json ${FACULA_GEN_DIR}/modules.json
        # The generator lives for a moment and frees nothing, so sanitized builds do not look for leaks in it.
        COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:opgen> -o ${FACULA_GEN_DIR}
                ${facula_left_out} ${facula_schemas} ${facula_functions} ${facula_headers} ${facula_formulas}
        DEPENDS opgen ${facula_schemas} ${facula_functions} ${facula_headers} ${facula_formulas}
        COMMENT "Generating the operators"
        VERBATIM)
    add_custom_target(facula_gen DEPENDS ${FACULA_GEN_SOURCES} ${facula_gen_headers})
else()
    add_custom_target(facula_gen)
endif()
