/* What is made of forward mode: fac_func_jvp, and fac_func_jacfwd, fac_func_hessian and fac_func_hvp on top of it. */
#include "base/base.h"
#include "func/derive.h"
#include "keywords_gen.h"
#include "ops_gen.h"

fac_status fac_func_jvp(fac_func fn, void *context, fac_tensors inputs, fac_tensors tangents, fac_tensor **out_outputs,
                        fac_tensor **out_tangents, size_t n_outputs) {
    FAC_TRY(fac_error());
    FAC_CHECK(fn && out_outputs && out_tangents && n_outputs, FAC_ERR_ARGUMENT,
              "func_jvp needs a function with at least one output, and places for outputs and tangents");
    fac_handle_list p, t;
    fac_status st = fac__open_list(&p, inputs, false, "func_jvp", "inputs");
    const fac_status st_tangents = fac__open_list(&t, tangents, true, "func_jvp", "tangents");
    for (size_t i = 0; i < n_outputs; i++) out_outputs[i] = out_tangents[i] = NULL;
    if (st == FAC_OK) st = st_tangents;
    if (st == FAC_OK) st = fac__jvp(fn, context, p.l, t.l, out_outputs, out_tangents, n_outputs);
    fac__to_handles(out_outputs, n_outputs);
    fac__to_handles(out_tangents, n_outputs);
    fac__handle_list_free(&t);
    fac__handle_list_free(&p);
    return st;
}

/* ---- Jacobians by columns --------------------------------------------------------------------------------------- */

/* What a Jacobian is made of. Tensors that begin with `in` are handles, as the function gets them. */
typedef struct columns {
    const char *who;
    fac_func fn;
    void *context;
    fac_tensors inputs;
    int64_t argnum, chunk;
    fac_tensor *x; /* header of the input that it is taken by */
} columns;

/* A column: the derivative of the output along in.v[0]. */
static fac_status push(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    const columns *c = context;
    fac_tensor *y = NULL, **tangents = fac__alloc_zero((c->inputs.n + 1) * sizeof *tangents);
    if (!tangents) return fac_error();
    tangents[c->argnum] = in.v[0];
    const fac_status st = fac_func_jvp(c->fn, c->context, c->inputs, (fac_tensors){tangents, c->inputs.n}, &y, out, n);
    fac__free(tangents);
    FAC_TRY(st);
    FAC_CHECK(out[0], FAC_ERR_DTYPE, "%s: the function gives %s, which has no derivative", c->who,
              fac_dtype_name((fac_dtype)fac__header(y)->dtype));
    return FAC_OK;
}

/* Element k of the input along row k of the first dimension: [n, in...]; a temporary. */
static fac_tensor *unit_vectors(const columns *c) {
    int64_t sizes[FAC_MAX_DIMS + 1] = {c->x->numel};
    if (c->x->ndim == FAC_MAX_DIMS) {
        FAC_FAIL(FAC_ERR_SHAPE, "%s: an input of %d dimensions has no room for one more", c->who, c->x->ndim);
        return NULL;
    }
    for (int d = 0; d < c->x->ndim; d++) sizes[d + 1] = c->x->sizes[d];
    fac_tensor *eye = fac__s_eye(c->x->numel, (fac_dtype)c->x->dtype, FAC_STRIDED, c->x->device, (fac_opt_num){0});
    return fac__s_reshape(eye, (fac_ints){sizes, (size_t)c->x->ndim + 1});
}

/* All columns, [out..., n], in one batch: the function is one function, so its random numbers are the same in each. */
static fac_status in_a_batch(columns *c, fac_tensor *units, fac_tensor **out) {
    fac_vmap_kw kw;
    fac_tensor *in = fac__handle(units);
    fac_vmap_kw_init(&kw);
    kw.out_dim = -1;
    kw.randomness = "same";
    kw.chunk_size = c->chunk;
    FAC_TRY((fac_vmap)(push, c, (fac_tensors){&in, 1}, out, 1, &kw));
    *out = fac__header(*out);
    return FAC_OK;
}

static fac_status one_column(columns *c, fac_tensor *units, int64_t k, fac_tensor **out) {
    fac_scope s = fac_scope_begin();
    fac_tensor *in = fac__handle(fac__s_select_int(units, 0, k));
    fac_status st = in ? push(c, (fac_tensors){&in, 1}, out, 1) : fac_error();
    *out = st == FAC_OK ? fac__scope_yield(&s, fac__header(*out)) : NULL;
    fac_scope_end(&s);
    return *out ? FAC_OK : fac_error();
}

/* The same, one after the other, each with random numbers from the state that is given. */
static fac_status one_by_one(columns *c, fac_tensor *units, uint64_t seed, uint64_t offset, fac_tensor **out) {
    const int64_t n = c->x->numel;
    fac_status st = FAC_OK;
    fac_tensor **v = fac__alloc_array((size_t)n, sizeof *v);
    if (!v) return fac_error();
    for (int64_t k = 0; k < n && st == FAC_OK; k++) {
        fac_generator_set_state(fac_default_generator(), seed, offset);
        st = one_column(c, units, k, &v[k]);
    }
    if (st == FAC_OK) *out = fac__s_stack((fac_tensors){v, (size_t)n}, -1);
    fac__free(v);
    return st == FAC_OK ? fac_error() : st;
}

/* Zeros for an input without elements: what is asked of the function is what it gives. */
static fac_status no_columns(columns *c, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS + 1];
    fac_tensor *in = fac__handle(c->x), *column = NULL;
    FAC_TRY(push(c, (fac_tensors){&in, 1}, &column, 1));
    column = fac__header(column);
    for (int d = 0; d < column->ndim; d++) sizes[d] = column->sizes[d];
    sizes[column->ndim] = 0;
    *out = fac__s_zeros((fac_ints){sizes, (size_t)column->ndim + 1}, (fac_dtype)column->dtype, FAC_STRIDED,
                        column->device, (fac_opt_num){0});
    return fac_error();
}

/* A function that refuses batches gives an error, not a wrong result: it is tried again without. Whatever else was wrong with
   it is so there. */
static fac_status all_columns(columns *c, fac_tensor **out) {
    uint64_t seed, offset;
    if (c->x->numel == 0) return no_columns(c, out);
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    fac_tensor *units = unit_vectors(c);
    if (!units) return fac_error();
    const fac_status st = in_a_batch(c, units, out);
    if (st == FAC_OK || st == FAC_ERR_MEMORY) return st;
    fac_error_clear();
    return one_by_one(c, units, seed, offset, out);
}

/* [out..., n] -> [out..., in...] */
static fac_tensor *shaped(const columns *c, fac_tensor *t) {
    int64_t sizes[2 * FAC_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < t->ndim - 1; d++) sizes[n++] = t->sizes[d];
    for (int d = 0; d < c->x->ndim; d++) sizes[n++] = c->x->sizes[d];
    if (n > FAC_MAX_DIMS) {
        FAC_FAIL(FAC_ERR_SHAPE, "%s: the Jacobian has %d dimensions; at most %d are supported", c->who, n,
                 FAC_MAX_DIMS);
        return NULL;
    }
    return fac__s_reshape(t, (fac_ints){sizes, (size_t)n});
}

static fac_tensor *compute(columns *c) {
    fac_scope s = fac_scope_begin();
    fac_tensor *all = NULL, *out = NULL;
    if (all_columns(c, &all) == FAC_OK) out = shaped(c, all);
    if (out) out = fac__scope_yield(&s, out);
    fac_scope_end(&s);
    return fac_error() ? NULL : out;
}

static fac_status find_input(columns *c) {
    FAC_CHECK(fac__thread()->n_scopes > 0, FAC_ERR_STATE, "no scope is open, so nothing could own the result of %s",
              c->who);
    FAC_CHECK(c->fn, FAC_ERR_ARGUMENT, "%s: there is no function to be differentiated: it is NULL", c->who);
    FAC_CHECK(c->chunk == FAC_UNSET || c->chunk > 0, FAC_ERR_ARGUMENT, "%s: chunk_size should be at least 1, not %lld",
              c->who, (long long)c->chunk);
    FAC_TRY(fac__derive_argnum(c->who, c->argnum, c->inputs.n, &c->argnum));
    return FAC_OK;
}

static fac_tensor *jacfwd(columns *c) {
    fac_handle_list open;
    fac_tensor *out = NULL;
    FAC_TRY_NULL(find_input(c));
    if (fac__open_list(&open, c->inputs, false, c->who, "inputs") == FAC_OK) {
        c->x = open.l.v[c->argnum];
        if (fac__derive_is_floating(c->x))
            out = compute(c);
        else
            FAC_FAIL(FAC_ERR_DTYPE, "input %lld has no derivative: only floating and complex tensors have, not %s",
                     (long long)c->argnum, fac_dtype_name((fac_dtype)c->x->dtype));
    }
    fac__handle_list_free(&open);
    return fac__handle(out);
}

fac_tensor *(fac_func_jacfwd)(fac_func fn, void *context, fac_tensors inputs, const fac_func_jacfwd_kw *kw) {
    fac_func_jacfwd_kw k;
    if (fac_error() || fac__open_func_jacfwd_kw(&k, kw)) return NULL;
    return jacfwd(&(columns){"func_jacfwd", fn, context, inputs, k.argnum, k.chunk_size, NULL});
}

/* ---- second derivatives ----------------------------------------------------------------------------------------- */

/* A function whose first derivative is a function in turn, and the inputs that it is taken by. */
typedef struct inner {
    fac_func fn;
    void *context;
    fac_ints which;
} inner;

/* Of one input, by rows, as the function may have an output of any size. */
static fac_status rows(void *context, fac_tensors inputs, fac_tensor **out, size_t n) {
    const inner *f = context;
    fac_func_jacrev_kw kw;
    fac_func_jacrev_kw_init(&kw);
    kw.argnum = f->which.v[0];
    (void)n;
    out[0] = (fac_func_jacrev)(f->fn, f->context, inputs, &kw);
    return fac_error();
}

static fac_status gradients(void *context, fac_tensors inputs, fac_tensor **out, size_t n) {
    const inner *f = context;
    fac_func_grad_kw kw;
    fac_func_grad_kw_init(&kw);
    kw.argnums = f->which;
    (void)n;
    return (fac_func_grad)(f->fn, f->context, inputs, out, &kw);
}

fac_tensor *(fac_func_hessian)(fac_func fn, void *context, fac_tensors inputs, const fac_func_hessian_kw *kw) {
    fac_func_hessian_kw k;
    if (fac_error() || fac__open_func_hessian_kw(&k, kw)) return NULL;
    inner f = {fn, context, {&k.argnum, 1}};
    return jacfwd(&(columns){"func_hessian", fn ? rows : NULL, &f, inputs, k.argnum, k.chunk_size, NULL});
}

static fac_status hvp(fac_func fn, void *context, fac_tensors inputs, fac_tensors vectors, fac_tensor **out) {
    const size_t n = inputs.n;
    size_t m = 0;
    fac_tensor **made = fac__alloc_zero((2 * n + 1) * sizeof *made);
    int64_t *which = fac__alloc_array(n + 1, sizeof *which);
    fac_status st = made && which ? FAC_OK : fac_error();
    for (size_t i = 0; i < n && st == FAC_OK; i++)
        if (fac__derive_is_floating(fac__header(inputs.v[i]))) which[m++] = (int64_t)i;
    inner f = {fn, context, {which, m}}; /* all that have some */
    if (st == FAC_OK) st = fac_func_jvp(gradients, &f, inputs, vectors, made, made + n, m);
    for (size_t k = 0; k < m && st == FAC_OK; k++) out[which[k]] = made[n + k];
    fac__free(which);
    fac__free(made);
    return st;
}

fac_status fac_func_hvp(fac_func fn, void *context, fac_tensors inputs, fac_tensors vectors,
                        fac_tensor **out_products) {
    fac_handle_list open;
    FAC_TRY(fac_error());
    FAC_CHECK(fn && out_products, FAC_ERR_ARGUMENT, "func_hvp needs a function and a place for the products");
    for (size_t i = 0; i < inputs.n; i++) out_products[i] = NULL;
    fac_status st = fac__open_list(&open, inputs, false, "func_hvp", "inputs");
    if (st == FAC_OK) st = hvp(fn, context, inputs, vectors, out_products);
    fac__handle_list_free(&open);
    return st;
}
