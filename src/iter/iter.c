/* Plans an iteration: common shape, dtype and device, order and merging of dimensions, outputs to make. */
#include "iter/iter.h"
#include "core/scalar.h"

void fac_iter_begin(fac_iter *it, uint32_t options) {
    it->n = it->n_out = it->nest.ndim = it->full_ndim = 0;
    it->options = options;
    it->flat = it->reordered = false;
    it->common = FAC_DTYPE_DEFAULT;
    it->device = (fac_device){0};
    it->nest.count = 0;
}

static fac_status add_operand(fac_iter *it, fac_iter_operand **out) {
    FAC_CHECK(it->n < FAC_ITER_MAX, FAC_ERR_INTERNAL, "an iterator takes at most %d operands", FAC_ITER_MAX);
    *out = &it->op[it->n++];
    memset(*out, 0, sizeof **out);
    return FAC_OK;
}

fac_status fac_iter_out(fac_iter *it, fac_tensor *t) {
    FAC_CHECK(it->n == it->n_out, FAC_ERR_INTERNAL, "an iterator's outputs come before its inputs");
    fac_iter_operand *o;
    FAC_TRY(add_operand(it, &o));
    o->is_out = true;
    o->t = t;
    o->dtype = t ? t->dtype : 0;
    it->n_out++;
    return FAC_OK;
}

fac_status fac_iter_in(fac_iter *it, fac_tensor *t) {
    fac_iter_operand *o;
    FAC_TRY(add_operand(it, &o));
    o->t = t;
    o->dtype = t->dtype;
    return FAC_OK;
}

fac_status fac_iter_scalar(fac_iter *it, fac_scalar v) {
    fac_iter_operand *o;
    FAC_TRY(add_operand(it, &o));
    o->is_scalar = true;
    o->value = v;
    o->dtype = (uint8_t)fac__scalar_dtype(v);
    return FAC_OK;
}

/* The inputs decide the shape; without any, or if so asked, the outputs too. */
static fac_status plan_shape(fac_iter *it) {
    bool outputs = true;
    for (int i = it->n_out; i < it->n; i++) outputs &= it->op[i].t == NULL;
    outputs |= (it->options & FAC_ITER_OUT_SHAPE) != 0;
    it->full_ndim = 0;
    for (int i = outputs ? 0 : it->n_out; i < it->n; i++) {
        const fac_tensor *t = it->op[i].t;
        if (!t) continue;
        int64_t merged[FAC_MAX_DIMS];
        FAC_TRY(fac__broadcast(it->full_shape, it->full_ndim, t->sizes, t->ndim, merged, &it->full_ndim));
        memcpy(it->full_shape, merged, (size_t)it->full_ndim * sizeof merged[0]);
    }
    FAC_CHECK(fac__numel(it->full_shape, it->full_ndim, &it->nest.count), FAC_ERR_OVERFLOW,
              "the broadcast shape %s has more elements than can be counted",
              fac__shape_text(it->full_shape, it->full_ndim, (char[256]){0}, 256));
    return FAC_OK;
}

/* The dtype in which the inputs meet: by promotion, or the one they all must have. */
static fac_status plan_dtype(fac_iter *it) {
    fac_promotion p = {0};
    fac_dtype first = FAC_DTYPE_DEFAULT;
    for (int i = it->n_out; i < it->n; i++) {
        const fac_iter_operand *o = &it->op[i];
        if (o->is_scalar) {
            fac__promote_scalar(&p, o->value);
            continue;
        }
        fac__promote_tensor(&p, o->t);
        if (first == FAC_DTYPE_DEFAULT) first = (fac_dtype)o->dtype;
        FAC_CHECK((it->options & FAC_ITER_PROMOTE) || o->dtype == first, FAC_ERR_DTYPE,
                  "expected all inputs to have the same dtype, but found %s and %s", fac_dtype_name(first),
                  fac_dtype_name((fac_dtype)o->dtype));
    }
    it->common = (it->options & FAC_ITER_PROMOTE) || first == FAC_DTYPE_DEFAULT ? fac__promote_result(&p) : first;
    if ((it->options & FAC_ITER_INT_TO_FLOAT) && fac_dtype_is_integral(it->common, true))
        it->common = fac_default_dtype();
    return FAC_OK;
}

static bool is_cpu_scalar(const fac_tensor *t) { return t->ndim == 0 && fac__is_cpu(t); }

/* The one device of all tensors; 0-dim CPU tensors may visit another device's. */
static fac_status plan_device(fac_iter *it) {
    const fac_tensor *first = NULL;
    for (int i = 0; i < it->n; i++) {
        const fac_tensor *t = it->op[i].t;
        if (t && (!first || is_cpu_scalar(first))) first = t;
    }
    FAC_CHECK(first, FAC_ERR_INTERNAL, "an iterator needs at least one tensor");
    it->device = first->device;
    for (int i = 0; i < it->n; i++) {
        const fac_tensor *t = it->op[i].t;
        if (!t || fac_device_equal(t->device, it->device)) continue;
        bool visits = is_cpu_scalar(t) && !it->op[i].is_out && (it->options & FAC_ITER_CPU_SCALARS);
        FAC_CHECK(visits, FAC_ERR_DEVICE,
                  "Expected all tensors to be on the same device, but found at least two devices, %s and %s!",
                  fac_device_format(it->device, (char[24]){0}, 24), fac_device_format(t->device, (char[24]){0}, 24));
    }
    return FAC_OK;
}

/* Byte strides over the broadcast shape, 0 where an operand is broadcast; sorted, the last tensor dimension first if in doubt. */
static void set_strides(fac_iter *it) {
    it->nest.ndim = it->full_ndim;
    for (int d = 0; d < it->nest.ndim; d++) {
        it->perm[d] = (int8_t)(it->full_ndim - 1 - d);
        it->nest.size[d] = it->full_shape[it->full_ndim - 1 - d];
    }
    for (int i = 0; i < it->n; i++) {
        const fac_tensor *t = it->op[i].t;
        int64_t item = t ? fac__item_size(t) : 0;
        for (int d = 0; d < it->nest.ndim; d++) {
            int from = t ? t->ndim - 1 - d : -1;
            it->nest.stride[i][d] =
                from >= 0 && t->sizes[from] == it->nest.size[d] ? fac__mul_or_max(t->strides[from], item) : 0;
        }
    }
    it->reordered = fac__nest_sort(&it->nest, it->n, it->perm);
}

static fac_status plan(fac_iter *it) {
    FAC_TRY(plan_shape(it));
    FAC_TRY(plan_device(it));
    return it->options & FAC_ITER_ANY_DTYPE ? FAC_OK : plan_dtype(it);
}

fac_status fac_iter_plan(fac_iter *it) {
    FAC_TRY(plan(it));
    set_strides(it);
    return FAC_OK;
}

void fac_iter_out_strides(const fac_iter *it, int64_t *out_strides) {
    if (!it->reordered) {
        fac__row_major(it->full_shape, it->full_ndim, out_strides);
        return;
    }
    int64_t stride = 1;
    for (int d = 0; d < it->full_ndim; d++) {
        out_strides[it->perm[d]] = stride;
        stride = fac__mul_or_max(stride, fac__max(it->nest.size[d], 1));
    }
}

fac_status fac_iter_bind(fac_iter *it, int i, fac_tensor *t) {
    bool same = fac__has_sizes(t, it->full_shape, it->full_ndim);
    FAC_CHECK(same, FAC_ERR_SHAPE, "output with shape %s doesn't match the broadcast shape %s", FAC_SHAPE_TEXT(t),
              fac__shape_text(it->full_shape, it->full_ndim, (char[256]){0}, 256));
    it->op[i].t = t;
    it->op[i].dtype = t->dtype;
    return FAC_OK;
}

static bool is_flat(const fac_iter *it) {
    if (it->nest.ndim != 1) return false;
    for (int i = 0; i < it->n; i++) {
        int64_t item = it->op[i].t ? fac__dtype_size((fac_dtype)it->op[i].dtype) : 0;
        if (it->nest.stride[i][0] != item && it->nest.stride[i][0] != 0) return false;
    }
    return true;
}

/* At most one element: one dimension, whose strides are never used and so may be the flat ones. */
static void set_single(fac_iter *it) {
    it->nest.ndim = 1;
    it->nest.size[0] = it->nest.count;
    for (int i = 0; i < it->n; i++)
        it->nest.stride[i][0] = it->op[i].t ? fac__dtype_size((fac_dtype)it->op[i].dtype) : 0;
}

void fac_iter_finish(fac_iter *it) {
    if (it->nest.count <= 1) {
        set_single(it);
    } else {
        set_strides(it);
        fac__nest_merge(&it->nest, it->n);
    }
    for (int i = 0; i < it->n; i++)
        if (it->op[i].t) it->op[i].data = fac__data(it->op[i].t);
    it->flat = is_flat(it);
}

fac_status fac_iter_build(fac_iter *it) {
    FAC_TRY(plan(it));
    for (int i = 0; i < it->n_out; i++) {
        FAC_CHECK(it->op[i].t, FAC_ERR_INTERNAL, "iterator output %d was not given", i);
        FAC_TRY(fac_iter_bind(it, i, it->op[i].t));
    }
    fac_iter_finish(it);
    return FAC_OK;
}

void fac_iter_number(const fac_iter *it, int i, fac_dtype as, void *out_element) {
    const fac_iter_operand *o = &it->op[i];
    double re_im[2], element[2];
    bool rounds = fac__is_half(it->common) && (!o->is_scalar || (it->options & FAC_ITER_ROUND_NUMBERS));
    fac_dtype first = rounds || fac_dtype_is_integral(it->common, true) ? it->common : as;
    fac__store(element, first, o->is_scalar ? o->value : fac__load(o->data, (fac_dtype)o->dtype, re_im));
    fac__convert(out_element, as, element, first);
}
