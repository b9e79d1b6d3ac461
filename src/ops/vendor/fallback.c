/* Operators that have no kernel of their own for tensors in the vendor layout.

   Those in the table below go by way of strided tensors: a copy in, the operator, a copy out. They are what stands between the
   kernels in a network, and what gradients of these are made of.
   Pointwise operators compute on the cells, where all tensors have equal sizes; places behind the last channel become zeros again.
   Pooling takes a tensor of channels for images of one block of channels each, channels innermost, which its kernels know.
   In-place and out forms call their functional form, and put its result in place.
   All others fail, before anything is read. */
#include "ops/vendor/fallback.h"
#include "dispatch/value.h"
#include "ops/forms.h"
#include "ops/vendor/parts.h"

enum { MOST_ARGS = 32, MOST_RESULTS = 4, MOST_TENSORS = 8 };

static fac_status no_kernel(const fac_operator *op, const char *why) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "'%s' does not take tensors of the layout _mkldnn%s; make them strided first: to_dense", op->name,
                    why);
}

static void release_all(fac_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac_value_release(&v[i]);
        v[i] = fac_value_none();
    }
}
static void clear_all(fac_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = fac_value_none();
}

/* ---- by way of strided tensors --------------------------------------------------------------------------------------------- */

typedef struct detour {
    const fac_operator *op;
    const fac_value *args;
    fac_value work[MOST_ARGS], own[MOST_ARGS], results[MOST_RESULTS];
    bool vendor[MOST_ARGS]; /* arguments that are, or hold, tensors in the layout */
} detour;

/* All tensors of a list are in the layout, or none. */
static fac_status check_list(detour *d, size_t i, fac_tensors l) {
    size_t n = 0;
    for (size_t k = 0; k < l.n; k++) n += fac__vendor_of(l.v[k]) != NULL;
    FAC_CHECK(
        n == 0 || n == l.n, FAC_ERR_UNSUPPORTED,
        "'%s' does not take tensors of the layout _mkldnn together with strided ones: make all of them the one by "
        "to_mkldnn, or the other by to_dense",
        d->op->name);
    d->vendor[i] = n > 0;
    return FAC_OK;
}

static fac_status strided_list(detour *d, size_t i, fac_tensors l) {
    FAC_TRY(check_list(d, i, l));
    fac_tensor **made = fac__alloc_array(l.n, sizeof *made);
    if (!made) return FAC_ERR_MEMORY;
    for (size_t k = 0; k < l.n; k++) made[k] = fac__vendor_strided(l.v[k]);
    fac_status st = fac_error();
    if (st == FAC_OK) {
        d->own[i] = fac__value_tensors(made, l.n);
        st = fac_error();
    }
    fac__free(made);
    return st;
}

static fac_status strided_arg(detour *d, size_t i) {
    const fac_value *v = &d->args[i];
    d->work[i] = *v;
    if (v->tag == FAC_TAG_TENSORS) FAC_TRY(strided_list(d, i, fac__value_headers(v)));
    fac_tensor *t = v->tag == FAC_TAG_TENSOR ? fac__value_header(v) : NULL;
    if (fac__vendor_of(t)) {
        fac_tensor *strided = fac__vendor_strided(t);
        if (!strided) return fac_error();
        d->own[i] = fac__value_tensor(strided);
        d->vendor[i] = true;
    }
    if (d->own[i].tag != FAC_TAG_NONE) d->work[i] = d->own[i];
    return fac_error();
}

/* A result has memory of its own, also where the operator gives a view of the cells. */
static fac_tensor *apart(const detour *d, fac_tensor *t) {
    bool shared = false;
    for (size_t i = 0; i < d->op->n_args; i++) {
        const fac_tensor *given = d->own[i].tag == FAC_TAG_TENSOR ? fac__value_header(&d->own[i]) : NULL;
        shared |= given && fac__is_alias(given, t);
    }
    return shared ? fac__s_clone(t, FAC_CONTIGUOUS) : t;
}

static fac_status bring_back(detour *d, size_t i, int like) {
    fac_tensor *t = d->results[i].tag == FAC_TAG_TENSOR ? fac__value_header(&d->results[i]) : NULL;
    if (!t || like < 0 || !d->vendor[like] || !fac__vendor_takes(fac__vendor_dtype(t))) return FAC_OK;
    FAC_CHECK(fac__is_cpu(t), FAC_ERR_UNSUPPORTED, "the layout _mkldnn is the CPU's, but a result is on %s",
              fac_device_format(t->device, (char[24]){0}, 24));
    fac_tensor *made = fac__vendor_of_strided(apart(d, t), fac__vendor_order_for(t->sizes, t->ndim));
    if (!made) return fac_error();
    fac_value_release(&d->results[i]);
    d->results[i] = fac__value_tensor(made);
    return fac_error();
}

static fac_status go_round(detour *d, const int8_t *like) {
    for (size_t i = 0; i < d->op->n_args; i++) FAC_TRY(strided_arg(d, i));
    FAC_TRY(fac_call_op(d->op, d->work, d->op->n_args, d->results));
    for (size_t i = 0; i < d->op->n_rets; i++) FAC_TRY(bring_back(d, i, like[i]));
    return FAC_OK;
}

fac_status fac__vendor_detour(const fac_operator *op, const int8_t *like, fac_value *stack) {
    detour d = {.op = op, .args = stack};
    FAC_CHECK(op->n_args <= MOST_ARGS && op->n_rets <= MOST_RESULTS, FAC_ERR_INTERNAL,
              "%s has more arguments or results than a detour can", op->name);
    clear_all(d.own, MOST_ARGS);
    clear_all(d.results, MOST_RESULTS);
    const fac_status st = go_round(&d, like);
    release_all(d.own, MOST_ARGS);
    if (st == FAC_OK)
        memcpy(stack, d.results, op->n_rets * sizeof *stack);
    else
        release_all(d.results, MOST_RESULTS);
    return st;
}

/* ---- pooling ------------------------------------------------------------------------------------------------------------------ */

typedef struct pooling {
    const char *name;
    int ndim; /* of a batch */
} pooling;

/* Cells [N, blocks, size..., block] as images [N * blocks, block, size...] whose channels are innermost. */
static fac_tensor *as_images(fac_tensor *t) {
    const fac_tensor *cells = fac__vendor_of(t)->cells;
    int64_t sizes[FAC_MAX_DIMS], order[FAC_MAX_DIMS];
    const int d = t->ndim;
    sizes[0] = cells->sizes[0] * cells->sizes[1];
    for (int i = 2; i <= d; i++) sizes[i - 1] = cells->sizes[i];
    order[0] = 0, order[1] = d - 1;
    for (int i = 2; i < d; i++) order[i] = i - 1;
    return fac__s_permute(fac__s_reshape(fac__vendor_keep(fac__vendor_of(t)->cells), (fac_ints){sizes, (size_t)d}),
                          (fac_ints){order, (size_t)d});
}

/* And back, with t's batch and channels. Windows that lie in the padding alone are not zero where no channel is. */
static fac_tensor *of_images(fac_tensor *images, const fac_tensor *t) {
    int64_t sizes[FAC_MAX_DIMS], cells[FAC_MAX_DIMS + 1], order[FAC_MAX_DIMS];
    if (!images) return NULL;
    const int d = t->ndim;
    sizes[0] = t->sizes[0], sizes[1] = t->sizes[1];
    for (int i = 2; i < d; i++) sizes[i] = images->sizes[i], order[i - 1] = i;
    order[0] = 0, order[d - 1] = 1;
    const int n = fac__vendor_cell_sizes(sizes, d, FAC_VENDOR_CHANNELS, cells);
    fac_tensor *last = fac__s_permute(images, (fac_ints){order, (size_t)d});
    last = last ? fac__s_contiguous(last, FAC_CONTIGUOUS) : NULL;
    if (!last) return NULL;
    fac_tensor *y = fac__vendor_over((fac_ints){sizes, (size_t)d}, FAC_VENDOR_CHANNELS,
                                     fac__s_reshape(last, (fac_ints){cells, (size_t)n}));
    return y && fac__vendor_clear_spare(y) == FAC_OK ? y : NULL;
}

/* The same of what is not in the layout: a strided tensor. */
static fac_tensor *planes_of_images(fac_tensor *images, const fac_tensor *t) {
    int64_t sizes[FAC_MAX_DIMS];
    const int d = t->ndim;
    sizes[0] = t->sizes[0], sizes[1] = t->sizes[1] + fac__vendor_spare(t);
    for (int i = 2; i < d; i++) sizes[i] = images->sizes[i];
    fac_tensor *planes = fac__s_reshape(fac__s_contiguous(images, FAC_CONTIGUOUS), (fac_ints){sizes, (size_t)d});
    planes = planes ? fac__s_slice_Tensor(planes, 1, fac_opt_int_(0), fac_opt_int_(t->sizes[1]), 1) : NULL;
    return planes ? fac__s_contiguous(planes, FAC_CONTIGUOUS) : NULL;
}

/* The first argument is pooled; a second result, indices within each channel's plane, is strided. */
static fac_status pool(const fac_call_info *c, fac_value *stack) {
    FAC_VENDOR_KERNEL;
    fac_tensor *self = fac__value_header(&stack[0]);
    fac_value work[MOST_ARGS], results[MOST_RESULTS];
    static const int8_t like[MOST_RESULTS] = {0, -1, -1, -1};
    const fac_vendor *v = fac__vendor_of(self);
    if (!v || v->order != FAC_VENDOR_CHANNELS || self->numel == 0 || self->ndim != ((const pooling *)c->context)->ndim)
        return fac__vendor_detour(c->op, like, stack);
    fac_tensor *images = as_images(self);
    if (!images) return fac_error();
    memcpy(work, stack, c->op->n_args * sizeof *work);
    work[0] = fac__value_tensor(images);
    clear_all(results, MOST_RESULTS);
    fac_status st = fac_error();
    if (st == FAC_OK) st = fac_call_op(c->op, work, c->op->n_args, results);
    fac_value_release(&work[0]);
    for (size_t i = 0; i < c->op->n_rets && st == FAC_OK; i++) {
        fac_tensor *made = fac__value_header(&results[i]);
        made = fac__vendor_takes(fac__vendor_dtype(made)) ? of_images(made, self) : planes_of_images(made, self);
        fac_value_release(&results[i]);
        results[i] = fac_value_none();
        if (made) results[i] = fac__value_tensor(made);
        st = fac_error();
    }
    if (st == FAC_OK)
        memcpy(stack, results, c->op->n_rets * sizeof *stack);
    else
        release_all(results, MOST_RESULTS);
    return st;
}

/* ---- batch norm ---------------------------------------------------------------------------------------------------------------- */

/* Statistics and factors of every channel in float32, of blocks: [blocks, 1..., block]. */
static fac_tensor *per_block(fac_tensor *v, const fac_tensor *like) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    const fac_tensor *cells = fac__vendor_of(like)->cells;
    const int64_t spare = fac__vendor_spare(like);
    if (v && spare) v = fac__s_constant_pad_nd(v, FAC_INTS(0, spare), fac_scalar_i_(0));
    if (!v) return NULL;
    for (int i = 0; i < cells->ndim - 1; i++) sizes[i] = 1;
    sizes[0] = cells->sizes[1], sizes[cells->ndim - 2] = cells->sizes[cells->ndim - 1];
    return fac__s_reshape(v, (fac_ints){sizes, (size_t)cells->ndim - 1});
}

/* weight, bias, mean and variance, of which the last two must be given; false: another way must be taken. */
static bool of_channels(fac_tensor *const *v, const fac_tensor *input) {
    for (int i = 0; i < 4; i++) {
        if (!v[i] && i < 2) continue;
        if (!v[i] || v[i]->ndim != 1 || v[i]->sizes[0] != input->sizes[1] || v[i]->dtype != FAC_F32) return false;
    }
    return true;
}

/* input * factor + shift, where factor = weight / sqrt(variance + eps) and shift = bias - mean * factor. */
static fac_tensor *normalised(fac_tensor *input, fac_tensor *const *v, double eps) {
    const fac_scalar one = fac_scalar_i_(1);
    fac_tensor *factor = fac__s_rsqrt(fac__s_add_Scalar(v[3], fac_scalar_f_(eps), one));
    if (v[0]) factor = fac__s_mul_Tensor(factor, v[0]);
    fac_tensor *shift = fac__s_neg(fac__s_mul_Tensor(v[2], factor));
    if (v[1]) shift = fac__s_add_Tensor(shift, v[1], one);
    factor = per_block(factor, input), shift = per_block(shift, input);
    return fac__vendor_with_cells(input,
                                  fac__s_addcmul(shift, fac__vendor_keep(fac__vendor_of(input)->cells), factor, one));
}

static fac_status batch_norm(const fac_call_info *c, fac_value *stack) {
    FAC_VENDOR_KERNEL;
    static const int8_t like[MOST_RESULTS] = {0, -1, -1, -1};
    fac_tensor *input = fac__value_header(&stack[0]), *v[4];
    for (int i = 0; i < 4; i++) v[i] = fac__vendor_strided(fac__value_header(&stack[1 + i]));
    FAC_TRY(fac_error());
    const fac_vendor *in = fac__vendor_of(input);
    const bool training = fac_value_as_bool(stack[5]);
    if (!in || in->order != FAC_VENDOR_CHANNELS || input->dtype != FAC_F32 || training || !of_channels(v, input))
        return fac__vendor_detour(c->op, like, stack);
    fac_tensor *y = normalised(input, v, fac_value_as_float(stack[7]));
    fac_tensor *none = fac__sparse_zeros(FAC_INTS(0), FAC_F32, input->device);
    if (!y || !none) return fac_error();
    stack[0] = fac__value_tensor(y);
    stack[1] = fac__value_tensor(none);
    stack[2] = fac__value_tensor(none);
    return fac_error();
}

/* ---- pointwise operators ----------------------------------------------------------------------------------------------------- */

typedef struct operands {
    fac_tensor *v[MOST_TENSORS];
    size_t at[MOST_TENSORS], n;
    fac_tensor *first;  /* in the layout */
    bool mixed, differ; /* one is strided and no number; sizes differ */
} operands;

/* False if there are more tensors than may be, or a list. */
static bool gather(const fac_value *args, size_t n_args, operands *o) {
    *o = (operands){0};
    for (size_t i = 0; i < n_args; i++) {
        if (args[i].tag == FAC_TAG_TENSORS) return false;
        fac_tensor *t = fac__value_header(&args[i]);
        if (!t) continue;
        if (o->n == MOST_TENSORS) return false;
        o->at[o->n] = i;
        o->v[o->n++] = t;
        if (!fac__vendor_of(t))
            o->mixed |= t->ndim > 0 || t->cls || fac__pending(t) || fac__requires_grad(t);
        else if (!o->first)
            o->first = t;
        else
            o->differ |= !fac__same_sizes(t, o->first);
    }
    return o->first != NULL;
}

/* The order that all of them can be computed in: channels if one has it. */
static fac_vendor_order common_order(const operands *o) {
    for (size_t i = 0; i < o->n; i++)
        if (fac__vendor_of(o->v[i]) && fac__vendor_of(o->v[i])->order == FAC_VENDOR_CHANNELS)
            return FAC_VENDOR_CHANNELS;
    return FAC_VENDOR_ROWS;
}

static fac_status over_cells(const fac_operator *op, fac_tensor *like, fac_value *results) {
    for (size_t i = 0; i < op->n_rets; i++) {
        fac_tensor *cells = results[i].tag == FAC_TAG_TENSOR ? fac__value_header(&results[i]) : NULL;
        if (!cells) return no_kernel(op, "");
        if (!fac__vendor_takes(fac__vendor_dtype(cells)))
            return no_kernel(op, ", as its result is not float32, bfloat16 or float16");
        fac_tensor *t = fac__vendor_with_cells(like, cells);
        if (!t) return fac_error();
        FAC_TRY(fac__vendor_clear_spare(t));
        fac_value_release(&results[i]);
        results[i] = fac__value_tensor(t);
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

static fac_status on_cells(const fac_operator *op, const operands *o, fac_value *stack) {
    fac_value work[MOST_ARGS], results[MOST_RESULTS];
    const fac_vendor_order order = common_order(o);
    fac_tensor *like = fac__vendor_in_order(o->first, order), *v[MOST_TENSORS];
    for (size_t i = 0; i < o->n; i++) {
        v[i] = fac__vendor_of(o->v[i]) ? fac__vendor_in_order(o->v[i], order) : o->v[i];
        if (!v[i]) return fac_error();
    }
    clear_all(results, MOST_RESULTS);
    memcpy(work, stack, op->n_args * sizeof *work);
    for (size_t i = 0; i < o->n; i++)
        work[o->at[i]] = fac__value_tensor(fac__vendor_of(v[i]) ? fac__vendor_of(v[i])->cells : v[i]);
    fac_status st = fac_error();
    if (st == FAC_OK) st = fac_call_op(op, work, op->n_args, results);
    for (size_t i = 0; i < o->n; i++) fac_value_release(&work[o->at[i]]);
    if (st == FAC_OK) st = over_cells(op, like, results);
    if (st == FAC_OK)
        memcpy(stack, results, op->n_rets * sizeof *stack);
    else
        release_all(results, MOST_RESULTS);
    return st;
}

static fac_status pointwise(const fac_operator *op, fac_value *stack) {
    operands o;
    if (!gather(stack, op->n_args, &o) || op->n_rets > MOST_RESULTS) return no_kernel(op, " in lists");
    FAC_CHECK(
        !o.mixed, FAC_ERR_UNSUPPORTED,
        "'%s' does not take tensors of the layout _mkldnn together with strided ones: make all of them the one by "
        "to_mkldnn, or the other by to_dense",
        op->name);
    if (!o.differ) return on_cells(op, &o, stack);
    int8_t like[MOST_RESULTS];
    for (size_t i = 0; i < o.n; i++)
        if (o.v[i] == o.first) memset(like, (int)o.at[i], sizeof like);
    return fac__vendor_detour(op, like, stack);
}

/* ---- forms ------------------------------------------------------------------------------------------------------------------- */

/* Whether a result can be written where it belongs; looked at for all results before one is written. */
static fac_status check_put(const fac_tensor *to, const fac_tensor *result, bool in_place) {
    if (!result) return FAC_FAIL(FAC_ERR_INTERNAL, "an operator gave no result");
    const bool vendor = fac__vendor_of(to) != NULL;
    FAC_CHECK(
        vendor == (fac__vendor_of(result) != NULL), FAC_ERR_UNSUPPORTED,
        "a result of the layout %s cannot be written to a tensor of the layout %s; to_dense and to_mkldnn convert "
        "one into the other",
        fac__layout_name(fac__layout_of(result)), fac__layout_name(fac__layout_of(to)));
    FAC_TRY(fac__check_writable(to));
    FAC_CHECK(fac_can_cast(fac__vendor_dtype(result), fac__vendor_dtype(to)), FAC_ERR_DTYPE,
              "result type %s can't be cast to the desired output type %s", fac_dtype_name(fac__vendor_dtype(result)),
              fac_dtype_name(fac__vendor_dtype(to)));
    FAC_CHECK(fac__same_sizes(to, result) || (!vendor && !in_place), FAC_ERR_SHAPE,
              "output with shape %s doesn't match the shape %s of the result", FAC_SHAPE_TEXT(to),
              FAC_SHAPE_TEXT(result));
    return FAC_OK;
}

static fac_status put(fac_tensor *to, fac_tensor *result, bool in_place) {
    if (fac__vendor_of(to)) return fac__vendor_put(to, result);
    return in_place ? fac__copy_over(to, result) : fac__copy_to_outs(&to, &result, 1);
}

/* Calls the functional form and puts its results into the `written` arguments that op writes. */
static fac_status call_form(const fac_operator *op, const fac_operator *functional, size_t written, bool in_place,
                            fac_value *stack) {
    fac_value results[MOST_RESULTS];
    fac_tensor *to[MOST_RESULTS] = {NULL};
    clear_all(results, MOST_RESULTS);
    for (size_t i = 0; i < written; i++) to[i] = fac__value_header(&stack[in_place ? 0 : functional->n_args + i]);
    fac_status st = fac_call_op(functional, stack, functional->n_args, results);
    for (size_t i = 0; i < written && st == FAC_OK; i++)
        st = check_put(to[i], fac__value_header(&results[i]), in_place);
    for (size_t i = 0; i < written && st == FAC_OK; i++) st = put(to[i], fac__value_header(&results[i]), in_place);
    release_all(results, MOST_RESULTS);
    for (size_t i = 0; i < op->n_rets && st == FAC_OK; i++) {
        stack[i] = fac__value_tensor(to[i]);
        st = fac_error();
    }
    return st;
}

static fac_status vendor_fallback(const fac_call_info *c, fac_value *stack) {
    FAC_VENDOR_KERNEL;
    const fac_operator *op = c->op;
    if (!op->facts) return fac__no_kernel(c); /* a user's: nothing is known of it */
    const fac_operator *functional = op->facts->functional;
    if (op->n_args <= MOST_ARGS && functional && functional != op) {
        bool in_place = false;
        const size_t written = fac__form_writes(op, functional, &in_place);
        if (written && written <= MOST_RESULTS) return call_form(op, functional, written, in_place, stack);
    }
    if (op->n_args <= MOST_ARGS && fac__is_pointwise(op)) return pointwise(op, stack);
    return no_kernel(op, "");
}

/* ---- what is registered ---------------------------------------------------------------------------------------------------------- */

typedef struct by_detour {
    const char *name;
    int8_t like[MOST_RESULTS]; /* of each result: the argument whose layout it has, -1: strided */
} by_detour;

static const by_detour detours[] = {
    {"aten::_adaptive_avg_pool2d_backward", {0}},
    {"aten::_adaptive_avg_pool3d_backward", {0}},
    {"aten::_log_softmax", {0}},
    {"aten::_log_softmax_backward_data", {0}},
    {"aten::_reshape_alias", {0}},
    {"aten::_softmax", {0}},
    {"aten::_softmax_backward_data", {0}},
    {"aten::_unsafe_view", {0}},
    {"aten::avg_pool2d_backward", {0}},
    {"aten::avg_pool3d_backward", {0}},
    {"aten::cat", {0}},
    {"aten::convolution_backward", {1, 2, -1}},
    {"aten::expand", {0}},
    {"aten::max_pool2d_with_indices_backward", {0}},
    {"aten::max_pool3d_with_indices_backward", {0}},
    {"aten::mean", {0}},
    {"aten::mean.dim", {0}},
    {"aten::native_batch_norm_backward", {1, -1, -1}},
    {"aten::ones_like", {0}},
    {"aten::permute", {0}},
    {"aten::select.int", {0}},
    {"aten::slice.Tensor", {0}},
    {"aten::squeeze", {0}},
    {"aten::squeeze.dim", {0}},
    {"aten::squeeze.dims", {0}},
    {"aten::sum", {0}},
    {"aten::sum.dim_IntList", {0}},
    {"aten::t", {0}},
    {"aten::transpose.int", {0}},
    {"aten::unsqueeze", {0}},
    {"aten::view", {0}},
};

static const pooling pools[] = {
    {"aten::_adaptive_avg_pool2d", 4}, {"aten::_adaptive_avg_pool3d", 5},    {"aten::avg_pool2d", 4},
    {"aten::avg_pool3d", 5},           {"aten::max_pool2d_with_indices", 4}, {"aten::max_pool3d_with_indices", 5},
};

static fac_status run_detour(const fac_call_info *c, fac_value *stack) {
    FAC_VENDOR_KERNEL;
    return fac__vendor_detour(c->op, ((const by_detour *)c->context)->like, stack);
}

fac_status fac__vendor_init(void) {
    bool made = fac_register_fallback("Vendor", vendor_fallback, NULL, FAC_HERE) &&
                fac_register_boxed("aten::native_batch_norm", "Vendor", batch_norm, NULL, FAC_HERE);
    for (size_t i = 0; i < FAC_COUNT(detours) && made; i++)
        made = fac_register_boxed(detours[i].name, "Vendor", run_detour, (void *)(uintptr_t)&detours[i], FAC_HERE);
    for (size_t i = 0; i < FAC_COUNT(pools) && made; i++)
        made = fac_register_boxed(pools[i].name, "Vendor", pool, (void *)(uintptr_t)&pools[i], FAC_HERE);
    return made ? FAC_OK : fac_error();
}
