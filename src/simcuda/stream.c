/* Streams and events. A stream is the op that was queued in it last; an event is the op that it was recorded with. */
#include "simcuda/sim.h"
#include <stdlib.h>
#include <string.h>

static uint64_t last_stream_id = 1; /* 1 is the legacy stream's */

/* ---- order ------------------------------------------------------------------------------------------------------- */

CUresult sim_stream_of(CUstream handle, sim_stream **out) {
    SIM_CHECK(handle != CU_STREAM_PER_THREAD, CUDA_ERROR_NOT_SUPPORTED,
              "the per-thread default stream is not simulated");
    if (!handle || handle == CU_STREAM_LEGACY) {
        SIM_CHECK(sim_current && sim_current->retained, CUDA_ERROR_INVALID_CONTEXT,
                  "the thread has no current context");
        *out = sim_current->legacy;
        return CUDA_SUCCESS;
    }
    SIM_CHECK(sim_object_is(handle, SIM_STREAM), CUDA_ERROR_INVALID_HANDLE, "%p is no stream, or was destroyed",
              (void *)handle);
    SIM_CHECK(handle->device->retained, CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context of the stream was released");
    *out = handle;
    return CUDA_SUCCESS;
}

/* Makes op the stream's next: after the stream's last, and by the rules of the legacy default stream, which waits for
   all blocking streams of its device and holds them up. */
void sim_append(sim_stream *s, sim_op *op) {
    sim_op_after(op, s->tail);
    if (s->legacy) {
        for (sim_stream *other = s->device->streams; other; other = other->next_stream) {
            if (!(other->flags & CU_STREAM_NON_BLOCKING)) sim_op_after(op, other->tail);
        }
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING)) {
        sim_op_after(op, s->device->legacy->tail);
    }
    sim_op_drop(s->tail);
    s->tail = op;
}

CUresult sim_enqueue(sim_stream *s, sim_spec *spec) {
    if (s->capture) return sim_capture_add(s, spec);
    if (s->legacy || !(s->flags & CU_STREAM_NON_BLOCKING)) {
        CUresult r = s->legacy ? sim_capture_implicit(s->device) : CUDA_SUCCESS;
        if (r) {
            sim_spec_clear(spec);
            return r;
        }
    }
    sim_op *op = sim_op_new(spec);
    sim_append(s, op);
    sim_op_submit(op);
    return CUDA_SUCCESS;
}

/* Queues a mark; the op is borrowed from the stream. */
static sim_op *enqueue_mark(sim_stream *s) {
    sim_op *op = sim_op_new(&(sim_spec){.kind = SIM_OP_MARK, .device = s->device});
    sim_append(s, op);
    sim_op_submit(op);
    return op;
}

void sim_stream_wait(sim_stream *s) { sim_op_wait(s->legacy ? enqueue_mark(s) : s->tail); }

static bool stream_done(sim_stream *s) {
    for (sim_stream *other = s->legacy ? s->device->streams : NULL; other; other = other->next_stream) {
        if (!(other->flags & CU_STREAM_NON_BLOCKING) && !sim_op_seen(other->tail)) return false;
    }
    return sim_op_seen(s->tail);
}

static CUresult fault_of(const sim_device *d) {
    return d->fault ? sim_refuse(d->fault, "%s", d->fault_text) : CUDA_SUCCESS;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    SIM_ENTER(SIM_CURRENT);
    SIM_CHECK(stream && !(flags & ~(unsigned)CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE,
              "cuStreamCreate: flags %u", flags);
    sim_stream *s = sim_object_new(SIM_STREAM, sizeof *s);
    s->device = sim_current;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->id = ++last_stream_id;
    s->next_stream = sim_current->streams;
    sim_current->streams = s;
    *stream = s;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

static void unlink_stream(sim_stream *s) {
    sim_stream **at = &s->device->streams;
    while (*at != s) at = &(*at)->next_stream;
    *at = s->next_stream;
    if (s->capture) sim_capture_forget(s);
    sim_op_drop(s->tail);
    free(s->nodes);
    sim_object_free(s);
}

/* Does not wait: what is queued still runs. */
CUresult cuStreamDestroy_v2(CUstream stream) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(sim_object_is(stream, SIM_STREAM), CUDA_ERROR_INVALID_HANDLE, "cuStreamDestroy: %p is no stream",
              (void *)stream);
    if (!sim_op_done(stream->tail) && !stream->tail->orphan) {
        stream->tail->orphan = true;
        stream->device->n_orphans++;
    }
    unlink_stream(stream);
    return CUDA_SUCCESS;
}

void sim_streams_stop(sim_device *d) {
    while (d->streams) unlink_stream(d->streams);
    if (!d->legacy) return;
    sim_op_drop(d->legacy->tail);
    sim_object_live[SIM_STREAM]++;
    sim_object_free(d->legacy);
    d->legacy = NULL;
}

#define STREAM(needs, handle, s) \
    sim_stream *s;               \
    SIM_ENTER(needs);            \
    SIM_TRY(sim_stream_of(handle, &s))

CUresult cuStreamSynchronize(CUstream stream) {
    STREAM(SIM_CURRENT, stream, s);
    if (s->capture) return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamSynchronize");
    SIM_TRY(sim_capture_unsafe("cuStreamSynchronize"));
    if (s->legacy) SIM_TRY(sim_capture_implicit(s->device));
    sim_device *d = s->device;
    sim_stream_wait(s);
    sim_pools_trim(d, false);
    return fault_of(d);
}

CUresult cuStreamQuery(CUstream stream) {
    STREAM(SIM_CURRENT, stream, s);
    if (s->capture) return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamQuery");
    SIM_TRY(sim_capture_unsafe("cuStreamQuery"));
    if (s->legacy) SIM_TRY(sim_capture_implicit(s->device));
    sim_device *d = s->device;
    sim_op *tail = s->tail ? sim_op_keep(s->tail) : NULL;
    bool legacy = s->legacy;
    if (!(legacy ? stream_done(s) : sim_op_seen(tail))) sim_progress();
    bool done = legacy ? stream_done(d->legacy) : sim_op_seen(tail);
    sim_op_drop(tail);
    SIM_TRY(fault_of(d));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_CHECK(priority, CUDA_ERROR_INVALID_VALUE, "cuStreamGetPriority: priority is NULL");
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_CHECK(flags, CUDA_ERROR_INVALID_VALUE, "cuStreamGetFlags: flags is NULL");
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_CHECK(context, CUDA_ERROR_INVALID_VALUE, "cuStreamGetCtx: context is NULL");
    *context = s->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_CHECK(id, CUDA_ERROR_INVALID_VALUE, "cuStreamGetId: id is NULL");
    *id = s->legacy ? 1 : s->id;
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_CHECK(function, CUDA_ERROR_INVALID_VALUE, "cuLaunchHostFunc: function is NULL");
    return sim_enqueue(s, &(sim_spec){.kind = SIM_OP_HOST, .device = s->device, .host = {function, data}});
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static CUresult check_event(CUevent e, const char *name) {
    SIM_CHECK(sim_object_is(e, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE, "%s: %p is no event, or was destroyed", name,
              (void *)e);
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    SIM_ENTER(SIM_CURRENT);
    SIM_CHECK(event && !(flags & ~7u), CUDA_ERROR_INVALID_VALUE, "cuEventCreate: flags %u", flags);
    SIM_CHECK(!(flags & CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED, "events between processes are not simulated");
    CUevent e = sim_object_new(SIM_EVENT, sizeof *e);
    e->device = sim_current;
    e->flags = flags;
    *event = e;
    return CUDA_SUCCESS;
}

static void event_free(CUevent e) {
    sim_op_drop(e->op);
    free(e->nodes);
    sim_object_free(e);
}

CUresult cuEventDestroy_v2(CUevent event) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_event(event, "cuEventDestroy"));
    event_free(event);
    return CUDA_SUCCESS;
}

void sim_events_stop(void) {
    CUevent e;
    while ((e = sim_object_any(SIM_EVENT, NULL))) event_free(e);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_TRY(check_event(event, "cuEventRecord"));
    SIM_CHECK(flags <= CU_EVENT_RECORD_EXTERNAL, CUDA_ERROR_INVALID_VALUE, "cuEventRecord: flags %u", flags);
    SIM_CHECK(event->device == s->device, CUDA_ERROR_INVALID_HANDLE,
              "cuEventRecord: the event is of device %d, the stream of device %d", event->device->index,
              s->device->index);
    if (s->capture && flags)
        return sim_enqueue(s, &(sim_spec){.kind = SIM_OP_RECORD, .device = s->device, .event = event});
    if (s->capture) return sim_capture_record(event, s);
    if (s->legacy) SIM_TRY(sim_capture_implicit(s->device));
    sim_op *op = sim_op_keep(enqueue_mark(s));
    sim_op_drop(event->op);
    event->op = op;
    event->capture = 0;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

/* Binds to the latest record at the time of the call; an event never recorded holds up nothing. */
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    STREAM(SIM_CURRENT, stream, s);
    SIM_TRY(check_event(event, "cuStreamWaitEvent"));
    SIM_CHECK(flags <= CU_EVENT_WAIT_EXTERNAL, CUDA_ERROR_INVALID_VALUE, "cuStreamWaitEvent: flags %u", flags);
    if (s->capture && flags)
        return sim_enqueue(s, &(sim_spec){.kind = SIM_OP_WAIT, .device = s->device, .event = event});
    if (s->capture || sim_capture_is_event(event)) return sim_capture_wait(s, event);
    if (s->legacy) SIM_TRY(sim_capture_implicit(s->device));
    if (!event->op) return CUDA_SUCCESS;
    sim_op *op = sim_op_new(&(sim_spec){.kind = SIM_OP_MARK, .device = s->device});
    sim_op_after(op, event->op);
    sim_append(s, op);
    sim_op_submit(op);
    return CUDA_SUCCESS;
}

static CUresult check_not_captured(CUevent e, const char *name) {
    SIM_TRY(check_event(e, name));
    if (sim_capture_is_event(e)) {
        return sim_refuse(CUDA_ERROR_CAPTURED_EVENT,
                          "%s: the event was last recorded in a stream that is being captured", name);
    }
    return sim_capture_unsafe(name);
}

CUresult cuEventQuery(CUevent event) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_not_captured(event, "cuEventQuery"));
    sim_device *d = event->device;
    if (sim_op_seen(event->op)) return fault_of(d);
    sim_op *op = sim_op_keep(event->op);
    sim_progress();
    bool done = sim_op_seen(op);
    sim_op_drop(op);
    SIM_TRY(fault_of(d));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_not_captured(event, "cuEventSynchronize"));
    sim_device *d = event->device;
    sim_op_wait(event->op);
    sim_pools_trim(d, false);
    return fault_of(d);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_TRY(check_not_captured(start, "cuEventElapsedTime"));
    SIM_TRY(check_not_captured(end, "cuEventElapsedTime"));
    SIM_CHECK(milliseconds, CUDA_ERROR_INVALID_VALUE, "cuEventElapsedTime: milliseconds is NULL");
    SIM_CHECK(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE,
              "cuEventElapsedTime: an event was made without timing");
    SIM_CHECK(start->op && end->op, CUDA_ERROR_INVALID_HANDLE, "cuEventElapsedTime: an event was never recorded");
    SIM_CHECK(start->device == end->device, CUDA_ERROR_INVALID_HANDLE,
              "cuEventElapsedTime: events of devices %d and %d", start->device->index, end->device->index);
    if (!sim_op_done(start->op) || !sim_op_done(end->op)) return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(end->op->time - start->op->time);
    return CUDA_SUCCESS;
}
