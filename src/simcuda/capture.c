/* Stream capture. A captured stream keeps the set of nodes that its next node depends on; events carry such sets from
   stream to stream. A call that has no place in a capture invalidates it, and the capture's end says so. */
#include "simcuda/sim.h"
#include <stdlib.h>
#include <string.h>

sim_capture *sim_captures;
static uint64_t last_capture, last_thread;
static _Thread_local uint64_t thread_id;
static _Thread_local CUstreamCaptureMode thread_mode; /* GLOBAL at first */

static uint64_t this_thread(void) {
    if (!thread_id) thread_id = ++last_thread;
    return thread_id;
}

static sim_capture *capture_of(uint64_t id) {
    sim_capture *c = sim_captures;
    while (c && c->id != id) c = c->next;
    return c;
}

bool sim_capture_is_event(const struct CUevent_st *e) { return e->capture != 0; }

static void set_nodes(sim_stream *s, const CUgraphNode *nodes, size_t n) {
    s->n_nodes = 0;
    for (size_t i = 0; i < n; i++) {
        sim_grow(&s->nodes, s->n_nodes, &s->cap_nodes, sizeof *s->nodes);
        s->nodes[s->n_nodes++] = nodes[i];
    }
}

static void add_nodes(sim_stream *s, const CUgraphNode *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (size_t k = 0; k < s->n_nodes; k++) known |= s->nodes[k] == nodes[i];
        if (known) continue;
        sim_grow(&s->nodes, s->n_nodes, &s->cap_nodes, sizeof *s->nodes);
        s->nodes[s->n_nodes++] = nodes[i];
    }
}

/* Every stream of the capture leaves it. */
static void end(sim_capture *c) {
    for (int i = 0; i < sim_n_devices; i++) {
        for (sim_stream *s = sim_devices[i].streams; s; s = s->next_stream) {
            if (s->capture == c) s->capture = NULL, s->n_nodes = 0;
        }
    }
    sim_capture **at = &sim_captures;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    free(c);
}

void sim_capture_forget(sim_stream *s) {
    sim_capture *c = s->capture;
    c->invalid = true;
    s->capture = NULL;
    if (c->origin != s) return;
    sim_graph_free(c->graph);
    end(c);
}

/* ---- what may not be done ---------------------------------------------------------------------------------------- */

CUresult sim_capture_break(sim_stream *s, CUresult r, const char *what) {
    s->capture->invalid = true;
    return sim_refuse(r, "%s is not allowed in a stream that is being captured; the capture is lost", what);
}

CUresult sim_capture_unsafe(const char *name) {
    bool hit = false;
    for (sim_capture *c = sim_captures; c && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED; c = c->next) {
        bool own = c->thread == this_thread() && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !others) continue;
        c->invalid = hit = true;
    }
    SIM_CHECK(
        !hit, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "%s is unsafe while a stream is being captured, and the thread's capture mode forbids it; the capture is lost",
        name);
    return CUDA_SUCCESS;
}

CUresult sim_capture_implicit(sim_device *d) {
    for (sim_stream *s = d->streams; s; s = s->next_stream) {
        if (!s->capture || s->flags & CU_STREAM_NON_BLOCKING) continue;
        s->capture->invalid = true;
        return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                          "work in the legacy default stream would wait for a blocking stream that is being captured");
    }
    return CUDA_SUCCESS;
}

static CUresult check_valid(const sim_capture *c) {
    SIM_CHECK(!c->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier call");
    return CUDA_SUCCESS;
}

/* ---- what becomes of calls --------------------------------------------------------------------------------------- */

CUresult sim_capture_add(sim_stream *s, sim_spec *spec) {
    CUresult r = check_valid(s->capture);
    if (r) {
        sim_spec_clear(spec);
        return r;
    }
    CUgraphNode node = sim_graph_add(s->capture->graph, spec, s->nodes, s->n_nodes);
    set_nodes(s, &node, 1);
    return CUDA_SUCCESS;
}

CUresult sim_capture_record(CUevent e, sim_stream *s) {
    SIM_TRY(check_valid(s->capture));
    e->capture = s->capture->id;
    free(e->nodes);
    e->n_nodes = s->n_nodes;
    e->nodes = sim_new(s->n_nodes, sizeof *e->nodes);
    if (s->n_nodes) memcpy(e->nodes, s->nodes, s->n_nodes * sizeof *e->nodes);
    return CUDA_SUCCESS;
}

/* A stream that waits for an event of a capture takes part in it from then on. */
CUresult sim_capture_wait(sim_stream *s, CUevent e) {
    sim_capture *c = e->capture ? capture_of(e->capture) : NULL;
    if (s->capture) SIM_TRY(check_valid(s->capture));
    if (!e->capture && !e->op) return CUDA_SUCCESS;
    if (!c) {
        if (s->capture)
            return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a wait for work outside of the capture");
        return sim_refuse(CUDA_ERROR_CAPTURED_EVENT,
                          "cuStreamWaitEvent: the event was recorded in a capture that has ended");
    }
    SIM_TRY(check_valid(c));
    if (s->capture && s->capture != c) {
        c->invalid = true;
        return sim_capture_break(s, CUDA_ERROR_STREAM_CAPTURE_MERGE, "a wait for an event of another capture");
    }
    if (s->legacy) {
        c->invalid = true;
        return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                          "the legacy default stream cannot take part in a capture");
    }
    s->capture = c;
    add_nodes(s, e->nodes, e->n_nodes);
    return CUDA_SUCCESS;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    SIM_ENTER(SIM_INITIALISED);
    SIM_CHECK(mode && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE,
              "cuThreadExchangeStreamCaptureMode: there is no such mode");
    CUstreamCaptureMode was = thread_mode;
    thread_mode = *mode;
    *mode = was;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_CHECK((unsigned)mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE, "there is no capture mode %d",
              (int)mode);
    SIM_CHECK(!s->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
    SIM_CHECK(!s->capture, CUDA_ERROR_ILLEGAL_STATE, "cuStreamBeginCapture: the stream is being captured already");
    sim_capture *c = sim_new(1, sizeof *c);
    *c = (sim_capture){.id = ++last_capture,
                       .graph = sim_graph_new(),
                       .origin = s,
                       .mode = mode,
                       .thread = this_thread(),
                       .next = sim_captures};
    sim_captures = c;
    s->capture = c;
    s->n_nodes = 0;
    return CUDA_SUCCESS;
}

/* Whether all that other streams did in the capture comes before the end of the origin's. */
static bool joined(const sim_capture *c) {
    for (int i = 0; i < sim_n_devices; i++) {
        for (sim_stream *s = sim_devices[i].streams; s; s = s->next_stream) {
            for (size_t k = 0; s->capture == c && s != c->origin && k < s->n_nodes; k++) {
                if (!sim_graph_reaches(c->graph, c->origin->nodes, c->origin->n_nodes, s->nodes[k])) return false;
            }
        }
    }
    return true;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    SIM_ENTER(SIM_INITIALISED);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    sim_capture *c = s->capture;
    SIM_CHECK(graph, CUDA_ERROR_INVALID_VALUE, "cuStreamEndCapture: graph is NULL");
    *graph = NULL;
    SIM_CHECK(c, CUDA_ERROR_ILLEGAL_STATE, "cuStreamEndCapture: the stream is not being captured");
    SIM_CHECK(c->origin == s, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was begun in another stream");
    SIM_CHECK(c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || c->thread == this_thread(),
              CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread");
    CUresult r = check_valid(c);
    if (!r && !joined(c)) {
        r = sim_refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                       "a stream that was forked into the capture was not joined again");
    }
    if (r)
        sim_graph_free(c->graph);
    else
        *graph = c->graph;
    end(c);
    return r;
}

static CUstreamCaptureStatus status_of(const sim_stream *s) {
    if (!s->capture) return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Asking about the legacy stream while a blocking stream is captured is refused, but does no harm. */
static CUresult check_asked(const sim_stream *s) {
    for (const sim_stream *other = s->legacy ? s->device->streams : NULL; other; other = other->next_stream) {
        SIM_CHECK(!other->capture || other->flags & CU_STREAM_NON_BLOCKING, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                  "a blocking stream is being captured");
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_CHECK(status, CUDA_ERROR_INVALID_VALUE, "cuStreamIsCapturing: status is NULL");
    SIM_TRY(check_asked(s));
    *status = status_of(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, size_t *count) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_CHECK(status, CUDA_ERROR_INVALID_VALUE, "cuStreamGetCaptureInfo: status is NULL");
    SIM_TRY(check_asked(s));
    *status = status_of(s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
    if (id) *id = s->capture->id;
    if (graph) *graph = s->capture->graph;
    if (dependencies) *dependencies = s->nodes;
    if (count) *count = s->n_nodes;
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count, unsigned flags) {
    SIM_ENTER(SIM_CURRENT);
    sim_stream *s;
    SIM_TRY(sim_stream_of(stream, &s));
    SIM_CHECK(s->capture, CUDA_ERROR_ILLEGAL_STATE,
              "cuStreamUpdateCaptureDependencies: the stream is not being captured");
    SIM_CHECK(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE, "there are no flags %u", flags);
    for (size_t i = 0; i < count; i++) {
        SIM_CHECK(sim_object_is(dependencies[i], SIM_NODE), CUDA_ERROR_INVALID_VALUE, "dependency %zu is no node", i);
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) s->n_nodes = 0;
    add_nodes(s, dependencies, count);
    return CUDA_SUCCESS;
}
