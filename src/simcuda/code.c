/* Images, modules, libraries, kernels: loading, attributes, occupancy, launches. A kernel of a library runs on the
   current device, a function of a module on the device that it was loaded on. */
#include "simcuda/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHARED 49152        /* of a block without asking */
#define MAX_SHARED_OPTIN 232448 /* after CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES was raised */
#define SM_SHARED 233472
#define SM_THREADS 2048
#define SM_BLOCKS 32

typedef struct container { /* of kernels: a module or a library */
    sim_object head;
    const sim_image *image;
    sim_device *device; /* NULL: a library */
    sim_function *functions;
    struct container *next;
} container;
struct CUmod_st {
    container c;
};
struct CUlib_st {
    container c;
};

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static container *containers;
static int64_t n_launches;

/* ---- images ------------------------------------------------------------------------------------------------------ */

static bool begins(const void *image, const void *with, size_t n) { return memcmp(image, with, n) == 0; }

static CUresult check_image(const void *p, const char *name) {
    const sim_image *image = p;
    SIM_CHECK(image, CUDA_ERROR_INVALID_VALUE, "%s: image is NULL", name);
    static const uint32_t fatbin = 0xBA55ED50;
    bool real = begins(p, &fatbin, 4) || begins(p, "\177ELF", 4) || begins(p, "//", 2) || begins(p, ".version", 8);
    SIM_CHECK(!real, CUDA_ERROR_NO_BINARY_FOR_GPU, "%s: this image is for a real GPU", name);
    SIM_CHECK(begins(p, &(uint64_t){SIM_IMAGE_MAGIC}, 8) && image->size == sizeof *image, CUDA_ERROR_INVALID_IMAGE,
              "%s: no image of the simulated driver", name);
    return CUDA_SUCCESS;
}

/* Variables of an image exist once, not once per device. */
static void add_globals(const sim_image *image) {
    for (uint32_t i = 0; i < image->n_globals; i++) {
        const sim_global *g = &image->globals[i];
        if (sim_block_at(g->address)) continue;
        sim_block_add((sim_block){.start = g->address, .bytes = g->bytes, .kind = SIM_MEMORY_GLOBAL, .device = -1});
    }
}

static void remove_globals(const sim_image *image) {
    for (const container *c = containers; c; c = c->next) {
        if (c->image == image) return;
    }
    for (uint32_t i = 0; i < image->n_globals; i++) {
        sim_block *b = sim_block_at(image->globals[i].address);
        if (b) sim_block_remove(b);
    }
}

static container *load(const sim_image *image, sim_type type, sim_device *d) {
    container *c = sim_object_new(type, sizeof *c);
    c->image = image;
    c->device = d;
    c->next = containers;
    containers = c;
    add_globals(image);
    return c;
}

static void unload(container *c) {
    container **at = &containers;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    while (c->functions) {
        sim_function *f = c->functions;
        c->functions = f->next;
        sim_object_free(f);
    }
    remove_globals(c->image);
    sim_object_free(c);
}

static sim_function *natives;

static sim_function *new_function(const sim_kernel *k, sim_device *d) {
    sim_function *f = sim_object_new(SIM_FUNCTION, sizeof *f);
    f->kernel = k;
    f->device = d;
    f->max_dynamic_shared = MAX_SHARED - (int)k->static_shared;
    f->carveout = -1;
    return f;
}

sim_function *sim_native_function(const sim_kernel *k) {
    sim_function *f = natives;
    while (f && f->kernel != k) f = f->next;
    if (f) return f;
    f = new_function(k, NULL);
    f->next = natives;
    return natives = f;
}

void sim_code_stop(void) {
    while (containers) unload(containers);
    while (natives) {
        sim_function *f = natives;
        natives = f->next;
        sim_object_free(f);
    }
    n_launches = 0;
}

static CUresult find_function(container *c, const char *name, sim_function **out) {
    for (sim_function *f = c->functions; f; f = f->next) {
        if (strcmp(f->kernel->name, name) != 0) continue;
        *out = f;
        return CUDA_SUCCESS;
    }
    for (uint32_t i = 0; i < c->image->n_kernels; i++) {
        if (strcmp(c->image->kernels[i]->name, name) != 0) continue;
        sim_function *f = new_function(c->image->kernels[i], c->device);
        f->next = c->functions;
        *out = c->functions = f;
        return CUDA_SUCCESS;
    }
    return sim_refuse(CUDA_ERROR_NOT_FOUND, "the image has no kernel %s", name);
}

static CUresult find_global(const container *c, const char *name, CUdeviceptr *pointer, size_t *bytes) {
    for (uint32_t i = 0; i < c->image->n_globals; i++) {
        const sim_global *g = &c->image->globals[i];
        if (strcmp(g->name, name) != 0) continue;
        if (pointer) *pointer = (CUdeviceptr)g->address;
        if (bytes) *bytes = g->bytes;
        return CUDA_SUCCESS;
    }
    return sim_refuse(CUDA_ERROR_NOT_FOUND, "the image has no variable %s", name);
}

/* ---- modules and libraries --------------------------------------------------------------------------------------- */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    (void)count, (void)options, (void)values;
    SIM_CHECK(module, CUDA_ERROR_INVALID_VALUE, "cuModuleLoadData: module is NULL");
    SIM_TRY(check_image(image, "cuModuleLoadData"));
    *module = (CUmodule)load(image, SIM_MODULE, sim_current);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

static CUresult check_container(const void *c, sim_type type, const char *name) {
    SIM_CHECK(sim_object_is(c, type), CUDA_ERROR_INVALID_HANDLE, "%s: %p is none, or was unloaded", name, c);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    SIM_ENTER(SIM_CURRENT | SIM_UNSAFE);
    SIM_TRY(check_container(module, SIM_MODULE, "cuModuleUnload"));
    sim_drain(module->c.device);
    SIM_TRY(check_container(module, SIM_MODULE, "cuModuleUnload"));
    unload(&module->c);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_container(module, SIM_MODULE, "cuModuleGetFunction"));
    SIM_CHECK(function && name, CUDA_ERROR_INVALID_VALUE, "cuModuleGetFunction: NULL");
    return find_function(&module->c, name, function);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_container(module, SIM_MODULE, "cuModuleGetGlobal"));
    SIM_CHECK(name, CUDA_ERROR_INVALID_VALUE, "cuModuleGetGlobal: name is NULL");
    return find_global(&module->c, name, pointer, bytes);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values, unsigned count) {
    SIM_ENTER(SIM_UNSAFE);
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SIM_CHECK(library, CUDA_ERROR_INVALID_VALUE, "cuLibraryLoadData: library is NULL");
    SIM_TRY(check_image(code, "cuLibraryLoadData"));
    *library = (CUlibrary)load(code, SIM_LIBRARY, NULL);
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
    SIM_ENTER(SIM_UNSAFE);
    SIM_TRY(check_container(library, SIM_LIBRARY, "cuLibraryUnload"));
    sim_drain(NULL);
    SIM_TRY(check_container(library, SIM_LIBRARY, "cuLibraryUnload"));
    unload(&library->c);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_container(library, SIM_LIBRARY, "cuLibraryGetKernel"));
    SIM_CHECK(kernel && name, CUDA_ERROR_INVALID_VALUE, "cuLibraryGetKernel: NULL");
    return find_function(&library->c, name, (sim_function **)kernel);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_container(library, SIM_LIBRARY, "cuLibraryGetGlobal"));
    SIM_CHECK(name, CUDA_ERROR_INVALID_VALUE, "cuLibraryGetGlobal: name is NULL");
    return find_global(&library->c, name, pointer, bytes);
}

static CUresult check_function(const void *f, const char *name) {
    SIM_CHECK(sim_object_is(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE,
              "%s: %p is no kernel, or its image was unloaded", name, f);
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(kernel, "cuKernelGetFunction"));
    SIM_CHECK(function, CUDA_ERROR_INVALID_VALUE, "cuKernelGetFunction: function is NULL");
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

/* Where a parameter would stand in the packed form, and its size. */
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(function, "cuFuncGetParamInfo"));
    const sim_kernel *k = function->kernel;
    SIM_CHECK(offset && index < k->n_params, CUDA_ERROR_INVALID_VALUE,
              "kernel %s has %u parameters, not one of index %zu", k->name, k->n_params, index);
    *offset = 0;
    for (size_t i = 0; i <= index; i++) {
        *offset = align_up(*offset, k->params[i].align ? k->params[i].align : 1);
        if (i < index) *offset += k->params[i].size;
    }
    if (size) *size = k->params[index].size;
    return CUDA_SUCCESS;
}

/* ---- attributes and occupancy ------------------------------------------------------------------------------------ */

static CUresult get_attribute(const sim_function *f, CUfunction_attribute a, int *value) {
    switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->kernel->static_shared; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = 90; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->max_dynamic_shared; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = f->carveout; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    default: return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there is no function attribute %d", (int)a);
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(sim_function *f, CUfunction_attribute a, int value) {
    if (a == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        f->carveout = value;
        return CUDA_SUCCESS;
    }
    int most = MAX_SHARED_OPTIN - (int)f->kernel->static_shared;
    SIM_CHECK(a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0 && value <= most,
              CUDA_ERROR_INVALID_VALUE, "function attribute %d cannot be %d (shared memory: at most %d)", (int)a, value,
              most);
    f->max_dynamic_shared = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction function) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(function, "cuFuncGetAttribute"));
    SIM_CHECK(value, CUDA_ERROR_INVALID_VALUE, "cuFuncGetAttribute: value is NULL");
    return get_attribute(function, a, value);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute a, int value) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(function, "cuFuncSetAttribute"));
    return set_attribute(function, a, value);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute a, CUkernel kernel, CUdevice device) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_function(kernel, "cuKernelGetAttribute"));
    SIM_CHECK(value && device >= 0 && device < sim_n_devices, CUDA_ERROR_INVALID_VALUE,
              "cuKernelGetAttribute: device %d", device);
    return get_attribute((sim_function *)kernel, a, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel kernel, CUdevice device) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_function(kernel, "cuKernelSetAttribute"));
    SIM_CHECK(device >= 0 && device < sim_n_devices, CUDA_ERROR_INVALID_DEVICE, "cuKernelSetAttribute: device %d",
              device);
    return set_attribute((sim_function *)kernel, a, value);
}

static int blocks_per_multiprocessor(const sim_function *f, int block, size_t shared) {
    int threads = (block + 31) / 32 * 32, n = SM_BLOCKS;
    size_t used = shared + f->kernel->static_shared + 1024;
    if (SM_THREADS / threads < n) n = SM_THREADS / threads;
    if (SM_SHARED / used < (size_t)n) n = (int)(SM_SHARED / used);
    return n;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                     size_t shared_bytes) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(function, "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
    SIM_CHECK(blocks && block_size > 0, CUDA_ERROR_INVALID_VALUE, "occupancy of blocks of %d threads", block_size);
    *blocks = block_size > 1024 ? 0 : blocks_per_multiprocessor(function, block_size, shared_bytes);
    return CUDA_SUCCESS;
}

/* The largest block among those that keep most threads on a multiprocessor. */
CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_of_block, size_t shared_bytes,
                                          int block_size_limit) {
    SIM_ENTER(SIM_CURRENT);
    SIM_TRY(check_function(function, "cuOccupancyMaxPotentialBlockSize"));
    SIM_CHECK(min_grid && block_size, CUDA_ERROR_INVALID_VALUE, "cuOccupancyMaxPotentialBlockSize: NULL");
    int limit = block_size_limit > 0 && block_size_limit < 1024 ? block_size_limit : 1024, most = 0;
    for (int b = limit; b > 0; b = b > 32 ? (b - 1) / 32 * 32 : 0) {
        int n = blocks_per_multiprocessor(function, b, shared_of_block ? shared_of_block(b) : shared_bytes);
        if (n * b <= most) continue;
        most = n * b;
        *block_size = b;
        *min_grid = n * sim_opt.multiprocessors;
    }
    SIM_CHECK(most, CUDA_ERROR_INVALID_VALUE, "no block of this kernel fits a multiprocessor");
    return CUDA_SUCCESS;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

/* The packed form of `extra`: values one after another, each aligned as its type is. */
static CUresult packed(void **extra, const char **out, size_t *out_bytes) {
    *out = NULL;
    *out_bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *out = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *out_bytes = *(size_t *)extra[1];
        else
            return sim_refuse(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel: extra has an unknown key %p", *extra);
    }
    return CUDA_SUCCESS;
}

/* Copies arguments into one block: an array of pointers to the values, then the values. */
static CUresult pack_arguments(const sim_kernel *k, void **parameters, void **extra, sim_spec *out) {
    const char *buffer = NULL;
    size_t bytes = align_up(k->n_params * sizeof(void *), 16), buffer_bytes = 0, at = 0;
    SIM_CHECK(!parameters != !extra || !k->n_params, CUDA_ERROR_INVALID_VALUE,
              "kernel %s has %u parameters: give either their addresses or extra", k->name, k->n_params);
    if (!parameters && extra) SIM_TRY(packed(extra, &buffer, &buffer_bytes));
    size_t values = bytes;
    for (uint32_t i = 0; i < k->n_params; i++) bytes += align_up(k->params[i].size, 16);
    void **args = sim_new(1, bytes + 16);
    out->payload = args;
    out->payload_bytes = bytes;
    for (uint32_t i = 0; i < k->n_params; i++) {
        const sim_param *p = &k->params[i];
        args[i] = (char *)args + values;
        values += align_up(p->size, 16);
        at = align_up(at, p->align ? p->align : 1);
        const void *from = parameters ? parameters[i] : buffer + at;
        at += p->size;
        if (!from || (!parameters && at > buffer_bytes)) {
            sim_spec_clear(out);
            return sim_refuse(CUDA_ERROR_INVALID_VALUE, "kernel %s: no value for parameter %u", k->name, i);
        }
        memcpy(args[i], from, p->size);
    }
    return CUDA_SUCCESS;
}

static CUresult check_shape(const sim_function *f, const unsigned grid[3], const unsigned block[3], unsigned shared) {
    static const unsigned max_grid[3] = {INT32_MAX, 65535, 65535}, max_block[3] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++) {
        SIM_CHECK(grid[i] && grid[i] <= max_grid[i] && block[i] && block[i] <= max_block[i], CUDA_ERROR_INVALID_VALUE,
                  "kernel %s: dimension %d has %u blocks of %u threads; there may be 1 to %u and 1 to %u",
                  f->kernel->name, i, grid[i], block[i], max_grid[i], max_block[i]);
    }
    SIM_CHECK((uint64_t)block[0] * block[1] * block[2] <= 1024, CUDA_ERROR_INVALID_VALUE,
              "kernel %s: a block of %u x %u x %u threads has more than 1024", f->kernel->name, block[0], block[1],
              block[2]);
    SIM_CHECK((int64_t)shared <= f->max_dynamic_shared, CUDA_ERROR_INVALID_VALUE,
              "kernel %s: %u bytes of dynamic shared memory, at most %d were allowed by its attribute", f->kernel->name,
              shared, f->max_dynamic_shared);
    return CUDA_SUCCESS;
}

CUresult sim_kernel_spec(sim_function *f, const unsigned grid[3], const unsigned block[3], unsigned shared,
                         void **parameters, void **extra, sim_device *d, sim_spec *out) {
    SIM_TRY(check_function(f, "cuLaunchKernel"));
    SIM_CHECK(!f->device || f->device == d, CUDA_ERROR_INVALID_HANDLE,
              "kernel %s was loaded on device %d and launched on device %d", f->kernel->name,
              f->device ? f->device->index : 0, d->index);
    SIM_TRY(check_shape(f, grid, block, shared));
    *out =
        (sim_spec){.kind = SIM_OP_KERNEL, .device = d, .kernel = {.function = f, .code = f->kernel, .shared = shared}};
    memcpy(out->kernel.grid, grid, sizeof out->kernel.grid);
    memcpy(out->kernel.block, block, sizeof out->kernel.block);
    return pack_arguments(f->kernel, parameters, extra, out);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    sim_spec spec;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_CHECK(s->device == sim_current, CUDA_ERROR_INVALID_HANDLE,
              "cuLaunchKernel: the stream is of device %d, the current context of device %d", s->device->index,
              sim_current->index);
    n_launches++;
    SIM_CHECK(!sim_opt.fail || --sim_opt.fail, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
              "cuLaunchKernel: a failure that was asked for");
    SIM_TRY(sim_kernel_spec(function, (unsigned[]){grid_x, grid_y, grid_z}, (unsigned[]){block_x, block_y, block_z},
                            shared_bytes, parameters, extra, s->device, &spec));
    return sim_enqueue(s, &spec);
}

int64_t sim_code_count(const char *name) { return strcmp(name, "launches") == 0 ? n_launches : -1; }
