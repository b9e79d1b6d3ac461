/* From order to order: strided, rows, channels in blocks, weights of convolutions. All by copies of strided tensors. */
#include "ops/vendor/parts.h"
#include "core/tensor_make.h"
#include "ops/composite/below.h"

fac_status fac__vendor_check_dtype(fac_dtype d) {
    FAC_CHECK(fac__vendor_takes(d), FAC_ERR_DTYPE,
              "the layout _mkldnn is for float32, bfloat16 and float16, not for %s: convert the tensor first",
              fac_dtype_name(d));
    return FAC_OK;
}

/* A new tensor as a temporary. */
static fac_tensor *adopted(fac_status st, fac_tensor *const *t) {
    return st == FAC_OK ? fac__adopt(fac__thread(), *t) : NULL;
}

fac_vendor_order fac__vendor_order_for(const int64_t *sizes, int ndim) {
    return (ndim == 4 || ndim == 5) && sizes[1] >= fac__vendor_block ? FAC_VENDOR_CHANNELS : FAC_VENDOR_ROWS;
}

fac_tensor *fac__vendor_over(fac_ints sizes, fac_vendor_order order, fac_tensor *cells) {
    fac_tensor *t = NULL;
    if (!cells) return NULL;
    const int block = order == FAC_VENDOR_CHANNELS ? fac__vendor_block : 1;
    const fac_vendor parts = {.order = order, .block = block, .groups = 1, .cells = cells};
    const fac_status st = fac__vendor_make(sizes.v, (int)sizes.n, &parts, &t);
    return adopted(st, &t);
}

fac_tensor *fac__vendor_with_cells(fac_tensor *like, fac_tensor *cells) {
    fac_tensor *t = NULL;
    if (!like || !cells) return NULL;
    fac_vendor parts = *fac__vendor_of(like);
    parts.cells = cells;
    const fac_status st = fac__vendor_make(like->sizes, like->ndim, &parts, &t);
    return adopted(st, &t);
}

/* ---- places behind the last channel ------------------------------------------------------------------------------------ */

/* Owned: channels [from, from + n) of the last block, as a view of the cells. */
static fac_status lanes_of_last_block(const fac_tensor *t, int64_t from, int64_t n, fac_tensor **out) {
    fac_tensor *cells = fac__vendor_of(t)->cells;
    int64_t sizes[FAC_MAX_DIMS + 1];
    const int d = cells->ndim;
    memcpy(sizes, cells->sizes, (size_t)d * sizeof *sizes);
    const int64_t last = sizes[1] - 1;
    sizes[1] = 1, sizes[d - 1] = n;
    return fac__view(cells, sizes, cells->strides, d, cells->offset + last * cells->strides[1] + from, true, out);
}

fac_status fac__vendor_clear_spare(fac_tensor *t) {
    const int64_t spare = fac__vendor_spare(t);
    fac_tensor *lanes;
    if (spare == 0 || t->numel == 0) return FAC_OK;
    FAC_TRY(lanes_of_last_block(t, fac__vendor_block - spare, spare, &lanes));
    const fac_status st = fac__fill_below(lanes, fac_scalar_i_(0));
    fac__unref(lanes);
    return st;
}

fac_tensor *fac__vendor_empty(fac_ints sizes, fac_vendor_order order, fac_dtype dtype) {
    int64_t room[FAC_MAX_DIMS + 1];
    fac_tensor *cells = NULL;
    if (fac__vendor_check_dtype(dtype) != FAC_OK) return NULL;
    if (sizes.n > FAC_MAX_DIMS) {
        FAC_FAIL(FAC_ERR_SHAPE, "a tensor may have at most %d dimensions, got %zu", FAC_MAX_DIMS, sizes.n);
        return NULL;
    }
    const int n = fac__vendor_cell_sizes(sizes.v, (int)sizes.n, order, room);
    const fac_status st = fac__empty(room, n, dtype, fac_device_make(FAC_CPU, -1), &cells);
    fac_tensor *t = fac__vendor_over(sizes, order, adopted(st, &cells));
    return t && fac__vendor_clear_spare(t) == FAC_OK ? t : NULL;
}

/* ---- strided tensors and blocks of channels ------------------------------------------------------------------------------ */

/* Owned views of channels [first, first + n) of the cells and of a strided tensor, both [N, blocks, size..., lanes]. */
static fac_status pair_of_views(const fac_tensor *t, fac_tensor *strided, int64_t first, int64_t n, fac_tensor **out) {
    const fac_vendor *v = fac__vendor_of(t);
    int64_t sizes[FAC_MAX_DIMS + 1], steps[FAC_MAX_DIMS + 1];
    const int d = v->cells->ndim;
    const int64_t lanes = fac__min(n, v->block), step = strided->strides[1];
    memcpy(sizes, v->cells->sizes, (size_t)d * sizeof *sizes);
    sizes[1] = n / lanes, sizes[d - 1] = lanes;
    steps[0] = strided->strides[0], steps[1] = step * v->block, steps[d - 1] = step;
    for (int i = 2; i < t->ndim; i++) steps[i] = strided->strides[i];
    FAC_TRY(fac__view(v->cells, sizes, v->cells->strides, d, v->cells->offset + first / v->block * v->cells->strides[1],
                      true, &out[0]));
    const fac_status st = fac__view(strided, sizes, steps, d, strided->offset + first * step, true, &out[1]);
    if (st != FAC_OK) fac__unref(out[0]);
    return st;
}

/* Between a tensor of channels and a strided one of its sizes: whole blocks, then what is left. */
static fac_status copy_channels(fac_tensor *t, fac_tensor *strided, bool to_strided) {
    const int64_t block = fac__vendor_of(t)->block, channels = t->sizes[1], whole = channels / block * block;
    if (t->numel == 0) return FAC_OK;
    for (int64_t first = 0; first < channels; first = whole) {
        fac_tensor *pair[2];
        FAC_TRY(pair_of_views(t, strided, first, first < whole ? whole : channels - whole, pair));
        const fac_status st = fac__copy_below(pair[to_strided], pair[!to_strided]);
        fac__unref(pair[0]);
        fac__unref(pair[1]);
        FAC_TRY(st);
        if (first == whole) break;
    }
    return FAC_OK;
}

fac_tensor *fac__vendor_of_strided(fac_tensor *t, fac_vendor_order order) {
    if (!t || fac__vendor_check_dtype(fac__vendor_dtype(t)) != FAC_OK) return NULL;
    if (order == FAC_VENDOR_ROWS)
        return fac__vendor_over(fac__vendor_sizes(t), order, fac__s_contiguous(t, FAC_CONTIGUOUS));
    fac_tensor *made = fac__vendor_empty(fac__vendor_sizes(t), order, fac__vendor_dtype(t));
    return made && copy_channels(made, t, false) == FAC_OK ? made : NULL;
}

/* ---- weights -------------------------------------------------------------------------------------------------------------- */

/* [groups, O, I, tap...] -> [groups, ceil(O / block), ceil(I / in_block), tap..., in_block, block], by a padded copy. */
static fac_tensor *blocks_of_weight(fac_tensor *w, int64_t groups, int64_t in_block) {
    int64_t sizes[FAC_MAX_DIMS], order[FAC_MAX_DIMS], pad[2 * 5] = {0};
    const int nd = w->ndim - 2;
    const int64_t b = fac__vendor_block, outs = w->sizes[0] / groups, ins = w->sizes[1];
    const int64_t ob = fac__div_up(outs, b), ib = fac__div_up(ins, in_block);
    sizes[0] = groups, sizes[1] = outs, sizes[2] = ins;
    for (int i = 0; i < nd; i++) sizes[3 + i] = w->sizes[2 + i];
    fac_tensor *t = fac__s_reshape(w, (fac_ints){sizes, (size_t)nd + 3});
    pad[2 * nd + 1] = ib * in_block - ins, pad[2 * nd + 3] = ob * b - outs;
    if (pad[2 * nd + 1] || pad[2 * nd + 3])
        t = t ? fac__s_constant_pad_nd(t, (fac_ints){pad, 2 * (size_t)nd + 4}, fac_scalar_i_(0)) : NULL;
    sizes[1] = ob, sizes[2] = b, sizes[3] = ib, sizes[4] = in_block;
    for (int i = 0; i < nd; i++) sizes[5 + i] = w->sizes[2 + i];
    t = t ? fac__s_reshape(t, (fac_ints){sizes, (size_t)nd + 5}) : NULL;
    order[0] = 0, order[1] = 1, order[2] = 3;
    for (int i = 0; i < nd; i++) order[3 + i] = 5 + i;
    order[3 + nd] = 4, order[4 + nd] = 2;
    t = t ? fac__s_permute(t, (fac_ints){order, (size_t)nd + 5}) : NULL;
    return t ? fac__s_contiguous(t, FAC_CONTIGUOUS) : NULL;
}

/* [C, 1, tap...] -> [ceil(C / block), tap..., block]. */
static fac_tensor *blocks_of_depthwise(fac_tensor *w) {
    int64_t sizes[FAC_MAX_DIMS], order[FAC_MAX_DIMS], pad[2 * 4] = {0};
    const int nd = w->ndim - 2;
    const int64_t b = fac__vendor_block, blocks = fac__div_up(w->sizes[0], b);
    fac_tensor *t = fac__s_select_int(w, 1, 0);
    pad[2 * nd + 1] = blocks * b - w->sizes[0];
    if (pad[2 * nd + 1])
        t = t ? fac__s_constant_pad_nd(t, (fac_ints){pad, 2 * (size_t)nd + 2}, fac_scalar_i_(0)) : NULL;
    sizes[0] = blocks, sizes[1] = b;
    for (int i = 0; i < nd; i++) sizes[2 + i] = w->sizes[2 + i], order[1 + i] = 2 + i;
    order[0] = 0, order[1 + nd] = 1;
    t = t ? fac__s_permute(fac__s_reshape(t, (fac_ints){sizes, (size_t)nd + 2}), (fac_ints){order, (size_t)nd + 2})
          : NULL;
    return t ? fac__s_contiguous(t, FAC_CONTIGUOUS) : NULL;
}

fac_tensor *fac__vendor_weight(fac_tensor *weight, int64_t groups) {
    const fac_vendor *have = fac__vendor_of(weight);
    if (have && have->order == FAC_VENDOR_WEIGHT && have->groups == groups) return weight;
    fac_tensor *w = fac__vendor_strided(weight), *t = NULL;
    if (!w || fac__vendor_check_dtype(fac__vendor_dtype(w)) != FAC_OK) return NULL;
    const int64_t ins = w->sizes[1];
    const bool depthwise = groups > 1 && ins == 1 && w->sizes[0] == groups;
    const int64_t in_block = depthwise ? 0 : ins >= fac__vendor_block ? fac__vendor_block : fac__max(ins, 1);
    fac_tensor *cells = depthwise ? blocks_of_depthwise(w) : blocks_of_weight(w, groups, in_block);
    if (!cells) return NULL;
    const fac_vendor parts = {FAC_VENDOR_WEIGHT, fac__vendor_block, in_block, groups, cells};
    const fac_status st = fac__vendor_make(w->sizes, w->ndim, &parts, &t);
    return adopted(st, &t);
}

/* ---- back ------------------------------------------------------------------------------------------------------------------- */

fac_tensor *fac__vendor_strided(fac_tensor *t) {
    const fac_vendor *v = fac__vendor_of(t);
    fac_tensor *made = NULL;
    if (!v) return t;
    if (v->order == FAC_VENDOR_ROWS) return fac__vendor_keep(v->cells);
    if (v->order == FAC_VENDOR_WEIGHT) {
        const fac_status st = fac__vendor_settled(t, &made);
        return adopted(st, &made);
    }
    fac_status st = fac__empty(t->sizes, t->ndim, fac__vendor_dtype(t), t->device, &made);
    made = adopted(st, &made);
    return made && copy_channels(t, made, true) == FAC_OK ? made : NULL;
}

fac_tensor *fac__vendor_in_order(fac_tensor *t, fac_vendor_order order) {
    if (!t || fac__vendor_of(t)->order == order) return t;
    return fac__vendor_of_strided(fac__vendor_strided(t), order);
}

fac_tensor *fac__vendor_cast(fac_tensor *t, fac_dtype dtype) {
    if (!t || t->dtype == dtype) return t;
    if (fac__vendor_check_dtype(dtype) != FAC_OK) return NULL;
    return fac__vendor_with_cells(t,
                                  fac__s_to_dtype(fac__vendor_of(t)->cells, dtype, false, false, FAC_FORMAT_DEFAULT));
}

fac_status fac__vendor_put(fac_tensor *to, fac_tensor *from) {
    const fac_vendor *a = fac__vendor_of(to), *b = fac__vendor_of(from);
    if (b && a->order == b->order && a->in_block == b->in_block && a->groups == b->groups)
        return fac__copy_below(a->cells, b->cells);
    fac_tensor *strided = fac__vendor_strided(from);
    if (!strided) return fac_error();
    if (a->order == FAC_VENDOR_ROWS) return fac__copy_below(a->cells, strided);
    if (a->order == FAC_VENDOR_CHANNELS) return copy_channels(to, strided, false);
    fac_tensor *packed = fac__vendor_weight(strided, a->groups);
    return packed ? fac__copy_below(a->cells, fac__vendor_of(packed)->cells) : fac_error();
}
