# The executor of simulated kernels, and how KERNEL sources are compiled for it.

# Sanitizers are told of the executor's fibers; ThreadSanitizer looks at kernels, but not at the executor itself.
file(GLOB facula_executor_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/simcuda/exec*.c)
add_library(facula_executor OBJECT ${facula_executor_sources})
target_include_directories(facula_executor PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_library(facula_executor_flags INTERFACE) # after facula_flags, whose sanitizers it takes back
if(FACULA_SANITIZE MATCHES thread)
    target_compile_options(facula_executor_flags INTERFACE -fno-sanitize=thread)
    target_compile_definitions(facula_executor_flags INTERFACE SIM_TSAN=1)
elseif(FACULA_SANITIZE MATCHES address)
    target_compile_definitions(facula_executor_flags INTERFACE SIM_ASAN=1)
endif()
target_link_libraries(facula_executor PRIVATE facula_flags facula_executor_flags)

# What a simulator image is compiled with. A pointer less aligned than its type is a trap, as on a device; CUDA's built-in
# variables are unsigned, and mixing them with int is how kernels are written.
add_library(facula_kernel_image INTERFACE)
target_include_directories(facula_kernel_image INTERFACE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels ${FACULA_GEN_DIR}) # for loops_gen.h
add_library(facula_kernel_flags INTERFACE)
target_link_libraries(facula_kernel_image INTERFACE facula_flags facula_kernel_flags)
target_compile_options(facula_kernel_flags INTERFACE -Wno-sign-conversion -Wno-tautological-compare
    -fno-sanitize=undefined -fsanitize=alignment
    $<IF:$<C_COMPILER_ID:GNU>,-fsanitize-undefined-trap-on-error,-fsanitize-trap=alignment>)

# ---- the built-in kernels, three readings of the same files ---------------------------------------------------------------------

file(GLOB facula_kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/*.cu)
set_source_files_properties(${facula_kernel_sources} PROPERTIES LANGUAGE C)

# The simulator's: a shared object of its own, loaded when CUDA is simulated and never otherwise.
add_library(facula_simkernels SHARED ${facula_kernel_sources} ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/sim_image.c)
set_target_properties(facula_simkernels PROPERTIES OUTPUT_NAME facula-simkernels LINKER_LANGUAGE C INSTALL_RPATH "$ORIGIN"
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_libraries(facula_simkernels PRIVATE facula_kernel_image $<TARGET_NAME_IF_EXISTS:facula_simcuda> m)

add_dependencies(facula_simkernels facula_gen)

# The launch table: part of the library.
add_library(facula_kernel_table OBJECT ${facula_kernel_sources})
target_compile_definitions(facula_kernel_table PRIVATE FACULA_BUILDING FAC_KERNEL_TABLE=1)
target_include_directories(facula_kernel_table PRIVATE ${FACULA_GEN_DIR}/include ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(facula_kernel_table PRIVATE facula_kernel_image)
add_dependencies(facula_kernel_table facula_gen)

# A device's: the library carries the sources, which NVRTC compiles at run time, and with nvcc a compressed fatbin, which is tried
# first.
set(FACULA_CUDA_IMAGES auto CACHE STRING "Device code of the kernels: nvcc, nvrtc (compiled at run time), none, or auto")
set(FACULA_CUDA_ARCHS "90" CACHE STRING "Architectures that nvcc makes machine code for; the last also as PTX")
set_property(CACHE FACULA_CUDA_IMAGES PROPERTY STRINGS auto nvcc nvrtc none)
find_program(FACULA_NVCC nvcc HINTS /usr/local/cuda/bin)
mark_as_advanced(FACULA_NVCC)
set(facula_cuda_images ${FACULA_CUDA_IMAGES})
if(facula_cuda_images STREQUAL auto)
    if(FACULA_SANITIZE)
        set(facula_cuda_images none) # sanitizers look at simulated devices
    elseif(FACULA_NVCC)
        set(facula_cuda_images nvcc)
    else()
        set(facula_cuda_images nvrtc)
    endif()
endif()
if(facula_cuda_images STREQUAL nvcc AND NOT FACULA_NVCC)
    message(FATAL_ERROR "FACULA_CUDA_IMAGES=nvcc, but nvcc was not found: install the CUDA toolkit, add its bin folder to PATH, "
                        "or choose nvrtc or none.")
endif()

# One translation unit, so that a device loads one module.
set(facula_all_kernels "")
foreach(source IN LISTS facula_kernel_sources)
    cmake_path(GET source FILENAME name)
    string(APPEND facula_all_kernels "#include \"${name}\"\n")
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda/kernels.cu CONTENT "${facula_all_kernels}" @ONLY)

if(facula_cuda_images STREQUAL nvcc)
    set(facula_fatbin ${PROJECT_BINARY_DIR}/cuda/kernels.fatbin)
    set(facula_nvcc_archs "")
    foreach(arch IN LISTS FACULA_CUDA_ARCHS)
        list(APPEND facula_nvcc_archs -gencode arch=compute_${arch},code=sm_${arch})
        set(last ${arch})
    endforeach()
    list(APPEND facula_nvcc_archs -gencode arch=compute_${last},code=compute_${last})
    # No contraction: a formula has the same bits on every device.
    add_custom_command(
        OUTPUT ${facula_fatbin}
        COMMAND ${FACULA_NVCC} -fatbin ${facula_nvcc_archs} --compress-mode=size --fmad=false --threads 2 --keep --keep-dir ${PROJECT_BINARY_DIR}/cuda -x cu
                -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels -I${FACULA_GEN_DIR}
                -MD -MF ${facula_fatbin}.d -MT ${facula_fatbin} -o ${facula_fatbin} ${PROJECT_BINARY_DIR}/cuda/kernels.cu
        DEPENDS ${PROJECT_BINARY_DIR}/cuda/kernels.cu ${FACULA_GEN_DIR}/loops_gen.h
        DEPFILE ${facula_fatbin}.d
        COMMENT "Compiling the CUDA kernels"
        VERBATIM)
    add_custom_target(facula_fatbin DEPENDS ${facula_fatbin})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cuda/runtime/images.c PROPERTIES
        COMPILE_DEFINITIONS "FAC_CUDA_FATBIN=\"${facula_fatbin}\"" OBJECT_DEPENDS ${facula_fatbin})
endif()

# ---- texts that the library carries: the dialect, for users' kernels, and what NVRTC makes device code of -----------------------

set(facula_texts ${PROJECT_BINARY_DIR}/cuda/texts.c)
set(facula_text_files "")
# An array `name` of {name to include by, text}; further arguments are such names, found under src/ or the kernels' folder.
function(facula_text_array name)
    set(blobs "")
    set(externs "")
    set(rows "")
    set(i 0)
    foreach(include IN LISTS ARGN)
        set(file ${PROJECT_SOURCE_DIR}/src/${include})
        if(include STREQUAL "facula.cu")
            set(file ${PROJECT_BINARY_DIR}/cuda/kernels.cu)
        elseif(include STREQUAL "loops_gen.h")
            set(file ${FACULA_GEN_DIR}/loops_gen.h)
        elseif(NOT EXISTS ${file})
            set(file ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/${include})
        endif()
        string(APPEND blobs "TEXT(${name}_${i}, \"${file}\")\n")
        string(APPEND rows "    {\"${include}\", ${name}_${i}},\n")
        list(APPEND facula_text_files ${file})
        math(EXPR i "${i} + 1")
    endforeach()
    string(APPEND facula_texts_code "${blobs}const fac_jit_text ${name}[] = {\n${rows}    {NULL, NULL}};\n"
           "const size_t fac__cuda_n_${name} = ${i};\n")
    string(REPLACE "fac__cuda_n_fac__cuda_" "fac__cuda_n_" facula_texts_code "${facula_texts_code}")
    set(facula_texts_code "${facula_texts_code}" PARENT_SCOPE)
    set(facula_text_files "${facula_text_files}" PARENT_SCOPE)
endfunction()

set(facula_texts_code "#include \"backend/cuda/runtime/compile.h\"\n\n#define TEXT(name, path) \\\n    __asm__(\".pushsection .rodata\\n.globl \" #name \"\\n.hidden \" #name \"\\n\" #name \":\\n.incbin \\\"\" path \"\\\"\\n.byte 0\\n.popsection\\n\"); \\\n    extern const char name[] __attribute__((visibility(\"hidden\")));\n")
facula_text_array(fac__cuda_dialect kernel.h kernel_host.h kernel_sim.h simcuda/exec.h simcuda/sim_device.h)
set(facula_device_texts "")
if(NOT facula_cuda_images STREQUAL none) # beside a fatbin too: for drivers and devices that cannot use it
    set(facula_device_texts facula.cu loops_gen.h core/philox.h core/truncate.h)
    foreach(pattern backend/cuda/kernels/*.cu backend/cuda/kernels/*.h ops/scalar/*.h)
        file(GLOB files RELATIVE ${PROJECT_SOURCE_DIR}/src CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${pattern})
        list(APPEND facula_device_texts ${files})
    endforeach()
    list(FILTER facula_device_texts EXCLUDE REGEX "/(kernel|kernel_host|kernel_sim|kernel_table|launch)\\.h$")
    list(TRANSFORM facula_device_texts REPLACE "^backend/cuda/kernels/" "")
endif()
facula_text_array(fac__cuda_sources ${facula_device_texts})
file(CONFIGURE OUTPUT ${facula_texts} CONTENT "${facula_texts_code}" @ONLY)
set_source_files_properties(${facula_texts} PROPERTIES OBJECT_DEPENDS "${facula_text_files}")
