/* Running a module: pre-hooks, forward in a scope of its own, hooks, backward hooks on the result. */
#include "nn/computed.h"
#include "nn/module.h"
#include <facula/ops.h>

typedef fac_tensor *(*pre_fn)(void *context, fac_module *m, fac_tensor *x);
typedef fac_tensor *(*forward_fn)(void *context, fac_module *m, fac_tensor *x, fac_tensor *y);
typedef fac_tensor *(*grad_fn)(void *context, fac_module *m, fac_tensor *grad);
typedef fac_status (*node_fn)(void *context, fac_module *m, fac_tensor **grad_inputs, size_t n_in,
                              fac_tensor *const *grad_outputs, size_t n_out);

static fac_hook *add_hook(fac_module *m, int kind, void (*fn)(void), void *context) {
    if (!m || !fn) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "a hook needs a module and a function");
        return NULL;
    }
    return fac__hook_add(&m->hooks, (fac_listed_hook){fn, context, kind, 0, m}, true);
}

/* As add_hook, for a kind of backward hooks that does not go with another. */
static fac_hook *add_backward_hook(fac_module *m, int kind, int other, void (*fn)(void), void *context) {
    if (m && fac__hooks_any(m->hooks, other))
        return FAC_FAIL(FAC_ERR_STATE, "%s has backward hooks: full ones and others cannot be on one module",
                        m->cls->name),
               NULL;
    return add_hook(m, kind, fn, context);
}

fac_hook *fac_module_register_forward_pre_hook(fac_module *m, pre_fn fn, void *context) {
    return add_hook(m, FAC_MODULE_HOOK_PRE, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_forward_hook(fac_module *m, forward_fn fn, void *context) {
    return add_hook(m, FAC_MODULE_HOOK_FORWARD, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_full_backward_pre_hook(fac_module *m, grad_fn fn, void *context) {
    return add_hook(m, FAC_MODULE_HOOK_BACKWARD_PRE, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_full_backward_hook(fac_module *m, grad_fn fn, void *context) {
    return add_backward_hook(m, FAC_MODULE_HOOK_BACKWARD, FAC_MODULE_HOOK_NODE, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_backward_hook(fac_module *m, node_fn fn, void *context) {
    return add_backward_hook(m, FAC_MODULE_HOOK_NODE, FAC_MODULE_HOOK_BACKWARD, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_state_pre_hook(fac_module *m, fac_status (*fn)(void *context, fac_module *m),
                                             void *context) {
    return add_hook(m, FAC_MODULE_HOOK_STATE_PRE, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_state_hook(fac_module *m,
                                         fac_status (*fn)(void *context, fac_module *m, fac_state *state),
                                         void *context) {
    return add_hook(m, FAC_MODULE_HOOK_STATE, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_load_pre_hook(fac_module *m,
                                            fac_status (*fn)(void *context, fac_module *m, fac_state *state),
                                            void *context) {
    return add_hook(m, FAC_MODULE_HOOK_LOAD, (void (*)(void))fn, context);
}
fac_hook *fac_module_register_load_post_hook(fac_module *m,
                                             fac_status (*fn)(void *context, fac_module *m, const fac_state *missing,
                                                              const fac_state *unexpected),
                                             void *context) {
    return add_hook(m, FAC_MODULE_HOOK_LOAD_POST, (void (*)(void))fn, context);
}

fac_status fac_hook_prepend(fac_hook *h) {
    if (fac_error()) return fac_error();
    FAC_CHECK(fac__hook_put_first(h), FAC_ERR_STATE, "a hook cannot be moved while hooks beside it run");
    return FAC_OK;
}

/* What a module is run on, and what has become of it. */
typedef struct flow {
    fac_module *m;
    fac_tensor *x, *y;
} flow;

/* What a hook gave takes the place of *t, unless it gave nothing. */
static fac_status replaced(fac_scope *s, fac_tensor *other, fac_tensor **t) {
    if (other) *t = fac_scope_yield(s, other);
    fac_scope_end(s);
    return fac_error();
}

static fac_status visit_pre_hook(const fac_listed_hook *h, void *context) {
    flow *f = context;
    fac_scope s = fac_scope_begin();
    return replaced(&s, ((pre_fn)h->fn)(h->context, f->m, f->x), &f->x);
}

static fac_tensor *run_pre_hooks(fac_module *m, fac_tensor *x) {
    flow f = {m, x, NULL};
    return x && fac__hooks_each(m->hooks, FAC_MODULE_HOOK_PRE, visit_pre_hook, &f) == FAC_OK ? f.x : NULL;
}

static fac_status visit_forward_hook(const fac_listed_hook *h, void *context) {
    flow *f = context;
    fac_scope s = fac_scope_begin();
    return replaced(&s, ((forward_fn)h->fn)(h->context, f->m, f->x, f->y), &f->y);
}

static fac_tensor *run_forward_hooks(fac_module *m, fac_tensor *x, fac_tensor *y) {
    flow f = {m, x, y};
    return y && fac__hooks_each(m->hooks, FAC_MODULE_HOOK_FORWARD, visit_forward_hook, &f) == FAC_OK ? f.y : NULL;
}

/* One call's bridge from a tensor hook to module hooks of one kind; it lives in the graph through a custom
   function, so that it is freed with it. */
typedef struct bridge {
    fac_module *m; /* owned */
    int kind;
} bridge;

static fac_status bridge_forward(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    const bridge *given = fac_function_user(c);
    bridge *own = fac__alloc(sizeof *own);
    if (!own) return fac_error();
    *own = (bridge){fac_module_keep(given->m), given->kind};
    fac_function_set_user(c, own); /* the graph frees it */
    out[0] = fac_alias(inputs.v[0]);
    return out[0] ? FAC_OK : fac_error();
}

static fac_status visit_grad_hook(const fac_listed_hook *h, void *context) {
    flow *f = context;
    fac_tensor *other = ((grad_fn)h->fn)(h->context, f->m, f->x);
    if (other && !fac_error()) f->x = other;
    return fac_error();
}

static fac_status bridge_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    const bridge *b = fac_function_user(c);
    flow f = {b->m, grads.v[0], NULL};
    if (f.x) FAC_TRY(fac__hooks_each(b->m->hooks, b->kind, visit_grad_hook, &f));
    out[0] = f.x;
    return FAC_OK;
}

static void bridge_destroy(void *user) {
    bridge *b = user;
    fac_module_release(b->m);
    fac__free(b);
}

static const fac_function bridge_function = {.name = "ModuleBackwardHook",
                                             .n_outputs = 1,
                                             .forward = bridge_forward,
                                             .backward = bridge_backward,
                                             .destroy = bridge_destroy};

/* t behind an identity whose backward runs the hooks of a kind; t itself if there are none or no gradient flows. */
static fac_tensor *bridged(fac_module *m, int kind, fac_tensor *t) {
    if (!t || !fac__hooks_any(m->hooks, kind) || !fac_requires_grad(t) || !fac_is_grad_enabled()) return t;
    bridge given = {m, kind};
    fac_tensor *in[] = {t}, *out = NULL;
    if (fac_function_apply(&bridge_function, &given, (fac_tensors){in, 1}, &out)) return NULL;
    return out;
}

/* ---- the older backward hooks, on the node of the result ---- */

typedef struct node_grads {
    fac_tensor **in;
    size_t n_in;
    fac_tensor *const *out;
    size_t n_out;
} node_grads;

static fac_status visit_named_hook(const fac_listed_hook *h, void *context) {
    const node_grads *g = context;
    return ((node_fn)h->fn)(h->context, h->owner, g->in, g->n_in, g->out, g->n_out);
}

/* The node may outlive the module: it knows the hook by its handle alone. */
static fac_status call_named_hook(void *handle, fac_tensor **in, size_t n_in, fac_tensor *const *out, size_t n_out) {
    return fac__hook_call(handle, visit_named_hook, &(node_grads){in, n_in, out, n_out});
}

static fac_status put_on_node(const fac_listed_hook *h, void *node) {
    return fac_node_register_hook(node, call_named_hook, fac__hook_handle(h)) ? FAC_OK : fac_error();
}

/* y, with the hooks on its node, if it has one. */
static fac_tensor *on_node(fac_module *m, fac_tensor *y) {
    if (!y || !fac__hooks_any(m->hooks, FAC_MODULE_HOOK_NODE)) return y;
    fac_node *n = fac_grad_fn(y);
    return n && fac__hooks_each(m->hooks, FAC_MODULE_HOOK_NODE, put_on_node, n) ? NULL : y;
}

static fac_tensor *first_of_all(fac_module *m, fac_tensors inputs) {
    fac_tensor *out[FAC_MODULE_MAX_OUTPUTS] = {NULL};
    fac_status st = FAC_OK;
    FAC_CALLBACK(st = m->cls->forward_all(m, inputs, out));
    return st ? NULL : out[0];
}

static fac_tensor *compute(fac_module *m, fac_tensors inputs) {
    fac_tensor *y = NULL;
    if (fac__compute_all(m, true)) return NULL;
    if (m->cls->forward && inputs.n == 1)
        FAC_CALLBACK(y = m->cls->forward(m, inputs.v[0]));
    else if (m->cls->forward_many)
        FAC_CALLBACK(y = m->cls->forward_many(m, inputs));
    else if (m->cls->forward_all)
        y = first_of_all(m, inputs);
    else
        FAC_FAIL(FAC_ERR_UNSUPPORTED, "%s has no forward function for %zu inputs", m->cls->name, inputs.n);
    return y;
}

/* ---- the path of the module that failed ---------------------------------------------------------------------------- */

/* Puts the names from m down to `below` before `path`; false, with the path as it was, if it is not there. */
static bool prepend_names(const fac_module *m, const void *below, char *path, size_t size, int depth) {
    for (size_t i = 0; depth && i < m->children.n; i++) {
        const fac_child *c = &m->children.v[i];
        if (c->module != below && !prepend_names(c->module, below, path, size, depth - 1)) continue;
        char rest[192];
        snprintf(rest, sizeof rest, "%s", path);
        snprintf(path, size, rest[0] ? "%s.%s" : "%s%s", c->name, rest);
        return true;
    }
    return false;
}

/* An error passes m on its way up: the path grows at its beginning. */
static void add_to_path(const fac_module *m) {
    fac_error_facts *f = fac__error_facts();
    if (!f) return;
    if (!f->module) snprintf(f->kind, sizeof f->kind, "%s", m->cls->name);
    if (f->module && f->module != m) prepend_names(m, f->module, f->path, sizeof f->path, 16);
    f->module = m;
}

static bool may_run(fac_module *m, fac_tensors inputs) {
    if (!fac__given(m, "module") || !fac__list_given(inputs.v, inputs.n, "inputs")) return false;
    for (size_t i = 0; i < inputs.n; i++)
        if (inputs.v[i] && !fac__open(inputs.v[i], m->cls->name, "input")) return false;
    return true;
}

/* Where there is one input: what hooks of the module make of it. */
static fac_tensor *prepared(fac_module *m, fac_tensor *x) {
    return bridged(m, FAC_MODULE_HOOK_BACKWARD, run_pre_hooks(m, x));
}

static fac_tensor *finished(fac_module *m, fac_tensor *x, fac_tensor *y) {
    if (!y && !fac_error()) FAC_FAIL(FAC_ERR_ARGUMENT, "the forward function of %s returned NULL", m->cls->name);
    return on_node(m, bridged(m, FAC_MODULE_HOOK_BACKWARD_PRE, run_forward_hooks(m, x, y)));
}

static fac_tensor *run(fac_module *m, fac_tensors inputs) {
    if (!may_run(m, inputs)) return NULL;
    fac_scope s = fac_scope_begin();
    fac_tensor *x = inputs.n ? inputs.v[0] : NULL, *y = NULL;
    if (inputs.n == 1) {
        x = prepared(m, x);
        if (x) y = compute(m, (fac_tensors){&x, 1});
    } else
        y = compute(m, inputs);
    y = finished(m, x, y);
    y = y ? fac_scope_yield(&s, y) : NULL;
    fac_scope_end(&s);
    if (FAC_UNLIKELY(!y)) add_to_path(m);
    return y;
}

/* All results, into out[0..FAC_MODULE_MAX_OUTPUTS-1], which is NULL. */
static fac_status run_all(fac_module *m, fac_tensors inputs, fac_tensor **out) {
    fac_scope s = fac_scope_begin();
    fac_tensor *x = inputs.n ? inputs.v[0] : NULL;
    if (inputs.n == 1 && (x = prepared(m, x))) inputs.v = &x;
    fac_status st = fac_error();
    if (!st) st = fac__compute_all(m, true);
    if (!st) FAC_CALLBACK(st = m->cls->forward_all(m, inputs, out));
    if (!st) out[0] = finished(m, x, out[0]);
    if (!st) st = fac_error();
    for (size_t i = 0; i < m->cls->n_outputs; i++) out[i] = !st && out[i] ? fac_scope_yield(&s, out[i]) : NULL;
    fac_scope_end(&s);
    if (!st) st = fac_error();
    if (st) add_to_path(m);
    return st;
}

fac_status fac_forward_all(fac_module *m, fac_tensors inputs, fac_tensor **out, size_t n_out) {
    for (size_t i = 0; out && i < n_out; i++) out[i] = NULL;
    if (fac_error()) return fac_error();
    FAC_CHECK(out && n_out, FAC_ERR_ARGUMENT, "fac_forward_all: there is no room for a result");
    if (!may_run(m, inputs)) return fac_error();
    if (!m->cls->forward_all) return (out[0] = run(m, inputs)) ? FAC_OK : fac_error();
    fac_tensor *all[FAC_MODULE_MAX_OUTPUTS] = {NULL};
    FAC_TRY(run_all(m, inputs, all));
    for (size_t i = 0; i < n_out && i < m->cls->n_outputs; i++) out[i] = all[i];
    return FAC_OK;
}

size_t fac_module_output_count(const fac_module *m) {
    return !fac__given(m, "module") ? 0 : m->cls->forward_all ? m->cls->n_outputs : 1;
}

fac_tensor *fac_forward(fac_module *m, fac_tensor *x) {
    if (fac_error()) return NULL;
    if (!x) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "the input is NULL");
        return NULL;
    }
    return run(m, (fac_tensors){&x, 1});
}

fac_tensor *fac_forward_many(fac_module *m, fac_tensors inputs) {
    if (fac_error()) return NULL;
    return run(m, inputs);
}
