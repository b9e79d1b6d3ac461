/* What a simulator image sees of the executor: the place of the running thread, barriers, warp operations and shared memory.
   Plain C that also reads as C++; nothing else of the simulator or of Facula is included. The symbols live in
   libfacula-simcuda.so, which images are linked with. */
#ifndef FAC_SRC_SIMCUDA_SIM_DEVICE_H
#define FAC_SRC_SIMCUDA_SIM_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_API __attribute__((visibility("default")))

typedef struct sim_dim3 {
    unsigned x, y, z;
} sim_dim3;

/* Where the running thread stands: CUDA's threadIdx, blockIdx, blockDim and gridDim. */
typedef struct sim_place {
    sim_dim3 thread, block, block_dim, grid_dim;
    int multiprocessors;
} sim_place;
extern SIM_API __thread sim_place sim_self __attribute__((tls_model("initial-exec")));

/* What sim_syncthreads hands back besides waiting: nothing, or a fold over the predicates of the block's threads. */
enum { SIM_COUNT = 0, SIM_ALL = 1, SIM_ANY = 2 };

/* __syncthreads and its folding forms. Waiting threads must stand at the same line. */
SIM_API int sim_syncthreads(int fold, int predicate, const char *file, int line);
/* __shfl_*_sync: the value of lane `source` (absolute, 0 to 31) of the same warp. */
SIM_API uint64_t sim_shfl(unsigned mask, uint64_t value, int source, const char *file, int line);
/* __ballot_sync: bits of the lanes in `mask` whose predicate is not 0. */
SIM_API unsigned sim_ballot(unsigned mask, int predicate, const char *file, int line);
/* __match_any_sync: bits of the lanes in `mask` that hold the same value. */
SIM_API unsigned sim_match_any(unsigned mask, uint64_t value, const char *file, int line);
SIM_API void sim_syncwarp(unsigned mask, const char *file, int line);
/* The thread's lane, 0 to 31. */
SIM_API int sim_lane(void);

/* The block's static shared array that `key` stands for; made, and filled with NaN, by the first thread that asks. */
SIM_API void *sim_shared(const void *key, size_t bytes, const char *name);
/* The block's dynamic shared memory, as large as the launch said. */
SIM_API void *sim_shared_dynamic(void);

/* Ends the launch with a CUresult: 710 for a failed assertion, 719 for a trap. */
SIM_API void sim_fail(int code, const char *text) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
