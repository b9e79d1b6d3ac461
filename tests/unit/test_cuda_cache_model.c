/* The caching allocator against a plain model: random requests, frees, uses in other streams and work that completes, on
   four devices with eight streams each. The model knows the bytes of every block and of every segment, and asserts that

   - no block overlaps another, nor one that was freed while a stream that used it is still running;
   - a block lies in a segment of its stream and size class;
   - the source is asked for memory only if no free range of that stream and class would have fitted;
   - the counters agree, and at the end nothing is left.

   FACULA_MODEL_OPS sets the number of operations (200000 if unset). */
#include "backend/cuda/runtime/alloc.h"
#include "support/cache_source.h"
#include "support/support.h"
#include <stdlib.h>

enum { DEVICES = 4, LIVE = 512 };

/* A block in the hands of the user, or freed with uses that may still run. Kept sorted by address. */
typedef struct item {
    char *p;
    int64_t requested, size;
    int64_t stream;
    bool freed;
    int64_t used[FAKE_STREAMS]; /* work of each stream that the block waits for once it is freed; 0: none */
    bool uses[FAKE_STREAMS];
} item;

typedef struct area {
    char *p;
    int64_t bytes, stream;
    bool small;
} area;

typedef struct device {
    fake_source source;
    fac_caching_allocator *a;
    item items[LIVE * 2];
    size_t n_items, n_live;
    area *areas;
    size_t n_areas, cap_areas;
    int64_t bytes; /* allocated, by the model's count */
    int64_t allocs_before;
    bool checks_fit; /* segments are of fixed size, so that free ranges are what lies between blocks */
} device;

static uint64_t random_state;
static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}
static int64_t below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }

/* ---- the model ------------------------------------------------------------------------------------------------------ */

/* First item that ends after p. */
static size_t find_item(const device *d, const char *p) {
    size_t lo = 0, hi = d->n_items;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (d->items[mid].p + d->items[mid].size <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void insert_item(device *d, item it) {
    size_t i = find_item(d, it.p);
    assert_true(d->n_items < LIVE * 2);
    assert_true(i == d->n_items || d->items[i].p >= it.p + it.size); /* no overlap */
    memmove(d->items + i + 1, d->items + i, (d->n_items++ - i) * sizeof it);
    d->items[i] = it;
}

static void remove_item(device *d, size_t i) {
    memmove(d->items + i, d->items + i + 1, (--d->n_items - i) * sizeof *d->items);
}

static bool is_pending(const device *d, const item *it) {
    for (int s = 0; s < FAKE_STREAMS; s++)
        if (it->uses[s] && d->source.completed[s] < it->used[s]) return true;
    return false;
}

/* What completed work lets go. */
static void settle(device *d) {
    for (size_t i = 0; i < d->n_items;)
        if (d->items[i].freed && !is_pending(d, &d->items[i]))
            remove_item(d, i);
        else
            i++;
}

static area *area_of(const device *d, const char *p) {
    for (size_t i = 0; i < d->n_areas; i++)
        if (p >= d->areas[i].p && p < d->areas[i].p + d->areas[i].bytes) return &d->areas[i];
    return NULL;
}

/* The segments that the source has given by now; new ones belong to the request that is served. */
static void note_areas(device *d, int64_t stream, bool small) {
    size_t kept = 0;
    for (size_t i = 0; i < d->n_areas; i++) { /* some may have been given back */
        for (size_t k = 0; k < d->source.ranges.n; k++) {
            if (d->source.ranges.v[k].p != d->areas[i].p) continue;
            d->areas[kept++] = d->areas[i];
            break;
        }
    }
    d->n_areas = kept;
    for (size_t k = 0; k < d->source.ranges.n; k++) {
        const fake_range *r = &d->source.ranges.v[k];
        if (area_of(d, r->p)) continue;
        if (d->n_areas == d->cap_areas) {
            d->cap_areas = d->cap_areas ? d->cap_areas * 2 : 64;
            d->areas = realloc(d->areas, d->cap_areas * sizeof *d->areas);
            assert_non_null(d->areas);
        }
        d->areas[d->n_areas++] = (area){r->p, r->bytes, stream, small};
    }
}

/* The largest free range of a stream and class. */
static int64_t largest_free(const device *d, int64_t stream, bool small) {
    int64_t largest = 0;
    for (size_t k = 0; k < d->n_areas; k++) {
        const area *r = &d->areas[k];
        const char *at = r->p;
        if (r->stream != stream || r->small != small) continue;
        for (size_t i = find_item(d, r->p); i < d->n_items && d->items[i].p < r->p + r->bytes; i++) {
            largest = fac__max(largest, d->items[i].p - at);
            at = d->items[i].p + d->items[i].size;
        }
        largest = fac__max(largest, r->p + r->bytes - at);
    }
    return largest;
}

/* ---- operations -------------------------------------------------------------------------------------------------------- */

/* Mostly small sizes, some large, few very large. */
static int64_t draw_size(void) {
    int64_t kind = below(100);
    if (kind < 60) return 1 + below(16 << 10);
    if (kind < 85) return 1 + below(1 << 20);
    if (kind < 97) return 1 + below(12 << 20);
    return 1 + below(64 << 20);
}

/* The size of the block that was handed out, which may exceed what was asked for by what is not worth a block. */
static int64_t size_of(device *d, const char *p) {
    fac__cache_lock(d->a);
    fac_block *b = fac__in_use_find(d->a, p);
    int64_t size = b ? b->size : 0;
    fac__cache_unlock(d->a);
    return size;
}

static void op_alloc(device *d) {
    if (d->n_live >= LIVE) return;
    const int64_t bytes = draw_size(), size = (bytes + 511) / 512 * 512, stream = below(FAKE_STREAMS);
    const bool small = size <= FAC_SMALL_MAX;
    const fac_allocator *face = fac_caching_allocator_face(d->a);
    settle(d);
    const int64_t calls = d->source.allocs, free_before = d->checks_fit ? largest_free(d, stream, small) : 0;
    d->source.stream = stream;
    char *p = face->alloc(face, bytes);
    settle(d); /* a retry completes what is pending */
    if (!p) {
        assert_error(FAC_ERR_MEMORY, "out of memory");
        note_areas(d, stream, small);
        return;
    }
    if (d->source.allocs != calls) assert_true(free_before < size); /* a fitting free block is always found */
    note_areas(d, stream, small);
    item it = {.p = p, .requested = bytes, .size = size_of(d, p), .stream = stream};
    assert_true(it.size >= size);
    const area *r = area_of(d, p);
    assert_non_null(r);
    if (d->checks_fit) {
        assert_int_equal(r->stream, stream);
        assert_int_equal(r->small, small);
        assert_true(p + it.size <= r->p + r->bytes);
    }
    insert_item(d, it);
    d->n_live++;
    d->bytes += it.size;
}

/* A live item, or NULL. */
static item *any_live(device *d) {
    for (int tries = 0; d->n_live && tries < 64; tries++) {
        item *it = &d->items[below((int64_t)d->n_items)];
        if (!it->freed) return it;
    }
    return NULL;
}

static void op_free(device *d) {
    item *it = any_live(d);
    if (!it) return;
    const fac_allocator *face = fac_caching_allocator_face(d->a);
    bool used = false;
    for (int s = 0; s < FAKE_STREAMS; s++) {
        it->used[s] = d->source.issued[s];
        used |= it->uses[s];
    }
    d->source.stream = below(FAKE_STREAMS); /* must not matter */
    face->free(face, it->p, it->requested);
    d->bytes -= it->size;
    d->n_live--;
    if (used)
        it->freed = true;
    else
        remove_item(d, (size_t)(it - d->items));
}

static void op_record(device *d) {
    item *it = any_live(d);
    const int64_t stream = below(FAKE_STREAMS);
    if (!it) return;
    fake_issue(&d->source, stream);
    assert_ok(fac_caching_allocator_record_stream(d->a, it->p, stream));
    if (stream != it->stream) it->uses[stream] = true;
}

static void op_complete(device *d) { fake_complete(&d->source, below(FAKE_STREAMS)); }

static void op_empty(device *d) {
    assert_ok(fac_caching_allocator_empty_cache(d->a));
    settle(d);
    note_areas(d, 0, false);
}

static void check_counts(device *d) {
    const fac_cuda_memory_stats s = fac_caching_allocator_stats(d->a);
    assert_int_equal(s.allocated_bytes.all.current, d->bytes);
    assert_int_equal(s.allocation.all.current, d->n_live);
    assert_int_equal(s.reserved_bytes.all.current, d->source.used);
    assert_int_equal(s.allocated_bytes.small_pool.current + s.allocated_bytes.large_pool.current, d->bytes);
    assert_true(s.active_bytes.all.current >= d->bytes && s.active_bytes.all.current <= s.reserved_bytes.all.current);
}

static void step(device *d) {
    const int64_t kind = below(1000);
    if (kind < 440)
        op_alloc(d);
    else if (kind < 860)
        op_free(d);
    else if (kind < 930)
        op_record(d);
    else if (kind < 998)
        op_complete(d);
    else if (kind < 999)
        check_counts(d);
    else if (below(20) == 0)
        op_empty(d);
}

/* ---- runs --------------------------------------------------------------------------------------------------------------- */

static int64_t operations(void) {
    const char *text = getenv("FACULA_MODEL_OPS");
    return text ? strtoll(text, NULL, 10) : 200000;
}

static void finish(device *d) {
    const fac_allocator *face = fac_caching_allocator_face(d->a);
    check_counts(d);
    for (size_t i = 0; i < d->n_items; i++)
        if (!d->items[i].freed) face->free(face, d->items[i].p, d->items[i].requested);
    d->n_items = d->n_live = 0;
    d->bytes = 0;
    assert_ok(fac_caching_allocator_empty_cache(d->a));
    check_counts(d);
    assert_int_equal(d->source.used, 0);
    fac_caching_allocator_free(d->a);
    fake_source_end(&d->source);
    free(d->areas);
}

static void run(const char *settings, int64_t capacity, bool checks_fit, int64_t ops) {
    device *d = calloc(DEVICES, sizeof *d);
    assert_non_null(d);
    random_state = 0x853c49e6748fea9b;
    for (int i = 0; i < DEVICES; i++) {
        fake_source_begin(&d[i].source, capacity);
        d[i].a = fac_caching_allocator_new(&d[i].source.source, i, settings);
        d[i].checks_fit = checks_fit;
        assert_non_null(d[i].a);
    }
    for (int64_t i = 0; i < ops; i++) step(&d[below(DEVICES)]);
    for (int i = 0; i < DEVICES; i++) finish(&d[i]);
    free(d);
}

static const int64_t ROOMY = (int64_t)64 << 30, TIGHT = (int64_t)900 << 20;

static void S058_model_of_the_default_cache(void **state) {
    (void)state;
    run(NULL, ROOMY, true, operations());
}
static void S221_model_with_little_memory(void **state) {
    (void)state;
    run(NULL, TIGHT, true, operations() / 4);
}
static void S216_model_of_expandable_segments(void **state) {
    (void)state;
    run("expandable_segments:True", ROOMY, false, operations() / 4);
    run("expandable_segments:True", TIGHT, false, operations() / 4);
}
static void S211_model_with_limits_to_splitting(void **state) {
    (void)state;
    run("max_split_size_mb:24,max_non_split_rounding_mb:32,garbage_collection_threshold:0.6,"
        "per_process_memory_fraction:0.9",
        TIGHT, false, operations() / 4);
}

FAC_TEST_MAIN(FAC_TEST(S058_model_of_the_default_cache), FAC_TEST(S221_model_with_little_memory),
              FAC_TEST(S216_model_of_expandable_segments), FAC_TEST(S211_model_with_limits_to_splitting))
