/* Storages: bytes with a count, an allocator and a device. */
#include "core/storage.h"
#include "core/allocator.h"
#include "core/guard.h"

static fac_storage *new_header(fac_thread *th) { return fac__object_alloc(th, &th->storages, sizeof(fac_storage)); }

static void free_header(fac_storage *s) {
    fac_thread *th = fac__tls;
    fac__live_add(-1);
    if (!th || !fac__freelist_push(&th->storages, s, FAC_FREELIST_MAX)) fac__free(s);
}

/* A replaced allocator serves all devices of its type and asks which one is current. */
static void *on_device(const fac_allocator *a, int64_t bytes, fac_device device) {
    fac_device_scope scope = fac_device_scope_begin(device);
    void *p = fac_error() == FAC_OK ? a->alloc(a, bytes) : NULL;
    fac_device_scope_end(&scope);
    return p;
}

/* Asks an allocator; its failure becomes an error that says how much was wanted, unless it set one itself. */
static fac_status allocate(const fac_allocator *a, int64_t bytes, fac_device device, char **out) {
    bool plain = FAC_LIKELY(device.type == FAC_CPU) || !fac__allocator_replaced((fac_device_type)device.type) ||
                 !fac_device_guard_of((fac_device_type)device.type);
    *out = plain ? a->alloc(a, bytes) : on_device(a, bytes, device);
    if (FAC_LIKELY(*out != NULL)) return FAC_OK;
    FAC_TRY(fac_error());
    char name[24];
    return FAC_FAIL(FAC_ERR_MEMORY, "out of memory: the %s allocator cannot give %lld bytes on %s", a->name,
                    (long long)bytes, fac_device_format(device, name, sizeof name));
}

fac_status fac__storage_new(fac_thread *th, fac_device device, int64_t bytes, const fac_allocator *a,
                            fac_storage **out) {
    *out = NULL;
    if (!a) FAC_TRY(fac__allocator_of(device, &a));
    fac_storage *s = new_header(th);
    if (FAC_UNLIKELY(!s)) return FAC_ERR_MEMORY;
    fac_status st = allocate(a, bytes, device, &s->data);
    if (FAC_UNLIKELY(st != FAC_OK)) {
        fac__free(s);
        return st;
    }
    atomic_init(&s->refs, 1);
    s->device = device;
    s->bytes = bytes;
    s->allocator = a;
    s->release = NULL;
    s->release_context = NULL;
    s->resizable = true;
    fac__count(&th->live, 1);
    *out = s;
    return FAC_OK;
}

fac_status fac__storage_wrap(void *data, int64_t bytes, fac_device device, void (*release)(void *), void *context,
                             fac_storage **out) {
    fac_storage *s = new_header(fac__thread());
    *out = s;
    if (!s) return FAC_ERR_MEMORY;
    *s = (fac_storage){.device = device, .data = data, .bytes = bytes, .release = release, .release_context = context};
    atomic_init(&s->refs, 1);
    fac__live_add(1);
    return FAC_OK;
}

fac_storage *fac__storage_ref(fac_storage *s) {
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static void free_storage(fac_storage *s) {
    if (s->allocator)
        s->allocator->free(s->allocator, s->data, s->bytes);
    else if (s->release)
        FAC_CALLBACK(s->release(s->release_context));
    free_header(s);
}

void fac__storage_unref(fac_storage *s) {
    if (s && fac__last_ref(&s->refs)) free_storage(s);
}

static fac_status copy_bytes(fac_device device, void *to, const void *from, int64_t bytes) {
    if (device.type != FAC_CPU) return fac__copy_bytes(device, to, device, from, bytes, true);
    if (bytes) memcpy(to, from, (size_t)bytes);
    return FAC_OK;
}

fac_status fac__storage_like(const fac_storage *s, int64_t bytes, int64_t kept, fac_storage **out) {
    *out = NULL;
    FAC_CHECK(
        s->resizable && s->allocator, FAC_ERR_STATE,
        "a storage of %lld bytes cannot grow to %lld bytes: its memory belongs to the caller, or was given to another "
        "library",
        (long long)s->bytes, (long long)bytes);
    fac_storage *like;
    FAC_TRY(fac__storage_new(fac__thread(), s->device, bytes, s->allocator, &like));
    fac_status st = copy_bytes(s->device, like->data, s->data, fac__min(kept, bytes));
    if (st == FAC_OK)
        *out = like;
    else
        fac__storage_unref(like);
    return st;
}

void fac__storage_swap(fac_storage *a, fac_storage *b) {
    char *data = a->data;
    int64_t bytes = a->bytes;
    a->data = b->data;
    a->bytes = b->bytes;
    b->data = data;
    b->bytes = bytes;
}

/* ---- public -------------------------------------------------------------------------------------------------------- */

static bool given(const fac_storage *s) {
    if (!s) FAC_FAIL(FAC_ERR_ARGUMENT, "NULL was given where a storage is needed");
    return s != NULL;
}

void *fac_storage_data(fac_storage *s) { return given(s) ? s->data : NULL; }

int64_t fac_storage_bytes(const fac_storage *s) { return given(s) ? s->bytes : 0; }

fac_device fac_storage_device(const fac_storage *s) { return given(s) ? s->device : (fac_device){0}; }

int64_t fac_storage_use_count(const fac_storage *s) {
    return given(s) ? atomic_load_explicit(&s->refs, memory_order_relaxed) : 0;
}
