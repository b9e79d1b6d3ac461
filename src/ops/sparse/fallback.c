/* Operators that have no kernel of their own for sparse tensors: the boxed fallback of the keys Sparse and SparseCsr.

   Pointwise operators. One that gives zero where all its tensors are zero changes the stored values alone. Whether it does is not
   listed anywhere: it is called with zeros of the same dtypes and the same other arguments. Several sparse operands must have
   elements in the same places.
   In-place and out forms. They call their functional form, and put its result in place.
   All others fail, before anything is read. */
#include "ops/sparse/fallback.h"
#include "core/read.h"
#include "core/tensor_make.h"
#include "dispatch/value.h"
#include "ops/forms.h"
#include "ops/sparse/parts.h"

enum { MOST_ARGS = 64, MOST_TENSORS = 8 };

static fac_status no_kernel(const fac_operator *op, const char *layout, const char *why) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "'%s' does not take tensors of the layout %s%s; make them strided first: to_dense", op->name,
                    layout, why);
}

/* The layout of the first argument that is not strided. */
static const char *layout_among(const fac_value *args, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac_tensor *one = fac__value_header(&args[i]);
        const fac_tensors l =
            args[i].tag == FAC_TAG_TENSORS ? fac__value_headers(&args[i]) : (fac_tensors){&one, one != NULL};
        for (size_t k = 0; k < l.n; k++)
            if (l.v[k] && fac__layout_of(l.v[k]) != FAC_STRIDED) return fac__layout_name(fac__layout_of(l.v[k]));
    }
    return "sparse";
}

/* ---- pointwise operators --------------------------------------------------------------------------------------------------- */

typedef struct operands {
    fac_tensor *v[MOST_TENSORS]; /* coalesced, where they have coordinates */
    size_t at[MOST_TENSORS], n;
} operands;

/* False if there is one that is not sparse, or a list. */
static bool gather(const fac_value *args, size_t n_args, operands *o) {
    o->n = 0;
    for (size_t i = 0; i < n_args; i++) {
        if (args[i].tag == FAC_TAG_TENSORS) return false;
        fac_tensor *t = fac__value_header(&args[i]);
        if (!t) continue;
        if (!fac__sparse_of(t) || o->n == MOST_TENSORS) return false;
        o->at[o->n] = i;
        o->v[o->n++] = t;
    }
    return o->n > 0;
}

static bool same_part(fac_tensor *a, fac_tensor *b) {
    bool same = a == b;
    if (same || !a || !b) return same;
    if (!fac__same_sizes(a, b) || a->dtype != b->dtype) return false;
    return fac__c_equal(a, b, &same) == FAC_OK && same;
}

/* Whether the operator of a sum is the sum of the operator's results, so that elements need not be added up before. */
static bool is_additive(const fac_operator *op) {
    return op == &fac_op_neg || op == &fac_op_mul_Scalar || op == &fac_op_div_Scalar;
}

/* Coalesces all; false if their elements are in different places. */
static bool in_same_places(operands *o) {
    for (size_t i = 0; i < o->n; i++) {
        if (fac__is_coo(o->v[i])) o->v[i] = fac__sparse_coalesced(o->v[i]);
        if (!o->v[i]) return false;
    }
    const fac_sparse *a = fac__sparse_of(o->v[0]);
    for (size_t i = 1; i < o->n; i++) {
        const fac_sparse *b = fac__sparse_of(o->v[i]);
        if (a->layout != b->layout || a->sparse_dim != b->sparse_dim || !fac__same_sizes(o->v[0], o->v[i]) ||
            !fac__same_sizes(a->values, b->values) || !same_part(a->indices, b->indices) ||
            !same_part(a->plain, b->plain))
            return false;
    }
    return true;
}

/* Calls op with other tensors in the places of the operands. */
static fac_status call_with(const fac_operator *op, const operands *o, fac_tensor *const *v, const fac_value *args,
                            fac_value *results) {
    fac_value work[MOST_ARGS];
    memcpy(work, args, op->n_args * sizeof *work);
    for (size_t i = 0; i < o->n; i++) work[o->at[i]] = fac__value_tensor(v[i]);
    fac_status st = fac_error();
    if (st == FAC_OK) st = fac_call_op(op, work, op->n_args, results);
    for (size_t i = 0; i < o->n; i++) fac_value_release(&work[o->at[i]]);
    return st;
}

static fac_status is_zero(fac_tensor *t, bool *out) {
    fac_tensor *differs = fac__s_ne_Scalar(t, fac_scalar_i_(0));
    if (!differs) return fac_error();
    *out = fac__item(differs) == 0;
    return fac_error();
}

/* Whether zeros give zeros, asked on the CPU. */
static fac_status keeps_zeros(const fac_operator *op, const operands *o, const fac_value *args, bool *out) {
    fac_tensor *zeros[MOST_TENSORS];
    fac_value results[MOST_TENSORS];
    const fac_device cpu = fac_device_make(FAC_CPU, -1);
    for (size_t i = 0; i < o->n; i++) {
        zeros[i] = fac__sparse_zeros(FAC_INTS(1), fac__sparse_dtype(o->v[i]), cpu);
        if (!zeros[i]) return fac_error();
    }
    for (size_t i = 0; i < MOST_TENSORS; i++) results[i] = fac_value_none();
    fac_status st = call_with(op, o, zeros, args, results);
    *out = true;
    for (size_t i = 0; i < op->n_rets && st == FAC_OK && *out; i++) {
        fac_tensor *t = fac__value_header(&results[i]);
        *out = t && t->numel == 1;
        if (*out) st = is_zero(t, out);
    }
    for (size_t i = 0; i < MOST_TENSORS; i++) fac_value_release(&results[i]);
    return st;
}

static fac_status on_values(const fac_operator *op, const operands *o, fac_value *stack) {
    fac_tensor *values[MOST_TENSORS];
    fac_value results[MOST_TENSORS];
    for (size_t i = 0; i < o->n; i++) values[i] = fac__sparse_of(o->v[i])->values;
    for (size_t i = 0; i < MOST_TENSORS; i++) results[i] = fac_value_none();
    fac_status st = call_with(op, o, values, stack, results);
    for (size_t i = 0; i < op->n_rets && st == FAC_OK; i++) {
        fac_tensor *t = fac__sparse_with_values(o->v[0], fac__value_header(&results[i]));
        fac_value_release(&results[i]);
        if (t) results[i] = fac__value_tensor(t);
        st = fac_error();
    }
    if (st == FAC_OK) memcpy(stack, results, op->n_rets * sizeof *stack);
    for (size_t i = 0; i < MOST_TENSORS && st != FAC_OK; i++) fac_value_release(&results[i]);
    return st;
}

static bool is_floating(const operands *o) { return fac_dtype_is_floating(fac__sparse_dtype(o->v[0])); }

static fac_status pointwise(const fac_operator *op, fac_value *stack) {
    operands o;
    bool zero = false;
    const char *layout = layout_among(stack, op->n_args);
    if (!gather(stack, op->n_args, &o) || op->n_rets > MOST_TENSORS)
        return no_kernel(op, layout, " together with strided ones");
    const bool as_it_is = o.n == 1 && is_additive(op) && is_floating(&o);
    if (!as_it_is && !in_same_places(&o)) {
        FAC_TRY(fac_error());
        return no_kernel(op, layout, " that have elements in different places");
    }
    FAC_TRY(keeps_zeros(op, &o, stack, &zero));
    if (!zero) return no_kernel(op, layout, ", since it does not give zero for zeros");
    return on_values(op, &o, stack);
}

/* ---- forms ------------------------------------------------------------------------------------------------------------------- */

static fac_status need_castable(const fac_tensor *from, const fac_tensor *to) {
    FAC_CHECK(fac_can_cast(fac__sparse_dtype(from), fac__sparse_dtype(to)), FAC_ERR_DTYPE,
              "result type %s can't be cast to the desired output type %s", fac_dtype_name(fac__sparse_dtype(from)),
              fac_dtype_name(fac__sparse_dtype(to)));
    return FAC_OK;
}

/* What `to` becomes: `result` in its dtype. The last step cannot fail but for want of memory, before anything has changed. */
static fac_status put_sparse(fac_tensor *to, fac_tensor *result, bool in_place) {
    FAC_TRY(fac__check_writable(to));
    FAC_TRY(need_castable(result, to));
    FAC_CHECK(fac__layout_of(to) == fac__layout_of(result), FAC_ERR_UNSUPPORTED,
              "a result of the layout %s cannot be written to a tensor of the layout %s",
              fac__layout_name(fac__layout_of(result)), fac__layout_name(fac__layout_of(to)));
    FAC_CHECK(fac_device_equal(to->device, result->device), FAC_ERR_DEVICE, "out is not on the device of the result");
    FAC_CHECK(!in_place || fac__same_sizes(to, result), FAC_ERR_SHAPE,
              "output with shape %s doesn't match the shape %s of the result", FAC_SHAPE_TEXT(to),
              FAC_SHAPE_TEXT(result));
    fac_tensor *values = fac__sparse_cast(fac__sparse_of(result)->values, fac__sparse_dtype(to));
    fac_tensor *made = fac__sparse_with_values(result, values);
    return made ? fac__sparse_become(to, made) : fac_error();
}

static fac_status put(fac_tensor *to, fac_tensor *result, bool in_place) {
    if (!result) return FAC_FAIL(FAC_ERR_INTERNAL, "an operator gave no result");
    if (fac__sparse_of(to)) return put_sparse(to, result, in_place);
    FAC_CHECK(!fac__sparse_of(result), FAC_ERR_UNSUPPORTED,
              "a result of the layout %s cannot be written to a strided tensor; to_dense makes it strided",
              fac__layout_name(fac__layout_of(result)));
    return in_place ? fac__copy_over(to, result) : fac__copy_to_outs(&to, &result, 1);
}

static fac_status call_form(const fac_operator *op, const fac_operator *functional, size_t written, bool in_place,
                            fac_value *stack) {
    fac_value results[MOST_TENSORS];
    fac_tensor *to[MOST_TENSORS] = {NULL};
    for (size_t i = 0; i < MOST_TENSORS; i++) results[i] = fac_value_none();
    for (size_t i = 0; i < written; i++) to[i] = fac__value_header(&stack[in_place ? 0 : functional->n_args + i]);
    fac_status st = fac_call_op(functional, stack, functional->n_args, results);
    for (size_t i = 0; i < written && st == FAC_OK; i++) st = put(to[i], fac__value_header(&results[i]), in_place);
    for (size_t i = 0; i < MOST_TENSORS; i++) fac_value_release(&results[i]);
    for (size_t i = 0; i < op->n_rets && st == FAC_OK; i++) {
        stack[i] = fac__value_tensor(to[i]);
        st = fac_error();
    }
    return st;
}

/* dense += alpha * coordinates, without a copy of what is dense: the step of an optimiser with the gradient of a table. */
static fac_status add_rows(const fac_value *stack, bool *out_done) {
    fac_tensor *self = fac__value_header(&stack[0]), *other = fac__value_header(&stack[1]);
    *out_done = self && other && !fac__sparse_of(self) && fac__is_coo(other) && fac__is_contiguous(self) &&
                self->numel && fac__same_sizes(self, other) && self->dtype == other->dtype && self->dtype != FAC_BOOL;
    if (!*out_done) return FAC_OK;
    fac_scalar alpha;
    FAC_TRY(fac__unbox_scalar(&stack[2], "alpha", &alpha));
    FAC_TRY(fac__check_factor(fac__sparse_dtype(self), alpha));
    fac_tensor *coo = fac__sparse_coalesced(other);
    if (!coo) return fac_error();
    const fac_sparse *s = fac__sparse_of(coo);
    int64_t cells = 1;
    for (int i = 0; i < s->sparse_dim; i++) cells *= coo->sizes[i];
    fac_tensor *flat = fac__sparse_reshape(self, 0, s->sparse_dim, FAC_INTS(cells)), *same = NULL;
    fac_tensor *at = fac__sparse_flat(s->indices, coo->sizes);
    if (!flat || !at) return fac_error();
    FAC_TRY(fac__c_index_add_(flat, 0, at, s->values, alpha, &same));
    fac__unref(same);
    return FAC_OK;
}

static fac_status form(const fac_operator *op, const fac_operator *functional, fac_value *stack, bool *out_done) {
    bool in_place = false;
    if (op == &fac_op_add__Tensor) {
        FAC_TRY(add_rows(stack, out_done));
        if (*out_done) {
            stack[0] = fac__value_tensor(fac__value_header(&stack[0]));
            return fac_error();
        }
    }
    const size_t written = fac__form_writes(op, functional, &in_place);
    *out_done = written > 0 && written <= MOST_TENSORS;
    return *out_done ? call_form(op, functional, written, in_place, stack) : FAC_OK;
}

static fac_status sparse_fallback(const fac_call_info *c, fac_value *stack) {
    FAC_SPARSE_KERNEL;
    const fac_operator *op = c->op;
    if (!op->facts) return fac__no_kernel(c); /* a user's: nothing is known of it */
    const char *layout = layout_among(stack, op->n_args);
    if (op->n_args <= MOST_ARGS && op->facts->functional && op->facts->functional != op) {
        bool done = false;
        FAC_TRY(form(op, op->facts->functional, stack, &done));
        if (done) return FAC_OK;
    }
    if (op->n_args <= MOST_ARGS && fac__is_pointwise(op)) return pointwise(op, stack);
    return no_kernel(op, layout, "");
}

fac_status fac__sparse_init(void) {
    bool made = fac_register_fallback("Sparse", sparse_fallback, NULL, FAC_HERE) &&
                fac_register_fallback("SparseCsr", sparse_fallback, NULL, FAC_HERE);
    return made ? FAC_OK : fac_error();
}
