/* Launches the kernels of operators: sizes of grids, the notes of what a launch reads and writes, errors. */
#include "backend/cuda/ops/run.h"
#include "backend/cuda/ops/transfer.h"
#include "core/tensor_make.h"

/* Threads of a block on hardware. Simulated threads that have nothing to do cost as much as busy ones. */
enum { THREADS = 256, WARP = 32, BLOCKS_PER_MULTIPROCESSOR = 8 };

static void note(fac_cuda_run *r, const fac_tensor *t, bool read, bool write) {
    if (!t || t->device.type != FAC_CUDA || r->n_accesses == FAC_CUDA_ACCESSES) return;
    fac__cuda_access_tensor(t, read, write, NULL, &r->access[r->n_accesses++]);
}
void fac__cuda_reads(fac_cuda_run *r, const fac_tensor *t) { note(r, t, true, false); }
void fac__cuda_writes(fac_cuda_run *r, const fac_tensor *t) { note(r, t, false, true); }
void fac__cuda_updates(fac_cuda_run *r, const fac_tensor *t) { note(r, t, true, true); }

static fac_status launch(const fac_cuda_run *r, void **args, int64_t blocks, unsigned threads) {
    fac_cuda_device *d;
    FAC_TRY(fac__cuda_device(r->device, &d));
    int64_t most = (int64_t)fac__max(1, d->multiprocessors) * BLOCKS_PER_MULTIPROCESSOR;
    fac_cuda_launch_spec l = {.kernel = r->kernel,
                              .device = r->device,
                              .grid = {(unsigned)fac__max(1, fac__min(blocks, most)), 1, 1},
                              .block = {threads, 1, 1},
                              .args = args,
                              .accesses = r->access,
                              .n_accesses = r->n_accesses,
                              .op = r->op,
                              .bounds = r->bounds};
    return fac__cuda_launch(&l);
}

fac_status fac__cuda_run_items(const fac_cuda_run *r, void **args, int64_t items) {
    int64_t threads = items < THREADS ? fac__div_up(items, WARP) * WARP : THREADS;
    return launch(r, args, fac__div_up(items, threads), (unsigned)threads);
}

fac_status fac__cuda_run_rows(const fac_cuda_run *r, void **args, int64_t rows, int64_t n) {
    unsigned threads = WARP;
    int64_t per_thread = fac__cu_is_simulated() ? 128 : 4;
    while (threads < THREADS && (int64_t)threads * per_thread < n) threads *= 2;
    return launch(r, args, rows, threads);
}

fac_status fac__cuda_contiguous(fac_tensor *t, fac_tensor **out) {
    *out = NULL;
    if (!t) return FAC_OK;
    if (fac__is_contiguous(t)) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    fac_status st = t->numel ? fac__cuda_copy_elements(*out, t) : FAC_OK;
    if (st != FAC_OK) {
        fac__unref(*out);
        *out = NULL;
    }
    return st;
}

fac_status fac__cuda_result(fac_tensor *home, fac_tensor **out) {
    *out = NULL;
    if (!home) return FAC_OK;
    if (!fac__is_contiguous(home))
        return fac__empty(home->sizes, home->ndim, (fac_dtype)home->dtype, home->device, out);
    *out = fac__ref(home);
    return FAC_OK;
}

fac_status fac__cuda_result_done(fac_tensor *home, fac_tensor *result, fac_status st) {
    if (st == FAC_OK && result && result != home && home->numel) st = fac__cuda_copy_elements(home, result);
    fac__unref(result);
    return st;
}
