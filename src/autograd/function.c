/* Custom functions: one call's context is the node itself.

   Of samples of a vmap it is the values of all, with a dimension in front for every level in sight, that have a place in the graph:
   inputs and outputs of the node, gradients, and what is saved. What the user wrote gets them as samples of fresh levels, each time. */
#include "autograd/autograd_meta.h"
#include "autograd/forward.h"
#include "autograd/saved.h"
#include "core/handle.h"
#include "core/nested.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"

typedef struct tensor_vec {
    fac_tensor **v; /* owned */
    size_t n, cap;
} tensor_vec;

struct fac_function_ctx {
    fac_node node;
    fac_node_class cls; /* the node's own, for its name */
    char name[64];
    const fac_function *fn;
    void *user;
    bool owns_user;           /* set with fac_function_set_user: destroyed with the node */
    fac_autocast autocast;    /* that forward had */
    bool recording;           /* a graph is wanted */
    bool keeps;               /* what forward saves, since a graph or a tangent is wanted */
    fac_batch_levels *levels; /* of samples; NULL: of none */
    fac_saved_list saved;
    tensor_vec to_save, dirty, plain; /* what forward asked for: saved, changed in place, not differentiable */
};

static const char *name_of(const fac_function *fn) { return fn->name ? fn->name : "Function"; }

/* ---- what forward and backward call ------------------------------------------------------------------------------------ */

static fac_status add(tensor_vec *l, fac_tensor *t) {
    FAC_TRY(FAC_VEC_GROW(l));
    l->v[l->n++] = fac__ref(t);
    return FAC_OK;
}

static bool contains(const tensor_vec *l, const fac_tensor *t) {
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i] == t) return true;
    return false;
}

static void clear(tensor_vec *l) {
    for (size_t i = 0; i < l->n; i++) fac__unref(l->v[i]);
    fac__free(l->v);
    *l = (tensor_vec){NULL, 0, 0};
}

static bool is_there(const fac_function_ctx *c) { return fac__given(c, "context of a custom function"); }

fac_status fac_function_save(fac_function_ctx *c, fac_tensors tensors) {
    if (!is_there(c)) return fac_error();
    fac_handle_list open;
    fac_status st = fac__open_list(&open, tensors, true, c->name, "saved");
    for (size_t i = 0; st == FAC_OK && i < tensors.n; i++) st = add(&c->to_save, open.v[i]);
    fac__handle_list_free(&open);
    return st;
}

fac_tensors fac_function_saved(fac_function_ctx *c) {
    fac_tensors l = {NULL, 0};
    if (!is_there(c)) return l;
    if (fac__unpack_list(&c->saved, &c->node, "saved", &l) != FAC_OK) return (fac_tensors){NULL, 0};
    fac_tensor **v = (fac_tensor **)(uintptr_t)l.v; /* the array is written anew by each call */
    if (c->levels && fac__batch_raise_all(v, l.n, c->levels->n) != FAC_OK) return (fac_tensors){NULL, 0};
    fac__to_handles(v, l.n);
    return l;
}

void fac_function_set_user(fac_function_ctx *c, void *user) {
    if (!is_there(c)) return;
    c->user = user;
    c->owns_user = true;
}

void *fac_function_user(fac_function_ctx *c) { return is_there(c) ? c->user : NULL; }

bool fac_function_needs_input_grad(fac_function_ctx *c, size_t i) {
    return is_there(c) && i < c->node.n_edges && fac__node_needs(&c->node, (uint32_t)i);
}

void fac_function_mark_dirty(fac_function_ctx *c, fac_tensor *input) {
    if (!is_there(c)) return;
    FAC_OPEN_OPTIONAL(input, c->name, "dirty");
    if (!input || add(&c->dirty, input) != FAC_OK) return;
    if (c->levels && fac__batch_lower_all(&input, 1, c->levels->n) != FAC_OK) return;
    if (c->recording) {
        fac_thread *th = fac__thread();
        fac_recording was = fac__recording_begin();
        fac_status st = fac__check_inplace(input, true);
        fac__recording_end(was);
        if (st != FAC_OK || th->error != FAC_OK) return;
    }
    if (fac__bump_version(input) != FAC_OK) return;
}

void fac_function_mark_non_differentiable(fac_function_ctx *c, fac_tensor *output) {
    if (!is_there(c)) return;
    FAC_OPEN_OPTIONAL(output, c->name, "non-differentiable");
    if (output && add(&c->plain, output) != FAC_OK) return;
}

/* ---- samples ----------------------------------------------------------------------------------------------------------- */

/* What the user's code is called with, as handles, while its levels are open. */
typedef struct visit {
    fac_handle_list given;
    fac_batch_stay stay;
    fac_tensor **samples;
} visit;

static void visit_end(const fac_function_ctx *c, visit *v) {
    fac__handle_list_free(&v->given);
    if (c->levels) fac__batch_leave(&v->stay);
    fac__free(v->samples);
}

static fac_status visit_samples(const fac_function_ctx *c, fac_tensors values, visit *v) {
    v->samples = fac__alloc_array(values.n + 1, sizeof *v->samples);
    if (!v->samples) return fac_error();
    memcpy(v->samples, values.v, values.n * sizeof *v->samples);
    const fac_status entered = fac__batch_enter(c->levels, &v->stay);
    fac_status st = entered == FAC_OK ? fac__batch_raise_all(v->samples, values.n, c->levels->n) : entered;
    if (st == FAC_OK) st = fac__handle_list(&v->given, (fac_tensors){v->samples, values.n});
    if (st == FAC_OK) return st;
    if (entered == FAC_OK) fac__batch_leave(&v->stay);
    fac__free(v->samples);
    return st;
}

/* To be ended, unless it fails. */
static fac_status visit_begin(const fac_function_ctx *c, fac_tensors values, visit *v) {
    v->samples = NULL;
    return c->levels ? visit_samples(c, values, v) : fac__handle_list(&v->given, values);
}

/* Of what the user's code has left in v: values in the place of samples, in place. Within the visit. */
static fac_status take_values(const fac_function_ctx *c, fac_tensor **v, size_t n) {
    return c->levels ? fac__batch_lower_all(v, n, c->levels->n) : FAC_OK;
}

/* ---- the node ------------------------------------------------------------------------------------------------------------- */

/* The handles that backward left in `results`, as owned headers. */
static fac_status take_results(const fac_function_ctx *c, fac_tensor **results, fac_tensor **out, uint32_t n) {
    FAC_TRY(fac__to_headers(results, n, c->name, "gradient"));
    FAC_TRY(take_values(c, results, n));
    for (uint32_t i = 0; i < n; i++) out[i] = fac__take(results[i]);
    return FAC_OK;
}

/* The user's backward, in the autocast that forward had, of which no cast is kept: there is no region to end. */
static fac_status call_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **results) {
    fac_thread *th = fac__thread();
    const fac_autocast was = th->autocast;
    fac_status st;
    c->autocast.uncached = true;
    if (FAC_UNLIKELY(was.on | c->autocast.on)) fac__autocast_set(th, c->autocast);
    FAC_CALLBACK(st = c->fn->backward(c, grads, results));
    if (FAC_UNLIKELY(was.on | c->autocast.on)) fac__autocast_set(th, was);
    return st;
}

static fac_status run_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **results, fac_tensor **out) {
    visit v;
    FAC_TRY(visit_begin(c, grads, &v));
    fac_status st = call_backward(c, v.given.l, results);
    if (st != FAC_OK && fac_error() == FAC_OK) FAC_FAIL(st, "the custom function's backward returned an error");
    st = fac_error();
    if (st == FAC_OK) st = take_results(c, results, out, c->node.n_edges);
    visit_end(c, &v);
    return st;
}

static fac_status function_apply(fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    fac_function_ctx *c = (fac_function_ctx *)n;
    FAC_CHECK(c->fn->backward, FAC_ERR_AUTOGRAD, "the custom function %s has no backward", name_of(c->fn));
    fac_tensor *few[8] = {NULL},
               **results = n->n_edges <= FAC_COUNT(few) ? few : fac__alloc_zero(n->n_edges * sizeof *results);
    if (!results) return FAC_ERR_MEMORY;
    fac_scope s = fac_scope_begin();
    const fac_status st = run_backward(c, (fac_tensors){grads, n->n_outputs}, results, out);
    fac_scope_end(&s);
    if (results != few) fac__free(results);
    return st;
}

static void function_release(fac_node *n) { fac__saved_list_release(&((fac_function_ctx *)n)->saved); }

static void function_destroy(fac_node *n) {
    fac_function_ctx *c = (fac_function_ctx *)n;
    clear(&c->to_save);
    clear(&c->dirty);
    clear(&c->plain);
    fac__batch_levels_unref(c->levels);
    if (c->owns_user && c->fn->destroy) FAC_CALLBACK(c->fn->destroy(c->user));
}

static const fac_node_class function_class = {.name = "Function",
                                              .size = sizeof(fac_function_ctx),
                                              .apply = function_apply,
                                              .release = function_release,
                                              .destroy = function_destroy,
                                              .user_code = true};

/* A function that is called; headers in and out. */
typedef struct function_call {
    const fac_function *fn;
    void *user;
    fac_batch_levels *levels; /* of samples whose values the inputs are; NULL: of none */
} function_call;

static fac_function_ctx *context_new(fac_thread *th, const function_call *f, fac_tensors inputs) {
    const fac_function *fn = f->fn;
    fac_function_ctx *c =
        (fac_function_ctx *)fac__node_new(th, &function_class, (uint32_t)inputs.n, (uint32_t)fn->n_outputs);
    if (!c) return NULL;
    c->fn = fn;
    c->user = f->user;
    c->autocast = th->autocast;
    c->levels = fac__batch_levels_ref(f->levels);
    snprintf(c->name, sizeof c->name, "%sBackward", name_of(fn));
    c->cls = function_class;
    c->cls.name = c->name;
    c->node.cls = &c->cls;
    c->recording = fac__grad_enabled(th) && fac__any_requires_grad(inputs);
    fac_status st = FAC_OK;
    for (size_t i = 0; c->recording && i < inputs.n && st == FAC_OK; i++)
        st = fac__node_connect(&c->node, (uint32_t)i, inputs.v[i]);
    if (st == FAC_OK) return c;
    fac__node_unref(&c->node);
    return NULL;
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------ */

/* The values of what forward marked, which are those of outputs where it is one. */
static fac_status take_marked(const fac_function_ctx *c, tensor_vec *l, fac_tensor *const *raw,
                              fac_tensor *const *values) {
    for (size_t i = 0; i < l->n; i++) {
        fac_tensor *value = l->v[i];
        size_t k = 0;
        while (k < c->fn->n_outputs && raw[k] != value) k++;
        if (k < c->fn->n_outputs)
            value = values[k];
        else
            FAC_TRY(fac__batch_lower_all(&value, 1, c->levels->n));
        fac__ref(value);
        fac__unref(l->v[i]);
        l->v[i] = value;
    }
    return FAC_OK;
}

/* The values of outputs that are samples, and of what forward marked among them. */
static fac_status take_forward(fac_function_ctx *c, fac_tensor **outs) {
    const size_t n = c->fn->n_outputs;
    fac_tensor **values = fac__alloc_array(n, sizeof *values);
    if (!values) return fac_error();
    memcpy(values, outs, n * sizeof *values);
    fac_status st = fac__batch_lower_all(values, n, c->levels->n);
    if (st == FAC_OK) st = take_marked(c, &c->to_save, outs, values);
    if (st == FAC_OK) st = take_marked(c, &c->dirty, outs, values);
    if (st == FAC_OK) st = take_marked(c, &c->plain, outs, values);
    memcpy(outs, values, n * sizeof *values);
    fac__free(values);
    return st;
}

static fac_status call_forward(fac_function_ctx *c, fac_thread *th, fac_tensors inputs, fac_tensor **outs) {
    fac_recording was = fac__recording_save(th);
    th->grad_disabled = true;
    fac_status st;
    FAC_CALLBACK(st = c->fn->forward(c, inputs, outs));
    fac__recording_end(was);
    if (st != FAC_OK && fac_error() == FAC_OK)
        FAC_FAIL(st, "the forward of the custom function %s returned an error", name_of(c->fn));
    FAC_TRY(fac_error());
    for (size_t i = 0; i < c->fn->n_outputs; i++)
        FAC_CHECK(outs[i], FAC_ERR_ARGUMENT, "the forward of the custom function %s left output %zu unset",
                  name_of(c->fn), i);
    FAC_TRY(fac__to_headers(outs, c->fn->n_outputs, c->name, "output"));
    return c->levels ? take_forward(c, outs) : FAC_OK;
}

static fac_status run_forward(fac_function_ctx *c, fac_thread *th, fac_tensors inputs, fac_tensor **outs) {
    visit v;
    FAC_TRY(visit_begin(c, inputs, &v));
    const fac_status st = call_forward(c, th, v.given.l, outs);
    visit_end(c, &v);
    return st;
}

/* An output that is an input, or that some graph or view has its mark on, is replaced by an alias that is fresh. */
static fac_status freshen(fac_thread *th, fac_tensors inputs, fac_tensor **out) {
    bool fresh = !(*out)->ag;
    for (size_t i = 0; i < inputs.n && fresh; i++) fresh = *out != inputs.v[i];
    if (fresh) return FAC_OK;
    fac_tensor *alias = NULL;
    FAC_TRY(fac__alias(*out, true, &alias));
    *out = fac__adopt(th, alias);
    return *out ? FAC_OK : fac_error();
}

static fac_status record_output(fac_function_ctx *c, fac_thread *th, fac_tensors inputs, uint32_t i, fac_tensor **out) {
    if (contains(&c->dirty, *out)) return c->recording ? fac__rebase_history(*out, &c->node, i) : FAC_OK;
    bool plain = contains(&c->plain, *out);
    FAC_TRY(freshen(th, inputs, out));
    return c->recording && !plain ? fac__set_history(*out, &c->node, i) : FAC_OK;
}

/* The number of t among the outputs as forward gave them, or n_outputs. */
static uint32_t output_nr(const fac_function_ctx *c, fac_tensor *const *raw, const fac_tensor *t) {
    uint32_t i = 0;
    while (i < c->fn->n_outputs && raw[i] != t) i++;
    return i;
}

static fac_status save_all(fac_function_ctx *c, fac_tensor *const *raw, fac_tensor *const *outs) {
    FAC_TRY(fac__saved_list_reserve(&c->saved, c->to_save.n));
    for (size_t i = 0; i < c->to_save.n; i++) {
        fac_tensor *t = c->to_save.v[i];
        uint32_t nr = output_nr(c, raw, t);
        bool is_output = t && nr < c->fn->n_outputs;
        FAC_TRY(is_output ? fac__save_output(&c->saved.v[i], outs[nr], nr) : fac__save(&c->saved.v[i], t));
    }
    return FAC_OK;
}

/* What is changed and not given out has a new value without the history of it. */
static fac_status check_dirty(const fac_function_ctx *c, fac_tensor *const *raw) {
    for (size_t i = 0; i < c->dirty.n; i++)
        FAC_CHECK(output_nr(c, raw, c->dirty.v[i]) < c->fn->n_outputs, FAC_ERR_AUTOGRAD,
                  "Some elements marked as dirty during the forward of %s were not returned as output. The inputs that "
                  "are modified inplace must all be outputs of the Function.",
                  name_of(c->fn));
    return FAC_OK;
}

static fac_status record(fac_function_ctx *c, fac_thread *th, fac_tensors inputs, fac_tensor *const *raw,
                         fac_tensor **outs) {
    for (size_t i = 0; i < c->fn->n_outputs; i++) FAC_TRY(record_output(c, th, inputs, (uint32_t)i, &outs[i]));
    if (c->keeps) FAC_TRY(save_all(c, raw, outs));
    return FAC_OK;
}

/* forward computes below autograd, and backward on what it saved, plain tensors both: gradients of samples that come by another way
   than the function's own, or of the components of a nested tensor, would be lost. */
static fac_status refuse_standing(const fac_function *fn, fac_tensors l, const char *what) {
    for (size_t i = 0; i < l.n; i++) {
        FAC_CHECK(
            !fac__nested_of(l.v[i]), FAC_ERR_UNSUPPORTED,
            "the custom function %s cannot take part in a computation on nested tensors: %s %zu is a %s tensor. Write "
            "it with operators, or call it for each component",
            name_of(fn), what, i, l.v[i]->cls->name);
        FAC_CHECK(
            !fac__stands_for_another(l.v[i]), FAC_ERR_UNSUPPORTED,
            "the custom function %s cannot take part in a vmap: %s %zu is a %s tensor. Set its generate_vmap_rule or "
            "give it a vmap, with samples among its inputs; or write it with operators",
            name_of(fn), what, i, l.v[i]->cls->name);
    }
    return FAC_OK;
}

static fac_status apply_in(fac_scope *s, fac_function_ctx *c, fac_thread *th, fac_tensors inputs, fac_tensor **raw,
                           fac_tensor **outs) {
    FAC_TRY(run_forward(c, th, inputs, raw));
    FAC_TRY(refuse_standing(c->fn, (fac_tensors){raw, c->fn->n_outputs}, "output"));
    FAC_TRY(check_dirty(c, raw));
    memcpy(outs, raw, c->fn->n_outputs * sizeof *outs);
    FAC_TRY(record(c, th, inputs, raw, outs));
    for (size_t i = 0; i < c->fn->n_outputs; i++)
        if (!fac__scope_yield(s, outs[i])) return fac_error();
    return FAC_OK;
}

static fac_status check_apply(const fac_function *fn, fac_tensors inputs) {
    FAC_CHECK(fn && fn->forward, FAC_ERR_ARGUMENT, "a custom function needs a forward");
    FAC_CHECK(fn->n_outputs > 0 && fn->n_outputs < UINT16_MAX && inputs.n < UINT16_MAX, FAC_ERR_ARGUMENT,
              "the custom function %s has %zu outputs and %zu inputs", name_of(fn), fn->n_outputs, inputs.n);
    FAC_CHECK(!fn->vmap || !fn->generate_vmap_rule, FAC_ERR_ARGUMENT,
              "the custom function %s has a vmap and generate_vmap_rule; only one of them can be meant", name_of(fn));
    return FAC_OK;
}

/* With headers in and out, whatever tangents they have. *out_context (NULL: not wanted) is counted, and has what forward saved. */
static fac_status apply_here(const function_call *f, fac_tensors inputs, fac_tensor **out_outputs,
                             fac_function_ctx **out_context) {
    const fac_function *fn = f->fn;
    fac_thread *th = fac__thread();
    FAC_CHECK(th->n_scopes > 0, FAC_ERR_STATE, "no scope is open, so nothing could own the results of %s", name_of(fn));
    fac_tensor **raw = fac__alloc_zero(fn->n_outputs * sizeof *raw);
    fac_function_ctx *c = raw ? context_new(th, f, inputs) : NULL;
    fac_status st = c ? FAC_OK : fac_error();
    if (c) {
        fac_scope s = fac_scope_begin();
        c->keeps = c->recording || out_context;
        st = apply_in(&s, c, th, inputs, raw, out_outputs);
        fac_scope_end(&s);
        clear(&c->to_save);
        clear(&c->dirty);
        clear(&c->plain);
        if (st == FAC_OK && out_context)
            *out_context = c;
        else
            fac__node_unref(&c->node);
    }
    fac__free(raw);
    for (size_t i = 0; st != FAC_OK && i < fn->n_outputs; i++) out_outputs[i] = NULL;
    return st;
}

/* ---- with tangents -------------------------------------------------------------------------------------------------------------- */
/* A function of dual tensors is that of their primals, which may be dual tensors of other levels, beside what its jvp makes of the
   tangents. The jvp finds what forward saved of the primals. A graph over the dual tensors themselves has a node of its own. */

typedef struct forward_call {
    const fac_function *fn;
    const function_call *call;
    fac_tensors inputs;
    fac_level level;
    fac_tensor **primals, **tangents, **results, **out_tangents,
        **recorded; /* as many as inputs, twice; then as outputs */
} forward_call;

static fac_status apply(const function_call *f, fac_tensors inputs, fac_tensor **out_outputs);

static fac_status run_jvp(const forward_call *f, fac_function_ctx *c) {
    visit v;
    FAC_CHECK(!c->dirty.n, FAC_ERR_UNSUPPORTED, "the custom function %s changes an input that has a tangent in place",
              name_of(f->fn));
    FAC_TRY(visit_begin(c, (fac_tensors){f->tangents, f->inputs.n}, &v));
    fac_status st;
    FAC_CALLBACK(st = f->fn->jvp(c, v.given.l, f->out_tangents));
    if (st != FAC_OK && fac_error() == FAC_OK)
        FAC_FAIL(st, "the jvp of the custom function %s returned an error", name_of(f->fn));
    st = fac_error();
    if (st == FAC_OK) st = fac__to_headers(f->out_tangents, f->fn->n_outputs, c->name, "tangent");
    if (st == FAC_OK) st = take_values(c, f->out_tangents, f->fn->n_outputs);
    visit_end(c, &v);
    return st;
}

/* The results on the level of the primals, and their tangents. Primals that are dual tensors themselves have both: what the
   function makes of them, and what its forward saves of them. */
static fac_status run_below(const forward_call *f) {
    const fac_tensors primals = {f->primals, f->inputs.n};
    fac_function_ctx *c = NULL;
    bool nested = false;
    for (size_t i = 0; i < primals.n; i++) nested = nested || fac__dual_parts(primals.v[i]);
    if (nested) FAC_TRY(apply(f->call, primals, f->results));
    FAC_TRY(apply_here(f->call, primals, nested ? f->recorded : f->results, &c));
    const fac_status st = run_jvp(f, c);
    fac__node_unref(&c->node);
    return st;
}

static fac_status wrap_result(const forward_call *f, size_t i, bool is_recorded, fac_tensor **out) {
    fac_tensor *settled = NULL, *made = NULL, *tangent = f->out_tangents[i];
    const fac_tensor *like = f->results[i];
    if (!tangent) {
        *out = f->results[i];
        return FAC_OK;
    }
    FAC_CHECK(fac__same_sizes(tangent, like), FAC_ERR_SHAPE,
              "the jvp of the custom function %s gave a tangent of %s for output %zu, which is %s", name_of(f->fn),
              FAC_SHAPE_TEXT(tangent), i, FAC_SHAPE_TEXT(like));
    fac__ref(tangent); /* it may be one that the jvp was given */
    fac_status st = fac__dual_settle(tangent, like, &settled);
    fac__unref(tangent);
    FAC_TRY(st);
    FAC_TRY(fac__dual_wrap(fac__ref(f->results[i]), settled, f->level, &made));
    *out = fac__adopt(fac__thread(), made);
    FAC_TRY(fac_error());
    const struct fac_autograd *ag = is_recorded ? f->recorded[i]->ag : NULL;
    return ag && fac__history(ag) ? fac__set_grad_fn(made, fac__history(ag), ag->output_nr) : FAC_OK;
}

static fac_status apply_dual_in(const forward_call *f, fac_scope *s, fac_tensor **out_outputs) {
    fac_thread *th = fac__thread();
    const fac_recording was = fac__recording_save(th);
    const bool records = fac__grad_enabled(th) && fac__any_requires_grad(f->inputs);
    fac__level_leave(f->level, th);
    fac_status st = run_below(f);
    fac__recording_end(was);
    FAC_TRY(st);
    if (records) FAC_TRY(apply_here(f->call, f->inputs, f->recorded, NULL));
    for (size_t i = 0; i < f->fn->n_outputs; i++) FAC_TRY(wrap_result(f, i, records, &out_outputs[i]));
    for (size_t i = 0; i < f->fn->n_outputs; i++)
        if (!fac__scope_yield(s, out_outputs[i])) return fac_error();
    return FAC_OK;
}

static fac_status apply_dual(forward_call f, fac_tensor **out_outputs) {
    const size_t n = f.inputs.n, n_out = f.fn->n_outputs;
    FAC_CHECK(f.fn->jvp, FAC_ERR_AUTOGRAD,
              "the custom function %s was given a tensor that has a tangent, but it has no jvp", name_of(f.fn));
    f.primals = fac__alloc_zero((2 * n + 3 * n_out) * sizeof *f.primals);
    if (!f.primals) return FAC_ERR_MEMORY;
    f.tangents = f.primals + n;
    f.results = f.tangents + n;
    f.out_tangents = f.results + n_out;
    f.recorded = f.out_tangents + n_out;
    for (size_t i = 0; i < n; i++) {
        fac_tensor *t = fac__dual_open_part(f.inputs.v[i]);
        const fac_dual_parts *p = fac__dual_parts(t);
        const bool is_dual = p && p->level.number == f.level.number;
        f.primals[i] = is_dual ? p->primal : t;
        f.tangents[i] = is_dual ? p->tangent : NULL;
    }
    fac_scope s = fac_scope_begin();
    const fac_status st = apply_dual_in(&f, &s, out_outputs);
    fac_scope_end(&s);
    for (size_t i = 0; st != FAC_OK && i < n_out; i++) out_outputs[i] = NULL;
    fac__free(f.primals);
    return st;
}

/* With headers in and out. */
static fac_status apply(const function_call *f, fac_tensors inputs, fac_tensor **out_outputs) {
    fac_level level = {0, 0};
    for (size_t i = 0; i < inputs.n; i++) {
        FAC_TRY(fac__dual_catch_up(inputs.v[i]));
        const fac_dual_parts *p = fac__dual_parts(fac__dual_open_part(inputs.v[i]));
        if (p && p->level.number > level.number) level = p->level;
    }
    if (!level.number || fac__thread()->tangents_off) return apply_here(f, inputs, out_outputs, NULL);
    return apply_dual((forward_call){.fn = f->fn, .call = f, .inputs = inputs, .level = level}, out_outputs);
}

/* ---- of samples ------------------------------------------------------------------------------------------------------------------ */

/* The innermost level that one of the inputs is a sample of; NULL if there is none, or, with an error, none in sight. */
static const fac_batch_level *level_of(fac_tensors inputs) {
    const fac_batch_level *found = NULL;
    for (size_t i = 0; i < inputs.n; i++) {
        const fac_batch_level *l = fac__batched(inputs.v[i]) ? fac__batch_level_of(inputs.v[i]) : NULL;
        if (l && (!found || l->id > found->id)) found = l;
    }
    return fac_error() ? NULL : found;
}

/* In a scope: the function of the values of all samples, and what comes as samples. */
static fac_status apply_to_values(const fac_function *fn, void *user, fac_tensor **values, size_t n,
                                  fac_tensor **out_outputs) {
    fac_batch_levels *levels = fac__batch_levels_now();
    if (!levels) return fac_error();
    fac_status st = fac__batch_lower_all(values, n, levels->n);
    const fac_batch_sight was = fac__batch_hide(NULL);
    if (st == FAC_OK) st = apply(&(function_call){fn, user, levels}, (fac_tensors){values, n}, out_outputs);
    fac__batch_see(was);
    if (st == FAC_OK) st = fac__batch_raise_all(out_outputs, fn->n_outputs, levels->n);
    fac__batch_levels_unref(levels);
    return st;
}

/* The same by the function's own rule, which sees the level's values and the levels around it. */
typedef struct rule_call {
    const fac_function *fn;
    void *user;
    const fac_batch_level *level;
    fac_tensor **values, **outs; /* as many as inputs, and as outputs */
    int64_t *in_dims, *out_dims;
} rule_call;

static fac_status call_rule(const rule_call *r, size_t n) {
    fac_handle_list given;
    FAC_TRY(fac__handle_list(&given, (fac_tensors){r->values, n}));
    fac_status st;
    FAC_CALLBACK(st = r->fn->vmap(r->user, r->level->size, (fac_ints){r->in_dims, n}, given.l, r->outs, r->out_dims));
    fac__handle_list_free(&given);
    if (st != FAC_OK && fac_error() == FAC_OK)
        FAC_FAIL(st, "the vmap of the custom function %s returned an error", name_of(r->fn));
    FAC_TRY(fac_error());
    for (size_t i = 0; i < r->fn->n_outputs; i++)
        FAC_CHECK(r->outs[i], FAC_ERR_ARGUMENT, "the vmap of the custom function %s left output %zu unset",
                  name_of(r->fn), i);
    return fac__to_headers(r->outs, r->fn->n_outputs, name_of(r->fn), "output");
}

/* An output of the rule as the samples that it says it has. */
static fac_status wrap_output(const rule_call *r, size_t i, fac_tensor **out) {
    int64_t dim = r->out_dims[i];
    fac_tensor *t = r->outs[i];
    *out = t;
    if (dim == FAC_UNSET) return FAC_OK;
    FAC_CHECK(t->ndim > 0, FAC_ERR_SHAPE,
              "the vmap of the custom function %s gave output %zu without a dimension for the samples; out_dims says "
              "FAC_UNSET of what is the same for all",
              name_of(r->fn), i);
    FAC_TRY(fac__wrap_dim(dim, t->ndim, &dim));
    FAC_CHECK(t->sizes[dim] == r->level->size, FAC_ERR_SHAPE,
              "the vmap of the custom function %s gave output %zu of %s, but dimension %lld should be that of %lld "
              "samples",
              name_of(r->fn), i, FAC_SHAPE_TEXT(t), (long long)dim, (long long)r->level->size);
    FAC_TRY(fac__batch_wrap(r->level, fac__ref(t), (int)dim, out));
    *out = fac__adopt(fac__thread(), *out);
    return *out ? FAC_OK : fac_error();
}

static fac_status apply_rule_in(const rule_call *r, fac_tensors inputs, fac_tensor **out_outputs) {
    for (size_t i = 0; i < inputs.n; i++) {
        const fac_batched *b = fac__batched(inputs.v[i]);
        const bool is_sample = b && b->level == r->level->id;
        r->values[i] = is_sample ? b->value : inputs.v[i];
        r->in_dims[i] = is_sample ? b->dim : FAC_UNSET;
    }
    const fac_batch_sight was = fac__batch_hide(r->level->outer);
    fac_status st = call_rule(r, inputs.n);
    for (size_t i = 0; i < r->fn->n_outputs && st == FAC_OK; i++) st = wrap_output(r, i, &out_outputs[i]);
    fac__batch_see(was);
    return st;
}

static fac_status apply_rule(const fac_function *fn, void *user, const fac_batch_level *level, fac_tensors inputs,
                             fac_tensor **out_outputs) {
    const size_t n = inputs.n, n_out = fn->n_outputs;
    rule_call r = {.fn = fn, .user = user, .level = level};
    r.values = fac__alloc_zero((n + n_out) * sizeof *r.values);
    r.in_dims = fac__alloc_zero((n + n_out) * sizeof *r.in_dims);
    r.outs = r.values + n;
    r.out_dims = r.in_dims + n;
    const fac_status st = r.values && r.in_dims ? apply_rule_in(&r, inputs, out_outputs) : fac_error();
    fac__free(r.values);
    fac__free(r.in_dims);
    return st;
}

static fac_status apply_generated(const fac_function *fn, void *user, fac_tensors inputs, fac_tensor **out_outputs) {
    fac_tensor **values = fac__alloc_array(inputs.n + 1, sizeof *values);
    if (!values) return fac_error();
    memcpy(values, inputs.v, inputs.n * sizeof *values);
    const fac_status st = apply_to_values(fn, user, values, inputs.n, out_outputs);
    fac__free(values);
    return st;
}

static fac_status apply_batched(const fac_function *fn, void *user, const fac_batch_level *level, fac_tensors inputs,
                                fac_tensor **out_outputs) {
    fac_scope s = fac_scope_begin();
    fac_status st =
        fn->vmap ? apply_rule(fn, user, level, inputs, out_outputs) : apply_generated(fn, user, inputs, out_outputs);
    for (size_t i = 0; i < fn->n_outputs && st == FAC_OK; i++)
        if (!fac__scope_yield(&s, out_outputs[i])) st = fac_error();
    fac_scope_end(&s);
    for (size_t i = 0; st != FAC_OK && i < fn->n_outputs; i++) out_outputs[i] = NULL;
    return st;
}

static fac_status apply_any(const fac_function *fn, void *user, fac_tensors inputs, fac_tensor **out_outputs) {
    const bool has_rule = fn->vmap || fn->generate_vmap_rule;
    const fac_batch_level *level = has_rule ? level_of(inputs) : NULL;
    FAC_TRY(fac_error());
    if (level) return apply_batched(fn, user, level, inputs, out_outputs);
    FAC_TRY(refuse_standing(fn, inputs, "input"));
    return apply(&(function_call){fn, user, NULL}, inputs, out_outputs);
}

fac_status fac_function_apply(const fac_function *fn, void *user, fac_tensors inputs, fac_tensor **out_outputs) {
    FAC_TRY(fac_error());
    FAC_TRY(check_apply(fn, inputs));
    fac_handle_list open;
    fac_status st = fac__open_list(&open, inputs, true, name_of(fn), "inputs");
    if (st == FAC_OK) st = apply_any(fn, user, open.l, out_outputs);
    if (st == FAC_OK) fac__to_handles(out_outputs, fn->n_outputs);
    fac__handle_list_free(&open);
    return st;
}
