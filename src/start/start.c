/* fac_init and fac_shutdown: once, but restartable. */
#include "amp/autocast.h"
#include "autograd/init.h"
#include "backend/cpu/cpu.h"
#include "backend/cuda/ops/pointwise.h"
#include "backend/cuda/runtime/runtime.h"
#include "base/mutex.h"
#include "core/guard.h"
#include "core/kinds.h"
#include "core/names.h"
#include "dispatch/operator.h"
#include "ops/batch/batch.h"
#include "ops/coded.h"
#include "ops/loop.h"
#include "ops/nested/fallback.h"
#include "ops/pending.h"
#include "ops/sparse/fallback.h"
#include "ops/vendor/fallback.h"

/* In the order of their start. A room that fails to start leaves nothing behind. */
static const struct {
    fac_status (*start)(void);
    void (*stop)(void);
} rooms[] = {
    {fac__cpu_init, fac__cpu_shutdown},
    {NULL, fac__pointwise_shutdown},
#if FAC_HAVE_CUDA
    {fac__cuda_init, fac__cuda_shutdown},
    {fac__cuda_ops_init, NULL},
#endif
    {fac__dispatch_init, fac__dispatch_shutdown},
    {fac__pending_init, NULL},
#if FAC_HAVE_SPARSE
    {fac__sparse_init, NULL},
#endif
#if FAC_HAVE_NESTED
    {fac__nested_init, NULL},
#endif
#if FAC_HAVE_VENDOR
    {fac__vendor_init, NULL},
#endif
#if FAC_HAVE_CODED
    {fac__coded_init, NULL},
#endif
#if FAC_HAVE_BATCHED
    {fac__batch_init, fac__batch_shutdown},
#endif
    {NULL, fac__names_shutdown},
    {fac__autograd_init, fac__autograd_shutdown},
    {NULL, fac__autocast_shutdown},
    {fac__tables_settle, NULL}, /* the last: once for all that the others registered */
};

/* Guards the start and stop of the rooms, fac__started where it is written, and the two below. Recursive: what a room does while
   it starts may need the library, and finds it starting. */
static fac_mutex lock = FAC_MUTEX_INIT_RECURSIVE;
static bool starting;
static int64_t own_objects; /* made by the rooms for themselves; left out of fac_live, which is for finding leaks */

static void stop_rooms(size_t n) {
    while (n--)
        if (rooms[n].stop) rooms[n].stop();
}

static fac_status start_rooms(void) {
    for (size_t i = 0; i < FAC_COUNT(rooms); i++) {
        fac_status st = rooms[i].start ? rooms[i].start() : FAC_OK;
        if (st == FAC_OK) continue;
        stop_rooms(i);
        return st;
    }
    return FAC_OK;
}

fac_status fac_init(void) {
    if (FAC_LIKELY(atomic_load_explicit(&fac__started, memory_order_acquire))) return FAC_OK;
    fac_status st = FAC_OK;
    fac_thread *th = fac__thread();
    if (atomic_load_explicit(&fac__started, memory_order_acquire)) return FAC_OK; /* by fac__thread */
    if (th->error != FAC_OK) return th->error;
    fac__mutex_lock(&lock);
    if (!starting && !atomic_load_explicit(&fac__started, memory_order_relaxed)) {
        int64_t before = fac_live();
        starting = true;
        st = start_rooms();
        starting = false;
        own_objects = fac_live() - before;
        fac__live_add(-own_objects);
        if (st == FAC_OK) atomic_store_explicit(&fac__started, true, memory_order_release);
    }
    fac__mutex_unlock(&lock);
    return st;
}

void fac_shutdown(void) {
    fac__mutex_lock(&lock);
    if (atomic_load_explicit(&fac__started, memory_order_relaxed)) {
        fac__live_add(own_objects);
        stop_rooms(FAC_COUNT(rooms));
        fac__guards_forget();
        atomic_store_explicit(&fac__started, false, memory_order_release);
    }
    fac__thread_end();
    fac_memory_trim();
    fac__mutex_unlock(&lock);
}
