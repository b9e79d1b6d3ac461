# The man pages of functions, types and macros, written from api.json. Target: facula_man, which does nothing without Python.
set(facula_man_pages "")
if(FACULA_PYTHON AND TARGET opgen AND facula_schemas)
    set(facula_man_pages ${FACULA_GEN_DIR}/man.written)
    file(GLOB facula_reference_tools CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/reference/*.py)
    add_custom_command(
        OUTPUT ${facula_man_pages}
        COMMAND ${FACULA_PYTHON} -B ${PROJECT_SOURCE_DIR}/tools/reference/man.py ${FACULA_GEN_DIR}/api.json ${FACULA_GEN_DIR}/man
        COMMAND ${CMAKE_COMMAND} -E touch ${facula_man_pages}
        DEPENDS ${FACULA_GEN_DIR}/api.json ${facula_reference_tools}
        COMMENT "Writing the man pages"
        VERBATIM)
endif()
add_custom_target(facula_man ALL DEPENDS ${facula_man_pages})
add_dependencies(facula_man facula_gen)
