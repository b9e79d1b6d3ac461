/* Chooses the instruction set of the CPU's kernels, once, when the library starts. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pointwise.h"
#include "backend/cpu/workers.h"
#include "core/kinds.h"
#include "core/vendor.h"
#include <facula/tensor.h>
#include <stdlib.h>

#if FAC_ISA_X86
#include <cpuid.h>
#include <immintrin.h>
#endif

fac_isa fac__cpu_isa;
bool fac__cpu_intel, fac__cpu_bf16, fac__cpu_bf16_fast, fac__cpu_bf16_conv;
static const char *const isa_names[] = {"default", "avx2", "avx512"};

/* The best level that the processor and the operating system support. */
static fac_isa detect(void) {
#if FAC_ISA_LEVELS
    __builtin_cpu_init();
    /* Every processor with AVX2 also has F16C. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return FAC_ISA_DEFAULT;
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return avx512 ? FAC_ISA_AVX512 : FAC_ISA_AVX2;
#else
    return FAC_ISA_DEFAULT;
#endif
}

#if FAC_ISA_LEVELS
/* Tiles of bf16: bits 22 and 24 of EDX in leaf 7. */
static bool has_amx(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & d >> 24 & 1);
}
#endif

/* FACULA_ISA lowers the level, never raises it. */
static fac_status read_cap(fac_isa *isa) {
    const char *text = fac__env("FACULA_ISA");
    if (!text || !*text) return FAC_OK;
    for (size_t i = 0; i < FAC_COUNT(isa_names); i++) {
        if (strcmp(text, isa_names[i]) != 0) continue;
        if ((fac_isa)i < *isa) *isa = (fac_isa)i;
        return FAC_OK;
    }
    return FAC_FAIL(FAC_ERR_ARGUMENT, "FACULA_ISA is \"%s\"; expected \"default\", \"avx2\" or \"avx512\"", text);
}

#if FAC_HAVE_SPECIAL
#define FAC_INSTALL_SPECIAL(isa) fac__install_special_##isa(fac__loops)
#else
#define FAC_INSTALL_SPECIAL(isa) (void)0
#endif
/* Each level overwrites what the lower one put there. */
#define FAC_INSTALL_LEVEL(isa)                                   \
    do {                                                         \
        fac__install_arith_##isa(fac__loops);                    \
        fac__install_compare_##isa(fac__loops);                  \
        fac__install_math_##isa(fac__loops);                     \
        fac__install_activation_##isa(fac__loops);               \
        FAC_INSTALL_SPECIAL(isa);                                \
        fac__install_complex_##isa(fac__loops);                  \
        fac__install_casts_##isa(fac__casts, &fac__stream_copy); \
    } while (0)

fac_status fac__cpu_init(void) {
    fac_isa isa = detect();
    fac__pool_start();
    FAC_TRY(read_cap(&isa));
    FAC_TRY(fac__parallel_start());
    fac__onednn_start();
    fac__cpu_isa = isa;
    fac__vendor_block = isa == FAC_ISA_AVX512 ? 16 : 8;
#if FAC_ISA_LEVELS
    fac__cpu_intel = __builtin_cpu_is("intel");
    fac__cpu_bf16 = isa == FAC_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
    fac__cpu_bf16_fast = fac__cpu_bf16 && !fac__cpu_intel;
    fac__cpu_bf16_conv = fac__cpu_bf16_fast || (fac__cpu_bf16 && has_amx());
#endif
    fac__pointwise_register(FAC_CPU, fac__cpu_pointwise);
    FAC_INSTALL_LEVEL(default);
#if FAC_ISA_LEVELS
    if (isa >= FAC_ISA_AVX2) FAC_INSTALL_LEVEL(avx2);
    if (isa >= FAC_ISA_AVX512) FAC_INSTALL_LEVEL(avx512);
#endif
    return FAC_OK;
}

void fac__cpu_shutdown(void) {
    fac__workers_stop();
    fac__onednn_stop();
}

const char *fac_cpu_isa(void) { return isa_names[fac__cpu_isa]; }

void fac__stream_fence(void) {
#if FAC_ISA_X86
    _mm_sfence();
#endif
}
