/* The kernel dialect: one source, three readings.
     - nvcc and NVRTC make device code of it (C++);
     - gcc or clang, in C, a simulator image, when nothing else is defined (kernel_sim.h);
     - gcc or clang, in C with FAC_KERNEL_TABLE, the launch table: what the library knows of each kernel (kernel_table.h).
   So kernels are written in what C and C++ have in common. The README tells how.

     KERNEL(name, (OUT, float, out), (IN, float, x), (VAL, int64_t, n)) { ... }

   IN, OUT and IO are pointers that the kernel reads, writes, or both; VAL is a value, structures included. A kernel returns
   nothing, is called by nobody but a launch, and leaves its parameters as they are. The header includes nothing of Facula, so that users' kernels, compiled at
   run time, may be written in it too. */
#ifndef FAC_KERNEL_H
#define FAC_KERNEL_H

/* clang-format off */
/* ---- one macro applied to each parameter ------------------------------------------------------------------------------- */

#define K_CAT(a, b) K_CAT_(a, b)
#define K_CAT_(a, b) a##b
#define K_COUNT(...) K_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define K_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, N, ...) N
#define K_EACH(f, ...) K_CAT(K_EACH_, K_COUNT(__VA_ARGS__))(f, 0, __VA_ARGS__)
#define K_EACH_1(f, i, p) f(i, p)
#define K_EACH_2(f, i, p, ...) f(i, p), K_EACH_1(f, i + 1, __VA_ARGS__)
#define K_EACH_3(f, i, p, ...) f(i, p), K_EACH_2(f, i + 1, __VA_ARGS__)
#define K_EACH_4(f, i, p, ...) f(i, p), K_EACH_3(f, i + 1, __VA_ARGS__)
#define K_EACH_5(f, i, p, ...) f(i, p), K_EACH_4(f, i + 1, __VA_ARGS__)
#define K_EACH_6(f, i, p, ...) f(i, p), K_EACH_5(f, i + 1, __VA_ARGS__)
#define K_EACH_7(f, i, p, ...) f(i, p), K_EACH_6(f, i + 1, __VA_ARGS__)
#define K_EACH_8(f, i, p, ...) f(i, p), K_EACH_7(f, i + 1, __VA_ARGS__)
#define K_EACH_9(f, i, p, ...) f(i, p), K_EACH_8(f, i + 1, __VA_ARGS__)
#define K_EACH_10(f, i, p, ...) f(i, p), K_EACH_9(f, i + 1, __VA_ARGS__)
#define K_EACH_11(f, i, p, ...) f(i, p), K_EACH_10(f, i + 1, __VA_ARGS__)
#define K_EACH_12(f, i, p, ...) f(i, p), K_EACH_11(f, i + 1, __VA_ARGS__)
#define K_EACH_13(f, i, p, ...) f(i, p), K_EACH_12(f, i + 1, __VA_ARGS__)
#define K_EACH_14(f, i, p, ...) f(i, p), K_EACH_13(f, i + 1, __VA_ARGS__)
#define K_EACH_15(f, i, p, ...) f(i, p), K_EACH_14(f, i + 1, __VA_ARGS__)
#define K_EACH_16(f, i, p, ...) f(i, p), K_EACH_15(f, i + 1, __VA_ARGS__)
/* clang-format on */

/* (role, type, name) as the parameter of a function */
#define K_DECLARE(i, p) K_DECLARE_ p
#define K_DECLARE_(role, T, name) K_DECLARE_##role(T, name)
#define K_DECLARE_IN(T, name) const T *name
#define K_DECLARE_OUT(T, name) T *name
#define K_DECLARE_IO(T, name) T *name
#ifdef __CUDACC__ /* a large structure stays in the constant bank, also where its address is taken */
#define K_DECLARE_VAL(T, name) const __grid_constant__ T name
#else
#define K_DECLARE_VAL(T, name) const T name
#endif
#define K_DECLARE_ALL(...) K_EACH(K_DECLARE, __VA_ARGS__)

/* ---- device code --------------------------------------------------------------------------------------------------------- */

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#ifdef __CUDACC_RTC__ /* has no headers of its own */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
#define INT8_MAX 127
#define INT8_MIN (-INT8_MAX - 1)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-INT16_MAX - 1)
#define INT32_MAX 0x7fffffff
#define INT32_MIN (-INT32_MAX - 1)
#define INT64_MAX 0x7fffffffffffffffL
#define INT64_MIN (-INT64_MAX - 1)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

#define K_KERNEL(name, ...) extern "C" __global__ void name(K_DECLARE_ALL(__VA_ARGS__))
/* A function that kernels call; KDEV_CALL where a copy at every call would be too much code. */
#define KDEV static __device__ __forceinline__
#define KDEV_CALL static __device__ __noinline__
/* An array that the block's threads share; KSHARED_DYNAMIC is as long as the launch says, in bytes. */
#define KSHARED(T, name, n) __shared__ T name[n]
#define KSHARED2(T, name, rows, columns) __shared__ T name[rows][columns]
#define KSHARED_DYNAMIC(T, name)                               \
    extern __shared__ __align__(16) unsigned char k_dynamic[]; \
    T *name = (T *)(void *)k_dynamic
/* A vector at p, to read or to write; simulated, an address that is not aligned for it ends the launch. */
#define KVECTOR(T, p) (*(T *)(p))
/* Read-only tables and variables of the device. */
#define KCONSTANT(T, name, n) static __constant__ T name[n]
#define KGLOBAL(T, name) extern "C" __device__ T name
/* Ends the launch with an error if the condition does not hold. */
#define KASSERT(condition)          \
    do {                            \
        if (!(condition)) __trap(); \
    } while (0)
/* A word that others may be writing; and one for the host to see, after all that the thread wrote before it. */
KDEV unsigned k_peek(const unsigned *p) { return *(const volatile unsigned *)p; }
KDEV void k_publish(unsigned *p, unsigned v) {
    __threadfence_system();
    *(volatile unsigned *)p = v;
}

#elif defined(FAC_KERNEL_TABLE)
#include "kernel_table.h"
#else
#include "kernel_sim.h"
#endif

#define KERNEL(name, ...) K_KERNEL(name, __VA_ARGS__) /* the name may be a macro */

/* ---- for all readings ------------------------------------------------------------------------------------------------------ */

/* i runs over the thread's share of [0, n): a grid-stride loop in the first dimension. */
#ifdef __CUDACC__
#define K_UNROLL(n) K_PRAGMA(unroll n)
#define K_PRAGMA(text) _Pragma(#text)
#else
#define K_UNROLL(n)
#endif
#define KLOOP(i, n)                                                                                              \
    K_UNROLL(1)                                                                                                  \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (int64_t)gridDim.x * blockDim.x; \
         i < (n); i += i##_step)

#endif
