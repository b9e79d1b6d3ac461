/* What the contract tests share: a context on device 0, the table of entries, a gate that holds up a stream. The same
   programs run on the simulated driver and on hardware; what they state is what Facula builds on. */
#ifndef FAC_TESTS_DRIVER_CONTRACT_H
#define FAC_TESTS_DRIVER_CONTRACT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cuda/driver/driver.h"
#include <stdatomic.h>

#define cu fac__cu

/* Loads the driver and makes the primary context of device 0 current. */
int contract_start(void **state);
/* Synchronises and gives the context back; on the simulated driver nothing may be left. */
int contract_stop(void **state);
CUcontext contract_context(int device);

/* Asserts the code that a call returns; on failure its name and the driver's text are printed. */
void contract_expect(CUresult got, CUresult wanted, const char *call, const char *file, int line);
#define expect(call, wanted) contract_expect((call), (wanted), #call, __FILE__, __LINE__)
#define ok(call) expect((call), CUDA_SUCCESS)

/* A host function that waits until the gate is opened. */
typedef struct gate {
    atomic_bool open, entered;
} gate;
void gate_stand(void *gate);
void gate_close(gate *g, CUstream s);
void gate_open(gate *g);

CUstream new_stream(unsigned flags);
CUevent new_event(unsigned flags);
CUdeviceptr new_memory(size_t bytes);
/* Waits for what is queued and reads one word. */
unsigned read_word(CUdeviceptr p);

/* Kernels of the test image: store(unsigned *p, unsigned v) and add(unsigned *p, unsigned v). */
CUfunction contract_kernel(const char *name);
/* The image itself, for cuLibraryLoadData. It also has a variable, unsigned variable. */
const void *contract_image(void);
void contract_unload(void);
/* Launches one thread. */
CUresult launch(CUfunction f, CUdeviceptr p, unsigned v, CUstream s);

extern const struct CMUnitTest stream_tests[], copy_tests[], memory_tests[], capture_tests[], graph_tests[],
    code_tests[];
extern const size_t n_stream_tests, n_copy_tests, n_memory_tests, n_capture_tests, n_graph_tests, n_code_tests;
#define CONTRACT(name) cmocka_unit_test_setup_teardown(name, contract_start, contract_stop)

#endif
