/* The allocators of the CUDA devices, and the public functions on them. */
#include "backend/cuda/runtime/alloc_cuda.h"
#include "keywords_gen.h"

enum { MAX_ANNOTATIONS = 4096 };

static fac_mutex lock = FAC_MUTEX_INIT; /* of `shared`, and of the making of caches; taken before a cache's own */
static _Atomic(fac_caching_allocator *) caches[FAC_CUDA_MAX_DEVICES];
static struct {
    bool known; /* the options are read */
    fac_alloc_config config;
    char *settings; /* their text */
    fac_memory_history history;
    int64_t history_entries;
    fac_memory_annotation annotations[MAX_ANNOTATIONS]; /* a ring */
    size_t n_annotations;
} shared; /* guarded by the lock */

static atomic_bool untold; /* options are ignored, and nobody has been told */

/* ---- options ---------------------------------------------------------------------------------------------------------- */

static fac_status check_backend(const fac_alloc_config *c) {
    FAC_CHECK(!c->async || (fac__cu.cuMemAllocAsync && fac__cu.cuMemFreeAsync && fac__cu.cuDeviceGetDefaultMemPool &&
                            fac__cu.cuMemPoolTrimTo && fac__cu_version() >= 11040),
              FAC_ERR_UNSUPPORTED, "backend:cudaMallocAsync needs a driver of CUDA 11.4 or newer; this one is of %d.%d",
              fac__cu_version() / 1000, fac__cu_version() % 1000 / 10);
    return FAC_OK;
}

static fac_status read_options(void) {
    const char *name, *text = fac__alloc_config_env(&name);
    fac_alloc_config c;
    if (shared.known) return FAC_OK;
    FAC_TRY(fac__alloc_config_parse(text, name, NULL, NULL, &c));
    FAC_TRY(check_backend(&c));
    if (!(shared.settings = fac__strdup(text))) return FAC_ERR_MEMORY;
    shared.config = c;
    shared.known = true;
    fac__pinned_configure(&c);
    return FAC_OK;
}

/* Called by the start of CUDA, so that a bad option is an error there. Takes no lock. */
fac_status fac__cuda_allocators_start(void) {
    const char *name, *text = fac__alloc_config_env(&name);
    fac_alloc_config c;
    FAC_TRY(fac__alloc_config_parse(text, name, NULL, NULL, &c));
    atomic_store(&untold, c.ignores_some);
    return check_backend(&c);
}

void fac__cuda_allocators_tell(void) {
    if (atomic_exchange(&untold, false))
        fac__warn("backend:cudaMallocAsync ignores the options that shape the native cache");
}

fac_status fac__cuda_alloc_options(fac_alloc_config *out) {
    fac__mutex_lock(&lock);
    fac_status st = read_options();
    *out = shared.config;
    fac__mutex_unlock(&lock);
    return st;
}

/* ---- one per device ------------------------------------------------------------------------------------------------------- */

/* The pool keeps what is freed until it is trimmed. */
static fac_status keep_pool(int index) {
    CUmemoryPool pool;
    uint64_t all = UINT64_MAX;
    FAC_CU(fac__cu.cuDeviceGetDefaultMemPool(&pool, fac__cuda_known(index)->ordinal));
    FAC_CU(fac__cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    return FAC_OK;
}

static fac_status make_locked(int index, fac_caching_allocator **out) {
    fac_memory_source source;
    if ((*out = atomic_load_explicit(&caches[index], memory_order_relaxed))) return FAC_OK;
    FAC_TRY(read_options());
    if (shared.config.async) FAC_TRY(keep_pool(index));
    fac__cuda_source(shared.config.async, &source);
    if (!(*out = fac__cache_new(&source, index, &shared.config))) return fac_error();
    fac_status st = fac__cache_record_history(*out, shared.history, shared.history_entries);
    if (st == FAC_OK)
        atomic_store_explicit(&caches[index], *out, memory_order_release);
    else
        fac_caching_allocator_free(*out);
    return st;
}

fac_caching_allocator *fac__cuda_cache(int index) {
    FAC_TRY_NULL(fac__cuda_check_index(index));
    fac_caching_allocator *a = atomic_load_explicit(&caches[index], memory_order_acquire);
    if (FAC_LIKELY(a != NULL)) return a;
    fac__mutex_lock(&lock);
    fac_status st = make_locked(index, &a);
    fac__mutex_unlock(&lock);
    return st == FAC_OK ? a : NULL;
}

fac_caching_allocator *fac__cuda_cache_if_any(int index) {
    return index >= 0 && index < FAC_CUDA_MAX_DEVICES ? atomic_load_explicit(&caches[index], memory_order_acquire)
                                                      : NULL;
}

const fac_allocator *fac__cuda_allocator(int index) {
    fac_caching_allocator *a =
        index >= 0 && index < FAC_CUDA_MAX_DEVICES ? atomic_load_explicit(&caches[index], memory_order_acquire) : NULL;
    if (FAC_UNLIKELY(!a)) a = fac__cuda_cache(index);
    return a ? &a->face : NULL;
}

fac_status fac__cuda_record_data(void *data, int index, int64_t stream) {
    fac_caching_allocator *a = fac__cuda_cache_if_any(index);
    return data && a ? fac_caching_allocator_record_stream(a, data, stream) : FAC_OK;
}

/* Blocks that users still hold lose their memory with the device's context. Their allocator stays for the sake of their
   release, and goes with the last of them. */
static void stop_cache(int index) {
    fac_caching_allocator *a = atomic_exchange_explicit(&caches[index], NULL, memory_order_acq_rel);
    if (a) fac__cache_abandon(a);
}

static void drop_annotations(void) {
    size_t n = shared.n_annotations < MAX_ANNOTATIONS ? shared.n_annotations : MAX_ANNOTATIONS;
    for (size_t i = 0; i < n; i++) fac__free((void *)(uintptr_t)shared.annotations[i].name);
    shared.n_annotations = 0;
}

void fac__cuda_allocators_stop(void) {
    fac__pinned_stop();
    fac__mutex_lock(&lock);
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++) stop_cache(i);
    drop_annotations();
    fac__free(shared.settings);
    shared.settings = NULL;
    shared.known = false;
    shared.history = FAC_HISTORY_OFF;
    fac__mutex_unlock(&lock);
}

/* ---- statistics ---------------------------------------------------------------------------------------------------------------- */

/* The index behind a public argument. */
static fac_status resolve(int device, int *out) {
    if (device == -1) return fac__cuda_get_device(out);
    *out = device;
    return fac__cuda_check_index(device);
}

/* What a cache without blocks of its own cannot know, and what the pool knows better. */
static void adjust_for_pool(int index, fac_cuda_memory_stats *s) {
    int64_t now, peak;
    memset(&s->segment, 0, sizeof s->segment);
    memset(&s->inactive_split, 0, sizeof s->inactive_split);
    memset(&s->inactive_split_bytes, 0, sizeof s->inactive_split_bytes);
    if (fac__cuda_pool_reserved(index, &now, &peak)) s->reserved_bytes.all = (fac_memory_stat){now, peak, 0, 0};
}

fac_status fac_cuda_get_memory_stats(int device, fac_cuda_memory_stats *out) {
    int index;
    FAC_CHECK(out, FAC_ERR_ARGUMENT, "NULL was given where the statistics go");
    memset(out, 0, sizeof *out);
    FAC_TRY(resolve(device, &index));
    fac_caching_allocator *a = fac__cuda_cache_if_any(index);
    if (!a) return FAC_OK;
    *out = fac_caching_allocator_stats(a);
    if (a->source.trim) adjust_for_pool(index, out); /* the stream-ordered pool */
    return FAC_OK;
}

static fac_cuda_memory_stats stats_of(int device) {
    fac_cuda_memory_stats s;
    if (fac_cuda_get_memory_stats(device, &s) != FAC_OK) memset(&s, 0, sizeof s);
    return s;
}

int64_t fac_cuda_memory_allocated(int device) { return stats_of(device).allocated_bytes.all.current; }
int64_t fac_cuda_max_memory_allocated(int device) { return stats_of(device).allocated_bytes.all.peak; }
int64_t fac_cuda_memory_reserved(int device) { return stats_of(device).reserved_bytes.all.current; }
int64_t fac_cuda_max_memory_reserved(int device) { return stats_of(device).reserved_bytes.all.peak; }

int64_t fac_cuda_memory_stat(int device, const char *name) {
    fac_cuda_memory_stats s = {0};
    int64_t value = 0;
    if (!fac__stats_find(&s, name, &value))
        FAC_FAIL(FAC_ERR_NOT_FOUND, "there is no memory counter '%s'; allocated_bytes.all.current is one",
                 name ? name : "NULL");
    else if (fac_cuda_get_memory_stats(device, &s) == FAC_OK)
        fac__stats_find(&s, name, &value);
    return value;
}

static fac_status reset(int device, void (*fn)(fac_cuda_memory_stats *s)) {
    int index;
    FAC_TRY(resolve(device, &index));
    fac_caching_allocator *a = fac__cuda_cache_if_any(index);
    if (!a) return FAC_OK;
    fac__cache_lock(a);
    fn(&a->stats);
    fac__cache_unlock(a);
    return FAC_OK;
}

fac_status fac_cuda_reset_peak_memory_stats(int device) { return reset(device, fac__stats_reset_peaks); }
fac_status fac_cuda_reset_accumulated_memory_stats(int device) { return reset(device, fac__stats_reset_sums); }

char *(fac_cuda_memory_summary)(int device, const fac_cuda_memory_summary_kw *kw) {
    fac_cuda_memory_summary_kw k;
    fac_cuda_memory_stats s;
    int index;
    FAC_TRY_NULL(fac__open_cuda_memory_summary_kw(&k, kw));
    FAC_TRY_NULL(resolve(device, &index));
    FAC_TRY_NULL(fac_cuda_get_memory_stats(index, &s));
    return fac__stats_summary(&s, index, k.abbreviated);
}

fac_status fac_cuda_mem_get_info(int device, int64_t *out_free, int64_t *out_total) {
    fac_memory_source source;
    int index;
    FAC_CHECK(out_free && out_total, FAC_ERR_ARGUMENT, "NULL was given where the bytes go");
    FAC_TRY(resolve(device, &index));
    fac__cuda_source(false, &source);
    return source.info(&source, index, out_free, out_total);
}

fac_status fac_cuda_empty_cache(void) {
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++) {
        fac_caching_allocator *a = fac__cuda_cache_if_any(i);
        if (a) FAC_TRY(fac_caching_allocator_empty_cache(a));
    }
    return FAC_OK;
}

/* ---- options of users -------------------------------------------------------------------------------------------------------------- */

const char *fac_cuda_allocator_backend(void) {
    fac_alloc_config c;
    if (fac__cuda_start() != FAC_OK || fac__cuda_alloc_options(&c) != FAC_OK) return "native";
    return c.async ? "cudaMallocAsync" : "native";
}

char *fac_cuda_allocator_settings(void) {
    FAC_TRY_NULL(fac__cuda_start());
    fac__mutex_lock(&lock);
    char *text = read_options() == FAC_OK ? fac__strdup(shared.settings) : NULL;
    fac__mutex_unlock(&lock);
    return text;
}

static fac_status set_options_locked(const char *settings) {
    fac_alloc_config c;
    FAC_TRY(read_options());
    FAC_TRY(fac__alloc_config_parse(settings, "allocator settings", NULL, NULL, &c));
    FAC_CHECK(c.async == shared.config.async, FAC_ERR_STATE,
              "the allocator's backend is %s since the start and stays so",
              shared.config.async ? "cudaMallocAsync" : "native");
    FAC_CHECK(!c.expandable || fac__cu.cuMemAddressReserve, FAC_ERR_UNSUPPORTED,
              "expandable_segments needs virtual memory, which this driver has not");
    char *text = fac__strdup(settings ? settings : "");
    if (!text) return FAC_ERR_MEMORY;
    fac__free(shared.settings);
    shared.settings = text;
    shared.config = c;
    atomic_store(&untold, c.ignores_some);
    fac__pinned_configure(&c);
    return FAC_OK;
}

fac_status fac_cuda_set_allocator_settings(const char *settings) {
    FAC_TRY(fac__cuda_start());
    fac__mutex_lock(&lock);
    fac_status st = set_options_locked(settings);
    fac_alloc_config c = shared.config;
    fac__mutex_unlock(&lock);
    fac__cuda_allocators_tell();
    for (int i = 0; st == FAC_OK && i < FAC_CUDA_MAX_DEVICES; i++) {
        fac_caching_allocator *a = fac__cuda_cache_if_any(i);
        if (!a) continue;
        fac__cache_configure(a, &c);
        if (c.memory_fraction >= 0) st = fac__cache_set_fraction(a, c.memory_fraction);
    }
    return st;
}

fac_status fac_cuda_set_per_process_memory_fraction(double fraction, int device) {
    int index;
    FAC_TRY(resolve(device, &index));
    fac_caching_allocator *a = fac__cuda_cache(index);
    return a ? fac__cache_set_fraction(a, fraction) : fac_error();
}

double fac_cuda_get_per_process_memory_fraction(int device) {
    int index;
    if (resolve(device, &index) != FAC_OK) return 0;
    fac_caching_allocator *a = fac__cuda_cache(index);
    if (!a) return 0;
    fac__cache_lock(a);
    double fraction = a->config.memory_fraction;
    fac__cache_unlock(a);
    return fraction < 0 ? 1 : fraction;
}

/* ---- raw blocks ---------------------------------------------------------------------------------------------------------------------- */

void *fac_cuda_caching_allocator_alloc(int64_t bytes, int device, fac_stream s) {
    int index;
    FAC_TRY_NULL(resolve(device, &index));
    const bool given = s.device.type != FAC_DEVICE_UNSET;
    if (given && (s.device.type != FAC_CUDA || s.device.index_plus != index + 1)) {
        FAC_FAIL(FAC_ERR_DEVICE, "memory of cuda:%d cannot be allocated for a stream of another device", index);
        return NULL;
    }
    fac_caching_allocator *a = fac__cuda_cache(index);
    return a ? fac__cache_alloc(a, bytes, given ? s.id : fac__cuda_stream_id(index)) : NULL;
}

void fac_cuda_caching_allocator_delete(void *p) {
    if (!p || fac__cache_is_nothing(p)) return;
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++) {
        fac_caching_allocator *a = fac__cuda_cache_if_any(i);
        if (!a || !fac__cache_owns(a, p)) continue;
        fac__cache_free(a, p);
        return;
    }
    FAC_FAIL(FAC_ERR_STATE, "%p is no block of a CUDA caching allocator", p);
}

/* ---- history and snapshots -------------------------------------------------------------------------------------------------------------- */

fac_status fac_cuda_record_memory_history(fac_memory_history what, int64_t max_entries) {
    FAC_TRY(fac__cuda_start());
    for (int i = 0; i < FAC_CUDA_MAX_DEVICES; i++) {
        fac_caching_allocator *a = fac__cuda_cache_if_any(i);
        if (a) FAC_TRY(fac__cache_record_history(a, what, max_entries));
    }
    FAC_CHECK(what >= FAC_HISTORY_OFF && what <= FAC_HISTORY_ALL && max_entries >= 0, FAC_ERR_ARGUMENT,
              "history is recorded at levels 0 to %d with at least 0 entries", FAC_HISTORY_ALL);
    fac__mutex_lock(&lock);
    shared.history = what;
    shared.history_entries = max_entries;
    fac__mutex_unlock(&lock);
    return FAC_OK;
}

fac_status fac_cuda_memory_annotate(const char *name) {
    FAC_CHECK(name, FAC_ERR_ARGUMENT, "NULL was given where the name of a mark is needed");
    FAC_TRY(fac__cuda_start());
    char *copy = fac__strdup(name);
    if (!copy) return FAC_ERR_MEMORY;
    fac__mutex_lock(&lock);
    fac_memory_annotation *at = &shared.annotations[shared.n_annotations % MAX_ANNOTATIONS];
    if (shared.n_annotations >= MAX_ANNOTATIONS) fac__free((void *)(uintptr_t)at->name);
    *at = (fac_memory_annotation){copy, fac__wall_us()};
    shared.n_annotations++;
    fac__mutex_unlock(&lock);
    return FAC_OK;
}

static fac_status copy_shared(fac_memory_snapshot *s) {
    const size_t total = shared.n_annotations, n = total < MAX_ANNOTATIONS ? total : MAX_ANNOTATIONS;
    FAC_TRY(read_options());
    if (!(s->settings = fac__strdup(shared.settings))) return FAC_ERR_MEMORY;
    if (!(s->annotations = fac__alloc_array(n, sizeof *s->annotations))) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const fac_memory_annotation *from = &shared.annotations[(total - n + i) % MAX_ANNOTATIONS];
        const char *name = fac__strdup(from->name);
        if (!name) return FAC_ERR_MEMORY;
        s->annotations[s->n_annotations++] = (fac_memory_annotation){name, from->time_us};
    }
    return FAC_OK;
}

static fac_status fill_snapshot(fac_memory_snapshot *s) {
    FAC_TRY(fac__cuda_start());
    s->n_devices = fac__cuda_count();
    for (int i = 0; i < s->n_devices; i++) {
        fac_caching_allocator *a = fac__cuda_cache_if_any(i);
        if (a) FAC_TRY(fac__cache_snapshot(a, s));
    }
    fac__snapshot_sort(s);
    fac__mutex_lock(&lock);
    fac_status st = copy_shared(s);
    fac__mutex_unlock(&lock);
    return st;
}

fac_memory_snapshot *fac_cuda_memory_snapshot(void) {
    fac_memory_snapshot *s = fac__alloc_zero(sizeof *s);
    if (s && fill_snapshot(s) == FAC_OK) return s;
    fac_memory_snapshot_free(s);
    return NULL;
}

fac_status fac_cuda_dump_snapshot(const char *path) {
    fac_memory_snapshot *s = fac_cuda_memory_snapshot();
    if (!s) return fac_error();
    fac_status st = fac__snapshot_write(s, path);
    fac_memory_snapshot_free(s);
    return st;
}
