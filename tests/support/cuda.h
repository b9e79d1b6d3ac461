/* What tests of the CUDA back end share. They run on whatever FACULA_CUDA names: simulated devices in the test suite, the
   machine's own in `make gpu-check`. */
#ifndef FAC_TESTS_SUPPORT_CUDA_H
#define FAC_TESTS_SUPPORT_CUDA_H

#include "support.h"

#include "backend/cuda/runtime/runtime.h"
#include <facula/facula.h>

/* A test that starts with CUDA stopped and ends by stopping it, which must leave nothing behind. */
int support_cuda_setup(void **state);
int support_cuda_teardown(void **state);
#define FAC_CUDA_TEST(name) cmocka_unit_test_setup_teardown(name, support_cuda_setup, support_cuda_teardown)

/* Ends the test as skipped, and says why, where there are fewer devices; as failed if they should have been simulated. */
void support_need_devices(int n);
/* The same on real devices: for what only the simulator can be made to do. */
void support_need_simulator(void);

/* The same without the race checker, which FACULA_CUDA_SANITIZER turns on: for tests that race on purpose, or count memory. */
void support_need_no_checker(void);

/* Turns a knob of the simulated driver (src/simcuda/simcuda.h), such as "fault=1". */
void support_sim_set(const char *options);
/* A count of the simulated driver's, such as "streams". */
int64_t support_sim_count(const char *name);

/* Whether a device has a context, asked of the driver. */
bool support_has_context(int index);

/* Stops CUDA, sets a variable of the environment (NULL: unsets it), so that the next use reads it. */
void support_restart_with(const char *name, const char *value);

/* Holds a stream up: what is queued behind the gate waits until it is opened, which it does by itself after five seconds, for
   the sake of the tests after one that failed. One at a time. */
void support_gate_close(fac_stream s);
void support_gate_open(void);

static inline fac_device cuda_device(int index) { return fac_device_make(FAC_CUDA, index); }

#endif
