/* The registry of allocators by device type, and the CPU's plain one. */
#include "core/allocator.h"
#include "core/guard.h"

static void *immediate_alloc(const fac_allocator *self, int64_t bytes) {
    (void)self;
    return bytes < 0 ? NULL : fac__alloc_aligned((size_t)bytes, FAC_DATA_ALIGN);
}

static void immediate_free(const fac_allocator *self, void *p, int64_t bytes) {
    (void)self, (void)bytes;
    fac__free(p);
}

static const fac_allocator immediate = {"immediate", immediate_alloc, immediate_free, NULL};

const fac_allocator *fac_allocator_immediate(void) { return &immediate; }

static _Atomic(const fac_allocator *) registry[FAC_DEVICE_TYPE_COUNT];

void fac__allocator_default(fac_device_type type, const fac_allocator *a) {
    const fac_allocator *none = NULL;
    atomic_compare_exchange_strong(&registry[type], &none, a);
}

/* The library may not have started, which sets the CPU's; if it cannot, memory is malloc's. */
static const fac_allocator *cpu_allocator(void) {
    (void)fac__thread();
    const fac_allocator *a = atomic_load_explicit(&registry[FAC_CPU], memory_order_acquire);
    return a ? a : &immediate;
}

const fac_allocator *fac_allocator_get(fac_device_type type) {
    if ((unsigned)type >= FAC_DEVICE_TYPE_COUNT) return NULL;
    const fac_allocator *a = atomic_load_explicit(&registry[type], memory_order_acquire);
    if (FAC_LIKELY(a != NULL)) return a;
    if (type == FAC_CPU) return cpu_allocator();
    const fac_device_guard *g = fac_device_guard_of(type);
    int index;
    return g && g->get_device(g, &index) == FAC_OK ? g->allocator(g, index) : NULL;
}

fac_status fac_allocator_set(fac_device_type type, const fac_allocator *a) {
    FAC_CHECK(type > FAC_DEVICE_UNSET && type < FAC_DEVICE_TYPE_COUNT && type != FAC_META, FAC_ERR_DEVICE,
              "device type %d has no allocator to set", (int)type);
    FAC_CHECK(a && a->name && a->alloc && a->free, FAC_ERR_ARGUMENT,
              "an allocator needs a name, an alloc and a free function");
    atomic_store_explicit(&registry[type], a, memory_order_release);
    return FAC_OK;
}

bool fac__allocator_replaced(fac_device_type type) {
    return atomic_load_explicit(&registry[type], memory_order_acquire) != NULL;
}

fac_status fac__allocator_of(fac_device d, const fac_allocator **out) {
    const fac_device_guard *g;
    *out = NULL;
    if (FAC_UNLIKELY((unsigned)d.type >= FAC_DEVICE_TYPE_COUNT)) return fac__guard_of(d.type, &g);
    *out = atomic_load_explicit(&registry[d.type], memory_order_acquire);
    if (FAC_LIKELY(*out != NULL)) return FAC_OK;
    g = d.type == FAC_CPU ? NULL : fac_device_guard_of((fac_device_type)d.type);
    *out = g ? g->allocator(g, d.index_plus ? d.index_plus - 1 : 0) : fac_allocator_get((fac_device_type)d.type);
    if (FAC_LIKELY(*out != NULL)) return FAC_OK;
    FAC_TRY(fac_error());
    char text[24];
    return FAC_FAIL(FAC_ERR_DEVICE, "cannot allocate on device '%s': no back end has registered an allocator for it",
                    fac_device_format(d, text, sizeof text));
}
