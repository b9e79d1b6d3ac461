/* The public face of forward mode. */
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "autograd/forward.h"
#include "autograd/func.h"
#include "autograd/leaf.h"
#include "core/handle.h"
#include "core/names.h"
#include "core/nested.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"
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

/* What stands behind a batched tensor, at the outermost of its levels. */
static fac_tensor *value_of(fac_tensor *t) {
    for (const fac_batched *b; (b = fac__batched(t));) t = b->value;
    return t;
}

/* The same with no level of vmap in sight, which a value has none of. */
static fac_status catch_up(fac_tensor *value) {
    const fac_batch_sight was = fac__batch_hide(NULL);
    const fac_status st = fac__dual_catch_up(value);
    fac__batch_see(was);
    return st;
}

bool fac_is_dual(const fac_tensor *t) {
    FAC_OPEN(t, "fac_is_dual", "t", false);
    fac_tensor *value = value_of(fac__history_of((fac_tensor *)(uintptr_t)t));
    return catch_up(value) == FAC_OK && fac__dual_parts(fac__dual_open_part(value)) != NULL;
}

/* The dual tensor is a function of a primal that wants a gradient, also for who goes backward from dual results. */
static fac_status link_to_primal(fac_tensor *dual, fac_tensor *primal) {
    if (!fac__requires_grad(primal) || !fac__grad_enabled(fac__thread())) return FAC_OK;
    return fac__dual_begin(dual, primal);
}

static fac_status make_plain_dual(fac_tensor *primal, fac_tensor *tangent, fac_level level, bool linked,
                                  fac_tensor **out) {
    FAC_TRY(fac__dual_catch_up(primal));
    FAC_TRY(fac__dual_catch_up(tangent));
    FAC_TRY(fac__dual_make(primal, tangent, level, out));
    const fac_status st = linked ? link_to_primal(*out, primal) : FAC_OK;
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

/* Samples do not depend on each other: a tangent of the values of all is each sample's tangent. */
static fac_status make_batched_dual(fac_tensor *primal, fac_tensor *tangent, fac_level level, bool linked,
                                    fac_tensor **out) {
    fac_tensor *low[2] = {NULL, NULL}, *made = NULL;
    FAC_TRY(fac__dual_check(primal, tangent));
    fac_status st = fac__batch_lower(primal, &low[0]);
    if (st == FAC_OK) st = fac__batch_lower(tangent, &low[1]);
    const fac_batch_sight was = fac__batch_hide(NULL);
    if (st == FAC_OK) st = make_plain_dual(low[0], low[1], level, linked, &made);
    fac__batch_see(was);
    fac__unref(low[0]);
    fac__unref(low[1]);
    return st == FAC_OK ? fac__batch_raise(made, out) : st;
}

static fac_tensor *make_dual(fac_tensor *primal, fac_tensor *tangent, fac_level level, bool linked) {
    fac_tensor *out = NULL;
    const bool batched = fac__batched(primal) || fac__batched(tangent);
    const fac_keyset was = fac__names_hide(); /* the dual tensor has the names, its parts have none */
    const fac_status st = (batched ? make_batched_dual : make_plain_dual)(primal, tangent, level, linked, &out);
    fac__names_see(was);
    if (st == FAC_OK) fac__set_names(out, primal->names);
    return st == FAC_OK ? fac__adopt(fac__thread(), out) : NULL;
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

/* The same of a dual value behind a batched tensor. */
static fac_status unpack_batched(fac_tensor *t, fac_level level, fac_tensor **primal, fac_tensor **tangent) {
    fac_tensor *low = NULL, *made[2] = {NULL, NULL};
    FAC_TRY(fac__batch_lower(t, &low));
    const fac_dual_parts *p = fac__dual_parts(fac__dual_open_part(low));
    fac_status st = FAC_OK;
    if (!p || p->level.number != level.number)
        made[0] = fac__ref(t);
    else {
        st = fac__batch_raise(fac__ref(p->primal), &made[0]);
        if (st == FAC_OK) st = fac__batch_raise(fac__ref(p->tangent), &made[1]);
    }
    fac__unref(low);
    *primal = fac__adopt(fac__thread(), made[0]);
    *tangent = fac__adopt(fac__thread(), made[1]);
    return st == FAC_OK ? fac_error() : st;
}

/* *part of a dual tensor, a temporary, becomes one with the names. */
static fac_status name_part(uint32_t names, fac_tensor **part) {
    fac_tensor *named = NULL;
    if (!*part || !names) return FAC_OK;
    const fac_keyset was = fac__names_hide();
    const fac_status st = fac__c_alias(*part, &named);
    fac__names_see(was);
    FAC_TRY(st);
    fac__set_names(named, names);
    *part = fac__adopt(fac__thread(), named);
    return *part ? FAC_OK : fac_error();
}

static fac_status unpack_nameless(fac_tensor *t, fac_level level, fac_tensor **primal, fac_tensor **tangent) {
    fac_thread *th = fac__thread();
    FAC_TRY(catch_up(value_of(t)));
    if (fac__batched(t) && value_of(t)->cls) return unpack_batched(t, level, primal, tangent);
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

/* Headers of the innermost scope; the tangent is NULL if t has none on the level. */
static fac_status unpack(fac_tensor *t, fac_level level, fac_tensor **primal, fac_tensor **tangent) {
    const uint32_t names = t->names;
    FAC_CHECK(!fac__nested_of(t), FAC_ERR_UNSUPPORTED,
              "a nested tensor has no tangent of its own: unpack its components, or return them from the function "
              "(unbind)");
    FAC_TRY(unpack_nameless(t, level, primal, tangent));
    if (*tangent) FAC_TRY(name_part(names, primal));
    return name_part(names, tangent);
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
    fac_func fn;
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
    FAC_CHECK(fac__level_is_open(level), FAC_ERR_STATE,
              "%s: the function has closed the level of forward mode that it was called on, or one around it", j->name);
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
        th->tangents_off = false;
        st = on_level(j, level, inputs);
        fac__recording_end(was); /* whatever fn has left behind */
        fac__level_close(level);
        if (st == FAC_OK) st = give_out(j, &s);
        fac_scope_end(&s);
    }
    fac__free(inputs);
    for (size_t i = 0; i < j->n_outputs && st != FAC_OK; i++) j->outputs[i] = j->out_tangents[i] = NULL;
    return st;
}

fac_status fac__jvp(fac_func fn, void *context, fac_tensors primals, fac_tensors tangents, fac_tensor **out_outputs,
                    fac_tensor **out_tangents, size_t n_outputs) {
    return run_jvp(&(jvp_call){fn, context, primals, tangents, out_outputs, out_tangents, n_outputs, "func_jvp"});
}
