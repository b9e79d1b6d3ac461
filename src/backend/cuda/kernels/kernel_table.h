/* KERNEL as a row of the launch table: a fac_cuda_kernel, named fac__cuda_kernel_<name>. The body is compiled for its errors and
   thrown away. */
#ifndef FAC_KERNEL_TABLE_H
#define FAC_KERNEL_TABLE_H

#include "backend/cuda/kernels/launch.h"
#include "kernel_host.h"

#define K_SIZE(i, p) K_SIZE_ p
#define K_SIZE_(role, T, name) K_SIZE_##role(T)
#define K_SIZE_IN(T) sizeof(void *)
#define K_SIZE_OUT(T) sizeof(void *)
#define K_SIZE_IO(T) sizeof(void *)
#define K_SIZE_VAL(T) sizeof(T)
#define K_ROLE_OF(i, p) K_ROLE_OF_ p
#define K_ROLE_OF_(role, T, name) SIM_##role

#define K_KERNEL(name, ...)                                                                                            \
    static const uint16_t name##_sizes[] = {K_EACH(K_SIZE, __VA_ARGS__)};                                              \
    static const uint8_t name##_roles[] = {K_EACH(K_ROLE_OF, __VA_ARGS__)};                                            \
    static _Atomic(void *) name##_handles[FAC_CUDA_MAX_DEVICES];                                                       \
    fac_cuda_kernel FAC_CUDA_KERNEL(name) = {#name, K_COUNT(__VA_ARGS__), name##_sizes, name##_roles, name##_handles}; \
    __attribute__((unused)) static inline void name(K_DECLARE_ALL(__VA_ARGS__))
#define KERNEL_NATIVE(name, ...) K_KERNEL(name, __VA_ARGS__)
#define KGLOBAL(T, name) __attribute__((unused)) static T name

#endif
