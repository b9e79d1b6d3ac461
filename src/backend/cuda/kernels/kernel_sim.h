/* KERNEL as an entry of a simulator image. The entries of all files of an image meet in one section of the object, from which
   KERNEL_IMAGE, used once per image, makes what the simulated driver loads. */
#ifndef FAC_KERNEL_SIM_H
#define FAC_KERNEL_SIM_H

#include "kernel_host.h"

/* The address of parameter i is a[i]. */
#define K_FETCH(i, p) K_FETCH_(i, K_ROLE p, p)
#define K_FETCH_(i, role, p) K_FETCH__(i, role, p)
#define K_FETCH__(i, role, p) K_FETCH_##role(i, K_TYPE p)
#define K_ROLE(role, T, name) role
#define K_TYPE(role, T, name) T
#define K_FETCH_IN(i, T) *(const T *const *)a[i]
#define K_FETCH_OUT(i, T) *(T *const *)a[i]
#define K_FETCH_IO(i, T) *(T *const *)a[i]
#define K_FETCH_VAL(i, T) *(const T *)a[i]

#define K_PARAM(i, p) K_PARAM_ p
#define K_PARAM_(role, T, name) \
    { K_PARAM_##role(T), SIM_##role, #name }
#define K_PARAM_IN(T) sizeof(void *), _Alignof(void *)
#define K_PARAM_OUT(T) sizeof(void *), _Alignof(void *)
#define K_PARAM_IO(T) sizeof(void *), _Alignof(void *)
#define K_PARAM_VAL(T) sizeof(T), _Alignof(T)

#define K_ENTRY(name, native, ...)                                                                                \
    static inline void name(K_DECLARE_ALL(__VA_ARGS__));                                                          \
    static void name##_call(void **a) { name(K_EACH(K_FETCH, __VA_ARGS__)); }                                     \
    static const sim_param name##_params[] = {K_EACH(K_PARAM, __VA_ARGS__)};                                      \
    static const sim_kernel name##_kernel = {#name, name##_call, name##_params, K_COUNT(__VA_ARGS__), 0, native}; \
    static const sim_kernel *const name##_entry __attribute__((section("sim_kernels"), used)) = &name##_kernel;   \
    static inline void name(K_DECLARE_ALL(__VA_ARGS__))

#define K_KERNEL(name, ...) K_ENTRY(name, 0, __VA_ARGS__)
/* Runs once per launch and only when simulated: the work of a library, or a quicker way to a kernel's result. */
#define KERNEL_NATIVE(name, ...) K_ENTRY(name, 1, __VA_ARGS__)

#define KGLOBAL(T, name)                                                                                             \
    extern T name;                                                                                                   \
    static const sim_global name##_global __attribute__((section("sim_globals"), used)) = {#name, &name, sizeof(T)}; \
    T name

#define KERNEL_IMAGE(image)                                                                                         \
    extern const sim_kernel *const __start_sim_kernels[] __attribute__((weak, visibility("hidden")));               \
    extern const sim_kernel *const __stop_sim_kernels[] __attribute__((weak, visibility("hidden")));                \
    extern const sim_global __start_sim_globals[] __attribute__((weak, visibility("hidden")));                      \
    extern const sim_global __stop_sim_globals[] __attribute__((weak, visibility("hidden")));                       \
    SIM_API sim_image image = {SIM_IMAGE_MAGIC, sizeof(sim_image), 0, 0, __start_sim_kernels, __start_sim_globals}; \
    __attribute__((constructor)) static void image##_count(void) {                                                  \
        image.n_kernels = (uint32_t)(__stop_sim_kernels - __start_sim_kernels);                                     \
        image.n_globals = (uint32_t)(__stop_sim_globals - __start_sim_globals);                                     \
    }

#endif
