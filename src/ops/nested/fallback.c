/* Operators that have no kernel of their own for nested tensors: the boxed fallback of the key Nested.

   An operator that computes each element from the elements at the same place, or that copies or fills, is called with the buffers
   in the places of the nested tensors; what it gives are buffers. All nested arguments must have the same sizes; numbers, and
   plain tensors without dimensions, are the same for all elements.
   All others fail, before anything is read. */
#include "ops/nested/fallback.h"
#include "dispatch/value.h"
#include "ops/nested/parts.h"

enum { MOST_ARGS = 64, MOST_RESULTS = 8 };

/* Those that are not pointwise, but look at elements one by one all the same. By name, so that a library with few operators has no
   more for it. */
static const char *const of_elements[] = {
    "aten::_to_copy",        "aten::alias",      "aten::copy_",      "aten::detach",       "aten::dropout",
    "aten::dropout_",        "aten::empty_like", "aten::full_like",  "aten::is_pinned",    "aten::ones_like",
    "aten::pin_memory",      "aten::rand_like",  "aten::randn_like", "aten::to.device",    "aten::to.dtype",
    "aten::to.dtype_layout", "aten::zero_",      "aten::zeros_like", "aten::fill_.Scalar", "aten::fill_.Tensor",
};

static bool is_of_elements(const fac_operator *op) {
    if (fac__is_pointwise(op) || op->facts->batch == FAC_BATCH_POINTWISE) return true;
    for (size_t i = 0; i < FAC_COUNT(of_elements); i++)
        if (strcmp(op->name, of_elements[i]) == 0) return true;
    return false;
}

static fac_status refuse(const fac_operator *op) {
    return FAC_FAIL(FAC_ERR_UNSUPPORTED,
                    "'%s' does not take nested tensors; to_padded_tensor makes a plain tensor of one, unbind a list of "
                    "its components",
                    op->name);
}

static const fac_schema *schema_of(const fac_operator *op) {
    return atomic_load_explicit(&op->schema, memory_order_acquire);
}

/* The first nested argument that is written, as its elements have to stay where they lie; else the first nested one. NULL if they
   stand in lists alone. */
static fac_tensor *first_nested(const fac_operator *op, const fac_value *args) {
    fac_tensor *first = NULL;
    for (size_t i = 0; i < op->n_args; i++) {
        fac_tensor *t = args[i].tag == FAC_TAG_TENSORS ? NULL : fac__value_header(&args[i]);
        if (!fac__nested_of(t)) continue;
        if (schema_of(op)->args[i].type.write) return t;
        if (!first) first = t;
    }
    return first;
}

/* The elements of t in the order of those of `like`: t's own where they are written. */
static fac_tensor *elements_of(const fac_operator *op, fac_tensor *t, fac_tensor *like, bool written) {
    const fac_nested *own = fac__nested_of(t);
    fac_tensor *elements = own ? fac__nested_elements_like(t, like) : NULL;
    if (own && (!written || !elements || elements == own->buffer)) return elements;
    if (elements) {
        FAC_FAIL(
            FAC_ERR_UNSUPPORTED,
            "'%s' writes nested tensors whose dimensions are stored in one order only; contiguous makes a copy that "
            "is so",
            op->name);
        return NULL;
    }
    if (t->ndim == 0 && !written) return t;
    FAC_FAIL(
        FAC_ERR_UNSUPPORTED,
        "'%s' takes nested tensors together with nested ones of the same sizes, with numbers and with plain tensors "
        "without dimensions, but got a plain tensor of sizes %s%s",
        op->name, FAC_SHAPE_TEXT(t), written ? " to write to" : "");
    return NULL;
}

/* Into work[i] goes what stands for argument i; true if it is work's own. */
static fac_status stand_in(const fac_operator *op, size_t i, const fac_value *arg, fac_tensor *like, fac_value *work,
                           bool *out_own) {
    *out_own = false;
    if (arg->tag == FAC_TAG_TENSORS) return refuse(op);
    fac_tensor *t = fac__value_header(arg);
    if (!t) return FAC_OK;
    fac_tensor *elements = elements_of(op, t, like, schema_of(op)->args[i].type.write);
    if (!elements) return fac_error();
    *work = fac__value_tensor(elements);
    *out_own = true;
    return fac_error();
}

/* Puts the results in the place of the arguments: what was written is the argument itself. */
static fac_status give(const fac_operator *op, fac_value *results, fac_tensor *like, fac_value *stack) {
    const fac_schema *s = schema_of(op);
    fac_tensor *self = s->n_args && s->args[0].type.write ? fac__value_header(&stack[0]) : NULL;
    for (size_t i = 0; i < op->n_rets; i++) {
        fac_tensor *t = fac__value_header(&results[i]);
        if (!t) continue;
        fac_tensor *nested = self ? self : fac__nested_like(t, like);
        fac_value_release(&results[i]);
        if (!nested) return fac_error();
        results[i] = fac__value_tensor(nested);
        FAC_TRY(fac_error());
    }
    memcpy(stack, results, op->n_rets * sizeof *stack);
    return FAC_OK;
}

static fac_status on_buffers(const fac_operator *op, fac_tensor *like, fac_value *stack) {
    fac_value work[MOST_ARGS], results[MOST_RESULTS];
    bool own[MOST_ARGS] = {false};
    fac_status st = FAC_OK;
    memcpy(work, stack, op->n_args * sizeof *work);
    for (size_t i = 0; i < op->n_rets; i++) results[i] = fac_value_none();
    for (size_t i = 0; i < op->n_args && st == FAC_OK; i++) st = stand_in(op, i, &stack[i], like, &work[i], &own[i]);
    if (st == FAC_OK) st = fac_call_op(op, work, op->n_args, results);
    if (st == FAC_OK) st = give(op, results, like, stack);
    for (size_t i = 0; i < op->n_rets && st != FAC_OK; i++) fac_value_release(&results[i]);
    for (size_t i = 0; i < op->n_args; i++)
        if (own[i]) fac_value_release(&work[i]);
    return st;
}

static fac_status nested_fallback(const fac_call_info *c, fac_value *stack) {
    FAC_SCOPE(s);
    const fac_operator *op = c->op;
    if (!op->facts) return fac__no_kernel(c); /* a user's: nothing is known of it */
    if (op->n_args > MOST_ARGS || op->n_rets > MOST_RESULTS || !is_of_elements(op)) return refuse(op);
    fac_tensor *like = first_nested(op, stack);
    return like ? on_buffers(op, like, stack) : refuse(op);
}

fac_status fac__nested_init(void) {
    return fac_register_fallback("Nested", nested_fallback, NULL, FAC_HERE) ? FAC_OK : fac_error();
}
