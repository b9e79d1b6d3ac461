/* Nested tensors as headers: their sizes, making, sharing and freeing. See nested.h. */
#include "core/nested.h"
#include "core/tensor_flags.h"
#include "core/tensor_make.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------------- */

fac_status fac__ragged_new(int64_t n, int d, fac_ragged **out) {
    int64_t numbers, bytes;
    *out = NULL;
    FAC_CHECK(d >= 0 && d < FAC_MAX_DIMS, FAC_ERR_SHAPE,
              "a nested tensor of %d dimensions; at most %d are supported, the first among them", d + 1, FAC_MAX_DIMS);
    FAC_CHECK(n >= 0 && fac__mul(n, d + 1, &numbers) && fac__add(numbers, 1, &numbers) &&
                  fac__mul(numbers, (int64_t)sizeof(int64_t), &bytes) &&
                  fac__add(bytes, (int64_t)sizeof(fac_ragged), &bytes),
              FAC_ERR_OVERFLOW, "a nested tensor of %lld components is too large", (long long)n);
    fac_ragged *r = fac__alloc((size_t)bytes);
    if (!r) return FAC_ERR_MEMORY;
    atomic_init(&r->refs, 1);
    r->n = n;
    r->d = d;
    r->offsets = (int64_t *)(r + 1);
    r->sizes = r->offsets + n + 1;
    *out = r;
    return FAC_OK;
}

fac_status fac__ragged_complete(fac_ragged *r) {
    r->offsets[0] = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t *sizes = r->sizes + i * r->d;
        int64_t numel;
        for (int k = 0; k < r->d; k++)
            FAC_CHECK(sizes[k] >= 0, FAC_ERR_SHAPE, "component %lld has the negative size %lld in dimension %d",
                      (long long)i, (long long)sizes[k], k);
        FAC_CHECK(fac__numel(sizes, r->d, &numel) && fac__add(r->offsets[i], numel, &r->offsets[i + 1]),
                  FAC_ERR_OVERFLOW, "the components of a nested tensor have more elements than 64 bits can count");
    }
    return FAC_OK;
}

fac_ragged *fac__ragged_ref(fac_ragged *r) {
    if (r) atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
    return r;
}

void fac__ragged_unref(fac_ragged *r) {
    if (r && fac__last_ref(&r->refs)) fac__free(r);
}

bool fac__ragged_equal(const fac_ragged *a, const fac_ragged *b) {
    if (a == b) return true;
    return a->n == b->n && a->d == b->d &&
           (a->n * a->d == 0 || memcmp(a->sizes, b->sizes, (size_t)(a->n * a->d) * sizeof *a->sizes) == 0);
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------- */

static void drop(fac_nested *t) {
    fac__unref(t->buffer);
    fac__ragged_unref(t->shape);
    fac__free(t);
}

static void destroy(fac_tensor *t) {
    if (t->ext) drop(t->ext);
}

static fac_status copy_of(const fac_nested *from, fac_nested **out) {
    *out = fac__alloc(sizeof **out);
    if (!*out) return FAC_ERR_MEMORY;
    **out = *from;
    fac__ref(from->buffer);
    fac__ragged_ref(from->shape);
    return FAC_OK;
}

static fac_status share(const fac_tensor *t, void **out) {
    fac_nested *copy;
    FAC_TRY(copy_of(t->ext, &copy));
    *out = copy;
    return FAC_OK;
}

const fac_tensor_class fac__nested_class = {.name = "nested",
                                            .destroy = destroy,
                                            .share = share,
                                            .unread =
                                                "to_padded_tensor makes one plain tensor of it, unbind a list of them"};

int64_t fac__nested_common_size(const fac_nested *t, int k) {
    if (t->shape->n == 0) return 0;
    const int64_t first = fac__nested_size(t, 0, k);
    for (int64_t i = 1; i < t->shape->n; i++)
        if (fac__nested_size(t, i, k) != first) return FAC_RAGGED;
    return first;
}

bool fac__nested_in_order(const fac_nested *t) {
    for (int k = 0; k < t->shape->d; k++)
        if (t->order[k] != k) return false;
    return true;
}

bool fac__nested_alike(const fac_nested *a, const fac_nested *b) {
    return fac__ragged_equal(a->shape, b->shape) && memcmp(a->order, b->order, (size_t)a->shape->d) == 0;
}

/* What the header shows. */
static void show(fac_tensor *t, const fac_nested *own) {
    t->sizes[0] = own->shape->n;
    for (int k = 0; k < own->shape->d; k++) t->sizes[k + 1] = fac__nested_common_size(own, k);
    for (int k = 0; k <= own->shape->d; k++) t->strides[k] = 0;
    t->numel = own->shape->offsets[own->shape->n];
    t->flags = (uint16_t)(own->buffer->flags & FAC_TF_INFERENCE);
    if (fac__nested_in_order(own)) t->flags |= FAC_TF_CONTIGUOUS | FAC_TF_DENSE;
}

fac_status fac__nested_make(fac_tensor *buffer, fac_ragged *shape, const uint8_t *order, fac_tensor **out) {
    int64_t none[FAC_MAX_DIMS] = {0};
    fac_nested view = {.buffer = buffer, .shape = shape}, *own;
    *out = NULL;
    if (buffer->cls && !buffer->cls->in_memory) return fac__not_plain(buffer, "a nested tensor");
    FAC_CHECK(buffer->dtype < FAC_DTYPE_COUNT, FAC_ERR_DTYPE,
              "the elements of a nested tensor can be of any dtype that operators compute in, not %s",
              fac_dtype_name((fac_dtype)buffer->dtype));
    FAC_CHECK(buffer->ndim == 1 && buffer->numel == shape->offsets[shape->n], FAC_ERR_SHAPE,
              "the elements of a nested tensor lie in a vector of %lld, but got sizes %s",
              (long long)shape->offsets[shape->n], FAC_SHAPE_TEXT(buffer));
    for (int k = 0; k < shape->d; k++) view.order[k] = order ? order[k] : (uint8_t)k;
    if (!(buffer->flags & FAC_TF_INFERENCE)) FAC_TRY(fac__version_make(buffer));
    FAC_TRY(copy_of(&view, &own));
    const fac_geometry g = {
        .sizes = none,
        .strides = none,
        .ndim = shape->d + 1,
        .dtype = (fac_dtype)buffer->dtype,
        .device = buffer->device,
        .keys = (buffer->keys & FAC_BACKEND_MASK) | fac__func_bit(FAC_KEY_NESTED),
    };
    const fac_status st = fac__tensor_of_class(&fac__nested_class, own, &g, out);
    if (st != FAC_OK) {
        drop(own);
        return st;
    }
    show(*out, own);
    (*out)->version = fac__version_ref(fac__version_counter(buffer));
    return FAC_OK;
}

char *fac__nested_text(const fac_tensor *t, char *buf, size_t size) {
    const fac_nested *own = fac__nested_of(t);
    size_t at = (size_t)snprintf(buf, size, "[");
    for (int64_t i = 0; i < own->shape->n && at < size; i++) {
        int64_t sizes[FAC_MAX_DIMS];
        char one[256];
        for (int k = 0; k < own->shape->d; k++) sizes[k] = fac__nested_size(own, i, k);
        fac__shape_text(sizes, own->shape->d, one, sizeof one);
        const bool fits = at + strlen(one) + 8 < size;
        at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "", fits ? one : "...");
        if (!fits) break;
    }
    if (at < size) snprintf(buf + at, size - at, "]");
    return buf;
}
