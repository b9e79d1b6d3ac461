/* What is in a snapshot, in the words of PyTorch's memory viewer; and files. */
#define _GNU_SOURCE /* dladdr */
#include "backend/cuda/runtime/snapshot_write.h"
#include "backend/cuda/runtime/alloc.h"
#include "base/file.h"
#include <dlfcn.h>
#include <stdio.h>

typedef struct writer {
    const fac_emitter *e;
    void *self;
} writer;

static void open_dict(const writer *w, const char *key) { w->e->open(w->self, key, false); }
static void close_dict(const writer *w) { w->e->close(w->self, false); }
static void open_list(const writer *w, const char *key) { w->e->open(w->self, key, true); }
static void close_list(const writer *w) { w->e->close(w->self, true); }
static void integer(const writer *w, const char *key, int64_t v) { w->e->integer(w->self, key, v); }
static void boolean(const writer *w, const char *key, bool v) { w->e->boolean(w->self, key, v); }
static void text(const writer *w, const char *key, const char *v) { w->e->text(w->self, key, v); }

/* A return address as function, offset and object file; addr2line turns these into a line. */
static void write_frame(const writer *w, void *frame) {
    char name[160];
    Dl_info at = {0};
    const uintptr_t call = (uintptr_t)frame - 1; /* the call, not what follows it */
    const bool known = dladdr((void *)call, &at) != 0;
    const bool named = known && at.dli_sname;
    const uintptr_t from = (uintptr_t)(named ? at.dli_saddr : at.dli_fbase);
    snprintf(name, sizeof name, "%.120s+0x%llx", named ? at.dli_sname : "??", (unsigned long long)(call - from));
    open_dict(w, NULL);
    text(w, "name", name);
    text(w, "filename", known && at.dli_fname ? at.dli_fname : "??");
    integer(w, "line", 0);
    close_dict(w);
}

static void write_stack(const writer *w, const fac_memory_stack *s) {
    open_list(w, "frames");
    for (int i = 0; i < s->n_frames; i++) write_frame(w, s->frames[i]);
    close_list(w);
    if (*s->metadata) text(w, "user_metadata", s->metadata);
}

static void write_block(const writer *w, const fac_memory_block *b) {
    static const char *const states[] = {"inactive", "active_pending_free", "active_allocated"};
    open_dict(w, NULL);
    integer(w, "address", (int64_t)b->address);
    integer(w, "size", b->size);
    integer(w, "requested_size", b->requested_size);
    text(w, "state", states[b->state]);
    write_stack(w, &b->stack);
    close_dict(w);
}

static void write_segment(const writer *w, const fac_memory_segment *s) {
    open_dict(w, NULL);
    integer(w, "device", s->device);
    integer(w, "address", (int64_t)s->address);
    integer(w, "total_size", s->total_size);
    integer(w, "allocated_size", s->allocated_size);
    integer(w, "active_size", s->active_size);
    integer(w, "requested_size", s->requested_size);
    integer(w, "stream", s->stream);
    text(w, "segment_type", s->large ? "large" : "small");
    w->e->pair(w->self, "segment_pool_id", s->pool_id[0], s->pool_id[1]);
    boolean(w, "is_expandable", s->is_expandable);
    write_stack(w, &s->stack);
    open_list(w, "blocks");
    for (size_t i = 0; i < s->n_blocks; i++) write_block(w, &s->blocks[i]);
    close_list(w);
    close_dict(w);
}

static void write_event(const writer *w, const fac_memory_event *e) {
    static const char *const actions[] = {"alloc",         "free_requested", "free_completed",
                                          "segment_alloc", "segment_free",   "segment_map",
                                          "segment_unmap", "snapshot",       "oom"};
    open_dict(w, NULL);
    text(w, "action", actions[e->action]);
    integer(w, e->action == FAC_MEMORY_OOM ? "device_free" : "addr", (int64_t)e->address);
    integer(w, "size", e->size);
    integer(w, "stream", e->stream);
    integer(w, "time_us", e->time_us);
    write_stack(w, &e->stack);
    close_dict(w);
}

/* A list per device. */
static void write_traces(const writer *w, const fac_memory_snapshot *s) {
    open_list(w, "device_traces");
    for (int device = 0; device < s->n_devices; device++) {
        open_list(w, NULL);
        for (size_t i = 0; i < s->n_events; i++)
            if (s->events[i].device == device) write_event(w, &s->events[i]);
        close_list(w);
    }
    close_list(w);
}

static void write_settings(const writer *w, const fac_memory_snapshot *s) {
    fac_alloc_config c;
    const char *given = s->settings ? s->settings : "";
    open_dict(w, "allocator_settings");
    text(w, "PYTORCH_CUDA_ALLOC_CONF", given);
    if (fac__alloc_config_parse(given, "snapshot", NULL, NULL, &c) == FAC_OK) {
        integer(w, "max_split_size", c.max_split == INT64_MAX ? -1 : c.max_split);
        w->e->number(w->self, "garbage_collection_threshold", c.gc_threshold);
        boolean(w, "expandable_segments", c.expandable);
        integer(w, "pinned_num_register_threads", c.pinned_threads);
        boolean(w, "release_lock_on_cudamalloc", c.release_lock);
        boolean(w, "pinned_use_cuda_host_register", c.pinned_register);
        open_dict(w, "roundup_power2_divisions");
        for (int i = 0; i < FAC_ROUNDUP_INTERVALS; i++) {
            char key[16];
            snprintf(key, sizeof key, "%d", 1 << i);
            integer(w, key, c.roundup[i]);
        }
        close_dict(w);
    }
    close_dict(w);
}

static void write_annotations(const writer *w, const fac_memory_snapshot *s) {
    open_list(w, "external_annotations");
    for (size_t i = 0; i < s->n_annotations; i++) {
        open_dict(w, NULL);
        text(w, "name", s->annotations[i].name);
        integer(w, "time_us", s->annotations[i].time_us);
        close_dict(w);
    }
    close_list(w);
}

void fac__snapshot_emit(const fac_memory_snapshot *s, const fac_emitter *e, void *self) {
    const writer w = {e, self};
    open_dict(&w, NULL);
    open_list(&w, "segments");
    for (size_t i = 0; i < s->n_segments; i++) write_segment(&w, &s->segments[i]);
    close_list(&w);
    write_traces(&w, s);
    write_settings(&w, s);
    write_annotations(&w, s);
    close_dict(&w);
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

char *fac_memory_snapshot_json(const fac_memory_snapshot *s) {
    fac_buf out = {0};
    if (!s) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "NULL was given where a snapshot is needed");
        return NULL;
    }
    if (fac__snapshot_json(s, &out) == FAC_OK) return out.data;
    fac__buf_free(&out);
    return NULL;
}

fac_status fac__snapshot_write(const fac_memory_snapshot *s, const char *path) {
    FAC_CHECK(path, FAC_ERR_ARGUMENT, "a snapshot needs the name of a file");
    const size_t n = strlen(path);
    const bool json = n > 5 && strcmp(path + n - 5, ".json") == 0;
    fac_buf out = {0};
    fac_status st = json ? fac__snapshot_json(s, &out) : fac__snapshot_pickle(s, &out);
    if (st == FAC_OK) st = fac__file_replace(path, out.data, out.n);
    fac__buf_free(&out);
    return st;
}
