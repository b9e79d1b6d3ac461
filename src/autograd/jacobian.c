/* The Jacobian by rows: one backward pass per output element. */
#include "autograd/leaf.h"
#include "autograd/mode.h"
#include "autograd/numeric.h"
#include "core/tensor_make.h"
#include "ops_gen.h"

/* Gradient of element k of y by x as a row; NULL on failure. */
static fac_tensor *row_of(fac_tensor *y, fac_tensor *x, size_t k) {
    FAC_SCOPE(s);
    size_t parts = fac__parts(y);
    fac_tensor *unit = fac__unit_like(y, k * parts), *g = NULL;
    fac_grad_kw kw = {.grad_outputs = {&unit, 1}, .retain_graph = true, .allow_unused = true};
    if (!unit) return NULL;
    if (fac__requires_grad(y)) FAC_TRY_NULL(fac__grad((fac_tensors){&y, 1}, (fac_tensors){&x, 1}, &g, &kw));
    if (!g)
        g = fac__s_zeros_like(x, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0, 0}, (fac_opt_num){0},
                              FAC_FORMAT_DEFAULT);
    return fac__scope_yield(&s, fac__s_reshape(g, FAC_INTS(-1)));
}

static fac_tensor *stack_rows(fac_tensor *y, fac_tensor *x) {
    fac_tensor **rows = fac__alloc_array((size_t)y->numel, sizeof *rows), *out = NULL;
    bool whole = rows != NULL;
    for (size_t k = 0; whole && k < (size_t)y->numel; k++) {
        rows[k] = row_of(y, x, k);
        whole = rows[k] != NULL;
    }
    if (whole) out = fac__s_stack((fac_tensors){rows, (size_t)y->numel}, 0);
    fac__free(rows);
    return out;
}

/* A leaf with the values of t. */
static fac_tensor *leaf_of(fac_tensor *t) {
    fac_tensor *alias = NULL;
    FAC_TRY_NULL(fac__alias(t, true, &alias));
    alias = fac__adopt(fac__thread(), alias);
    return alias && fac__set_requires_grad(alias, true) == FAC_OK ? alias : NULL;
}

static fac_tensor *jacobian(fac_func fn, void *context, fac_tensor *input) {
    FAC_SCOPE(s);
    fac_tensor *x = leaf_of(input), *y = NULL;
    if (!x) return NULL;
    fac_tensor *given = fac__handle(x);
    fac_status st;
    FAC_CALLBACK(st = fn(context, (fac_tensors){&given, 1}, &y, 1));
    if (st != FAC_OK && fac_error() == FAC_OK) FAC_FAIL(st, "jacobian: the function returned an error");
    FAC_TRY_NULL(fac_error());
    FAC_OPEN_OPTIONAL(y, "jacobian", "output", NULL);
    if (!y || y->numel == 0) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "jacobian: the function gave no output");
        return NULL;
    }
    return fac__scope_yield(&s, stack_rows(y, x));
}

fac_tensor *fac_jacobian(fac_func fn, void *context, fac_tensor *input) {
    FAC_TRY_NULL(fac_error());
    if (!fn) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "jacobian needs a function");
        return NULL;
    }
    FAC_OPEN(input, "jacobian", "input", NULL);
    fac_recording was = fac__recording_begin();
    fac_tensor *out = jacobian(fn, context, input);
    fac__recording_end(was);
    return fac__handle(out);
}
