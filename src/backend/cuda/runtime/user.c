/* Kernels of users: modules, their functions, launches with tensors and numbers as arguments. */
#include "backend/cuda/runtime/compile.h"
#include "backend/cuda/runtime/module.h"
#include "backend/cuda/runtime/parts.h"
#include "core/handle.h"
#include <errno.h>
#include <stdio.h>

enum { MAX_ARGS = 128, ROLE_IN = 1, ROLE_OUT = 2 };

/* ---- modules ----------------------------------------------------------------------------------------------------------------- */

static void free_module(fac_cuda_module *m) {
    if (m->owned) fac__free((void *)(uintptr_t)m->image);
    fac__free(m->source);
    fac__free(m->name);
    fac__free(m);
}

static fac_cuda_module *new_module(const void *image, const char *source, const char *name) {
    fac_cuda_module *m = fac__alloc_zero(sizeof *m);
    if (!m) return NULL;
    m->image = image;
    m->name = fac__strdup(name);
    m->source = source && m->name ? fac__strdup(source) : NULL;
    if (!m->name || (source && !m->source)) {
        free_module(m);
        return NULL;
    }
    fac__live_add(1);
    fac__cuda_module_link(m);
    return m;
}

fac_cuda_module *fac_cuda_module_load(const void *image) {
    FAC_TRY_NULL(fac_error());
    if (!image) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_cuda_module_load: image is NULL");
        return NULL;
    }
    return new_module(image, NULL, "the image");
}

static fac_status read_whole(FILE *f, const char *path, char **out) {
    fac_buf b = {0};
    char part[4096];
    size_t n;
    fac_status st = FAC_OK;
    while (st == FAC_OK && (n = fread(part, 1, sizeof part, f)) > 0) st = fac__buf_add(&b, part, n);
    if (st == FAC_OK) st = fac__buf_add(&b, "", 1); /* PTX ends in a NUL */
    if (st == FAC_OK && ferror(f)) st = FAC_FAIL(FAC_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    *out = st == FAC_OK ? b.data : NULL;
    if (st != FAC_OK) fac__buf_free(&b);
    return st;
}

fac_cuda_module *fac_cuda_module_load_file(const char *path) {
    char *data;
    FAC_TRY_NULL(fac_error());
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) {
        FAC_FAIL(FAC_ERR_IO, "cannot open '%s': %s", path ? path : "(null)",
                 path ? strerror(errno) : "no path was given");
        return NULL;
    }
    fac_status st = read_whole(f, path, &data);
    fclose(f);
    if (st != FAC_OK) return NULL;
    fac_cuda_module *m = new_module(data, NULL, path);
    if (m)
        m->owned = true;
    else
        fac__free(data);
    return m;
}

/* For the current device at once, so that errors in the source show here; for others when they first need it. */
static fac_status compile_here(fac_cuda_module *m) {
    fac_cuda_entry entry;
    int index;
    FAC_TRY(fac__cuda_get_device(&index));
    FAC_TRY(fac__cuda_enter(index, &entry));
    fac_status st = fac__cuda_module_on(m, index);
    fac__cuda_leave(&entry);
    return st;
}

fac_cuda_module *fac_cuda_module_compile(const char *source, const char *name) {
    FAC_TRY_NULL(fac_error());
    if (!source) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_cuda_module_compile: source is NULL");
        return NULL;
    }
    fac_cuda_module *m = new_module(NULL, source, name ? name : "source.cu");
    if (m && compile_here(m) != FAC_OK) {
        fac_cuda_module_release(m);
        m = NULL;
    }
    return m;
}

static void unload_everywhere(fac_cuda_module *m) {
    fac_cuda_entry entry;
    for (int i = 0; i < fac__cuda_count(); i++) {
        if (!m->loaded[i] || fac__cuda_enter(i, &entry) != FAC_OK) continue;
        fac__cu.cuCtxSynchronize();
        fac__cuda_module_unload(m, i);
        fac__cuda_recent_forget(i); /* it may name a function of this module */
        fac__cuda_leave(&entry);
    }
}

static void free_function(fac_cuda_function *f) {
    if (f) fac__free(f->name);
    fac__free(f);
}

void fac_cuda_module_release(fac_cuda_module *m) {
    if (!m) return;
    fac__cuda_module_unlink(m);
    if (fac__cuda_running()) unload_everywhere(m);
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++)
        if (m->compiled[i]) fac__cuda_compiled_free(i, m->compiled[i]);
    for (fac_cuda_function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free_function(f);
    }
    free_module(m);
    fac__live_add(-1);
}

fac_cuda_function *fac_cuda_module_function(fac_cuda_module *m, const char *name) {
    FAC_TRY_NULL(fac_error());
    if (!m || !name || !*name) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_cuda_module_function: %s", m ? "no name was given" : "the module is NULL");
        return NULL;
    }
    fac_cuda_function *f = fac__cuda_module_find(m, name);
    if (f) return f;
    f = fac__alloc_zero(sizeof *f);
    if (!f || !(f->name = fac__strdup(name))) {
        free_function(f);
        return NULL;
    }
    f->module = m;
    fac_cuda_function *added = fac__cuda_module_add(m, f);
    if (added != f) free_function(f);
    return added;
}

/* ---- launches ------------------------------------------------------------------------------------------------------------------ */

typedef struct user_launch {
    fac_cuda_function *function;
    const fac_cuda_arg *args;
    fac_tensor *tensors[MAX_ARGS]; /* headers; NULL where the argument is no tensor */
    size_t n;
    int device;
    void *addresses[MAX_ARGS]; /* of tensors */
    void *values[MAX_ARGS];    /* where the driver finds each argument */
    fac_cuda_access accesses[MAX_ARGS];
    size_t n_accesses;
} user_launch;

static fac_status pick_device(user_launch *l) {
    l->device = -1;
    for (size_t i = 0; i < l->n; i++) {
        fac_tensor *t = l->args[i].tensor;
        FAC_OPEN_OPTIONAL(t, "fac_cuda_launch", "args", fac_error());
        l->tensors[i] = t;
        if (!t) continue;
        if (t->device.type == FAC_CUDA && l->device < 0) l->device = t->device.index_plus - 1;
    }
    return l->device < 0 ? fac__cuda_get_device(&l->device) : FAC_OK;
}

static fac_status check_tensor(const user_launch *l, size_t i) {
    const fac_tensor *t = l->tensors[i];
    char name[24];
    if (fac__is_cpu(t)) {
        FAC_CHECK(!t->storage || fac__cuda_is_host_memory(t->storage->data), FAC_ERR_DEVICE,
                  "argument %zu of kernel %s is a CPU tensor whose memory is not page-locked: a device cannot reach it",
                  i, l->function->name);
        return FAC_OK;
    }
    FAC_CHECK(t->device.type == FAC_CUDA, FAC_ERR_DEVICE, "argument %zu of kernel %s is on %s: expected cuda:%d", i,
              l->function->name, fac_device_format(t->device, name, sizeof name), l->device);
    FAC_CHECK(
        fac__cuda_peer_enabled(l->device, t->device.index_plus - 1), FAC_ERR_DEVICE,
        "Expected all tensors to be on the same device, but argument %zu of kernel %s is on %s and an earlier one on "
        "cuda:%d; fac_cuda_enable_peer_access(%d, %d) would allow it where the hardware can",
        i, l->function->name, fac_device_format(t->device, name, sizeof name), l->device, l->device,
        t->device.index_plus - 1);
    return FAC_OK;
}

static fac_status gather_tensor(user_launch *l, size_t i) {
    const fac_cuda_arg *a = &l->args[i];
    FAC_TRY(check_tensor(l, i));
    l->addresses[i] = fac__data(l->tensors[i]);
    l->values[i] = &l->addresses[i];
    fac__cuda_access_tensor(l->tensors[i], a->role & ROLE_IN, a->role & ROLE_OUT, NULL, &l->accesses[l->n_accesses++]);
    return FAC_OK;
}

static fac_status gather(user_launch *l) {
    for (size_t i = 0; i < l->n; i++) {
        const fac_cuda_arg *a = &l->args[i];
        FAC_CHECK(a->size > 0, FAC_ERR_ARGUMENT,
                  "argument %zu of kernel %s is empty: make it with fac_cuda_in and the like", i, l->function->name);
        if (a->tensor)
            FAC_TRY(gather_tensor(l, i));
        else /* read only, whatever the driver's prototype says */
            l->values[i] = a->bytes ? (void *)(uintptr_t)a->bytes : (void *)(uintptr_t)&a->bits;
    }
    return FAC_OK;
}

/* Where the driver tells the parameters' sizes (12.4 on), a launch with wrong ones is an error rather than a read of
   whatever lies behind. */
static fac_status check_parameters(const user_launch *l, CUfunction f) {
    size_t offset, size, n = 0;
    if (!fac__cu.cuFuncGetParamInfo) return FAC_OK;
    while (n <= MAX_ARGS && fac__cu.cuFuncGetParamInfo(f, n, &offset, &size) == CUDA_SUCCESS) {
        FAC_CHECK(n >= l->n || size == l->args[n].size, FAC_ERR_ARGUMENT,
                  "argument %zu of kernel %s has %u bytes, but the parameter has %zu", n, l->function->name,
                  (unsigned)l->args[n].size, size);
        n++;
    }
    FAC_CHECK(n == l->n, FAC_ERR_ARGUMENT, "kernel %s takes %zu arguments, but %zu were given", l->function->name, n,
              l->n);
    return FAC_OK;
}

/* Page-locked memory that the queue will use; before the launch, which cannot be called back. */
static fac_status hold_host_memory(const user_launch *l) {
    for (size_t i = 0; i < l->n; i++) {
        const fac_tensor *t = l->tensors[i];
        if (t && fac__is_cpu(t) && t->storage)
            FAC_TRY(fac__cuda_host_record(t->storage->data, l->device, fac__cuda_stream_id(l->device)));
    }
    return FAC_OK;
}

/* Autograd hears of tensors that change. */
static fac_status note_changes(const user_launch *l) {
    for (size_t i = 0; i < l->n; i++) {
        fac_tensor *t = l->tensors[i];
        if (t && l->args[i].role & ROLE_OUT && !(t->flags & FAC_TF_INFERENCE)) FAC_TRY(fac__bump_version(t));
    }
    return FAC_OK;
}

static fac_status launch_entered(user_launch *l, const fac_cuda_config *c) {
    CUfunction f;
    unsigned grid[3], block[3];
    FAC_TRY(fac__cuda_resolve(l->function, l->device, &f));
    FAC_TRY(check_parameters(l, f));
    for (int d = 0; d < 3; d++) {
        grid[d] = c->grid[d] ? c->grid[d] : 1;
        block[d] = c->block[d] ? c->block[d] : 1;
    }
    FAC_CHECK(c->shared <= INT32_MAX, FAC_ERR_ARGUMENT,
              "kernel %s: %zu bytes of shared memory are more than any device has", l->function->name, c->shared);
    FAC_TRY(hold_host_memory(l));
    FAC_TRY(fac__cuda_queue_function(&(fac_cuda_queue){.function = f,
                                                       .name = l->function->name,
                                                       .device = l->device,
                                                       .grid = grid,
                                                       .block = block,
                                                       .shared = (unsigned)c->shared,
                                                       .args = l->values,
                                                       .accesses = l->accesses,
                                                       .n_accesses = l->n_accesses}));
    return note_changes(l);
}

fac_status fac_cuda_launch(fac_cuda_function *f, fac_cuda_config config, const fac_cuda_arg *args, size_t n_args) {
    user_launch l; /* large: only what is used of it is written */
    fac_cuda_entry entry;
    FAC_TRY(fac_error());
    FAC_CHECK(f && (args || !n_args), FAC_ERR_ARGUMENT, "fac_cuda_launch: %s is NULL", f ? "args" : "the function");
    FAC_CHECK(n_args <= MAX_ARGS, FAC_ERR_ARGUMENT, "kernel %s: %zu arguments were given, at most %d are possible",
              f->name, n_args, MAX_ARGS);
    l.function = f;
    l.args = args;
    l.n = n_args;
    l.n_accesses = 0;
    FAC_TRY(pick_device(&l));
    FAC_TRY(fac__cuda_check_index(l.device));
    FAC_TRY(gather(&l));
    FAC_TRY(fac__cuda_enter(l.device, &entry));
    fac_status st = launch_entered(&l, &config);
    fac__cuda_leave(&entry);
    return st;
}

/* ---- block sizes ----------------------------------------------------------------------------------------------------------------- */

/* Enters the device (-1: the current one) and finds the function there; to be left if this succeeds. */
static fac_status enter_function(fac_cuda_function *f, int device, fac_cuda_entry *entry, CUfunction *out) {
    FAC_TRY(fac_error());
    FAC_CHECK(f, FAC_ERR_ARGUMENT, "NULL was given where a kernel is needed");
    if (device < 0) FAC_TRY(fac__cuda_get_device(&device));
    FAC_TRY(fac__cuda_enter(device, entry));
    fac_status st = fac__cuda_resolve(f, device, out);
    if (st != FAC_OK) fac__cuda_leave(entry);
    return st;
}

static fac_status config_of(CUfunction f, int64_t n, bool loop, fac_cuda_config *out) {
    int least_grid, block;
    FAC_CU(fac__cu.cuOccupancyMaxPotentialBlockSize(&least_grid, &block, f, NULL, 0, 0));
    int64_t blocks = n / block + (n % block != 0);
    if (loop && blocks > least_grid) blocks = least_grid;
    FAC_CHECK(blocks <= INT32_MAX, FAC_ERR_ARGUMENT, "%lld threads take %lld blocks of %d, more than a grid has",
              (long long)n, (long long)blocks, block);
    *out = (fac_cuda_config){.grid = {blocks ? (unsigned)blocks : 1, 1, 1}, .block = {(unsigned)block, 1, 1}};
    return FAC_OK;
}

fac_status fac_cuda_config_for(fac_cuda_function *f, int device, int64_t n, bool loop, fac_cuda_config *out) {
    fac_cuda_entry entry;
    CUfunction handle;
    FAC_CHECK(out && n >= 0, FAC_ERR_ARGUMENT, "fac_cuda_config_for: %s", out ? "n is negative" : "out is NULL");
    FAC_TRY(enter_function(f, device, &entry, &handle));
    fac_status st = config_of(handle, n, loop, out);
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac_cuda_occupancy(fac_cuda_function *f, int device, int block, size_t shared, int *out_blocks) {
    fac_cuda_entry entry;
    CUfunction handle;
    FAC_CHECK(out_blocks, FAC_ERR_ARGUMENT, "fac_cuda_occupancy: out_blocks is NULL");
    FAC_TRY(enter_function(f, device, &entry, &handle));
    CUresult r = fac__cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(out_blocks, handle, block, shared);
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "the occupancy of a kernel");
    fac__cuda_leave(&entry);
    return st;
}
