/* The CPU back end's frame: which instruction set was chosen, and how kernels compiled once per set are reached. */
#ifndef FAC_SRC_BACKEND_CPU_CPU_H
#define FAC_SRC_BACKEND_CPU_CPU_H

#include "core/tensor.h"

/* Files named *.isa.c are compiled once per instruction set with FAC_ISA defined to its name, and may define only
   symbols named by FAC_ISA_NAME. FAC_ISA_LEVEL is the level as a number for #if. */
typedef enum { FAC_ISA_DEFAULT, FAC_ISA_AVX2, FAC_ISA_AVX512 } fac_isa;
#define FAC_ISA_CAT2_(a, b) a##_##b
#define FAC_ISA_CAT_(a, b) FAC_ISA_CAT2_(a, b)
#define FAC_ISA_NAME(f) FAC_ISA_CAT_(f, FAC_ISA)
#if defined(__AVX512F__)
#define FAC_ISA_LEVEL 2
#elif defined(__AVX2__)
#define FAC_ISA_LEVEL 1
#else
#define FAC_ISA_LEVEL 0
#endif
#if defined(__x86_64__)
#define FAC_ISA_X86 1
#else
#define FAC_ISA_X86 0
#endif
/* Whether the library was built with levels above the baseline's. */
#if FAC_HAVE_ISA_AVX2 && FAC_HAVE_ISA_AVX512
#define FAC_ISA_LEVELS 1
#else
#define FAC_ISA_LEVELS 0
#endif

/* Declares the variants of a function of a *.isa.c file: FAC_ISA_DECLARE(void, f, (int64_t n, float *x)). */
#define FAC_ISA_DECLARE(ret, f, params) \
    ret f##_default params;             \
    ret f##_avx2 params;                \
    ret f##_avx512 params
/* The variant for this machine: FAC_ISA_PICK(f)(n, x). */
#if FAC_ISA_LEVELS
#define FAC_ISA_PICK(f) \
    (fac__cpu_isa == FAC_ISA_AVX512 ? f##_avx512 : fac__cpu_isa == FAC_ISA_AVX2 ? f##_avx2 : f##_default)
#else
#define FAC_ISA_PICK(f) (f##_default)
#endif

#define FAC_CACHE_LINE 64 /* bytes, taken to be so by what fetches lines ahead */

/* Set once by fac__cpu_init: the level, and whether the maker is Intel, for choices that were measured. */
extern fac_isa fac__cpu_isa;
extern bool fac__cpu_intel;

/* Chooses the instruction set (FACULA_ISA=default|avx2|avx512 caps it) and fills the loop tables. Called by fac_init. */
fac_status fac__cpu_init(void);
/* Frees what kernels keep for the process. Called by fac_shutdown. */
void fac__cpu_shutdown(void);

/* Makes the pool the CPU's allocator, unless the program set one or FACULA_ALLOCATOR=immediate. Cannot fail. */
void fac__pool_start(void);

/* Tells the compiler that iterations of the next loop may run together although pointers may be equal. It permits, it does not
   demand: loops with inner loops stay scalar. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define FAC_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define FAC_IVDEP _Pragma("GCC ivdep")
#else
#define FAC_IVDEP
#endif

#endif
