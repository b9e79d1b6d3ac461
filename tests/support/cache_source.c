/* The fake source of device memory: addresses, streams and events as counters. */
#include "cache_source.h"
#include "support.h"
#include <stdlib.h>

typedef struct fake_event {
    int64_t stream, at;
} fake_event;

static fake_source *of(const fac_memory_source *s) { return s->context; }

static bool must_fail(fake_source *f) { return f->fail_at > 0 && --f->fail_at == 0; }

static void add(fake_source *f, char *p, int64_t bytes, bool mapped) {
    if (f->ranges.n == f->ranges.cap) {
        f->ranges.cap = f->ranges.cap ? f->ranges.cap * 2 : 64;
        f->ranges.v = realloc(f->ranges.v, f->ranges.cap * sizeof *f->ranges.v);
        assert_non_null(f->ranges.v);
    }
    f->ranges.v[f->ranges.n++] = (fake_range){p, bytes, mapped};
    f->used += bytes;
}

static void take_out(fake_source *f, char *p, int64_t bytes, bool mapped) {
    size_t i = 0;
    while (i < f->ranges.n && f->ranges.v[i].p != p) i++;
    assert_true(i < f->ranges.n);
    assert_int_equal(f->ranges.v[i].bytes, bytes);
    assert_int_equal(f->ranges.v[i].mapped, mapped);
    f->ranges.v[i] = f->ranges.v[--f->ranges.n];
    f->used -= bytes;
}

static char *fresh(fake_source *f, int64_t bytes) {
    char *p = f->next;
    f->next += (bytes + ((4 << 20) - 1)) & ~(((int64_t)2 << 20) - 1); /* never adjacent to the one before */
    return p;
}

static fac_status fake_alloc(const fac_memory_source *s, int device, int64_t bytes, int64_t stream, void **out) {
    fake_source *f = of(s);
    (void)device, (void)stream;
    pthread_mutex_lock(&f->lock);
    *out = NULL;
    if (!must_fail(f) && bytes <= f->capacity - f->used) {
        *out = fresh(f, bytes);
        add(f, *out, bytes, false);
        f->allocs++;
    }
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static void fake_free(const fac_memory_source *s, int device, void *p, int64_t bytes, int64_t stream) {
    fake_source *f = of(s);
    (void)device, (void)stream;
    pthread_mutex_lock(&f->lock);
    take_out(f, p, bytes, false);
    pthread_mutex_unlock(&f->lock);
}

static fac_status fake_info(const fac_memory_source *s, int device, int64_t *out_free, int64_t *out_total) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    *out_free = f->capacity - f->used;
    *out_total = f->capacity;
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static int64_t fake_stream(const fac_memory_source *s, int device) {
    (void)device;
    return of(s)->stream;
}

static fac_status fake_record(const fac_memory_source *s, int device, int64_t stream, void **event) {
    fake_source *f = of(s);
    (void)device;
    if (f->refuse_events) return fac_error_set(FAC_ERR_DEVICE, "no events today");
    fake_event *e = *event ? *event : malloc(sizeof *e);
    assert_non_null(e);
    pthread_mutex_lock(&f->lock);
    *e = (fake_event){stream, f->issued[stream]};
    if (!*event) f->events++;
    *event = e;
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static fac_status fake_query(const fac_memory_source *s, int device, void *event, bool *out_done) {
    fake_source *f = of(s);
    const fake_event *e = event;
    (void)device;
    pthread_mutex_lock(&f->lock);
    *out_done = f->completed[e->stream] >= e->at;
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static fac_status fake_wait(const fac_memory_source *s, int device, void *event) {
    (void)device;
    fake_complete(of(s), ((const fake_event *)event)->stream);
    return FAC_OK;
}

static void fake_drop(const fac_memory_source *s, int device, void *event) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    f->events--;
    pthread_mutex_unlock(&f->lock);
    free(event);
}

static fac_status fake_synchronize(const fac_memory_source *s, int device, int64_t stream) {
    (void)device;
    fake_complete(of(s), stream);
    return FAC_OK;
}

static uint64_t fake_capture(const fac_memory_source *s, int device, int64_t stream) {
    (void)device;
    return of(s)->capture[stream];
}

static fac_status fake_reserve(const fac_memory_source *s, int device, int64_t bytes, void **out) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    *out = fresh(f, bytes);
    f->ranges_reserved++;
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static void fake_unreserve(const fac_memory_source *s, int device, void *p, int64_t bytes) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < f->ranges.n; i++)
        assert_false(f->ranges.v[i].p >= (char *)p && f->ranges.v[i].p < (char *)p + bytes); /* all is unmapped */
    f->ranges_reserved--;
    pthread_mutex_unlock(&f->lock);
}

static fac_status fake_map(const fac_memory_source *s, int device, void *p, int64_t bytes, bool *out_mapped) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    *out_mapped = !must_fail(f) && bytes <= f->capacity - f->used;
    for (size_t i = 0; i < f->ranges.n; i++)
        assert_true((char *)p >= f->ranges.v[i].p + f->ranges.v[i].bytes || (char *)p + bytes <= f->ranges.v[i].p);
    if (*out_mapped) add(f, p, bytes, true);
    f->maps += *out_mapped;
    pthread_mutex_unlock(&f->lock);
    return FAC_OK;
}

static void fake_unmap(const fac_memory_source *s, int device, void *p, int64_t bytes) {
    fake_source *f = of(s);
    (void)device;
    pthread_mutex_lock(&f->lock);
    take_out(f, p, bytes, true);
    pthread_mutex_unlock(&f->lock);
}

void fake_source_begin(fake_source *f, int64_t capacity) {
    *f = (fake_source){.capacity = capacity, .next = (char *)((uintptr_t)1 << 40)};
    pthread_mutex_init(&f->lock, NULL);
    f->source = (fac_memory_source){.size = sizeof f->source,
                                    .name = "fake",
                                    .context = f,
                                    .alloc = fake_alloc,
                                    .free = fake_free,
                                    .info = fake_info,
                                    .stream = fake_stream,
                                    .record = fake_record,
                                    .query = fake_query,
                                    .wait = fake_wait,
                                    .drop = fake_drop,
                                    .synchronize = fake_synchronize,
                                    .capture = fake_capture,
                                    .reserve = fake_reserve,
                                    .unreserve = fake_unreserve,
                                    .map = fake_map,
                                    .unmap = fake_unmap};
}

void fake_source_end(fake_source *f) {
    assert_int_equal(f->used, 0);
    assert_int_equal(f->events, 0);
    assert_int_equal(f->ranges_reserved, 0);
    free(f->ranges.v);
    pthread_mutex_destroy(&f->lock);
}

void fake_source_plain(fake_source *f) {
    fac_memory_source *s = &f->source;
    *s = (fac_memory_source){
        .size = sizeof *s, .name = s->name, .context = f, .alloc = s->alloc, .free = s->free, .info = s->info};
}

void fake_issue(fake_source *f, int64_t stream) {
    pthread_mutex_lock(&f->lock);
    f->issued[stream]++;
    pthread_mutex_unlock(&f->lock);
}

void fake_complete(fake_source *f, int64_t stream) {
    pthread_mutex_lock(&f->lock);
    f->completed[stream] = f->issued[stream];
    pthread_mutex_unlock(&f->lock);
}
