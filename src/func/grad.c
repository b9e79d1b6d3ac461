/* fac_func_grad and fac_func_vjp. */
#include "base/base.h"
#include "func/derive.h"
#include "keywords_gen.h"
#include "ops_gen.h"

static fac_status find_inputs(const char *who, fac_ints argnums, size_t n_inputs, int64_t *out) {
    for (size_t k = 0; k < argnums.n; k++) FAC_TRY(fac__derive_argnum(who, argnums.v[k], n_inputs, &out[k]));
    return FAC_OK;
}

/* The list's tensors move to the scope around the derivation's. */
static fac_status yield_all(derivation *d, fac_tensor **v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i] && !fac__scope_yield(&d->scope, v[i])) return fac_error();
    return FAC_OK;
}

static fac_status check_scope(const char *who) {
    FAC_CHECK(fac__thread()->n_scopes > 0, FAC_ERR_STATE, "no scope is open, so nothing could own the results of %s",
              who);
    return FAC_OK;
}

/* ---- grad ------------------------------------------------------------------------------------------------------- */

static fac_status grad_of_one(derivation *d, fac_tensor **out, fac_tensor **value) {
    FAC_CHECK(d->outputs[0]->numel == 1, FAC_ERR_SHAPE,
              "func_grad: the function should give one number, but gave sizes %s", FAC_SHAPE_TEXT(d->outputs[0]));
    fac_tensor *ones = fac__s_ones_like(d->outputs[0], FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0, 0},
                                        (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    if (!ones) return fac_error();
    FAC_TRY(fac__derive_grads(d, (fac_tensors){&ones, 1}, out));
    if (value) FAC_TRY(fac__derive_value(d, 0, value));
    FAC_TRY(yield_all(d, out, d->n_leaves));
    return value ? yield_all(d, value, 1) : FAC_OK;
}

static fac_status grad(fac_func fn, void *context, fac_tensors inputs, fac_ints which, fac_tensor **out,
                       fac_tensor **value) {
    derivation d;
    FAC_TRY(check_scope("func_grad"));
    fac_status st = fac__derive(&d, fn, context, inputs, which, 1);
    if (st == FAC_OK) st = grad_of_one(&d, out, value);
    fac__derive_end(&d);
    return st;
}

static fac_status grad_of(fac_func fn, void *context, fac_tensors inputs, const fac_func_grad_kw *k, fac_tensor **out) {
    int64_t *which = fac__alloc_array(k->argnums.n + 1, sizeof *which);
    if (!which) return fac_error();
    fac_status st = find_inputs("func_grad", k->argnums, inputs.n, which);
    if (st == FAC_OK) st = grad(fn, context, inputs, (fac_ints){which, k->argnums.n}, out, k->value);
    fac__free(which);
    return st;
}

/* Handles of what was made, or nothing of it. */
static fac_status give(fac_status st, fac_tensor **v, size_t n) {
    for (size_t i = 0; i < n; i++) v[i] = st == FAC_OK ? fac__handle(v[i]) : NULL;
    return st;
}

fac_status(fac_func_grad)(fac_func fn, void *context, fac_tensors inputs, fac_tensor **out_grads,
                          const fac_func_grad_kw *kw) {
    fac_func_grad_kw k;
    fac_handle_list open;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_func_grad_kw(&k, kw));
    FAC_CHECK(out_grads || !k.argnums.n, FAC_ERR_ARGUMENT, "func_grad needs a place for the gradients, but it is NULL");
    fac_status st = fac__open_list(&open, inputs, false, "func_grad", "inputs");
    if (st == FAC_OK) st = grad_of(fn, context, open.l, &k, out_grads);
    fac__handle_list_free(&open);
    if (k.value) (void)give(st, k.value, 1);
    return give(st, out_grads, k.argnums.n);
}

/* ---- vjp -------------------------------------------------------------------------------------------------------- */

static fac_status pull_back(derivation *d, fac_tensors cotangents, fac_ints which, fac_tensor **outputs,
                            fac_tensor **grads) {
    fac_tensor **made = fac__alloc_zero((which.n + 1) * sizeof *made);
    if (!made) return fac_error();
    fac_status st = fac__derive_grads(d, cotangents, made);
    for (size_t i = 0; i < d->n_outputs && st == FAC_OK; i++) st = fac__derive_value(d, i, &outputs[i]);
    if (st == FAC_OK) st = yield_all(d, made, which.n);
    if (st == FAC_OK) st = yield_all(d, outputs, d->n_outputs);
    for (size_t k = 0; k < which.n; k++) grads[which.v[k]] = made[k];
    fac__free(made);
    return st;
}

static fac_status vjp(fac_func fn, void *context, fac_tensors inputs, fac_tensors cotangents, fac_tensor **outputs,
                      fac_tensor **grads) {
    derivation d;
    fac_ints which = {NULL, 0};
    FAC_TRY(check_scope("func_vjp"));
    int64_t *room = fac__alloc_array(inputs.n + 1, sizeof *room);
    if (!room) return fac_error();
    for (size_t i = 0; i < inputs.n; i++)
        if (fac__derive_is_floating(inputs.v[i])) room[which.n++] = (int64_t)i;
    which.v = room;
    fac_status st = fac__derive(&d, fn, context, inputs, which, cotangents.n);
    if (st == FAC_OK) st = pull_back(&d, cotangents, which, outputs, grads);
    fac__derive_end(&d);
    fac__free(room);
    return st;
}

fac_status fac_func_vjp(fac_func fn, void *context, fac_tensors inputs, fac_tensors cotangents,
                        fac_tensor **out_outputs, fac_tensor **out_grads) {
    fac_handle_list in, ct;
    FAC_TRY(fac_error());
    FAC_CHECK((out_outputs || !cotangents.n) && (out_grads || !inputs.n), FAC_ERR_ARGUMENT,
              "func_vjp needs places for outputs and gradients, but one is NULL");
    fac_status st = fac__open_list(&in, inputs, false, "func_vjp", "inputs");
    const fac_status st_ct = fac__open_list(&ct, cotangents, true, "func_vjp", "cotangents");
    if (st == FAC_OK) st = st_ct;
    for (size_t i = 0; i < inputs.n; i++) out_grads[i] = NULL;
    for (size_t i = 0; i < cotangents.n; i++) out_outputs[i] = NULL;
    if (st == FAC_OK) st = vjp(fn, context, in.l, ct.l, out_outputs, out_grads);
    fac__handle_list_free(&ct);
    fac__handle_list_free(&in);
    const fac_status given = give(st, out_outputs, cotangents.n);
    (void)give(st, out_grads, inputs.n);
    return given;
}
