/* The public face of forward mode. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/forward.h"
#include "autograd/leaf.h"
#include "autograd/numeric.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include "ops_gen.h"

/* ---- levels ---------------------------------------------------------------------------------------------------------------- */

int64_t fac_dual_level_enter(void) {
    fac_level level = {0, 0};
    return fac__level_open(false, &level) == FAC_OK ? level.number : 0;
}

static fac_level level_of(int64_t number) {
    const fac_thread *th = fac__thread();
    for (int i = 0; i < th->dual_depth; i++) {
        const fac_level level = {number, th->dual_levels[i]};
        if (fac__level_is_open(level)) return level;
    }
    return (fac_level){0, 0};
}

fac_status fac_dual_level_exit(int64_t number) {
    const fac_level level = level_of(number);
    FAC_CHECK(level.number, FAC_ERR_ARGUMENT, "level %lld of forward mode is not open on this thread",
              (long long)number);
    fac__level_close(level);
    return FAC_OK;
}

fac_dual_level fac_dual_level_begin(void) { return (fac_dual_level){fac_dual_level_enter()}; }

void fac_dual_level_end(fac_dual_level *level) {
    if (!level) return;
    const fac_level open = level_of(level->number);
    if (open.number) fac__level_close(open);
    level->number = 0;
}

bool fac_set_fwd_grad_enabled(bool on) {
    fac_thread *th = fac__thread();
    const bool was = !th->tangents_off;
    if (th == fac__tls) th->tangents_off = !on; /* the record that threads share when memory is out is not written */
    return was;
}

bool fac_is_fwd_grad_enabled(void) { return !fac__thread()->tangents_off; }

/* ---- dual tensors ------------------------------------------------------------------------------------------------------------ */

bool fac_is_dual(const fac_tensor *t) {
    FAC_OPEN(t, "fac_is_dual", "t", false);
    return fac__dual_parts(fac__dual_open_part((fac_tensor *)(uintptr_t)t)) != NULL;
}

/* The dual tensor is a function of a primal that wants a gradient, also for who goes backward from dual results. */
static fac_status link_to_primal(fac_tensor *dual, fac_tensor *primal) {
    if (!fac__requires_grad(primal) || !fac__grad_enabled(fac__thread())) return FAC_OK;
    return fac__dual_begin(dual, primal);
}

static fac_tensor *make_dual(fac_tensor *primal, fac_tensor *tangent, fac_level level, bool linked) {
    fac_tensor *out = NULL;
    FAC_TRY_NULL(fac__dual_make(primal, tangent, level, &out));
    out = fac__adopt(fac__thread(), out);
    if (out && linked) FAC_TRY_NULL(link_to_primal(out, primal));
    return out;
}

fac_tensor *fac_make_dual(fac_tensor *primal, fac_tensor *tangent) {
    FAC_TRY_NULL(fac_error());
    FAC_OPEN(primal, "make_dual", "primal", NULL);
    FAC_OPEN(tangent, "make_dual", "tangent", NULL);
    const fac_level level = fac__level_innermost();
    if (!level.number) {
        FAC_FAIL(FAC_ERR_STATE, "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter "
                                "one with fac_dual_level_enter first.");
        return NULL;
    }
    return fac__handle(make_dual(primal, tangent, level, true));
}

/* Headers of the innermost scope; the tangent is NULL if t has none on the level. */
static fac_status unpack(fac_tensor *t, fac_level level, fac_tensor **primal, fac_tensor **tangent) {
    fac_thread *th = fac__thread();
    t = fac__dual_open_part(t);
    const fac_dual_parts *p = fac__dual_parts(t);
    *tangent = NULL;
    *primal = t;
    if (p && p->level.number == level.number) {
        *tangent = fac__adopt(th, fac__ref(p->tangent));
        *primal = p->primal;
    }
    *primal = fac__adopt(th, fac__ref(*primal));
    return fac_error();
}

fac_dual fac_unpack_dual(fac_tensor *t) {
    const fac_dual none = {NULL, NULL};
    fac_dual d = none;
    if (fac_error() != FAC_OK) return none;
    FAC_OPEN(t, "unpack_dual", "t", none);
    if (unpack(t, fac__level_innermost(), &d.primal, &d.tangent) != FAC_OK) return none;
    d.primal = fac__handle(d.primal);
    d.tangent = fac__handle(d.tangent);
    return d;
}

/* ---- jvp ------------------------------------------------------------------------------------------------------------------------- */

typedef struct jvp_call {
    fac_check_fn fn;
    void *context;
    fac_tensors primals, tangents; /* headers */
    fac_tensor **outputs, **out_tangents;
    size_t n_outputs;
    const char *name;
} jvp_call;

static fac_status run_fn(const jvp_call *j, fac_tensors inputs) {
    fac_handle_list given;
    FAC_TRY(fac__handle_list(&given, inputs));
    fac_status st;
    FAC_CALLBACK(st = j->fn(j->context, given.l, j->outputs, j->n_outputs));
    fac__handle_list_free(&given);
    if (st != FAC_OK && fac_error() == FAC_OK) FAC_FAIL(st, "%s: the function returned an error", j->name);
    FAC_TRY(fac_error());
    FAC_TRY(fac__to_headers(j->outputs, j->n_outputs, j->name, "output"));
    for (size_t i = 0; i < j->n_outputs; i++)
        FAC_CHECK(j->outputs[i], FAC_ERR_ARGUMENT, "%s: the function left output %zu unset", j->name, i);
    return FAC_OK;
}

static fac_status zeros_of(fac_tensor *t, fac_tensor **out) {
    if (!fac__differentiable((fac_dtype)t->dtype)) return FAC_OK;
    *out =
        fac__s_zeros_like(t, FAC_DTYPE_DEFAULT, FAC_STRIDED, (fac_device){0, 0}, (fac_opt_num){0}, FAC_FORMAT_DEFAULT);
    return fac_error();
}

static fac_status on_level(const jvp_call *j, fac_level level, fac_tensor **inputs) {
    for (size_t i = 0; i < j->primals.n; i++) {
        fac_tensor *tangent = j->tangents.v[i];
        inputs[i] = tangent ? make_dual(j->primals.v[i], tangent, level, false) : j->primals.v[i];
        FAC_TRY(fac_error());
    }
    FAC_TRY(run_fn(j, (fac_tensors){inputs, j->primals.n}));
    for (size_t i = 0; i < j->n_outputs; i++)
        FAC_TRY(unpack(j->outputs[i], level, &j->outputs[i], &j->out_tangents[i]));
    return FAC_OK;
}

/* What stays of the level belongs to the scope around it. */
static fac_status give_out(const jvp_call *j, fac_scope *s) {
    for (size_t i = 0; i < j->n_outputs; i++) {
        if (!j->out_tangents[i]) FAC_TRY(zeros_of(j->outputs[i], &j->out_tangents[i]));
        if (!fac__scope_yield(s, j->outputs[i])) return fac_error();
        if (j->out_tangents[i] && !fac__scope_yield(s, j->out_tangents[i])) return fac_error();
    }
    return FAC_OK;
}

static fac_status run_jvp(const jvp_call *j) {
    fac_thread *th = fac__thread();
    fac_level level;
    FAC_CHECK(th->n_scopes > 0, FAC_ERR_STATE, "no scope is open, so nothing could own the results of %s", j->name);
    FAC_CHECK(j->primals.n == j->tangents.n, FAC_ERR_ARGUMENT, "%s: got %zu primals and %zu tangents", j->name,
              j->primals.n, j->tangents.n);
    fac_tensor **inputs = fac__alloc_array(j->primals.n + 1, sizeof *inputs);
    if (!inputs) return FAC_ERR_MEMORY;
    fac_status st = fac__level_open(true, &level);
    if (st == FAC_OK) {
        const fac_recording was = fac__recording_save(th);
        fac_scope s = fac_scope_begin();
        const bool was_off = th->tangents_off;
        th->tangents_off = false;
        st = on_level(j, level, inputs);
        fac__recording_end(was); /* whatever fn has left behind */
        th->tangents_off = was_off;
        fac__level_close(level);
        if (st == FAC_OK) st = give_out(j, &s);
        fac_scope_end(&s);
    }
    fac__free(inputs);
    for (size_t i = 0; i < j->n_outputs && st != FAC_OK; i++) j->outputs[i] = j->out_tangents[i] = NULL;
    return st;
}

fac_status fac__jvp(fac_check_fn fn, void *context, fac_tensors primals, fac_tensors tangents, fac_tensor **out_outputs,
                    fac_tensor **out_tangents, size_t n_outputs) {
    return run_jvp(&(jvp_call){fn, context, primals, tangents, out_outputs, out_tangents, n_outputs, "jvp"});
}

fac_status fac_jvp(fac_check_fn fn, void *context, fac_tensors primals, fac_tensors tangents, fac_tensor **out_outputs,
                   fac_tensor **out_tangents, size_t n_outputs) {
    FAC_TRY(fac_error());
    FAC_CHECK(fn && out_outputs && out_tangents && n_outputs, FAC_ERR_ARGUMENT,
              "jvp needs a function with at least one output, and places for outputs and tangents");
    fac_handle_list p, t;
    fac_status st = fac__open_list(&p, primals, false, "jvp", "primals");
    const fac_status st_tangents = fac__open_list(&t, tangents, true, "jvp", "tangents");
    for (size_t i = 0; i < n_outputs; i++) out_outputs[i] = out_tangents[i] = NULL;
    if (st == FAC_OK) st = st_tangents;
    if (st == FAC_OK) st = fac__jvp(fn, context, p.l, t.l, out_outputs, out_tangents, n_outputs);
    fac__to_handles(out_outputs, n_outputs);
    fac__to_handles(out_tangents, n_outputs);
    fac__handle_list_free(&t);
    fac__handle_list_free(&p);
    return st;
}

/* ---- Jacobians -------------------------------------------------------------------------------------------------------------------- */

/* Derivative by element k of the input as a row, which the innermost scope owns; NULL on failure. */
static fac_tensor *column_of(fac_check_fn fn, void *context, fac_tensor *input, size_t k) {
    FAC_SCOPE(s);
    fac_tensor *unit = fac__unit_like(input, k * fac__parts(input)), *y = NULL, *t = NULL;
    if (!unit) return NULL;
    FAC_TRY_NULL(run_jvp(&(jvp_call){fn, context, {&input, 1}, {&unit, 1}, &y, &t, 1, "jacfwd"}));
    if (!t) {
        FAC_FAIL(FAC_ERR_DTYPE, "jacfwd: the function gives %s, which has no derivative",
                 fac_dtype_name((fac_dtype)y->dtype));
        return NULL;
    }
    return fac__scope_yield(&s, fac__s_reshape(t, FAC_INTS(-1)));
}

static fac_tensor *jacfwd(fac_check_fn fn, void *context, fac_tensor *input) {
    FAC_SCOPE(s);
    const size_t n = (size_t)input->numel;
    fac_tensor **columns = fac__alloc_array(n, sizeof *columns), *out = NULL;
    bool whole = columns != NULL;
    for (size_t k = 0; whole && k < n; k++) {
        columns[k] = column_of(fn, context, input, k);
        whole = columns[k] != NULL;
    }
    if (whole) out = fac__s_stack((fac_tensors){columns, n}, 1);
    fac__free(columns);
    return out ? fac__scope_yield(&s, out) : NULL;
}

static bool is_given(fac_check_fn fn, const fac_tensor *input, const char *name) {
    if (!fn)
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s needs a function", name);
    else if (!fac__differentiable((fac_dtype)input->dtype) || !input->numel)
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s needs an input of floating or complex elements", name);
    return fac_error() == FAC_OK;
}

fac_tensor *fac_jacfwd(fac_check_fn fn, void *context, fac_tensor *input) {
    FAC_TRY_NULL(fac_error());
    FAC_OPEN(input, "jacfwd", "input", NULL);
    return is_given(fn, input, "jacfwd") ? fac__handle(jacfwd(fn, context, input)) : NULL;
}

/* ---- second derivatives -------------------------------------------------------------------------------------------------------------- */

typedef struct scalar_fn {
    fac_check_fn fn;
    void *context;
} scalar_fn;

/* The gradient of a function of one element, as a function. */
static fac_status gradient_fn(void *context, fac_tensors inputs, fac_tensor **outputs, size_t n) {
    const scalar_fn *f = context;
    (void)n;
    const fac_tensor *x = fac__header(inputs.v[0]);
    fac_tensor *row = fac__header(fac_jacobian(f->fn, f->context, inputs.v[0]));
    FAC_TRY(fac_error());
    FAC_CHECK(row->sizes[0] == 1, FAC_ERR_SHAPE,
              "the function gives %lld elements; only one of one element has a Hessian", (long long)row->sizes[0]);
    outputs[0] = fac__handle(fac__s_reshape(row, (fac_ints){x->sizes, x->ndim}));
    return fac_error();
}

fac_tensor *fac_hessian(fac_check_fn fn, void *context, fac_tensor *input) {
    FAC_TRY_NULL(fac_error());
    FAC_OPEN(input, "hessian", "input", NULL);
    scalar_fn f = {fn, context};
    return is_given(fn, input, "hessian") ? fac__handle(jacfwd(gradient_fn, &f, input)) : NULL;
}

fac_tensor *fac_hvp(fac_check_fn fn, void *context, fac_tensor *input, fac_tensor *v) {
    FAC_TRY_NULL(fac_error());
    FAC_OPEN(input, "hvp", "input", NULL);
    FAC_OPEN(v, "hvp", "v", NULL);
    scalar_fn f = {fn, context};
    fac_tensor *gradient = NULL, *product = NULL;
    if (!is_given(fn, input, "hvp")) return NULL;
    FAC_TRY_NULL(run_jvp(&(jvp_call){gradient_fn, &f, {&input, 1}, {&v, 1}, &gradient, &product, 1, "hvp"}));
    return fac__handle(product);
}
