/* Contiguity flags as PyTorch defines them; overlap; version counters. */
#include "core/tensor_flags.h"

/* ---- contiguity --------------------------------------------------------------------------------------------------------- */

static bool is_row_major(const fac_tensor *t) {
    int64_t expected = 1;
    if (t->numel == 0) return true;
    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->sizes[d] == 1) continue;
        if (t->strides[d] != expected) return false;
        expected = fac__mul_or_max(expected, t->sizes[d]);
    }
    return true;
}

/* Strides grow in the given order of dimensions without gaps. */
static bool follows(const fac_tensor *t, const int8_t *order) {
    int64_t expected = 1;
    for (int i = 0; i < t->ndim; i++) {
        int d = order[i];
        if (t->sizes[d] == 1) continue;
        if (t->strides[d] != expected) return false;
        expected = fac__mul_or_max(expected, t->sizes[d]);
    }
    return true;
}

/* Dimensions of at least two elements, by rising stride; returns how many. */
static int order_by_stride(const fac_tensor *t, int8_t *order) {
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->sizes[d] < 2) continue;
        int i = n++;
        for (; i > 0 && t->strides[order[i - 1]] > t->strides[d]; i--) order[i] = order[i - 1];
        order[i] = (int8_t)d;
    }
    return n;
}

static bool is_dense(const fac_tensor *t) {
    int8_t order[FAC_MAX_DIMS];
    int n = order_by_stride(t, order);
    int64_t expected = 1;
    for (int i = 0; i < n; i++) {
        if (t->strides[order[i]] != expected) return false;
        expected = fac__mul_or_max(expected, t->sizes[order[i]]);
    }
    return true;
}

unsigned fac__geometry_flags(const fac_tensor *t) {
    static const int8_t nhwc[] = {1, 3, 2, 0}, ndhwc[] = {1, 4, 3, 2, 0};
    unsigned flags = 0;
    if (is_row_major(t))
        flags = FAC_TF_CONTIGUOUS | FAC_TF_DENSE;
    else if (is_dense(t))
        flags = FAC_TF_DENSE;
    if (t->ndim == 4 && follows(t, nhwc)) flags |= FAC_TF_CHANNELS_LAST;
    if (t->ndim == 5 && follows(t, ndhwc)) flags |= FAC_TF_CHANNELS_LAST_3D;
    return flags;
}

/* ---- overlap -------------------------------------------------------------------------------------------------------------- */

bool fac__is_alias(const fac_tensor *a, const fac_tensor *b) { return a->storage && a->storage == b->storage; }

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Steps i of one dimension and j of the other that lead to the same place. */
static bool collide(int64_t stride_a, int64_t n_a, int64_t stride_b, int64_t n_b) {
    int64_t g = gcd(stride_b, stride_a);
    return stride_b / g < n_a && stride_a / g < n_b;
}

/* Certain when true. When false there may still be an overlap that takes three dimensions to make; PyTorch, which sees
   only zero strides, lets more than that pass. */
bool fac__has_internal_overlap(const fac_tensor *t) {
    int8_t order[FAC_MAX_DIMS];
    if (t->numel <= 1 || (t->flags & FAC_TF_DENSE)) return false;
    int n = order_by_stride(t, order);
    if (t->strides[order[0]] == 0) return true;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (collide(t->strides[order[i]], t->sizes[order[i]], t->strides[order[j]], t->sizes[order[j]]))
                return true;
    return false;
}

fac_status fac__check_no_overlap(const fac_tensor *t) {
    FAC_CHECK(
        !fac__has_internal_overlap(t), FAC_ERR_ARGUMENT,
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation.");
    return FAC_OK;
}

/* First byte and one past the last that t touches. */
static void byte_range(const fac_tensor *t, int64_t *begin, int64_t *end) {
    int64_t item = fac__item_size(t), last = t->offset;
    for (int d = 0; d < t->ndim; d++) last += (t->sizes[d] - 1) * t->strides[d];
    *begin = t->offset * item;
    *end = (last + 1) * item;
}

fac_overlap fac__overlap(const fac_tensor *a, const fac_tensor *b) {
    int64_t a0, a1, b0, b1;
    if (a == b) return FAC_OVERLAP_FULL;
    if (!fac__is_alias(a, b) || a->numel == 0 || b->numel == 0) return FAC_OVERLAP_NO;
    bool dense = (a->flags & FAC_TF_DENSE) && (b->flags & FAC_TF_DENSE);
    bool same = a->offset == b->offset && a->dtype == b->dtype && fac__same_sizes(a, b) &&
                memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0;
    if (same) return dense || !fac__has_internal_overlap(a) ? FAC_OVERLAP_FULL : FAC_OVERLAP_UNKNOWN;
    byte_range(a, &a0, &a1);
    byte_range(b, &b0, &b1);
    if (a1 <= b0 || b1 <= a0) return FAC_OVERLAP_NO;
    if (!dense) return FAC_OVERLAP_UNKNOWN;
    return FAC_OVERLAP_PARTIAL;
}

/* ---- versions --------------------------------------------------------------------------------------------------------------- */

/* A base, its views and its detached handles share one counter, which whoever writes to their memory raises by one once the
   write is queued. What saves a tensor notes the count of that moment, and refuses to use it at another: its values may have
   changed. A counter is made when it is first needed, and is never replaced while it is shared; set_data, after which the memory
   is another, leaves the old one behind. Inference tensors have none, and cannot be saved. */

fac_version_counter *fac__version_ref(fac_version_counter *v) {
    if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void fac__version_unref(fac_version_counter *v) {
    if (!v || !fac__last_ref(&v->refs)) return;
    fac_thread *th = fac__tls;
    if (!th || !fac__freelist_push(&th->versions, v, FAC_FREELIST_MAX)) fac__free(v);
}

/* Two threads may take a first view of one tensor at once: the counter that is published first stays. */
fac_status fac__version_make_first(fac_tensor *t) {
    fac_thread *th = fac__thread();
    fac_version_counter *v = fac__object_alloc(th, &th->versions, sizeof *v), *none = NULL;
    if (!v) return FAC_ERR_MEMORY;
    atomic_init(&v->refs, 1);
    atomic_init(&v->value, 0);
    if (!__atomic_compare_exchange_n(&t->version, &none, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        fac__version_unref(v);
    return FAC_OK;
}

unsigned fac__version_of(fac_tensor *t) {
    fac_version_counter *v = fac__version_counter(t);
    return v ? atomic_load_explicit(&v->value, memory_order_relaxed) : 0;
}

fac_status fac__not_writable(void) {
    return FAC_FAIL(FAC_ERR_AUTOGRAD,
                    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a "
                    "clone to get a normal tensor before doing inplace update.");
}

fac_status fac__bump_version(fac_tensor *t) {
    FAC_TRY(fac__version_make(t));
    fac_version_counter *v = fac__version_counter(t);
    if (v) atomic_fetch_add_explicit(&v->value, 1, memory_order_relaxed);
    return FAC_OK;
}
