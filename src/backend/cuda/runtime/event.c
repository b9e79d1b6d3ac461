/* Events, pooled per device: making one costs the driver far more than recording it. */
#include "backend/cuda/runtime/parts.h"
#include "base/mutex.h"

static struct { fac_cuda_event *free[2]; /* without and with timing */ } pools[FAC_CUDA_MAX_DEVICES];
static fac_mutex lock = FAC_MUTEX_INIT; /* of the pools */

static fac_cuda_event *pop(int index, bool timing) {
    fac__mutex_lock(&lock);
    fac_cuda_event *e = pools[index].free[timing];
    if (e) pools[index].free[timing] = e->next;
    fac__mutex_unlock(&lock);
    return e;
}

static fac_status make(int index, bool timing, CUevent *out) {
    fac_cuda_entry entry;
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUstreamCaptureMode mode = fac__cuda_relax();
    CUresult r = fac__cu.cuEventCreate(out, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    fac__cuda_unrelax(mode);
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "making an event");
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac__cuda_event_take(int index, bool timing, fac_cuda_event **out) {
    FAC_TRY(fac__cuda_check_index(index));
    if ((*out = pop(index, timing))) return FAC_OK;
    fac_cuda_event *e = fac__alloc_zero(sizeof *e);
    if (!e) return FAC_ERR_MEMORY;
    *e = (fac_cuda_event){.device = index, .timing = timing, .generation = fac__cuda_generation()};
    fac_status st = make(index, timing, &e->handle);
    *out = st == FAC_OK ? e : NULL;
    if (st != FAC_OK) fac__free(e);
    return st;
}

void fac__cuda_event_put(fac_cuda_event *e) {
    if (!e) return;
    if (e->generation != fac__cuda_generation() || !fac__cuda_running()) {
        fac__free(e); /* its handle went with the context */
        return;
    }
    fac__mutex_lock(&lock);
    e->next = pools[e->device].free[e->timing];
    pools[e->device].free[e->timing] = e;
    fac__mutex_unlock(&lock);
}

static fac_status check(const fac_cuda_event *e) {
    FAC_CHECK(e->generation == fac__cuda_generation(), FAC_ERR_STATE,
              "an event from before fac_shutdown cannot be used: make it anew");
    return FAC_OK;
}

fac_status fac__cuda_event_record(fac_cuda_event *e, int index, int64_t id) {
    fac_cuda_entry entry;
    FAC_TRY(check(e));
    FAC_CHECK(index == e->device, FAC_ERR_DEVICE, "an event of cuda:%d cannot be recorded in a stream of cuda:%d",
              e->device, index);
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUresult r = fac__cu.cuEventRecord(e->handle, fac__cuda_stream_of(index, id));
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuEventRecord");
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac__cuda_event_wait(const fac_cuda_event *e, int index, int64_t id) {
    fac_cuda_entry entry;
    FAC_TRY(check(e));
    FAC_TRY(fac__cuda_enter(index, &entry));
    CUresult r = fac__cu.cuStreamWaitEvent(fac__cuda_stream_of(index, id), e->handle, 0);
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuStreamWaitEvent");
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac__cuda_event_query(const fac_cuda_event *e, bool *out_done) {
    fac_cuda_entry entry;
    FAC_TRY(check(e));
    FAC_TRY(fac__cuda_enter(e->device, &entry));
    CUresult r = fac__cu.cuEventQuery(e->handle);
    *out_done = r == CUDA_SUCCESS;
    fac_status st = *out_done || r == CUDA_ERROR_NOT_READY ? FAC_OK : fac__cuda_fail(r, "cuEventQuery");
    fac__cuda_leave(&entry);
    return st;
}

fac_status fac__cuda_event_synchronize(const fac_cuda_event *e) {
    fac_cuda_entry entry;
    FAC_TRY(check(e));
    FAC_TRY(fac__cuda_enter(e->device, &entry));
    CUresult r = fac__cu.cuEventSynchronize(e->handle);
    fac_status st = r == CUDA_SUCCESS ? FAC_OK : fac__cuda_fail(r, "cuEventSynchronize");
    fac__cuda_leave(&entry);
    return st;
}

static fac_status elapsed(CUresult r, float ms, double *out_ms) {
    FAC_CHECK(r != CUDA_ERROR_NOT_READY, FAC_ERR_STATE,
              "the work before an event is not done yet: synchronize with it before the time is measured");
    FAC_CU_AS(r, "cuEventElapsedTime");
    *out_ms = (double)ms;
    return FAC_OK;
}

fac_status fac__cuda_event_elapsed(const fac_cuda_event *start, const fac_cuda_event *end, double *out_ms) {
    fac_cuda_entry entry;
    float ms = 0;
    FAC_TRY(check(start));
    FAC_TRY(check(end));
    FAC_CHECK(start->device == end->device, FAC_ERR_DEVICE,
              "time is measured between events of one device, not of cuda:%d and cuda:%d", start->device, end->device);
    FAC_TRY(fac__cuda_enter(start->device, &entry));
    CUresult r = fac__cu.cuEventElapsedTime(&ms, start->handle, end->handle);
    fac_status st = elapsed(r, ms, out_ms);
    fac__cuda_leave(&entry);
    return st;
}

void fac__cuda_events_stop(int index) {
    for (int timing = 0; timing < 2; timing++) {
        for (fac_cuda_event *e; (e = pop(index, timing)) != NULL; fac__free(e)) fac__cu.cuEventDestroy(e->handle);
    }
}
