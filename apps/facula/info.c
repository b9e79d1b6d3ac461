/* facula info: version, build, processor and devices. */
#include "cli.h"
#include <inttypes.h>

static int print_device(const cli_command *self, int index) {
    fac_cuda_properties p;
    char memory[32];
    if (fac_cuda_get_properties(index, &p) != FAC_OK) return cli_failed(self);
    printf("cuda:%-8d %s, %s, compute capability %d.%d, %d %s, %s\n", index, p.name,
           cli_bytes(p.total_memory, memory, sizeof memory), p.major, p.minor, p.multiprocessors,
           cli_word(p.multiprocessors, "multiprocessor", "multiprocessors"), p.pci_id);
    return CLI_OK;
}

/* Asks the driver about its devices and makes no context on any, so that this stays quick. */
static int print_cuda(const cli_command *self) {
    int n = fac_cuda_device_count(), version = fac_cuda_driver_version();
    if (n == 0 || version == 0) {
        printf("cuda          off: %s\n", fac_cuda_why_unavailable());
        return CLI_OK;
    }
    printf("cuda          %d %s, %s driver of CUDA %d.%d\n", n, cli_word(n, "device", "devices"),
           fac_cuda_is_simulated() ? "the simulated" : "a", version / 1000, version % 1000 / 10);
    int status = CLI_OK;
    for (int i = 0; i < n && status == CLI_OK; i++) status = print_device(self, i);
    return status;
}

static int info(const cli_command *self, int argc, char **argv) {
    if (argc > 1) return cli_usage_error(self, "'%s' is not understood: there are no arguments", argv[1]);
    if (fac_init() != FAC_OK) return cli_failed(self);
    printf("version       %s\n", fac_version());
    printf("instructions  %s\n", fac_cpu_isa());
    printf("threads       %d\n", fac_num_threads());
    printf("operators     %zu\n", fac_operator_count());
    printf("default dtype %s\n", fac_dtype_name(fac_default_dtype()));
    printf("allocator     %s\n", fac_allocator_get(FAC_CPU)->name);
    return print_cuda(self);
}

const cli_command cli_info = {
    "info", "what this build is and what it found on this machine",
    "usage: facula info\n\n"
    "Prints the version, the instruction set whose kernels were chosen, the number of threads, the number of\n"
    "operators, the default dtype, the CPU's allocator, and the CUDA devices with their memory and compute\n"
    "capability, or why there are none.\n\n"
    "FACULA_ISA=default|avx2|avx512 caps the instruction set; FACULA_NUM_THREADS sets the threads.\n"
    "FACULA_CUDA=off turns CUDA off, FACULA_CUDA=sim:4 simulates four devices; CUDA_VISIBLE_DEVICES picks some.\n",
    info};
