/* Fresh inputs for a function to be differentiated, the call, and the pass from its outputs back to them: derive.h tells how samples
   of vmap come in. */
#include "func/derive.h"
#include "base/base.h"
#include "core/names.h"
#include "core/nested.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"
#include "ops_gen.h"

fac_status fac__derive_argnum(const char *who, int64_t argnum, size_t n_inputs, int64_t *out) {
    const int64_t n = (int64_t)n_inputs;
    FAC_CHECK(argnum >= -n && argnum < n, FAC_ERR_INDEX, "%s: there is no input %lld among %lld", who,
              (long long)argnum, (long long)n);
    *out = argnum < 0 ? argnum + n : argnum;
    return FAC_OK;
}

/* ---- the call --------------------------------------------------------------------------------------------------- */

/* What of the thread a transform changes. */
typedef struct mode {
    bool grad_disabled, inference;
} mode;

static mode begin_recording(void) {
    fac_thread *th = fac__thread();
    const mode was = {th->grad_disabled, th->inference};
    th->grad_disabled = th->inference = false;
    return was;
}

static void end_recording(mode was) {
    fac_thread *th = fac__thread();
    th->grad_disabled = was.grad_disabled;
    th->inference = was.inference;
}

static fac_status check_input(const fac_tensor *t, int64_t i) {
    FAC_CHECK(fac__derive_is_floating(t), FAC_ERR_DTYPE,
              "input %lld has no gradient: only floating and complex tensors have, not %s", (long long)i,
              fac_dtype_name((fac_dtype)t->dtype));
    return FAC_OK;
}

/* Owned: a leaf with t's values, or, where gradients go on through t, a place on the way there. */
static fac_status make_leaf(fac_tensor *t, bool connected, fac_tensor **out) {
    fac_tensor *low = NULL;
    FAC_TRY(fac__batch_lower(t, &low));
    const fac_batch_sight was = fac__batch_hide(NULL);
    fac_status st = connected ? fac__c_alias(low, out) : fac__dual_cut(low, out);
    if (st == FAC_OK && !connected) st = fac__set_requires_grad(*out, true);
    if (st == FAC_OK && low->cls) fac__set_names(*out, low->names);
    fac__batch_see(was);
    fac__unref(low);
    return st;
}

static fac_status make_input(derivation *d, size_t k, fac_tensor *t, int64_t i, bool outer, bool *connected) {
    fac_tensor *raised = NULL;
    FAC_TRY(check_input(t, i));
    const bool joins = outer && fac__requires_grad(t);
    *connected |= joins;
    FAC_TRY(make_leaf(t, joins, &d->leaves[k]));
    FAC_TRY(fac__batch_raise(fac__ref(d->leaves[k]), &raised));
    if (raised != d->leaves[k]) fac__set_names(raised, t->names);
    d->inputs[i] = fac__adopt_handle(fac__thread(), raised);
    return d->inputs[i] ? FAC_OK : fac_error();
}

static fac_status make_inputs(derivation *d, fac_tensors inputs, fac_ints which, bool outer, bool *connected) {
    for (size_t i = 0; i < inputs.n; i++) d->inputs[i] = fac__handle(inputs.v[i]);
    for (size_t k = 0; k < which.n; k++) FAC_TRY(make_input(d, k, inputs.v[which.v[k]], which.v[k], outer, connected));
    return FAC_OK;
}

static fac_status call(derivation *d, fac_func fn, void *context) {
    fac_status st;
    FAC_CALLBACK(st = fn(context, (fac_tensors){d->inputs, d->n_inputs}, d->outputs, d->n_outputs));
    if (st != FAC_OK && fac_error() == FAC_OK)
        return FAC_FAIL(st, "the function to be differentiated returned an error");
    FAC_TRY(fac_error());
    for (size_t i = 0; i < d->n_outputs; i++)
        FAC_CHECK(d->outputs[i], FAC_ERR_ARGUMENT, "the function to be differentiated left output %zu unset", i);
    return fac__to_headers(d->outputs, d->n_outputs, "func_grad", "output");
}

/* Gradients of gradients are for whoever recorded before, through the inputs or through what the function reads
   besides. */
static fac_status find_recorded(derivation *d, bool outer, bool connected) {
    d->recorded = outer && connected;
    for (size_t i = 0; i < d->n_outputs && outer && !d->recorded; i++)
        FAC_TRY(fac__depends_on_others(d->values[i], (fac_tensors){d->leaves, d->n_leaves}, &d->recorded));
    return FAC_OK;
}

static fac_status run(derivation *d, fac_func fn, void *context, fac_tensors inputs, fac_ints which, bool outer) {
    bool connected = false;
    FAC_TRY(make_inputs(d, inputs, which, outer, &connected));
    FAC_TRY(call(d, fn, context));
    for (size_t i = 0; i < d->n_outputs; i++) {
        FAC_CHECK(!fac__nested_of(d->outputs[i]), FAC_ERR_UNSUPPORTED,
                  "output %zu of the function to be differentiated is a nested tensor: return its components (unbind)",
                  i);
        FAC_TRY(fac__batch_lower(d->outputs[i], &d->values[i]));
    }
    return find_recorded(d, outer, connected);
}

fac_status fac__derive(derivation *d, fac_func fn, void *context, fac_tensors inputs, fac_ints which,
                       size_t n_outputs) {
    const bool outer = fac_is_grad_enabled();
    *d = (derivation){.n_leaves = which.n, .n_inputs = inputs.n, .n_outputs = n_outputs, .scope = fac_scope_begin()};
    d->leaves = fac__alloc_zero((which.n + 1) * sizeof *d->leaves);
    d->inputs = fac__alloc_zero((inputs.n + 1) * sizeof *d->inputs);
    d->outputs = fac__alloc_zero((n_outputs + 1) * sizeof *d->outputs);
    d->values = fac__alloc_zero((n_outputs + 1) * sizeof *d->values);
    if (!d->leaves || !d->inputs || !d->outputs || !d->values) return fac_error();
    FAC_CHECK(fn, FAC_ERR_ARGUMENT, "there is no function to be differentiated: it is NULL");
    const mode was = begin_recording();
    const fac_status st = run(d, fn, context, inputs, which, outer);
    end_recording(was);
    return st;
}

void fac__derive_end(derivation *d) {
    for (size_t i = 0; d->leaves && i < d->n_leaves; i++) fac__unref(d->leaves[i]);
    for (size_t i = 0; d->values && i < d->n_outputs; i++) fac__unref(d->values[i]);
    fac__free(d->leaves);
    fac__free(d->inputs);
    fac__free(d->outputs);
    fac__free(d->values);
    fac_scope_end(&d->scope);
}

/* ---- what comes of it ------------------------------------------------------------------------------------------- */

/* Outputs that gradients flow back from, with their cotangents' values; returns how many. */
static fac_status gather(derivation *d, fac_tensors cotangents, fac_tensor **roots, fac_tensor **grads, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < d->n_outputs; i++) {
        fac_tensor *low = NULL;
        if (!cotangents.v[i] || !fac__requires_grad(d->values[i])) continue;
        FAC_CHECK(fac__same_sizes(cotangents.v[i], d->outputs[i]), FAC_ERR_SHAPE,
                  "cotangent %zu has sizes %s, but the output has %s", i, FAC_SHAPE_TEXT(cotangents.v[i]),
                  FAC_SHAPE_TEXT(d->outputs[i]));
        FAC_TRY(fac__batch_lower(cotangents.v[i], &low));
        roots[*n] = d->values[i];
        grads[(*n)++] = fac__adopt(fac__thread(), low);
        FAC_TRY(fac_error());
    }
    return FAC_OK;
}

static fac_status pass(derivation *d, fac_tensor **roots, fac_tensor **grads, size_t n, fac_tensor **out) {
    fac_grad_kw kw;
    fac_grad_kw_init(&kw);
    kw.grad_outputs = (fac_tensors){grads, n};
    kw.create_graph = kw.retain_graph = d->recorded;
    kw.allow_unused = true;
    return n && d->n_leaves ? fac__grad((fac_tensors){roots, n}, (fac_tensors){d->leaves, d->n_leaves}, out, &kw)
                            : FAC_OK;
}

/* Gradients with all levels' dimensions in front, as the batched tensors that they are the values of. */
static fac_status raise_all(derivation *d, fac_tensor **out) {
    for (size_t k = 0; k < d->n_leaves; k++) {
        fac_tensor *low = fac__ref(out[k]), *raised = NULL;
        if (!low)
            FAC_TRY(fac__c_zeros_like(d->leaves[k], FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0, 0},
                                      (fac_opt_num){0}, FAC_FORMAT_DEFAULT, &low));
        FAC_TRY(fac__batch_raise(low, &raised));
        out[k] = fac__adopt(fac__thread(), raised);
        if (!out[k]) return fac_error();
    }
    return FAC_OK;
}

fac_status fac__derive_grads(derivation *d, fac_tensors cotangents, fac_tensor **out) {
    size_t n;
    for (size_t k = 0; k < d->n_leaves; k++) out[k] = NULL;
    fac_tensor **room = fac__alloc_zero((2 * d->n_outputs + 1) * sizeof *room);
    if (!room) return fac_error();
    const mode was = begin_recording();
    fac_thread *th = fac__thread();
    th->grad_disabled = !d->recorded;
    fac_status st = gather(d, cotangents, room, room + d->n_outputs, &n);
    if (st == FAC_OK) {
        const fac_batch_sight sight = fac__batch_hide(NULL);
        st = pass(d, room, room + d->n_outputs, n, out);
        fac__batch_see(sight);
    }
    if (st == FAC_OK) st = raise_all(d, out);
    end_recording(was);
    fac__free(room);
    return st;
}

fac_status fac__derive_value(derivation *d, size_t i, fac_tensor **out) {
    fac_tensor *cut = NULL;
    *out = d->outputs[i];
    if (d->recorded) return FAC_OK;
    if (d->values[i]->cls) { /* dual: the tangent stays */
        FAC_TRY(fac__dual_cut(d->values[i], &cut));
        FAC_TRY(fac__batch_raise(cut, &cut));
    } else {
        FAC_TRY(fac__c_detach(d->outputs[i], &cut));
    }
    *out = fac__adopt(fac__thread(), cut);
    return *out ? FAC_OK : fac_error();
}
