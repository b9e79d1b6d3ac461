/* What the simulated driver has beyond the driver's own entries: the knobs that tests turn while a program runs. Found
   with dlsym in the loaded library. */
#ifndef FAC_SRC_SIMCUDA_SIMCUDA_H
#define FAC_SRC_SIMCUDA_SIMCUDA_H

#include <stdint.h>

#define SIM_API __attribute__((visibility("default")))

/* Changes options: the text of FACULA_CUDA after "sim:N,". oom=N, fail=N and fault=N count from this call on, 0 turns
   them off; `clear` forgets the faults of all devices. How many devices there are, their memory, `threads` and `trap`
   are settled at start. Returns 0, or -1, with a sentence on stderr, for what it does not know. */
SIM_API int simcuda_set(const char *options);
/* A count: of live objects ("streams", "events", "modules", "libraries", "graphs", "execs", "pools", "handles", "transforms": plans of cuFFT), of
   live blocks ("blocks", "pinned"), of bytes taken on all devices ("bytes"), of ops not done ("pending"), of device
   allocations, launches and plans of cuFFT so far ("allocations", "launches", "transforms made"), or 1 for each option that is on ("trap", "threads"); -1
   for other names. */
SIM_API int64_t simcuda_count(const char *name);
/* Number of devices that cuInit would show. */
SIM_API int simcuda_device_count(void);
/* Ends the worker threads and frees everything, also what callers did not give back; cuInit then starts anew. */
SIM_API void simcuda_stop(void);

#endif
