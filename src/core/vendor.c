/* Tensors in the vendor layout as headers: making, sharing, reading and freeing what hangs on them. */
#include "core/vendor.h"
#include "core/tensor_make.h"

int fac__vendor_block = 8;

/* ---- parts ------------------------------------------------------------------------------------------------------------- */

static void drop_parts(fac_vendor *v) {
    fac__unref(v->cells);
    fac__free(v);
}

static fac_vendor *copy_parts(const fac_vendor *from) {
    fac_vendor *v = fac__alloc(sizeof *v);
    if (!v) return NULL;
    *v = *from;
    fac__ref(v->cells);
    return v;
}

static void destroy(fac_tensor *t) {
    if (t->ext) drop_parts(t->ext);
}

static fac_status share(const fac_tensor *t, void **out) {
    *out = copy_parts(t->ext);
    return *out ? FAC_OK : FAC_ERR_MEMORY;
}

static fac_layout layout_of(const fac_tensor *t) {
    (void)t;
    return FAC_VENDOR_LAYOUT;
}

const fac_tensor_class fac__vendor_class = {.name = "_mkldnn", .destroy = destroy, .share = share, .layout = layout_of};

/* ---- tensors ------------------------------------------------------------------------------------------------------------- */

fac_status fac__vendor_make(const int64_t *sizes, int ndim, const fac_vendor *parts, fac_tensor **out) {
    const fac_device meta = fac_device_make(FAC_META, -1);
    const fac_tensor *cells = parts->cells;
    fac_tensor *t;
    fac_keyset keys;
    *out = NULL;
    FAC_TRY(fac__empty(sizes, ndim, (fac_dtype)cells->dtype, meta, &t)); /* checks the sizes */
    fac_vendor *own = copy_parts(parts);
    const fac_status st = own ? fac__default_keys(cells->device, &keys) : FAC_ERR_MEMORY;
    if (st != FAC_OK) {
        if (own) drop_parts(own);
        fac__unref(t);
        return st;
    }
    t->device = cells->device;
    t->keys = (keys & ~FAC_KS_DENSE) | fac__func_bit(FAC_KEY_VENDOR);
    t->flags &= (uint16_t)FAC_TF_INFERENCE;
    t->cls = &fac__vendor_class;
    t->ext = own;
    *out = t;
    return FAC_OK;
}

int fac__vendor_cell_sizes(const int64_t *sizes, int ndim, fac_vendor_order order, int64_t *out) {
    for (int i = 0; i < ndim; i++) out[i] = sizes[i];
    if (order == FAC_VENDOR_ROWS) return ndim;
    out[1] = sizes[1] / fac__vendor_block + (sizes[1] % fac__vendor_block != 0);
    out[ndim] = fac__vendor_block;
    return ndim + 1;
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

/* Steps through a group of a weight: its first cell, cells from one output channel's block to the next, input channels. */
typedef struct walk {
    const char *from;
    char *to;
    size_t item;
} walk;

static void put_line(walk *w, int64_t first, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++, w->to += w->item)
        memcpy(w->to, w->from + (size_t)(first + i * step) * w->item, w->item);
}

static void settle_channels(walk *w, const fac_tensor *t, int64_t block) {
    int64_t points = 1;
    for (int i = 2; i < t->ndim; i++) points *= t->sizes[i];
    const int64_t blocks = fac__div_up(t->sizes[1], block);
    for (int64_t n = 0; n < t->sizes[0]; n++)
        for (int64_t c = 0; c < t->sizes[1]; c++)
            put_line(w, (n * blocks + c / block) * points * block + c % block, block, points);
}

static void settle_weight(walk *w, const fac_tensor *t, const fac_vendor *v) {
    const int64_t outs = t->sizes[0] / v->groups, ins = t->sizes[1], b = v->block, ib = v->in_block;
    const bool depthwise = v->in_block == 0;
    const int64_t out_blocks = fac__div_up(outs, b), in_blocks = depthwise ? 1 : fac__div_up(ins, ib);
    int64_t taps = 1;
    for (int i = 2; i < t->ndim; i++) taps *= t->sizes[i];
    for (int64_t o = 0; o < t->sizes[0]; o++)
        for (int64_t i = 0; i < ins; i++) {
            const int64_t g = o / outs, k = o % outs;
            const int64_t at = (((g * out_blocks + k / b) * in_blocks + (depthwise ? 0 : i / ib)) * taps) * ib * b;
            if (depthwise)
                put_line(w, o / b * taps * b + o % b, b, taps);
            else
                put_line(w, at + i % ib * b + k % b, ib * b, taps);
        }
}

fac_status fac__vendor_settled(const fac_tensor *t, fac_tensor **out) {
    const fac_vendor *v = fac__vendor_of(t);
    FAC_TRY(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, out));
    if (!t->numel) return FAC_OK;
    walk w = {fac__data(v->cells), fac__data(*out), (size_t)fac__item_size(t)};
    switch (v->order) {
    case FAC_VENDOR_ROWS: put_line(&w, 0, 1, t->numel); break;
    case FAC_VENDOR_CHANNELS: settle_channels(&w, t, v->block); break;
    case FAC_VENDOR_WEIGHT: settle_weight(&w, t, v); break;
    }
    return FAC_OK;
}
