# libfacula-simcuda.so: the simulated CUDA driver, a library of its own that exports the driver's entries. It knows nothing
# of Facula but the driver's ABI, and is found beside libfacula.so.

file(GLOB simcuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/simcuda/*.c)
list(FILTER simcuda_sources EXCLUDE REGEX "/exec[^/]*\\.c$") # cuda.cmake compiles the executor
add_library(facula_simcuda SHARED ${simcuda_sources} $<TARGET_OBJECTS:facula_executor>)
set_target_properties(facula_simcuda PROPERTIES OUTPUT_NAME facula-simcuda)
target_include_directories(facula_simcuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(facula_simcuda PRIVATE _GNU_SOURCE)
# As the executor, it tells ThreadSanitizer what the order is, and is not looked into itself.
target_link_libraries(facula_simcuda PRIVATE facula_flags facula_executor_flags Threads::Threads m)
if(NOT APPLE)
    # Its entries have the names of the real driver's: calls between them stay inside, also when both are loaded.
    target_link_options(facula_simcuda PRIVATE -Wl,-Bsymbolic)
endif()
add_dependencies(facula facula_simcuda facula_simkernels)
add_dependencies(facula_internals facula_simcuda facula_simkernels)
