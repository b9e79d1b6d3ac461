#include "cli.h"
#include <inttypes.h>

static int info(const cli_command *self, int argc, char **argv) {
    if (argc > 1) return cli_usage_error(self, "'%s' is not understood: there are no arguments", argv[1]);
    if (fac_init() != FAC_OK) return cli_failed(self);
    printf("version       %s\n", fac_version());
    printf("instructions  %s\n", fac_cpu_isa());
    printf("threads       %d\n", fac_num_threads());
    printf("operators     %zu\n", fac_operator_count());
    printf("default dtype %s\n", fac_dtype_name(fac_default_dtype()));
    printf("allocator     %s\n", fac_allocator_get(FAC_CPU)->name);
    return CLI_OK;
}

const cli_command cli_info = {
    "info", "what this build is and what it found on this machine",
    "usage: facula info\n\n"
    "Prints the version, the instruction set whose kernels were chosen, the number of threads, the number of\n"
    "operators, the default dtype and the CPU's allocator.\n\n"
    "FACULA_ISA=default|avx2|avx512 caps the instruction set; OMP_NUM_THREADS sets the threads.\n",
    info};
