/* Making nested tensors: of lists, of padded tensors, and back to padded ones. */
#include "core/read.h"
#include "core/sparse.h"
#include "core/tensor_make.h"
#include "ops/composite/view.h"
#include "ops/nested/parts.h"

/* ---- of lists ------------------------------------------------------------------------------------------------------------ */

typedef struct wanted {
    fac_dtype dtype;
    fac_layout layout;
    fac_device device;
    fac_opt_num pin_memory;
} wanted;

static fac_status check_layout(fac_layout layout) {
    FAC_CHECK(layout == FAC_STRIDED, FAC_ERR_UNSUPPORTED, "nested tensors have the strided layout only, not %s",
              fac__layout_name(layout));
    return FAC_OK;
}

/* Without components there are no sizes either. */
static fac_tensor *of_nothing(const wanted *w) {
    FAC_RAGGED_HELD(shape);
    if (fac__ragged_new(0, 0, &shape) != FAC_OK || fac__ragged_complete(shape) != FAC_OK) return NULL;
    return fac__nested_of_buffer(fac__s_zeros(FAC_INTS(0), w->dtype, FAC_STRIDED, w->device, w->pin_memory), shape);
}

static fac_tensor *of_list(fac_tensors l, const wanted *w) {
    if (check_layout(w->layout) != FAC_OK) return NULL;
    if (l.n == 0) return of_nothing(w);
    fac_tensor *t = fac__nested_of_list(l);
    if (!t) return NULL;
    return fac__nested_like(fac__s_to_dtype_layout(fac__nested_of(t)->buffer, w->dtype, FAC_STRIDED, w->device,
                                                   w->pin_memory, false, false, FAC_FORMAT_DEFAULT),
                            t);
}

fac_status nested_tensor_composite(const fac_call_info *c, fac_tensors tensors, fac_dtype dtype, fac_layout layout,
                                   fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    fac_tensor *t = of_list(tensors, &(wanted){dtype, layout, device, pin_memory});
    return fac__give(out, t ? fac__nested_like(fac__s_detach(fac__nested_of(t)->buffer), t) : NULL);
}

fac_status as_nested_tensor_composite(const fac_call_info *c, fac_tensors tensors, fac_dtype dtype, fac_layout layout,
                                      fac_device device, fac_opt_num pin_memory, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    return fac__give(out, of_list(tensors, &(wanted){dtype, layout, device, pin_memory}));
}

/* ---- places among padded ones -------------------------------------------------------------------------------------------- */

/* How the components of a shape lie in a tensor [n, sizes...] that has room for the largest. Dimensions that all components fill
   are rows, which are moved as a whole: the last `inner` elements. */
typedef struct padded {
    const fac_ragged *shape;
    int64_t sizes[FAC_MAX_DIMS]; /* n and what follows */
    int lead;                    /* dimensions of a component before those of a row; 0: there is no padding */
    int64_t inner;               /* elements of a row */
    int64_t rows, all;           /* of the components, and of the padded tensor */
} padded;

static bool fills(const padded *p, int k) {
    for (int64_t i = 0; i < p->shape->n; i++)
        if (p->shape->sizes[i * p->shape->d + k] != p->sizes[k + 1]) return false;
    return true;
}

/* p->shape and p->sizes are given. */
static fac_status lay_out(padded *p) {
    int64_t numel;
    const int d = p->shape->d;
    p->lead = d;
    while (p->lead > 0 && fills(p, p->lead - 1)) p->lead--;
    FAC_CHECK(fac__numel(p->sizes, d + 1, &numel) && fac__numel(p->sizes + 1 + p->lead, d - p->lead, &p->inner),
              FAC_ERR_OVERFLOW, "a padded tensor of sizes %s, or a row of it, has more elements than 64 bits can count",
              fac__shape_text(p->sizes, d + 1, (char[256]){0}, 256));
    p->rows = p->inner ? p->shape->offsets[p->shape->n] / p->inner : 0;
    p->all = p->inner ? numel / p->inner : 0;
    return FAC_OK;
}

/* Visits the rows of all components in order; where[k] is the number of the padded row that row k is. */
static void places(const padded *p, int64_t *where) {
    int64_t at[FAC_MAX_DIMS] = {0}, next = 0;
    for (int64_t i = 0; i < p->shape->n; i++) {
        const int64_t *sizes = p->shape->sizes + i * p->shape->d;
        const int64_t count = p->inner ? (p->shape->offsets[i + 1] - p->shape->offsets[i]) / p->inner : 0;
        for (int k = 0; k < p->lead; k++) at[k] = 0;
        for (int64_t row = 0; row < count; row++) {
            int64_t flat = i;
            for (int k = 0; k < p->lead; k++) flat = flat * p->sizes[k + 1] + at[k];
            where[next++] = flat;
            for (int k = p->lead - 1; k >= 0 && ++at[k] == sizes[k]; k--) at[k] = 0;
        }
    }
}

static fac_tensor *on_device(const int64_t *v, int64_t n, fac_device device) {
    fac_tensor *t = fac__tensor_from(v, FAC_I64, FAC_INTS(n));
    return t && device.type != FAC_CPU ? fac__s_to_device(t, device, FAC_I64, false, false, FAC_FORMAT_DEFAULT) : t;
}

/* The padded row of each row of the components. */
static fac_tensor *places_on(const padded *p, fac_device device) {
    int64_t *where = fac__alloc_array((size_t)p->rows + 1, sizeof *where);
    if (!where) return NULL;
    places(p, where);
    fac_tensor *t = on_device(where, p->rows, device);
    fac__free(where);
    return t;
}

/* The reverse: of each padded row, the row of the components that is there, or `rows`, which stands for padding. */
static fac_tensor *rows_on(const padded *p, fac_device device) {
    int64_t *where = fac__alloc_array((size_t)p->rows + 1, sizeof *where),
            *row = fac__alloc_array((size_t)p->all + 1, sizeof *row);
    fac_tensor *t = NULL;
    if (where && row) {
        places(p, where);
        for (int64_t i = 0; i < p->all; i++) row[i] = p->rows;
        for (int64_t i = 0; i < p->rows; i++) row[where[i]] = i;
        t = on_device(row, p->all, device);
    }
    fac__free(row);
    fac__free(where);
    return t;
}

/* ---- to padded ones --------------------------------------------------------------------------------------------------------- */

/* The largest sizes, or those that are given, which may not be smaller. */
static fac_status padded_sizes(const fac_nested *own, fac_ints given, int64_t *sizes) {
    const fac_ragged *r = own->shape;
    sizes[0] = r->n;
    for (int k = 0; k < r->d; k++) {
        sizes[k + 1] = 0;
        for (int64_t i = 0; i < r->n; i++) sizes[k + 1] = fac__max(sizes[k + 1], r->sizes[i * r->d + k]);
    }
    if (!given.v) return FAC_OK;
    FAC_CHECK(given.n == (size_t)r->d + 1, FAC_ERR_SHAPE,
              "output_size has %zu sizes, but the nested tensor has %d dimensions", given.n, r->d + 1);
    for (int k = 0; k <= r->d; k++)
        FAC_CHECK(given.v[k] >= sizes[k], FAC_ERR_SHAPE,
                  "output_size %lld in dimension %d is smaller than the largest size, %lld", (long long)given.v[k], k,
                  (long long)sizes[k]);
    memcpy(sizes, given.v, given.n * sizeof *sizes);
    return FAC_OK;
}

static fac_tensor *filled(fac_ints sizes, double padding, const fac_tensor *like) {
    return fac__s_full(sizes, fac_scalar_f_(padding), (fac_dtype)like->dtype, FAC_STRIDED, like->device,
                       (fac_opt_num){0});
}

static fac_tensor *padded_of(const padded *p, fac_tensor *buffer, double padding) {
    const fac_ints sizes = {p->sizes, (size_t)p->shape->d + 1};
    if (buffer->numel == 0) return filled(sizes, padding, buffer);
    if (p->lead == 0 && p->sizes[0] == p->shape->n) return fac__s_view(fac__s_clone(buffer, FAC_CONTIGUOUS), sizes);
    fac_tensor *rows = fac__s_view(buffer, FAC_INTS(p->rows, p->inner));
    fac_tensor *table = fac__s_cat(FAC_TENSORS(rows, filled(FAC_INTS(1, p->inner), padding, buffer)), 0);
    fac_tensor *all = fac__s_embedding(table, rows_on(p, buffer->device), p->rows, false, false);
    return all ? fac__s_view(all, sizes) : NULL;
}

fac_status to_padded_composite(const fac_call_info *c, fac_tensor *self, double padding, fac_ints output_size,
                               fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(self, "self"));
    fac_tensor *t = fac__nested_contiguous(self);
    if (!t) return fac_error();
    padded p = {.shape = fac__nested_of(t)->shape};
    FAC_TRY(padded_sizes(fac__nested_of(t), output_size, p.sizes));
    FAC_TRY(lay_out(&p));
    return fac__give(out, padded_of(&p, fac__nested_of(t)->buffer, padding));
}

/* ---- of padded ones --------------------------------------------------------------------------------------------------------- */

static fac_status of_padded(fac_tensor *t, fac_ragged *shape, fac_tensor **out) {
    padded p = {.shape = shape};
    FAC_TRY(fac__ragged_complete(shape));
    for (int k = 0; k < t->ndim; k++) p.sizes[k] = t->sizes[k];
    for (int64_t i = 0; i < shape->n; i++)
        for (int k = 0; k < shape->d; k++)
            FAC_CHECK(shape->sizes[i * shape->d + k] <= t->sizes[k + 1], FAC_ERR_SHAPE,
                      "component %lld has size %lld in dimension %d, more than the padded tensor's %lld", (long long)i,
                      (long long)shape->sizes[i * shape->d + k], k, (long long)t->sizes[k + 1]);
    FAC_TRY(lay_out(&p));
    fac_tensor *rows = fac__s_reshape(t, FAC_INTS(p.all, p.inner)), *kept;
    if (p.lead == 0)
        kept = fac__s_clone(rows, FAC_CONTIGUOUS);
    else
        kept = rows ? fac__s_embedding(rows, places_on(&p, t->device), -1, false, false) : NULL;
    return fac__give(out, fac__nested_of_buffer(kept ? fac__s_reshape(kept, FAC_INTS(p.rows * p.inner)) : NULL, shape));
}

fac_status nested_from_padded_composite(const fac_call_info *c, fac_tensor *padded,
                                        fac_tensor *cpu_nested_shape_example, bool fuse_transform_0213,
                                        fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_RAGGED_HELD(shape);
    fac_tensor *sizes = cpu_nested_shape_example;
    if (padded->cls && !padded->cls->in_memory) return fac__not_plain(padded, "a nested tensor");
    if (sizes->cls && !sizes->cls->in_memory) return fac__not_plain(sizes, "a nested tensor");
    FAC_CHECK(!fuse_transform_0213, FAC_ERR_UNSUPPORTED,
              "fuse_transform_0213 is not supported; transpose the padded tensor first");
    FAC_CHECK(sizes->dtype == FAC_I64 && sizes->ndim == 2 && padded->ndim > 0 && sizes->sizes[0] == padded->sizes[0] &&
                  sizes->sizes[1] == padded->ndim - 1,
              FAC_ERR_SHAPE, "expected int64 sizes [%lld, %d] for a padded tensor of sizes %s, but got %s of sizes %s",
              padded->ndim ? (long long)padded->sizes[0] : 0LL, padded->ndim - 1, FAC_SHAPE_TEXT(padded),
              fac_dtype_name((fac_dtype)sizes->dtype), FAC_SHAPE_TEXT(sizes));
    FAC_TRY(fac__ragged_new(sizes->sizes[0], padded->ndim - 1, &shape));
    FAC_TRY(fac__read(sizes, FAC_I64, shape->sizes, (size_t)sizes->numel));
    return of_padded(padded, shape, out);
}

static fac_status lengths_of(fac_tensor *mask, bool check, int64_t *lengths) {
    fac_tensor *sums = fac__s_sum_dim_IntList(mask, FAC_INTS(1), false, FAC_DTYPE_DEFAULT);
    if (!sums) return fac_error();
    FAC_TRY(fac__read(sums, FAC_I64, lengths, (size_t)sums->numel));
    if (!check || mask->sizes[1] < 2) return FAC_OK;
    fac_tensor *before = fac__s_slice_Tensor(mask, 1, fac_opt_int_(0), fac_opt_int_(mask->sizes[1] - 1), 1),
               *after = fac__s_slice_Tensor(mask, 1, fac_opt_int_(1), fac_opt_int_(mask->sizes[1]), 1);
    fac_tensor *gaps = fac__s_any(fac__s_logical_and(fac__s_logical_not(before), after));
    const bool gap = gaps && fac__item(gaps) != 0;
    FAC_TRY(fac_error());
    FAC_CHECK(!gap, FAC_ERR_ARGUMENT, "the mask must be true from the left on without gaps in each row");
    return FAC_OK;
}

fac_status nested_from_mask_composite(const fac_call_info *c, fac_tensor *t, fac_tensor *mask, bool mask_check,
                                      fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_RAGGED_HELD(shape);
    if (t->cls && !t->cls->in_memory) return fac__not_plain(t, "a nested tensor");
    if (mask->cls && !mask->cls->in_memory) return fac__not_plain(mask, "a nested tensor");
    FAC_CHECK(mask->dtype == FAC_BOOL, FAC_ERR_DTYPE, "expected a mask of dtype bool, not %s",
              fac_dtype_name((fac_dtype)mask->dtype));
    FAC_CHECK(mask->ndim == 2 && t->ndim >= 2 && mask->sizes[0] == t->sizes[0] && mask->sizes[1] == t->sizes[1],
              FAC_ERR_SHAPE, "expected a tensor [n, length, ...] and a mask [n, length], but got %s and %s",
              FAC_SHAPE_TEXT(t), FAC_SHAPE_TEXT(mask));
    FAC_CHECK(fac_device_equal(t->device, mask->device), FAC_ERR_DEVICE,
              "the tensor and the mask must be on one device");
    FAC_TRY(fac__ragged_new(t->sizes[0], t->ndim - 1, &shape));
    int64_t *lengths = fac__alloc_array((size_t)shape->n + 1, sizeof *lengths);
    const fac_status st = lengths ? lengths_of(mask, mask_check, lengths) : FAC_ERR_MEMORY;
    for (int64_t i = 0; i < shape->n && st == FAC_OK; i++)
        for (int k = 0; k < shape->d; k++) shape->sizes[i * shape->d + k] = k ? t->sizes[k + 1] : lengths[i];
    fac__free(lengths);
    FAC_TRY(st);
    return of_padded(t, shape, out);
}

/* ---- what they are made of ------------------------------------------------------------------------------------------------- */

fac_status nested_sizes_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(self, "self"));
    const fac_nested *own = fac__nested_of(self);
    const fac_ragged *r = own->shape;
    int64_t *sizes = fac__alloc_array((size_t)(r->n * r->d) + 1, sizeof *sizes);
    if (!sizes) return FAC_ERR_MEMORY;
    for (int64_t i = 0; i < r->n; i++)
        for (int k = 0; k < r->d; k++) sizes[i * r->d + k] = fac__nested_size(own, i, k);
    fac_tensor *t = fac__tensor_from(sizes, FAC_I64, FAC_INTS(r->n, r->d));
    fac__free(sizes);
    return fac__give(out, t);
}

fac_status nested_strides_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(self, "self"));
    const fac_nested *own = fac__nested_of(self);
    const fac_ragged *r = own->shape;
    int64_t *strides = fac__alloc_array((size_t)(r->n * r->d) + 1, sizeof *strides);
    if (!strides) return FAC_ERR_MEMORY;
    for (int64_t i = 0; i < r->n; i++) {
        int64_t stored[FAC_MAX_DIMS];
        fac__row_major(r->sizes + i * r->d, r->d, stored);
        for (int k = 0; k < r->d; k++) strides[i * r->d + k] = stored[own->order[k]];
    }
    fac_tensor *t = fac__tensor_from(strides, FAC_I64, FAC_INTS(r->n, r->d));
    fac__free(strides);
    return fac__give(out, t);
}

fac_status nested_offsets_composite(const fac_call_info *c, fac_tensor *self, fac_tensor **out) {
    (void)c;
    FAC_SCOPE(s);
    FAC_TRY(fac__nested_need(self, "self"));
    const fac_ragged *r = fac__nested_of(self)->shape;
    return fac__give(out, fac__tensor_from(r->offsets, FAC_I64, FAC_INTS(r->n)));
}
