/* Begins and ends tests of the CUDA back end. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int support_cuda_setup(void **state) {
    fac_shutdown(); /* also what another program's variables chose */
    return support_setup(state);
}

int support_cuda_teardown(void **state) {
    assert_no_error();
    assert_int_equal(fac__thread()->n_scopes, 0);
    fac_shutdown();
    assert_ok(fac_init());
    return support_teardown(state);
}

void support_need_devices(int n) {
    int count = fac_cuda_device_count();
    const char *choice = getenv("FACULA_CUDA");
    if (count >= n) return;
    print_message("needs %d CUDA devices, found %d %s\n", n, count, fac_cuda_why_unavailable());
    if (choice && strncmp(choice, "sim", 3) == 0) fail(); /* simulated ones could be had */
    skip();
}

void support_need_no_checker(void) {
    const char *checker = getenv("FACULA_CUDA_SANITIZER");
    if (!checker || !*checker) return;
    print_message("not with the race checker\n");
    skip();
}

static void *simulator(void) {
    static const char *const names[] = {"libfacula-simcuda.so", "libfacula-simcuda.so.0"};
    for (size_t i = 0; i < FAC_COUNT(names); i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (lib) return lib;
    }
    return NULL;
}

void support_need_simulator(void) {
    const char *choice = getenv("FACULA_CUDA");
    if (fac_cuda_is_simulated()) return;
    if (choice && strncmp(choice, "sim", 3) == 0) fail_msg("%s", fac_cuda_why_unavailable());
    print_message("needs the simulated driver (FACULA_CUDA=sim:N)\n");
    skip();
}

void support_sim_set(const char *options) {
    void *lib = simulator();
    assert_non_null(lib);
    int (*set)(const char *) = (int (*)(const char *))dlsym(lib, "simcuda_set");
    assert_non_null(set);
    assert_int_equal(set(options), 0);
    dlclose(lib);
}

int64_t support_sim_count(const char *name) {
    void *lib = simulator();
    assert_non_null(lib);
    int64_t (*count)(const char *) = (int64_t(*)(const char *))dlsym(lib, "simcuda_count");
    assert_non_null(count);
    int64_t n = count(name);
    dlclose(lib);
    assert_int_not_equal(n, -1);
    return n;
}

static atomic_bool gate_open;

static void stand_in_gate(void *unused) {
    (void)unused;
    for (int i = 0; i < 50000 && !atomic_load(&gate_open); i++) nanosleep(&(struct timespec){0, 100000}, NULL);
}

void support_gate_close(fac_stream s) {
    fac_cuda_entry entry;
    atomic_store(&gate_open, false);
    assert_ok(fac__cuda_enter(s.device.index_plus - 1, &entry));
    assert_int_equal(fac__cu.cuLaunchHostFunc(fac_stream_handle(s), stand_in_gate, NULL), CUDA_SUCCESS);
    fac__cuda_leave(&entry);
}

void support_gate_open(void) { atomic_store(&gate_open, true); }

bool support_has_context(int index) {
    unsigned flags;
    int active = 0;
    CUdevice d;
    assert_ok(fac__cuda_start());
    assert_int_equal(fac__cu.cuDeviceGet(&d, index), CUDA_SUCCESS);
    assert_int_equal(fac__cu.cuDevicePrimaryCtxGetState(d, &flags, &active), CUDA_SUCCESS);
    return active != 0;
}

void support_restart_with(const char *name, const char *value) {
    fac_shutdown();
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    assert_ok(fac_init());
}
