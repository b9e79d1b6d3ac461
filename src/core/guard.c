/* The tables of the kinds of devices, and what follows from them alone: current devices and streams, their scopes. A kind
   without streams has one per device, whose work is done when a call returns; the CPU is such a kind. */
#include "core/guard.h"
#include "core/handle.h"

/* ---- the CPU's table ----------------------------------------------------------------------------------------------- */

static int one_device(const fac_device_guard *g) {
    (void)g;
    return 1;
}

static fac_status first_device(const fac_device_guard *g, int *out_index) {
    (void)g;
    *out_index = 0;
    return FAC_OK;
}

static fac_status set_only_device(const fac_device_guard *g, int index) {
    (void)g;
    FAC_CHECK(index == 0, FAC_ERR_DEVICE, "CPU device index must be -1 or zero, got %d", index);
    return FAC_OK;
}

static void set_nothing(const fac_device_guard *g, int index) { (void)g, (void)index; }

static const fac_allocator *cpu_allocator(const fac_device_guard *g, int index) {
    (void)g, (void)index;
    return fac_allocator_get(FAC_CPU);
}

static fac_status cpu_copy(const fac_device_guard *g, fac_device to_device, void *to, fac_device from_device,
                           const void *from, int64_t bytes, bool non_blocking) {
    (void)g, (void)to_device, (void)from_device, (void)non_blocking;
    if (bytes) memmove(to, from, (size_t)bytes);
    return FAC_OK;
}

static const fac_device_guard cpu_guard = {
    .size = sizeof cpu_guard,
    .type = FAC_CPU,
    .count = one_device,
    .get_device = first_device,
    .set_device = set_only_device,
    .set_device_unchecked = set_nothing,
    .synchronize = set_only_device,
    .allocator = cpu_allocator,
    .copy = cpu_copy,
};

/* ---- the registry ----------------------------------------------------------------------------------------------------- */

static _Atomic(const fac_device_guard *) guards[FAC_DEVICE_TYPE_COUNT];

const fac_device_guard *fac_device_guard_of(fac_device_type type) {
    if (type == FAC_CPU) return &cpu_guard;
    if ((unsigned)type >= FAC_DEVICE_TYPE_COUNT) return NULL;
    return atomic_load_explicit(&guards[type], memory_order_acquire);
}

static const char *type_text(int32_t type, char *buf, size_t size) {
    return fac_device_format((fac_device){type, 0}, buf, size);
}

fac_status fac__guard_of(int32_t type, const fac_device_guard **out) {
    char name[24];
    *out = fac_device_guard_of((fac_device_type)type);
    if (FAC_UNLIKELY(!*out)) { /* perhaps the library is not started yet, which registers the tables */
        FAC_TRY(fac_init());
        *out = fac_device_guard_of((fac_device_type)type);
    }
    FAC_CHECK(*out, FAC_ERR_DEVICE, "devices of type '%s' have no back end", type_text(type, name, sizeof name));
    return FAC_OK;
}

static bool has_all_streams(const fac_device_guard *g) {
    return g->get_stream && g->new_stream && g->wrap_stream && g->exchange_stream && g->stream_handle &&
           g->query_stream && g->synchronize_stream;
}

static bool has_any_stream(const fac_device_guard *g) {
    return g->get_stream || g->new_stream || g->wrap_stream || g->exchange_stream || g->stream_handle ||
           g->query_stream || g->synchronize_stream;
}

static bool has_all_events(const fac_device_guard *g) {
    return g->record_event && g->block_stream && g->query_event && g->synchronize_event && g->elapsed &&
           g->destroy_event;
}

static bool has_any_event(const fac_device_guard *g) {
    return g->record_event || g->block_stream || g->query_event || g->synchronize_event || g->elapsed ||
           g->destroy_event;
}

fac_status fac_register_device_guard(const fac_device_guard *g) {
    char name[24];
    const fac_device_guard *none = NULL;
    FAC_CHECK(g && g->size == sizeof *g, FAC_ERR_ARGUMENT,
              "a device guard table of %zu bytes was given where one of %zu is needed: set its size, and build it "
              "against this library's headers",
              g ? g->size : (size_t)0, sizeof *g);
    FAC_CHECK(g->type > FAC_CPU && g->type < FAC_DEVICE_TYPE_COUNT && g->type != FAC_META, FAC_ERR_ARGUMENT,
              "device type %d takes no guard table", (int)g->type);
    FAC_CHECK(g->count && g->get_device && g->set_device && g->set_device_unchecked && g->synchronize && g->allocator &&
                  g->copy,
              FAC_ERR_ARGUMENT,
              "a device guard table needs count, get_device, set_device, set_device_unchecked, synchronize, allocator "
              "and copy");
    FAC_CHECK(has_all_streams(g) == has_any_stream(g) && has_all_events(g) == has_any_event(g), FAC_ERR_ARGUMENT,
              "a device guard table has all of the functions on streams or none, and so with events");
    FAC_CHECK(atomic_compare_exchange_strong(&guards[g->type], &none, g) || none == g, FAC_ERR_STATE,
              "devices of type '%s' have a guard table already", type_text((int32_t)g->type, name, sizeof name));
    return FAC_OK;
}

void fac__guards_forget(void) {
    for (int i = 0; i < FAC_DEVICE_TYPE_COUNT; i++) atomic_store_explicit(&guards[i], NULL, memory_order_release);
}

fac_status fac__host_allocator(const fac_allocator **out) {
    for (int i = 0; i < FAC_DEVICE_TYPE_COUNT; i++) {
        const fac_device_guard *g = fac_device_guard_of((fac_device_type)i);
        if (!g || !g->host_allocator || g->count(g) == 0) continue;
        *out = g->host_allocator(g);
        if (*out) return FAC_OK;
        FAC_TRY(fac_error());
    }
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "page-locked memory (pin_memory) needs an accelerator, and none is available");
}

void fac__device_thread_begin(void) {
    for (int i = 0; i < FAC_DEVICE_TYPE_COUNT; i++) {
        const fac_device_guard *g = fac_device_guard_of((fac_device_type)i);
        if (g && g->begin_thread) g->begin_thread(g);
    }
}

bool fac__is_host_memory(const void *p) {
    for (int i = 0; p && i < FAC_DEVICE_TYPE_COUNT; i++) {
        const fac_device_guard *g = fac_device_guard_of((fac_device_type)i);
        if (g && g->is_host_memory && g->is_host_memory(g, p)) return true;
    }
    return false;
}

fac_status fac__copy_bytes(fac_device to_device, void *to, fac_device from_device, const void *from, int64_t bytes,
                           bool non_blocking) {
    const fac_device_guard *g;
    if (bytes == 0) return FAC_OK;
    bool foreign = to_device.type != from_device.type && to_device.type != FAC_CPU && from_device.type != FAC_CPU;
    FAC_CHECK(!foreign, FAC_ERR_UNSUPPORTED, "nothing copies directly between %s and %s",
              fac_device_format(from_device, (char[24]){0}, 24), fac_device_format(to_device, (char[24]){0}, 24));
    FAC_TRY(fac__guard_of(to_device.type == FAC_CPU ? from_device.type : to_device.type, &g));
    return g->copy(g, to_device, to, from_device, from, bytes, non_blocking);
}

/* ---- devices -------------------------------------------------------------------------------------------------------------- */

/* The tables are registered when the library starts. */
static void start_quietly(void) {
    fac_saved_error *pending = fac__error_take();
    if (fac_init() != FAC_OK) fac_error_clear();
    fac__error_restore(pending);
}

int fac_device_count(fac_device_type type) {
    if (type == FAC_META) return 1;
    if (!fac_device_guard_of(type)) start_quietly();
    const fac_device_guard *g = fac_device_guard_of(type);
    return g ? g->count(g) : 0;
}

bool fac_device_is_available(fac_device_type type) { return fac_device_count(type) > 0; }

/* "cpu:0" is "cpu", and "cpu:1" does not exist; meta has no index either. */
static fac_status plain_device(fac_device *d) {
    FAC_CHECK(d->index_plus <= 1, FAC_ERR_DEVICE, "%s device index must be -1 or zero, got %d",
              d->type == FAC_CPU ? "CPU" : "meta", d->index_plus - 1);
    d->index_plus = 0;
    return FAC_OK;
}

fac_status fac__device_resolve(fac_device *d) {
    if (d->type == FAC_DEVICE_UNSET) return FAC_OK;
    if (d->type == FAC_CPU || d->type == FAC_META) return d->index_plus ? plain_device(d) : FAC_OK;
    if (d->index_plus) return FAC_OK;
    const fac_device_guard *g = fac_device_guard_of((fac_device_type)d->type);
    int index = 0;
    if (!g) return FAC_OK; /* what the device is asked for will say that nothing serves it */
    FAC_TRY(g->get_device(g, &index));
    d->index_plus = index + 1;
    return FAC_OK;
}

fac_device fac_current_device(fac_device_type type) {
    fac_device d = fac_device_make(type, -1), none = {0, 0};
    const fac_device_guard *g;
    if (fac_error() != FAC_OK) return none;
    if (type == FAC_CPU || type == FAC_META) return d;
    return fac__guard_of(d.type, &g) == FAC_OK && fac__device_resolve(&d) == FAC_OK ? d : none;
}

/* The table of d's kind and d's index, that of the current device if it has none. */
static fac_status locate(fac_device d, const fac_device_guard **g, int *out_index) {
    FAC_TRY(fac__guard_of(d.type, g));
    FAC_TRY(fac__device_resolve(&d));
    *out_index = d.index_plus ? d.index_plus - 1 : 0;
    return FAC_OK;
}

fac_status fac_set_device(fac_device d) {
    const fac_device_guard *g;
    int index;
    FAC_TRY(fac_error());
    FAC_TRY(locate(d, &g, &index));
    return g->set_device(g, index);
}

fac_status fac_synchronize(fac_device d) {
    const fac_device_guard *g;
    int index;
    FAC_TRY(fac_error());
    FAC_TRY(locate(d, &g, &index));
    return g->synchronize(g, index);
}

fac_device_scope fac_device_scope_begin(fac_device d) {
    fac_device_scope none = {{0, 0}}, s = none;
    const fac_device_guard *g;
    int index, was;
    if (d.type == FAC_DEVICE_UNSET || d.type == FAC_CPU || d.type == FAC_META || fac_error() != FAC_OK) return none;
    if (locate(d, &g, &index) != FAC_OK || g->get_device(g, &was) != FAC_OK) return none;
    if (was != index && g->set_device(g, index) != FAC_OK) return none;
    s.was = fac_device_make((fac_device_type)d.type, was);
    return s;
}

void fac_device_scope_end(fac_device_scope *s) {
    if (!s || s->was.type == FAC_DEVICE_UNSET) return;
    const fac_device_guard *g = fac_device_guard_of((fac_device_type)s->was.type);
    if (g) g->set_device_unchecked(g, s->was.index_plus - 1);
    s->was = (fac_device){0, 0};
}

/* ---- streams --------------------------------------------------------------------------------------------------------------- */

static fac_stream stream_make(const fac_device_guard *g, int index, int64_t id) {
    fac_stream s = {fac_device_make(g->type, g->type == FAC_CPU ? -1 : index), id};
    return s;
}

/* The table and index of a stream; an unset one is an error. */
static fac_status locate_stream(fac_stream s, const fac_device_guard **g, int *out_index) {
    FAC_CHECK(s.device.type != FAC_DEVICE_UNSET, FAC_ERR_ARGUMENT, "an unset stream was given");
    FAC_TRY(locate(s.device, g, out_index));
    FAC_CHECK((*g)->get_stream || s.id == 0, FAC_ERR_ARGUMENT, "%s has one stream only",
              fac_device_format(s.device, (char[24]){0}, 24));
    return FAC_OK;
}

static fac_status check_there(const fac_device_guard *g, int index) {
    int n = g->count(g);
    FAC_CHECK(index >= 0 && index < n, FAC_ERR_DEVICE, "there is no device %s: %d of them are here",
              fac_device_format(fac_device_make(g->type, index), (char[24]){0}, 24), n);
    return FAC_OK;
}

fac_stream fac_default_stream(fac_device d) {
    fac_stream none = {{0, 0}, 0};
    const fac_device_guard *g;
    int index;
    if (fac_error() != FAC_OK || locate(d, &g, &index) != FAC_OK || check_there(g, index) != FAC_OK) return none;
    return stream_make(g, index, 0);
}

fac_stream fac_current_stream(fac_device d) {
    fac_stream none = {{0, 0}, 0};
    const fac_device_guard *g;
    int index;
    int64_t id = 0;
    if (fac_error() != FAC_OK || locate(d, &g, &index) != FAC_OK) return none;
    if (g->get_stream && g->get_stream(g, index, &id) != FAC_OK) return none;
    return stream_make(g, index, id);
}

fac_stream fac_stream_new(fac_device d, int priority) {
    fac_stream none = {{0, 0}, 0};
    const fac_device_guard *g;
    int index;
    int64_t id = 0;
    if (fac_error() != FAC_OK || locate(d, &g, &index) != FAC_OK) return none;
    if (g->new_stream && g->new_stream(g, index, priority, &id) != FAC_OK) return none;
    return stream_make(g, index, id);
}

fac_stream fac_stream_wrap(fac_device d, void *handle) {
    fac_stream none = {{0, 0}, 0};
    const fac_device_guard *g;
    int index;
    int64_t id = 0;
    if (fac_error() != FAC_OK || locate(d, &g, &index) != FAC_OK) return none;
    if (!g->wrap_stream) {
        FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s has no streams to wrap", fac_device_format(d, (char[24]){0}, 24));
        return none;
    }
    return g->wrap_stream(g, index, handle, &id) == FAC_OK ? stream_make(g, index, id) : none;
}

void *fac_stream_handle(fac_stream s) {
    const fac_device_guard *g;
    int index;
    if (fac_error() != FAC_OK || locate_stream(s, &g, &index) != FAC_OK || !g->stream_handle) return NULL;
    return g->stream_handle(g, index, s.id);
}

bool fac_stream_equal(fac_stream a, fac_stream b) { return fac_device_equal(a.device, b.device) && a.id == b.id; }

fac_status fac_set_stream(fac_stream s) {
    const fac_device_guard *g;
    int index;
    int64_t was;
    FAC_TRY(fac_error());
    FAC_TRY(locate_stream(s, &g, &index));
    return g->exchange_stream ? g->exchange_stream(g, index, s.id, &was) : FAC_OK;
}

fac_status fac_stream_query(fac_stream s, bool *out_done) {
    const fac_device_guard *g;
    int index;
    FAC_TRY(fac_error());
    FAC_CHECK(out_done, FAC_ERR_ARGUMENT, "fac_stream_query: out_done is NULL");
    *out_done = true;
    FAC_TRY(locate_stream(s, &g, &index));
    return g->query_stream ? g->query_stream(g, index, s.id, out_done) : FAC_OK;
}

fac_status fac_stream_synchronize(fac_stream s) {
    const fac_device_guard *g;
    int index;
    FAC_TRY(fac_error());
    FAC_TRY(locate_stream(s, &g, &index));
    return g->synchronize_stream ? g->synchronize_stream(g, index, s.id) : g->synchronize(g, index);
}

fac_stream_scope fac_stream_scope_begin(fac_stream s) {
    fac_stream_scope none = {{{0, 0}, 0}, {0, 0}}, scope = none;
    const fac_device_guard *g;
    int index;
    int64_t was = 0;
    if (s.device.type == FAC_DEVICE_UNSET || fac_error() != FAC_OK) return none;
    if (locate_stream(s, &g, &index) != FAC_OK) return none;
    fac_device_scope device = fac_device_scope_begin(s.device);
    if (fac_error() != FAC_OK) return none;
    if (g->exchange_stream && g->exchange_stream(g, index, s.id, &was) != FAC_OK) {
        fac_device_scope_end(&device);
        return none;
    }
    scope.was = stream_make(g, index, was);
    scope.device_was = device.was;
    return scope;
}

void fac_stream_scope_end(fac_stream_scope *s) {
    if (!s || s->was.device.type == FAC_DEVICE_UNSET) return;
    const fac_device_guard *g = fac_device_guard_of((fac_device_type)s->was.device.type);
    int64_t replaced;
    if (g && g->exchange_stream) {
        fac_saved_error *e = fac__error_take(); /* what is pending must neither stop this nor be lost */
        if (g->exchange_stream(g, s->was.device.index_plus - 1, s->was.id, &replaced) != FAC_OK) fac_error_clear();
        fac__error_restore(e);
    }
    fac_device_scope device = {s->device_was};
    fac_device_scope_end(&device);
    *s = (fac_stream_scope){{{0, 0}, 0}, {0, 0}};
}

fac_status fac_record_stream(fac_tensor *t, fac_stream s) {
    FAC_TRY(fac_error());
    FAC_OPEN(t, __func__, "t", fac_error());
    return fac__record_stream(t, s);
}

fac_status fac__record_stream(fac_tensor *t, fac_stream s) {
    const fac_device_guard *g;
    int index;
    if (fac__is_cpu(t) || !t->storage || !t->storage->data) return FAC_OK;
    FAC_TRY(locate_stream(s, &g, &index));
    FAC_CHECK(t->device.type == (int32_t)g->type && t->device.index_plus - 1 == index, FAC_ERR_DEVICE,
              "a tensor on %s cannot be recorded in a stream of %s: let a stream of its own device wait for that one "
              "before it is freed (fac_stream_wait_stream)",
              fac_device_format(t->device, (char[24]){0}, 24),
              fac_device_format(fac_device_make(g->type, index), (char[24]){0}, 24));
    return g->record_data ? g->record_data(g, t->storage->data, index, s.id) : FAC_OK;
}
