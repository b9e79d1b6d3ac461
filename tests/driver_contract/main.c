/* driver_contract: all tests on the driver that FACULA_CUDA names. driver_contract deinit: what calls return once the
   process is ending. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Registered before the driver starts, so it runs after the driver's own end. */
static void after_the_end(void) {
    CUresult r = cu.cuMemFree(0x1000);
    printf("after the driver's end cuMemFree returns %s\n", fac__cu_name(r));
    fflush(stdout);
    if (r != CUDA_ERROR_DEINITIALIZED && fac__cu_is_simulated()) _exit(1);
    if (r == CUDA_SUCCESS) _exit(1);
}

static int deinit(void) {
    atexit(after_the_end);
    if (fac__cu_load()) {
        fprintf(stderr, "%s\n", fac_error_message());
        return 1;
    }
    CUcontext c;
    return cu.cuDevicePrimaryCtxRetain(&c, 0) || cu.cuCtxSetCurrent(c);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "deinit") == 0) return deinit();
    int failed = 0;
#define RUN(group) failed += _cmocka_run_group_tests(#group, group##_tests, n_##group##_tests, NULL, NULL)
    RUN(stream);
    RUN(copy);
    RUN(memory);
    RUN(capture);
    RUN(graph);
    RUN(code);
    return failed != 0;
}
