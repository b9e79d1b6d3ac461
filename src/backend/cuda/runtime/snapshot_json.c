/* Snapshots as JSON. */
#include "backend/cuda/runtime/snapshot_write.h"
#include <jansson.h>

enum { DEPTH = 16 };

/* The open containers, the outermost first. jansson fails only for want of memory here. */
typedef struct builder {
    json_t *open[DEPTH], *root;
    int depth;
    bool failed;
} builder;

/* Takes over v. */
static void put(builder *b, const char *key, json_t *v) {
    json_t *into = b->depth ? b->open[b->depth - 1] : NULL;
    if (!v) {
        b->failed = true;
    } else if (!into) {
        b->root = v;
    } else if ((key ? json_object_set_new(into, key, v) : json_array_append_new(into, v)) != 0) {
        b->failed = true;
    }
}

static void open_container(void *self, const char *key, bool is_list) {
    builder *b = self;
    json_t *v = is_list ? json_array() : json_object();
    put(b, key, v);
    if (b->failed || b->depth == DEPTH) {
        b->failed = true;
        return;
    }
    b->open[b->depth++] = v; /* borrowed: its container holds it */
}
static void close_container(void *self, bool is_list) {
    builder *b = self;
    (void)is_list;
    if (!b->failed) b->depth--;
}

static void integer(void *self, const char *key, int64_t v) {
    builder *b = self;
    if (!b->failed) put(b, key, json_integer(v));
}
static void number(void *self, const char *key, double v) {
    builder *b = self;
    if (!b->failed) put(b, key, json_real(v));
}
static void boolean(void *self, const char *key, bool v) {
    builder *b = self;
    if (!b->failed) put(b, key, json_boolean(v));
}
/* Names of files may be anything: bytes that are no UTF-8 become what says so. */
static void text(void *self, const char *key, const char *v) {
    builder *b = self;
    if (b->failed) return;
    json_t *s = json_string(v);
    put(b, key, s ? s : json_string("?"));
}
static void pair(void *self, const char *key, int64_t x, int64_t y) {
    builder *b = self;
    if (!b->failed) put(b, key, json_pack("[I,I]", (json_int_t)x, (json_int_t)y));
}

static int append(const char *bytes, size_t n, void *out) { return fac__buf_add(out, bytes, n) == FAC_OK ? 0 : -1; }

fac_status fac__snapshot_json(const fac_memory_snapshot *s, fac_buf *out) {
    static const fac_emitter emitter = {open_container, close_container, integer, number, boolean, text, pair};
    builder b = {0};
    fac__snapshot_emit(s, &emitter, &b);
    bool done = !b.failed && json_dump_callback(b.root, append, out, JSON_COMPACT) == 0 && !out->failed;
    json_decref(b.root);
    FAC_CHECK(done, FAC_ERR_MEMORY, "out of memory while writing a snapshot");
    return FAC_OK;
}
