# The executor of simulated kernels, and how KERNEL sources are compiled for it.

# ThreadSanitizer is told of the executor's fibers, and looks at kernels but not at the executor itself.
file(GLOB facula_executor_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/simcuda/exec*.c)
add_library(facula_executor OBJECT ${facula_executor_sources})
target_include_directories(facula_executor PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_library(facula_executor_flags INTERFACE) # after facula_flags, whose sanitizers it takes back
if(FACULA_SANITIZE MATCHES thread)
    target_compile_options(facula_executor_flags INTERFACE -fno-sanitize=thread)
    target_compile_definitions(facula_executor_flags INTERFACE SIM_TSAN=1)
endif()
target_link_libraries(facula_executor PRIVATE facula_flags facula_executor_flags)

# What a simulator image is compiled with. A pointer less aligned than its type is a trap, as on a device; CUDA's built-in
# variables are unsigned, and mixing them with int is how kernels are written.
add_library(facula_kernel_image INTERFACE)
target_include_directories(facula_kernel_image INTERFACE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels)
add_library(facula_kernel_flags INTERFACE)
target_link_libraries(facula_kernel_image INTERFACE facula_flags facula_kernel_flags)
target_compile_options(facula_kernel_flags INTERFACE -Wno-sign-conversion -fno-sanitize=undefined -fsanitize=alignment
    $<IF:$<C_COMPILER_ID:GNU>,-fsanitize-undefined-trap-on-error,-fsanitize-trap=alignment>)
