/* The counters by name, their resets, and the table for people. */
#include "backend/cuda/runtime/alloc.h"
#include <stddef.h>

/* ---- names ---------------------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(fac_cuda_memory_stats, field)
#define METRICS(name, field)                                                                                          \
    {name ".current", AT(field.current)}, {name ".peak", AT(field.peak)}, {name ".allocated", AT(field.allocated)}, { \
        name ".freed", AT(field.freed)                                                                                \
    }
#define POOLS(group)                                                                    \
    METRICS(#group ".all", group.all), METRICS(#group ".large_pool", group.large_pool), \
        METRICS(#group ".small_pool", group.small_pool)
#define COUNT(field) \
    { #field, AT(field) }

static const struct counter {
    const char *name;
    size_t offset;
} counters[] = {
    POOLS(allocation),
    POOLS(segment),
    POOLS(active),
    POOLS(inactive_split),
    POOLS(allocated_bytes),
    POOLS(reserved_bytes),
    POOLS(active_bytes),
    POOLS(inactive_split_bytes),
    POOLS(requested_bytes),
    METRICS("oversize_allocations", oversize_allocations),
    METRICS("oversize_segments", oversize_segments),
    COUNT(num_alloc_retries),
    COUNT(num_ooms),
    COUNT(num_sync_all_streams),
    COUNT(num_device_alloc),
    COUNT(num_device_free),
    COUNT(num_oom_rejections),
    COUNT(max_split_size),
};

const char *fac_cuda_memory_stat_name(int i) {
    return i >= 0 && (size_t)i < FAC_COUNT(counters) ? counters[i].name : NULL;
}

bool fac__stats_find(const fac_cuda_memory_stats *s, const char *name, int64_t *out) {
    for (size_t i = 0; name && i < FAC_COUNT(counters); i++) {
        if (strcmp(counters[i].name, name) != 0) continue;
        memcpy(out, (const char *)s + counters[i].offset, sizeof *out);
        return true;
    }
    return false;
}

/* ---- resets ------------------------------------------------------------------------------------------------------------ */

/* The groups by pool and the oversize ones are nothing but fac_memory_stat, one after the other. */
enum { N_STATS = offsetof(fac_cuda_memory_stats, num_alloc_retries) / sizeof(fac_memory_stat) };

void fac__stats_reset_peaks(fac_cuda_memory_stats *s) {
    fac_memory_stat *v = &s->allocation.all;
    for (int i = 0; i < N_STATS; i++) v[i].peak = v[i].current;
}

void fac__stats_reset_sums(fac_cuda_memory_stats *s) {
    fac_memory_stat *v = &s->allocation.all;
    for (int i = 0; i < N_STATS; i++) v[i].allocated = v[i].freed = 0;
    s->num_alloc_retries = s->num_ooms = s->num_sync_all_streams = 0;
    s->num_device_alloc = s->num_device_free = s->num_oom_rejections = 0;
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

enum { WIDTH = 75 };

/* A number in the unit in which the first of its column is at hand. */
static void cell(fac_buf *out, int64_t v, int64_t first, bool bytes) {
    static const char *const sizes[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}, *const counts[] = {" ", "K", "M"};
    const int last = bytes ? (int)FAC_COUNT(sizes) - 1 : (int)FAC_COUNT(counts) - 1;
    const int64_t step = bytes ? 1024 : 1000, enough = bytes ? 768 * 1024 : 750 * 1000;
    int unit = 0;
    for (; unit < last && first >= enough; unit++) {
        first /= step;
        v /= step;
    }
    if (bytes)
        (void)fac__buf_printf(out, "| %6lld %s ", (long long)v, sizes[unit]);
    else
        (void)fac__buf_printf(out, "| %7lld %s  ", (long long)v, counts[unit]);
}

static void line(fac_buf *out, const char *name, const fac_memory_stat *s, const fac_memory_stat *first, bool bytes) {
    (void)fac__buf_printf(out, "| %-21s ", name);
    cell(out, s->current, first->current, bytes);
    cell(out, s->peak, first->peak, bytes);
    cell(out, s->allocated, first->allocated, bytes);
    cell(out, s->freed, first->freed, bytes);
    (void)fac__buf_printf(out, "|\n");
}

static void rule(fac_buf *out, char c) {
    char text[WIDTH + 1];
    memset(text, c, WIDTH);
    text[WIDTH] = '\0';
    (void)fac__buf_printf(out, "|%s|\n", text);
}

static void title(fac_buf *out, const fac_cuda_memory_stats *s, int device) {
    char text[WIDTH + 1];
    rule(out, '=');
    (void)fac__buf_printf(out, "|                  Facula CUDA memory summary, device ID %-19d|\n", device);
    rule(out, '-');
    snprintf(text, sizeof text, "            CUDA OOMs: %-12lld |        cudaMalloc retries: %-8lld",
             (long long)s->num_ooms, (long long)s->num_alloc_retries);
    (void)fac__buf_printf(out, "|%-75s|\n", text);
    rule(out, '=');
    (void)fac__buf_printf(out, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
}

char *fac__stats_summary(const fac_cuda_memory_stats *s, int device, bool abbreviated) {
    const struct {
        const char *name;
        const fac_memory_stat_by_pool *stat;
        bool bytes;
    } rows[] = {
        {"Allocated memory", &s->allocated_bytes, true},
        {"Active memory", &s->active_bytes, true},
        {"Requested memory", &s->requested_bytes, true},
        {"GPU reserved memory", &s->reserved_bytes, true},
        {"Non-releasable memory", &s->inactive_split_bytes, true},
        {"Allocations", &s->allocation, false},
        {"Active allocs", &s->active, false},
        {"GPU reserved segments", &s->segment, false},
        {"Non-releasable allocs", &s->inactive_split, false},
    };
    fac_buf out = {0};
    title(&out, s, device);
    for (size_t i = 0; i < FAC_COUNT(rows); i++) {
        const fac_memory_stat_by_pool *v = rows[i].stat;
        rule(&out, '-');
        line(&out, rows[i].name, &v->all, &v->all, rows[i].bytes);
        if (abbreviated) continue;
        line(&out, "      from large pool", &v->large_pool, &v->all, rows[i].bytes);
        line(&out, "      from small pool", &v->small_pool, &v->all, rows[i].bytes);
    }
    rule(&out, '-');
    line(&out, "Oversize allocations", &s->oversize_allocations, &s->oversize_allocations, false);
    rule(&out, '-');
    line(&out, "Oversize GPU segments", &s->oversize_segments, &s->oversize_segments, false);
    rule(&out, '=');
    if (!out.failed) return out.data;
    fac__buf_free(&out);
    return NULL;
}
