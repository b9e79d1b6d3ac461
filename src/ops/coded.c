/* The key Quantized, which coded tensors have (core/coded.h): quantized tensors and 8-bit floats.

   An operator without a kernel at the key reports so. The others are in the table below, and what is done of them says how they get
   along with codes: moved about, put in order, averaged less their zero point, or turned into numbers first. Each calls the operator
   again at the dense key with plain tensors in the place of coded ones, and makes coded tensors of its results. A quantizer is
   never guessed: all coded tensors of a call that moves codes must have one and the same. */
#include "ops/coded.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include "dispatch/value.h"
#include "ops/composite/below.h"
#include "ops_gen.h"

typedef enum {
    MOVES,    /* codes go elsewhere as they are; every result of their dtype is coded */
    ORDERS,   /* integers have the order of what they stand for; the first result is coded */
    MEANS,    /* computed of code - zero_point in float32, rounded once; the first result is coded */
    NUMBERS,  /* computed of what codes stand for; nothing is coded */
    SQUASHES, /* the same, and quantized for a result within [0, 1] or [-1, 1] */
    AS_IS     /* reads only sizes and dtype, or elements one by one */
} how_kind;

/* What becomes of the axis of a tensor that is quantized per channel. */
typedef enum { NO_AXIS, KEPT, TRANSPOSED, PERMUTED, SLICED, SELECTED, UNSQUEEZED } axis_kind;

typedef struct coded_op {
    const char *name;
    uint8_t how, axis;
    bool float8; /* for 8-bit floats, too */
} coded_op;

static const coded_op table[] = {
    {"aten::alias", MOVES, KEPT, true},
    {"aten::as_strided", MOVES, NO_AXIS, true},
    {"aten::cat", MOVES, NO_AXIS, true},
    {"aten::clone", MOVES, KEPT, true},
    {"aten::detach", MOVES, KEPT, true},
    {"aten::diagonal", MOVES, NO_AXIS, true},
    {"aten::expand", MOVES, NO_AXIS, true},
    {"aten::flip", MOVES, NO_AXIS, true},
    {"aten::gather", MOVES, NO_AXIS, true},
    {"aten::index.Tensor", MOVES, NO_AXIS, true},
    {"aten::index_select", MOVES, NO_AXIS, true},
    {"aten::masked_select", MOVES, NO_AXIS, true},
    {"aten::permute", MOVES, PERMUTED, true},
    {"aten::select.int", MOVES, SELECTED, true},
    {"aten::slice.Tensor", MOVES, SLICED, true},
    {"aten::split.Tensor", MOVES, NO_AXIS, true},
    {"aten::split_with_sizes", MOVES, NO_AXIS, true},
    {"aten::squeeze", MOVES, NO_AXIS, true},
    {"aten::squeeze.dim", MOVES, NO_AXIS, true},
    {"aten::squeeze.dims", MOVES, NO_AXIS, true},
    {"aten::t", MOVES, NO_AXIS, true},
    {"aten::take", MOVES, NO_AXIS, true},
    {"aten::transpose.int", MOVES, TRANSPOSED, true},
    {"aten::unbind.int", MOVES, NO_AXIS, true},
    {"aten::unfold", MOVES, NO_AXIS, true},
    {"aten::unsqueeze", MOVES, UNSQUEEZED, true},
    {"aten::view", MOVES, NO_AXIS, true},
    {"aten::_reshape_alias", MOVES, NO_AXIS, true},
    {"aten::_unsafe_view", MOVES, NO_AXIS, true},
    {"aten::amax", ORDERS, NO_AXIS, false},
    {"aten::amin", ORDERS, NO_AXIS, false},
    {"aten::max", ORDERS, NO_AXIS, false},
    {"aten::max.dim", ORDERS, NO_AXIS, false},
    {"aten::min", ORDERS, NO_AXIS, false},
    {"aten::min.dim", ORDERS, NO_AXIS, false},
    {"aten::sort", ORDERS, NO_AXIS, false},
    {"aten::sort.stable", ORDERS, NO_AXIS, false},
    {"aten::topk", ORDERS, NO_AXIS, false},
    {"aten::_adaptive_avg_pool2d", MEANS, NO_AXIS, false},
    {"aten::_adaptive_avg_pool3d", MEANS, NO_AXIS, false},
    {"aten::avg_pool2d", MEANS, NO_AXIS, false},
    {"aten::avg_pool3d", MEANS, NO_AXIS, false},
    {"aten::max_pool2d_with_indices", MEANS, NO_AXIS, false},
    {"aten::max_pool3d_with_indices", MEANS, NO_AXIS, false},
    {"aten::mean", MEANS, NO_AXIS, false},
    {"aten::mean.dim", MEANS, NO_AXIS, false},
    {"aten::upsample_bilinear2d", MEANS, NO_AXIS, false},
    {"aten::upsample_nearest1d", MEANS, NO_AXIS, false},
    {"aten::upsample_nearest2d", MEANS, NO_AXIS, false},
    {"aten::upsample_nearest3d", MEANS, NO_AXIS, false},
    {"aten::eq.Scalar", NUMBERS, NO_AXIS, true},
    {"aten::eq.Tensor", NUMBERS, NO_AXIS, true},
    {"aten::ge.Scalar", NUMBERS, NO_AXIS, false},
    {"aten::ge.Tensor", NUMBERS, NO_AXIS, false},
    {"aten::gt.Scalar", NUMBERS, NO_AXIS, false},
    {"aten::gt.Tensor", NUMBERS, NO_AXIS, false},
    {"aten::le.Scalar", NUMBERS, NO_AXIS, false},
    {"aten::le.Tensor", NUMBERS, NO_AXIS, false},
    {"aten::lt.Scalar", NUMBERS, NO_AXIS, false},
    {"aten::lt.Tensor", NUMBERS, NO_AXIS, false},
    {"aten::ne.Scalar", NUMBERS, NO_AXIS, true},
    {"aten::ne.Tensor", NUMBERS, NO_AXIS, true},
    {"aten::sigmoid", SQUASHES, NO_AXIS, false},
    {"aten::tanh", SQUASHES, NO_AXIS, false},
    {"aten::_local_scalar_dense", AS_IS, NO_AXIS, true},
    {"aten::empty_like", AS_IS, NO_AXIS, true},
    {"aten::full_like", AS_IS, NO_AXIS, true},
    {"aten::is_pinned", AS_IS, NO_AXIS, true},
    {"aten::new_empty", AS_IS, NO_AXIS, true},
    {"aten::new_empty_strided", AS_IS, NO_AXIS, true},
    {"aten::new_full", AS_IS, NO_AXIS, true},
    {"aten::new_ones", AS_IS, NO_AXIS, true},
    {"aten::new_zeros", AS_IS, NO_AXIS, true},
    {"aten::ones_like", AS_IS, NO_AXIS, true},
    {"aten::zeros_like", AS_IS, NO_AXIS, true},
};

/* ---- between codes and numbers ------------------------------------------------------------------------------------------- */

fac_status fac__quantize_by(fac_tensor *x, fac_dtype dtype, fac_quantizer *q, fac_tensor **out) {
    fac_tensor *lists[2];
    if (q->axis < 0) return fac__c_quantize_per_tensor(x, q->scales[0], q->zero_points[0], dtype, out);
    FAC_TRY(fac__quantizer_lists(q, &lists[0], &lists[1]));
    const fac_status st = fac__c_quantize_per_channel(x, lists[0], lists[1], q->axis, dtype, out);
    fac__unref(lists[0]);
    fac__unref(lists[1]);
    return st;
}

fac_status fac__requantize(fac_tensor *t, double scale, int64_t zero_point, fac_tensor **out) {
    fac_tensor *numbers;
    FAC_TRY(fac__c_dequantize_self(t, &numbers));
    const fac_status st = fac__c_quantize_per_tensor(numbers, scale, zero_point, (fac_dtype)t->dtype, out);
    fac__unref(numbers);
    return st;
}

fac_status fac__need_per_tensor(const char *name, const fac_tensor *t, bool narrow) {
    const fac_quantizer *q = fac__quantizer_of(t);
    FAC_CHECK(q && q->axis < 0, FAC_ERR_DTYPE, "%s should be quantized per tensor, but is %s%s", name,
              fac_dtype_name((fac_dtype)t->dtype), q ? " quantized per channel" : "");
    FAC_CHECK(!narrow || t->dtype != FAC_QINT32, FAC_ERR_DTYPE, "%s should be qint8 or quint8, but is qint32", name);
    return FAC_OK;
}

/* Owned: the numbers of a coded tensor in float32. */
static fac_status numbers_of(fac_tensor *t, fac_tensor **out) {
    if (fac__quantizer_of(t)) return fac__c_dequantize_self(t, out);
    return fac__c__to_copy(t, FAC_F32, FAC_STRIDED, (fac_device){0}, (fac_opt_num){0}, false, FAC_FORMAT_DEFAULT, out);
}

/* Owned: t's codes, read by another quantizer. */
static fac_status read_by(fac_tensor *t, fac_quantizer *q, fac_tensor **out) {
    FAC_TRY(fac__codes_of(t, out));
    fac__make_coded(*out, (fac_dtype)t->dtype, q);
    return FAC_OK;
}

fac_status fac__centred(fac_tensor *t, fac_tensor **out) {
    fac_quantizer *unit;
    fac_tensor *same = NULL;
    FAC_TRY(fac__need_per_tensor("self", t, true));
    FAC_TRY(fac__quantizer_per_tensor(1, fac__quantizer_of(t)->zero_points[0], &unit));
    fac_status st = read_by(t, unit, &same);
    if (st == FAC_OK) st = fac__c_dequantize_self(same, out);
    fac__unref(same);
    fac__quantizer_unref(unit);
    return st;
}

fac_status fac__rounded(fac_tensor *x, fac_dtype dtype, fac_quantizer *q, fac_tensor **out) {
    FAC_TRY(fac__quantizer_check(q, dtype));
    FAC_TRY(fac__c_quantize_per_tensor(x, 1, q->zero_points[0], dtype, out));
    fac__set_quantizer(*out, q);
    return FAC_OK;
}

/* ---- a call with plain tensors in the place of coded ones ------------------------------------------------------------------- */

enum { MOST = 16 };

typedef struct coded_call {
    const fac_call_info *c;
    const coded_op *op;
    fac_value *stack;
    fac_value work[MOST], own[MOST];
    fac_tensor *first; /* borrowed: the first coded tensor, whose quantizer is the results' */
} coded_call;

static bool is_coded(const fac_tensor *t) { return t && fac__is_coded(t); }

/* What the kernel gets for a coded tensor; owned. */
static fac_status plain_of(const coded_call *k, fac_tensor *t, fac_tensor **out) {
    if (k->op->how == MEANS) return fac__centred(t, out);
    return k->op->how >= NUMBERS ? numbers_of(t, out) : fac__codes_of(t, out);
}

static fac_status no_axis(const coded_call *k) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "the scales and zero points of a tensor that is quantized per channel along %d cannot be kept; "
                    "dequantize it first",
                    fac__quantizer_of(k->first)->axis);
}

/* Takes note of a coded tensor: it must be one that the operator is for, and fit those before. */
static fac_status admit(coded_call *k, fac_tensor *t) {
    const fac_quantizer *q = fac__quantizer_of(t);
    if (!k->first) k->first = t;
    FAC_CHECK(q || k->op->float8, FAC_ERR_DTYPE,
              "not implemented for %s: convert the tensor with to(float32), or dequantize, first",
              fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(!q || k->op->how != AS_IS, FAC_ERR_UNSUPPORTED,
              "not implemented for quantized tensors: dequantize first, or use empty_quantized");
    if (q && q->axis >= 0 && k->op->axis == NO_AXIS && k->op->how != NUMBERS) return no_axis(k);
    if (k->op->how >= NUMBERS || t == k->first) return FAC_OK;
    FAC_CHECK(t->dtype == k->first->dtype, FAC_ERR_DTYPE, "tensors of one dtype are expected, but got %s and %s",
              fac_dtype_name((fac_dtype)k->first->dtype), fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(
        fac__quantizer_equal(q, fac__quantizer_of(k->first)), FAC_ERR_ARGUMENT,
        "tensors of one quantizer are expected, but they have different scales or zero points; quantize them alike");
    return FAC_OK;
}

static fac_status replace_one(coded_call *k, size_t i, fac_tensor *t) {
    fac_tensor *plain;
    FAC_TRY(admit(k, t));
    FAC_TRY(plain_of(k, t, &plain));
    k->own[i] = fac__value_owned_tensor(plain);
    return fac_error();
}

/* Of a list all or none are coded, as the result is one or the other. */
static fac_status replace_list(coded_call *k, size_t i, fac_tensors l) {
    fac_tensor **plain = fac__alloc_array(l.n, sizeof *plain);
    size_t n = 0;
    fac_status st = plain ? FAC_OK : FAC_ERR_MEMORY;
    for (; n < l.n && st == FAC_OK; n++) {
        plain[n] = NULL;
        if (!is_coded(l.v[n]))
            st = FAC_FAIL(FAC_ERR_DTYPE, "tensors that are all coded or all not are expected, but got %s and %s",
                          fac_dtype_name((fac_dtype)k->first->dtype),
                          l.v[n] ? fac_dtype_name((fac_dtype)l.v[n]->dtype) : "none");
        if (st == FAC_OK) st = admit(k, l.v[n]);
        if (st == FAC_OK) st = plain_of(k, l.v[n], &plain[n]);
    }
    if (st == FAC_OK) {
        k->own[i] = fac__value_owned_tensors(plain, n);
        return fac_error();
    }
    for (size_t j = 0; plain && j < n; j++) fac__unref(plain[j]);
    fac__free(plain);
    return st;
}

static fac_tensor *first_of(fac_tensors l) {
    for (size_t i = 0; i < l.n; i++)
        if (is_coded(l.v[i])) return l.v[i];
    return NULL;
}

static fac_status replace_args(coded_call *k) {
    for (size_t i = 0; i < k->c->op->n_args; i++) {
        const fac_value *v = &k->stack[i];
        fac_tensor *t = fac__value_header(v);
        if (is_coded(t)) FAC_TRY(replace_one(k, i, t));
        const fac_tensors l = v->tag == FAC_TAG_TENSORS ? fac__value_headers(v) : (fac_tensors){0};
        if (first_of(l)) {
            if (!k->first) k->first = first_of(l);
            FAC_TRY(replace_list(k, i, l));
        }
        k->work[i] = k->own[i].tag == FAC_TAG_NONE ? *v : k->own[i];
    }
    return FAC_OK;
}

/* ---- results ------------------------------------------------------------------------------------------------------------------ */

static int64_t int_arg(const coded_call *k, size_t i) { return k->stack[i].payload; }

/* Where dimension `axis` of the first tensor went; -1 if it is no dimension of the result. */
static fac_status moved_axis(const coded_call *k, int axis, int *out) {
    const int64_t ndim = k->first->ndim;
    int64_t a = 0, b = 0;
    *out = axis;
    if (k->op->axis == KEPT) return FAC_OK;
    if (k->op->axis == PERMUTED) {
        const fac_ints dims = fac_value_as_ints(k->stack[1]);
        for (size_t i = 0; i < dims.n; i++)
            if (dims.v[i] == axis || dims.v[i] + ndim == axis) *out = (int)i;
        return FAC_OK;
    }
    FAC_TRY(fac__wrap_dim(int_arg(k, 1), k->op->axis == UNSQUEEZED ? ndim + 1 : ndim, &a));
    if (k->op->axis == TRANSPOSED) {
        FAC_TRY(fac__wrap_dim(int_arg(k, 2), ndim, &b));
        *out = (int)(axis == a ? b : axis == b ? a : axis);
    }
    if (k->op->axis == UNSQUEEZED) *out = axis + (a <= axis);
    if (k->op->axis == SELECTED) *out = a == axis ? -1 : axis - (a < axis);
    if (k->op->axis == SLICED) *out = a == axis ? -1 : axis;
    return FAC_OK;
}

/* Owned; NULL for 8-bit floats. */
static fac_status result_quantizer(const coded_call *k, fac_quantizer **out) {
    fac_quantizer *q = fac__quantizer_of(k->first);
    int axis;
    *out = fac__quantizer_ref(q);
    if (!q || q->axis < 0) return FAC_OK;
    fac_status st = moved_axis(k, q->axis, &axis);
    if (st == FAC_OK && axis < 0) st = no_axis(k);
    if (st == FAC_OK && axis == q->axis) return FAC_OK;
    fac__quantizer_unref(*out);
    *out = NULL;
    FAC_TRY(st);
    FAC_TRY(fac__quantizer_new(axis, q->n, out));
    memcpy((*out)->scales, q->scales, (size_t)q->n * sizeof *q->scales);
    memcpy((*out)->zero_points, q->zero_points, (size_t)q->n * sizeof *q->zero_points);
    return FAC_OK;
}

/* A result that is the stand-in itself is an alias of it, since the argument's own header must not change. */
static fac_status code_result(const coded_call *k, fac_tensor **t, fac_quantizer *q) {
    if ((*t)->dtype != fac__code_dtype((fac_dtype)k->first->dtype)) return FAC_OK;
    if (atomic_load_explicit(&(*t)->refs, memory_order_relaxed) > 1) {
        fac_tensor *own;
        FAC_TRY(fac__alias(*t, true, &own));
        fac__unref(*t);
        *t = own;
    }
    fac__make_coded(*t, (fac_dtype)k->first->dtype, q);
    return FAC_OK;
}

/* In place of the float32 tensor that MEANS made: codes of it, read as the first tensor's are. */
static fac_status round_result(const coded_call *k, fac_tensor **t, fac_quantizer *q) {
    fac_tensor *made;
    FAC_TRY(fac__rounded(*t, (fac_dtype)k->first->dtype, q, &made));
    fac__unref(*t);
    *t = made;
    return FAC_OK;
}

static fac_status squash_result(const coded_call *k, fac_tensor **t) {
    const bool both_signs = strcmp(k->op->name, "aten::tanh") == 0, is_signed = k->first->dtype == FAC_QINT8;
    fac_tensor *made;
    FAC_TRY(fac__c_quantize_per_tensor(*t, both_signs ? 0x1p-7 : 0x1p-8, (both_signs ? 128 : 0) - (is_signed ? 128 : 0),
                                       (fac_dtype)k->first->dtype, &made));
    fac__unref(*t);
    *t = made;
    return FAC_OK;
}

static fac_status finish_tensor(const coded_call *k, fac_tensor **t, fac_quantizer *q) {
    if (k->op->how == MEANS) return round_result(k, t, q);
    return k->op->how == SQUASHES ? squash_result(k, t) : code_result(k, t, q);
}

static fac_status finish_value(const coded_call *k, fac_value *v, fac_quantizer *q) {
    if (v->tag == FAC_TAG_TENSORS) {
        const fac_tensors l = fac__value_headers(v);
        for (size_t i = 0; i < l.n; i++) fac__make_coded(l.v[i], (fac_dtype)k->first->dtype, q);
        return FAC_OK;
    }
    fac_tensor *t = fac__ref(fac__value_header(v));
    fac_value_release(v);
    fac_status st = finish_tensor(k, &t, q);
    if (st == FAC_OK)
        *v = fac__value_owned_tensor(t);
    else
        fac__unref(t);
    return st;
}

static fac_status finish_results(coded_call *k) {
    const size_t n = k->op->how == MOVES ? k->c->op->n_rets : k->op->how == NUMBERS ? 0 : 1;
    fac_quantizer *q;
    if (n == 0) return FAC_OK;
    FAC_TRY(result_quantizer(k, &q));
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++) st = finish_value(k, &k->work[i], q);
    fac__quantizer_unref(q);
    return st;
}

static fac_status call_dense(coded_call *k) {
    fac_keyset keys = (k->c->keys & FAC_BACKEND_MASK) | FAC_KS_DENSE;
    FAC_TRY(replace_args(k));
    FAC_TRY(fac_redispatch(k->c->op, keys, k->work));
    const fac_status st = finish_results(k);
    for (size_t i = 0; i < k->c->op->n_rets; i++) {
        if (st == FAC_OK)
            k->stack[i] = k->work[i];
        else
            fac_value_release(&k->work[i]);
    }
    return st;
}

static fac_status run_as(const fac_call_info *c, const coded_op *op, fac_value *stack) {
    coded_call k = {.c = c, .op = op, .stack = stack};
    FAC_CHECK(c->op->n_args <= MOST && c->op->n_rets <= MOST, FAC_ERR_INTERNAL,
              "%s has more arguments than coded calls can", c->op->name);
    for (size_t i = 0; i < MOST; i++) k.own[i] = k.work[i] = fac_value_none();
    const fac_status st = call_dense(&k);
    for (size_t i = 0; i < MOST; i++) fac_value_release(&k.own[i]);
    return st;
}

static fac_status run_as_is(const fac_call_info *c, const coded_op *op, fac_value *stack) {
    coded_call k = {.c = c, .op = op, .stack = stack};
    for (size_t i = 0; i < c->op->n_args; i++) {
        fac_tensor *t = fac__value_header(&stack[i]);
        if (is_coded(t)) FAC_TRY(admit(&k, t));
    }
    return fac_redispatch(c->op, (c->keys & FAC_BACKEND_MASK) | FAC_KS_DENSE, stack);
}

static fac_status run_listed(const fac_call_info *c, fac_value *stack) {
    const coded_op *op = c->context;
    return op->how == AS_IS ? run_as_is(c, op, stack) : run_as(c, op, stack);
}

fac_status fac__coded_init(void) {
    for (size_t i = 0; i < FAC_COUNT(table); i++)
        if (!fac_register_boxed(table[i].name, "Quantized", run_listed, (void *)(uintptr_t)&table[i], FAC_HERE))
            return fac_error();
    return fac__coded_own_init();
}
