/* Valid calls in which all tensors are changed alike, so that they still fit each other, forward and backward. */
#include "variations.h"

#include "core/tensor.h"
#include "dispatch/operator.h"
#include "dispatch/value.h"
#include <facula/facula.h>

enum { RESULTS = 8, ROOTS = 24, SIZES = 16 };

/* A dimension as long as a row-major tensor can have it, and as long as one with a stride of 0 can. */
static const int64_t long_sizes[] = {INT64_C(1) << 40, INT64_MAX};
static int64_t half_of(int64_t length) { return length / 2 + 1; }

/* ---- forward and backward --------------------------------------------------------------------------------------------- */

typedef struct roots {
    fac_tensor *v[ROOTS];
    size_t n;
} roots;

static void add_root(roots *r, fac_tensor *t) {
    if (t && r->n < ROOTS && fac_requires_grad(t)) r->v[r->n++] = t;
}

static void add_roots(roots *r, fac_value v) {
    if (v.tag == FAC_TAG_TENSOR) add_root(r, fac_value_as_tensor(v));
    if (v.tag != FAC_TAG_TENSORS) return;
    fac_tensors l = fac_value_as_tensors(v);
    for (size_t i = 0; i < l.n; i++) add_root(r, l.v[i]);
}

/* Backward from all results, with ones. */
static fac_status go_backward(const fac_value *results) {
    FAC_SCOPE(s);
    roots r = {.n = 0};
    fac_tensor *grads[ROOTS];
    for (size_t i = 0; i < RESULTS; i++) add_roots(&r, results[i]);
    for (size_t i = 0; i < r.n; i++)
        if (!(grads[i] = fac_ones_like(r.v[i]))) return fac_error();
    return r.n ? fac_backward_all(fac_tensors_of(r.v, r.n), fac_tensors_of(grads, r.n)) : FAC_OK;
}

static fac_status try_both_ways(const sample_call *c, fac_device device) {
    sample_made made;
    fac_value results[RESULTS];
    FAC_TRY(sample_make(c, device, &made));
    for (size_t i = 0; i < RESULTS; i++) results[i] = fac_value_none();
    fac_status st = fac_call(c->op, made.args, made.n_args, results);
    if (st == FAC_OK) st = go_backward(results);
    for (size_t i = 0; i < RESULTS; i++) fac_value_release(&results[i]);
    sample_unmake(&made);
    return st;
}

static void try(const sample_call *c, fac_device device, variation_count *n) {
    variation_try(c, device, try_both_ways, n);
}

/* Floating tensors require a gradient, unless the call writes to one. */
static void require_gradients(sample_call *c) {
    const fac_operator *op = fac_operator_lookup(c->op);
    const fac_schema *s = op ? atomic_load(&op->schema) : NULL;
    bool writes = false;
    for (size_t i = 0; s && i < s->n_args; i++) writes = writes || s->args[i].type.write;
    for (int i = 0; i < c->n_tensors; i++)
        if (!writes && !fac_dtype_is_integral(c->tensors[i].dtype, true)) c->tensors[i].flags |= SAMPLE_GRAD;
}

/* ---- sizes wherever they stand --------------------------------------------------------------------------------------- */

static void replace_size(sample_call *c, int64_t was, int64_t is) {
    for (int i = 0; i < c->n_tensors; i++)
        for (int d = 0; d < c->tensors[i].ndim; d++)
            if (c->tensors[i].sizes[d] == was) c->tensors[i].sizes[d] = is;
}

static void replace_item(sample_call *c, int64_t was, int64_t is) {
    for (int i = 0; i < c->n_items; i++)
        if (c->items[i].kind == SAMPLE_INT && c->items[i].i == was) c->items[i].i = is;
}

/* The sizes that tensors of the call have; returns how many. */
static int sizes_of(const sample_call *c, int64_t *sizes) {
    int n = 0;
    for (int i = 0; i < c->n_tensors; i++)
        for (int d = 0; d < c->tensors[i].ndim; d++) {
            int k = 0;
            while (k < n && sizes[k] != c->tensors[i].sizes[d]) k++;
            if (k == n && n < SIZES) sizes[n++] = c->tensors[i].sizes[d];
        }
    return n;
}

/* ---- dtypes ----------------------------------------------------------------------------------------------------------- */

static void try_dtype(const sample_call *was, fac_dtype dtype, fac_device device, variation_count *n) {
    static sample_call c;
    c = *was;
    for (int i = 0; i < c.n_tensors; i++)
        if (c.tensors[i].dtype == was->tensors[0].dtype) c.tensors[i].dtype = dtype;
    require_gradients(&c);
    try(&c, device, n);
}

/* Makes every size but 1 larger, so that tensors have over 1024 elements: more than a tile, or the threads of a block. */
static void grow(sample_call *c) {
    static const int64_t more[] = {0, 1030, 30, 9, 4};
    int64_t sizes[SIZES];
    int ndim = 0, n = sizes_of(c, sizes);
    for (int i = 0; i < c->n_tensors; i++) ndim = c->tensors[i].ndim > ndim ? c->tensors[i].ndim : ndim;
    int64_t by = ndim < (int)FAC_COUNT(more) ? more[ndim] : 2;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) /* the largest first: what has grown is not met again */
            if (sizes[k] < sizes[i]) {
                int64_t larger = sizes[i];
                sizes[i] = sizes[k];
                sizes[k] = larger;
            }
    for (int i = 0; i < n && sizes[i] > 1; i++) {
        replace_size(c, sizes[i], sizes[i] + by);
        replace_item(c, sizes[i], sizes[i] + by);
    }
}

variation_count variations_of_all_dtypes(const sample_set *s, fac_device device) {
    variation_count n = {0, 0};
    static sample_call c, large;
    for (size_t i = 0; i < s->n; i++) {
        if (!sample_parse(s->texts[i], &c, NULL) || !c.n_tensors) continue;
        large = c;
        grow(&large);
        for (int d = FAC_BOOL; d < FAC_DTYPE_COUNT; d++) {
            bool slow = device.type == FAC_CUDA && (fac_dtype)d != c.tensors[0].dtype; /* simulated threads */
            try_dtype(&c, (fac_dtype)d, device, &n);
            if (!slow) try_dtype(&large, (fac_dtype)d, device, &n);
        }
    }
    return n;
}

/* ---- elements --------------------------------------------------------------------------------------------------------- */

/* Fills the tensors of the first one's dtype: the first with `first`, the others with `others`. */
static void try_elements(const sample_call *was, fac_dtype dtype, const double first[2], const double others[2],
                         fac_device device, variation_count *n) {
    static sample_call c;
    c = *was;
    for (int i = 0; i < c.n_tensors; i++) {
        sample_tensor *t = &c.tensors[i];
        if (t->dtype != was->tensors[0].dtype) continue;
        t->dtype = dtype;
        t->n_elements = 2;
        memcpy(t->elements, i ? others : first, 2 * sizeof *t->elements);
    }
    try(&c, device, n);
}

variation_count variations_of_extreme_elements(const sample_set *s, fac_device device) {
    static const struct {
        fac_dtype dtype;
        double least, most;
    } ends[] = {{FAC_I8, INT8_MIN, INT8_MAX},
                {FAC_I16, INT16_MIN, INT16_MAX},
                {FAC_I32, INT32_MIN, INT32_MAX},
                {FAC_I64, -0x1p63, 0x1p63} /* becomes 2^63 - 1 */};
    variation_count n = {0, 0};
    static sample_call c;
    for (size_t i = 0; i < s->n; i++) {
        if (!sample_parse(s->texts[i], &c, NULL) || !c.n_tensors) continue;
        for (size_t k = 0; k < FAC_COUNT(ends); k++) {
            const double least[] = {ends[k].least, ends[k].least}, most[] = {ends[k].most, ends[k].most};
            const double both[] = {ends[k].least, ends[k].most}, minus[] = {-1, -1};
            try_elements(&c, ends[k].dtype, most, most, device, &n);
            try_elements(&c, ends[k].dtype, least, least, device, &n);
            try_elements(&c, ends[k].dtype, both, both, device, &n);
            try_elements(&c, ends[k].dtype, least, minus, device, &n);
        }
    }
    return n;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

/* A dimension that is too long for row-major strides gets a stride of 0, and counts as 1 in the strides of the others. */
static void expand_longest(sample_call *c) {
    for (int i = 0; i < c->n_tensors; i++) {
        sample_tensor *t = &c->tensors[i];
        int64_t stride = 1;
        t->strided = false;
        for (int d = t->ndim; d-- > 0;) {
            const bool longest = t->sizes[d] == INT64_MAX;
            t->strided = t->strided || longest;
            t->strides[d] = longest ? 0 : stride;
            stride = fac__mul_or_max(stride, longest ? 1 : fac__max(1, t->sizes[d]));
        }
    }
}

/* The call as it is, and with each of its integers large, in turn. */
static void try_with_integers(sample_call *c, int64_t large, fac_device device, variation_count *n) {
    expand_longest(c);
    try(c, device, n);
    for (int i = 0; i < c->n_args + c->n_items; i++) {
        sample_value *v = i < c->n_args ? &c->args[i] : &c->items[i - c->n_args], was = *v;
        if (was.kind != SAMPLE_INT) continue;
        v->i = large;
        try(c, device, n);
        *v = was;
    }
}

/* One size becomes long wherever it stands, in lists too, and another one none: memory is not needed. */
static void vary_sizes(const sample_call *was, int64_t length, fac_device device, variation_count *n) {
    static sample_call c;
    int64_t sizes[SIZES];
    int n_sizes = sizes_of(was, sizes);
    for (int a = 0; a < n_sizes; a++)
        for (int b = 0; b < n_sizes; b++) {
            if (a == b && device.type != FAC_META) continue;
            c = *was;
            replace_size(&c, sizes[b], 0);
            replace_size(&c, a == b ? 0 : sizes[a], a == b ? half_of(length) : length);
            try_with_integers(&c, half_of(length), device, n);
            replace_item(&c, sizes[b], 0);
            replace_item(&c, sizes[a], a == b ? half_of(length) : length);
            try(&c, device, n);
        }
}

/* As vary_sizes, by place among the dimensions: for calls whose sizes are all one number. */
static void vary_dimensions(const sample_call *was, int64_t length, fac_device device, variation_count *n) {
    static sample_call c;
    int ndim = was->tensors[0].ndim;
    for (int a = 0; a < ndim; a++)
        for (int b = 0; b < ndim; b++) {
            if (a == b) continue;
            c = *was;
            for (int i = 0; i < c.n_tensors; i++)
                if (c.tensors[i].ndim == ndim) c.tensors[i].sizes[a] = length, c.tensors[i].sizes[b] = 0;
            try_with_integers(&c, half_of(length), device, n);
        }
}

variation_count variations_of_long_dimensions(const sample_set *s, fac_device device) {
    variation_count n = {0, 0};
    static sample_call c;
    for (size_t i = 0; i < s->n; i++) {
        if (!sample_parse(s->texts[i], &c, NULL) || !c.n_tensors) continue;
        for (int k = 0; k < c.n_tensors; k++) c.tensors[k].strided = false;
        require_gradients(&c);
        for (size_t k = 0; k < FAC_COUNT(long_sizes); k++) {
            vary_sizes(&c, long_sizes[k], device, &n);
            vary_dimensions(&c, long_sizes[k], device, &n);
        }
    }
    return n;
}
