/* The frame of the contract's tests: contexts, and a gate that holds a stream. */
#define _GNU_SOURCE
#include "contract.h"
#include "simcuda/exec.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static CUmodule module;

void contract_expect(CUresult got, CUresult wanted, const char *call, const char *file, int line) {
    if (got == wanted) return;
    const char *text = "";
    if (cu.cuGetErrorString) cu.cuGetErrorString(got, &text);
    print_error("%s\n    returned %s (%s), expected %s\n", call, fac__cu_name(got), text ? text : "",
                fac__cu_name(wanted));
    _assert_int_equal((uint64_t)got, (uint64_t)wanted, file, line);
}

CUcontext contract_context(int device) {
    CUdevice d;
    CUcontext c = NULL;
    ok(cu.cuDeviceGet(&d, device));
    ok(cu.cuDevicePrimaryCtxRetain(&c, d));
    return c;
}

int contract_start(void **state) {
    (void)state;
    fac_status st = fac__cu_load();
    if (st) print_error("%s\n", fac_error_message());
    assert_int_equal(st, FAC_OK);
    ok(cu.cuCtxSetCurrent(contract_context(0)));
    return 0;
}

/* A count of the simulator; 0 on hardware. */
static int64_t left(const char *name) {
    int64_t (*count)(const char *) = NULL;
    if (fac__cu_is_simulated()) {
        void *library = dlopen("libfacula-simcuda.so", RTLD_NOLOAD | RTLD_NOW);
        void *found = library ? dlsym(library, "simcuda_count") : NULL;
        memcpy(&count, &found, sizeof count);
        if (library) dlclose(library);
        assert_non_null(count);
    }
    return count ? count(name) : 0;
}

int contract_stop(void **state) {
    (void)state;
    ok(cu.cuCtxSynchronize());
    contract_unload();
    ok(cu.cuCtxSetCurrent(NULL));
    ok(cu.cuDevicePrimaryCtxRelease(0));
    static const char *const counts[] = {"streams", "events",  "graphs",  "execs", "blocks",
                                         "pinned",  "handles", "modules", "bytes"};
    for (size_t i = 0; i < FAC_COUNT(counts); i++) {
        if (left(counts[i])) print_error("%lld %s are left\n", (long long)left(counts[i]), counts[i]);
        assert_int_equal(left(counts[i]), 0);
    }
    return 0;
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* A gate that a failed test left closed opens by itself after five seconds, so that the next test can run. */
void gate_stand(void *data) {
    gate *g = data;
    atomic_store(&g->entered, true);
    for (int i = 0; i < 50000 && !atomic_load(&g->open); i++) nanosleep(&(struct timespec){0, 100000}, NULL);
}

void gate_close(gate *g, CUstream s) {
    atomic_store(&g->open, false);
    atomic_store(&g->entered, false);
    ok(cu.cuLaunchHostFunc(s, gate_stand, g));
}

void gate_open(gate *g) { atomic_store(&g->open, true); }

/* ---- objects ----------------------------------------------------------------------------------------------------- */

CUstream new_stream(unsigned flags) {
    CUstream s = NULL;
    ok(cu.cuStreamCreate(&s, flags));
    return s;
}

CUevent new_event(unsigned flags) {
    CUevent e = NULL;
    ok(cu.cuEventCreate(&e, flags));
    return e;
}

CUdeviceptr new_memory(size_t bytes) {
    CUdeviceptr p = 0;
    ok(cu.cuMemAlloc(&p, bytes));
    return p;
}

unsigned read_word(CUdeviceptr p) {
    unsigned v = 0;
    ok(cu.cuCtxSynchronize());
    ok(cu.cuMemcpyDtoH(&v, p, sizeof v));
    return v;
}

/* ---- kernels, as PTX for hardware and as an image of the simulator ----------------------------------------------- */

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .global .align 4 .u32 variable;\n"
                          ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
                          "  .reg .u64 %a; .reg .u32 %v;\n"
                          "  ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\n"
                          "  cvta.to.global.u64 %a, %a; st.global.u32 [%a], %v; ret;\n}\n"
                          ".visible .entry add(.param .u64 p, .param .u32 v) {\n"
                          "  .reg .u64 %a; .reg .u32 %v, %o;\n"
                          "  ld.param.u64 %a, [p]; ld.param.u32 %v, [v];\n"
                          "  cvta.to.global.u64 %a, %a; atom.global.add.u32 %o, [%a], %v; ret;\n}\n";

static unsigned variable;
static const sim_global globals[] = {{"variable", &variable, sizeof variable}};
static void store_sim(void **args) { **(unsigned **)args[0] = *(unsigned *)args[1]; }
static void add_sim(void **args) { **(unsigned **)args[0] += *(unsigned *)args[1]; }
static const sim_param params[] = {{8, 8, SIM_IO, "p"}, {4, 4, SIM_VAL, "v"}};
static const sim_kernel store_kernel = {.name = "store", .call = store_sim, .params = params, .n_params = 2},
                        add_kernel = {.name = "add", .call = add_sim, .params = params, .n_params = 2};
static const sim_kernel *const kernels[] = {&store_kernel, &add_kernel};
static const sim_image image = {.magic = SIM_IMAGE_MAGIC,
                                .size = sizeof(sim_image),
                                .n_kernels = 2,
                                .n_globals = 1,
                                .kernels = kernels,
                                .globals = globals};

const void *contract_image(void) { return fac__cu_is_simulated() ? (const void *)&image : ptx; }

CUfunction contract_kernel(const char *name) {
    CUfunction f = NULL;
    if (!module) ok(cu.cuModuleLoadData(&module, contract_image()));
    ok(cu.cuModuleGetFunction(&f, module, name));
    return f;
}

void contract_unload(void) {
    if (module) ok(cu.cuModuleUnload(module));
    module = NULL;
}

CUresult launch(CUfunction f, CUdeviceptr p, unsigned v, CUstream s) {
    return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&p, &v}, NULL);
}
