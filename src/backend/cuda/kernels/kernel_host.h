/* What CUDA C has built in, in C on top of the simulator's executor: vectors, barriers, warps, atomics. Included by kernel.h
   for the image and for the table, where bodies are read but never run. */
#ifndef FAC_KERNEL_HOST_H
#define FAC_KERNEL_HOST_H

#include "simcuda/exec.h"
#include "simcuda/sim_device.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define KDEV static inline
#define KDEV_CALL static __attribute__((noinline, unused))
#define KSHARED(T, name, n)       \
    static const char name##_key; \
    T *const name = (T *)sim_shared(&name##_key, sizeof(T) * (n), #name)
#define KSHARED2(T, name, rows, columns) \
    static const char name##_key;        \
    T(*const name)[columns] = (T(*)[columns])sim_shared(&name##_key, sizeof(T) * (rows) * (columns), #name)
#define KSHARED_DYNAMIC(T, name) T *const name = (T *)sim_shared_dynamic()
#define KCONSTANT(T, name, n) static const T name[n]
#define KASSERT(condition)                                         \
    do {                                                           \
        if (!(condition)) sim_fail(710, "assertion: " #condition); \
    } while (0)
#define __trap() sim_fail(719, "trap")

/* ---- where a thread stands ---------------------------------------------------------------------------------------------- */

#define threadIdx (sim_self.thread)
#define blockIdx (sim_self.block)
#define blockDim (sim_self.block_dim)
#define gridDim (sim_self.grid_dim)
enum { warpSize = 32 };

/* ---- vectors: as aligned as on a device, and free to alias what they are made of ------------------------------------------- */

static inline void *k_aligned(const void *p, size_t bytes, const char *text) {
    if ((uintptr_t)p % bytes) sim_fail(716, text);
    return (void *)(uintptr_t)p;
}
#define KVECTOR(T, p) (*(T *)k_aligned(p, _Alignof(T), "misaligned address: " #p " is not aligned for a " #T))
#define K_VECTOR(bytes) struct __attribute__((aligned(bytes), may_alias))
typedef K_VECTOR(8) float2 { float x, y; }
float2;
typedef K_VECTOR(16) float4 { float x, y, z, w; }
float4;
typedef K_VECTOR(16) double2 { double x, y; }
double2;
typedef K_VECTOR(8) int2 { int x, y; }
int2;
typedef K_VECTOR(16) int4 { int x, y, z, w; }
int4;
typedef K_VECTOR(8) uint2 { unsigned x, y; }
uint2;
typedef K_VECTOR(16) uint4 { unsigned x, y, z, w; }
uint4;

/* ---- bits ------------------------------------------------------------------------------------------------------------------- */

/* `to` with the bits of `from`, of the same size. */
#define K_BITS(name, To, From)          \
    static inline To name(From from) {  \
        To to;                          \
        memcpy(&to, &from, sizeof(to)); \
        return to;                      \
    }
K_BITS(__float_as_uint, unsigned, float)
K_BITS(__float_as_int, int, float)
K_BITS(__uint_as_float, float, unsigned)
K_BITS(__int_as_float, float, int)
K_BITS(__double_as_longlong, long long, double)
K_BITS(__longlong_as_double, double, long long)
#define __popc(x) __builtin_popcount(x)
#define __popcll(x) __builtin_popcountll((unsigned long long)(x))
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double normcdf(double x) { return 0.5 * erfc(-0.70710678118654752440 * x); }
static inline float normcdff(float x) { return (float)normcdf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline long long clock64(void) { return 0; }
#define __ldg(p) (*(p))

/* ---- barriers ----------------------------------------------------------------------------------------------------------------- */

#define K_HERE __FILE__, __LINE__
#define __syncthreads() ((void)sim_syncthreads(SIM_COUNT, 1, K_HERE))
#define __syncthreads_count(p) sim_syncthreads(SIM_COUNT, !!(p), K_HERE)
#define __syncthreads_and(p) sim_syncthreads(SIM_ALL, !!(p), K_HERE)
#define __syncthreads_or(p) sim_syncthreads(SIM_ANY, !!(p), K_HERE)
/* Weak memory order is not simulated. */
#define __threadfence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __threadfence()
#define __threadfence_system() __threadfence()

/* ---- warps -------------------------------------------------------------------------------------------------------------------- */

static inline unsigned k_mask(unsigned given) { return given ? given : 0xffffffffu; }
/* The mask may be left out: then `+ 0u` is all there is. */
#define __syncwarp(...) sim_syncwarp(k_mask(__VA_ARGS__ + 0u), K_HERE)
#define __ballot_sync(mask, p) sim_ballot(mask, !!(p), K_HERE)
#define __any_sync(mask, p) (sim_ballot(mask, !!(p), K_HERE) != 0)
#define __all_sync(mask, p) (sim_ballot(mask, !(p), K_HERE) == 0)
#define __match_any_sync(mask, v) sim_match_any(mask, k_word(v), K_HERE)
/* The simulator's threads run one after the other: none but the caller is active for sure. */
#define __activemask() (1u << sim_lane())

/* Source lanes; `width` cuts the warp into parts that do not hear of each other. */
static inline int k_lane_idx(int source, int width) {
    int lane = sim_lane();
    return (lane & ~(width - 1)) + (source & (width - 1));
}
static inline int k_lane_down(int delta, int width) {
    int lane = sim_lane();
    return (lane & (width - 1)) + delta < width ? lane + delta : lane;
}
static inline int k_lane_up(int delta, int width) {
    int lane = sim_lane();
    return (lane & (width - 1)) >= delta ? lane - delta : lane;
}
static inline int k_lane_xor(int bits, int width) {
    int lane = sim_lane(), other = lane ^ bits;
    return (other & ~(width - 1)) <= (lane & ~(width - 1)) ? other : lane;
}

/* One function per type that shuffles take; k_word is its value as 64 bits. */
#define K_SHFL(T, name)                                                                         \
    static inline T k_shfl_##name(unsigned mask, T v, int source, const char *file, int line) { \
        uint64_t word = 0;                                                                      \
        memcpy(&word, &v, sizeof(v));                                                           \
        word = sim_shfl(mask, word, source, file, line);                                        \
        memcpy(&v, &word, sizeof(v));                                                           \
        return v;                                                                               \
    }                                                                                           \
    static inline uint64_t k_word_##name(T v) {                                                 \
        uint64_t word = 0;                                                                      \
        memcpy(&word, &v, sizeof(v));                                                           \
        return word;                                                                            \
    }
#define K_SHFL_TYPES(X, sep)                                                                                  \
    X(int, int)                                                                                               \
    sep() X(unsigned, uint) sep() X(long, long) sep() X(unsigned long, ulong) sep() X(long long, llong) sep() \
        X(unsigned long long, ullong) sep() X(float, float) sep() X(double, double)
#define K_NOTHING()
#define K_COMMA() ,
K_SHFL_TYPES(K_SHFL, K_NOTHING)
#define K_SHFL_CASE(T, name) \
    T:                       \
    k_shfl_##name
#define K_WORD_CASE(T, name) \
    T:                       \
    k_word_##name
#define k_shfl(mask, v, source) _Generic((v), K_SHFL_TYPES(K_SHFL_CASE, K_COMMA))(mask, v, source, K_HERE)
#define k_word(v) _Generic((v), K_SHFL_TYPES(K_WORD_CASE, K_COMMA))(v)
/* The width may be left out. */
#define K_LANE(kind, ...) K_LANE_(kind, __VA_ARGS__, warpSize, 0)
#define K_LANE_(kind, source, width, ...) k_lane_##kind((int)(source), width)
#define __shfl_sync(mask, v, ...) k_shfl(mask, v, K_LANE(idx, __VA_ARGS__))
#define __shfl_down_sync(mask, v, ...) k_shfl(mask, v, K_LANE(down, __VA_ARGS__))
#define __shfl_up_sync(mask, v, ...) k_shfl(mask, v, K_LANE(up, __VA_ARGS__))
#define __shfl_xor_sync(mask, v, ...) k_shfl(mask, v, K_LANE(xor, __VA_ARGS__))

/* ---- atomics: relaxed, as a device's are; each gives the old value ---------------------------------------------------------------- */

#define K_ATOMIC_INT(T, name)                                                                                 \
    static inline T k_add_##name(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }            \
    static inline T k_exch_##name(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }          \
    static inline T k_or_##name(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }              \
    static inline T k_and_##name(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }            \
    static inline T k_xor_##name(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }            \
    static inline T k_cas_##name(T *p, T expected, T v) {                                                     \
        __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                  \
        return expected;                                                                                      \
    }                                                                                                         \
    static inline T k_max_##name(T *p, T v) {                                                                 \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                         \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                           \
    }                                                                                                         \
    static inline T k_min_##name(T *p, T v) {                                                                 \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                         \
        while (old > v && !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                           \
    }
K_ATOMIC_INT(int, int)
K_ATOMIC_INT(unsigned, uint)
K_ATOMIC_INT(long long, llong)
K_ATOMIC_INT(unsigned long long, ullong)

#define K_ATOMIC_REAL(T, name)                                                                    \
    static inline T k_add_##name(T *p, T v) {                                                     \
        T old, sum;                                                                               \
        __atomic_load(p, &old, __ATOMIC_RELAXED);                                                 \
        do sum = old + v;                                                                         \
        while (!__atomic_compare_exchange(p, &old, &sum, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
        return old;                                                                               \
    }                                                                                             \
    static inline T k_exch_##name(T *p, T v) {                                                    \
        T old;                                                                                    \
        __atomic_exchange(p, &v, &old, __ATOMIC_RELAXED);                                         \
        return old;                                                                               \
    }
K_ATOMIC_REAL(float, float)
K_ATOMIC_REAL(double, double)

static inline unsigned k_peek(const unsigned *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void k_publish(unsigned *p, unsigned v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

#define K_ATOMIC_CASES(op)                             \
    int * : k_##op##_int,                              \
            unsigned * : k_##op##_uint,                \
                         long long * : k_##op##_llong, \
                                       unsigned long long * : k_##op##_ullong
#define K_ATOMIC_REAL_CASES(op) float * : k_##op##_float, double * : k_##op##_double
#define atomicAdd(p, v) _Generic((p), K_ATOMIC_CASES(add), K_ATOMIC_REAL_CASES(add))(p, v)
#define atomicExch(p, v) _Generic((p), K_ATOMIC_CASES(exch), K_ATOMIC_REAL_CASES(exch))(p, v)
#define atomicMax(p, v) _Generic((p), K_ATOMIC_CASES(max))(p, v)
#define atomicMin(p, v) _Generic((p), K_ATOMIC_CASES(min))(p, v)
#define atomicOr(p, v) _Generic((p), K_ATOMIC_CASES(or))(p, v)
#define atomicAnd(p, v) _Generic((p), K_ATOMIC_CASES(and))(p, v)
#define atomicXor(p, v) _Generic((p), K_ATOMIC_CASES(xor))(p, v)
#define atomicCAS(p, expected, v) _Generic((p), K_ATOMIC_CASES(cas))(p, expected, v)

#endif
