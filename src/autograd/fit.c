/* Gradients that have another size, dtype or device than what they are gradients of. */
#include "autograd/autograd_meta.h"
#include "autograd/engine.h"
#include "autograd/engine_ops.h"
#include "core/sparse.h"

typedef struct shape {
    const int64_t *sizes;
    int ndim;
    fac_dtype dtype;
    fac_device device;
    fac_tensor *opaque; /* a leaf that is not strided; else NULL */
} shape;

/* A leaf may have changed under its handle since (set_data), so it is asked itself. False: nothing is known. */
static bool shape_of(const fac_edge *edge, shape *out) {
    if (fac__is_accumulator(edge->node)) {
        fac_tensor *leaf = fac__accumulator_leaf(edge->node);
        *out = (shape){leaf->sizes, leaf->ndim, (fac_dtype)leaf->dtype, leaf->device, leaf->cls ? leaf : NULL};
        return true;
    }
    const fac_output_meta *m = &edge->node->outputs[edge->nr];
    *out = (shape){m->sizes, m->ndim, (fac_dtype)m->dtype, m->device, NULL};
    return m->set;
}

static bool same_sizes(const shape *s, const fac_tensor *g) {
    if (s->ndim != g->ndim) return false;
    for (int i = 0; i < s->ndim; i++)
        if (s->sizes[i] != g->sizes[i]) return false;
    return true;
}

static bool expands_to(const shape *s, const fac_tensor *g) {
    int skip = g->ndim - s->ndim;
    if (skip < 0) return false;
    for (int i = 0; i < s->ndim; i++)
        if (s->sizes[i] != 1 && s->sizes[i] != g->sizes[skip + i]) return false;
    return true;
}

/* *grad becomes *next, unless making it failed. */
static fac_status step(fac_status st, fac_tensor **grad, fac_tensor *const *next) {
    if (st != FAC_OK) return st;
    fac__unref(*grad);
    *grad = *next;
    return FAC_OK;
}

static fac_status fit_sizes(const char *from, uint32_t i, const shape *s, fac_tensor **grad) {
    char want[256];
    FAC_CHECK(expands_to(s, *grad), FAC_ERR_SHAPE,
              "Function %s returned an invalid gradient at index %u - got %s but expected shape compatible with %s",
              from, i, FAC_SHAPE_TEXT(*grad), fac__shape_text(s->sizes, s->ndim, want, sizeof want));
    fac_tensor *sum = NULL;
    return step(fac__ag_sum_to(*grad, s->sizes, s->ndim, &sum), grad, &sum);
}

static fac_status fit_slow(const char *from, uint32_t i, const shape *s, fac_tensor **grad) {
    if (!same_sizes(s, *grad)) FAC_TRY(fit_sizes(from, i, s, grad));
    fac_tensor *next = NULL;
    if (fac_dtype_is_complex((fac_dtype)(*grad)->dtype) && !fac_dtype_is_complex(s->dtype))
        FAC_TRY(step(fac__ag_real(*grad, &next), grad, &next));
    bool moves = !fac_device_equal(s->device, (*grad)->device);
    char want[24], got[24];
    FAC_CHECK(!moves || (*grad)->ndim == 0, FAC_ERR_DEVICE,
              "Function %s returned an invalid gradient at index %u - expected device %s but got %s", from, i,
              fac_device_format(s->device, want, sizeof want), fac_device_format((*grad)->device, got, sizeof got));
    if (moves || s->dtype != (*grad)->dtype)
        FAC_TRY(step(fac__ag_cast(*grad, s->dtype, s->device, &next), grad, &next));
    if (!s->opaque || fac__layout_of(s->opaque) == fac__layout_of(*grad)) return FAC_OK;
    return step(fac__ag_in_layout_of(*grad, s->opaque, &next), grad, &next);
}

fac_status fac__fit_gradient(const char *from, uint32_t i, const fac_edge *edge, fac_tensor **grad) {
    shape s;
    if (FAC_UNLIKELY(!shape_of(edge, &s))) return FAC_OK;
    const fac_tensor *g = *grad;
    bool fits = s.dtype == g->dtype && s.device.type == g->device.type && s.device.index_plus == g->device.index_plus &&
                same_sizes(&s, g) && !s.opaque;
    return FAC_LIKELY(fits) ? FAC_OK : fit_slow(from, i, &s, grad);
}
