/* Gradients of operators that are known by their schema only: those given with fac_register_gradient, and a fallback for
   the rest, whose node says in backward that there is none. */
#include "autograd/init.h"
#include "autograd/saved.h"
#include "base/mutex.h"
#include "core/handle.h"
#include "dispatch/value.h"

typedef struct gradient {
    fac_operator_backward fn; /* NULL: none */
    void *context;
    struct gradient *next; /* all that were ever registered: a kernel under way may still read one */
} gradient;

static gradient no_gradient;
static gradient *registered;
static fac_mutex lock = FAC_MUTEX_INIT; /* of `registered`, and of what it links */

/* A boxed value as a node keeps it: tensors apart, so that they are version-checked and hold no cycle. */
typedef struct kept {
    fac_value plain; /* NONE where it is a tensor or a list of tensors */
    int64_t tag;
    size_t first, n; /* tensors: where in the node's saved list */
} kept;

typedef struct boxed_node {
    fac_node node;
    fac_node_class cls;
    char name[96];
    const fac_operator *op;
    gradient g;
    kept *args, *results; /* one block */
    fac_saved_list saved;
} boxed_node;

/* ---- tensors among boxed values ------------------------------------------------------------------------------------------ */

typedef struct value_tensors {
    size_t n;
    fac_tensor *const *v; /* headers of a list */
    fac_tensor *one;      /* of a single tensor; v is NULL */
} value_tensors;

static value_tensors tensors_of(const fac_value *v) {
    if (v->tag == FAC_TAG_TENSOR) return (value_tensors){1, NULL, fac__value_header(v)};
    fac_tensors l = fac__value_headers(v);
    return (value_tensors){l.n, l.v, NULL};
}

static fac_tensor *nth(const value_tensors *l, size_t i) { return l->v ? l->v[i] : l->one; }

static size_t count_tensors(const fac_value *v, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += tensors_of(&v[i]).n;
    return count;
}

static bool any_requires_grad(const fac_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        value_tensors l = tensors_of(&v[i]);
        for (size_t j = 0; j < l.n; j++)
            if (fac__requires_grad(nth(&l, j))) return true;
    }
    return false;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------------ */

/* Values as the forward had them, owned. */
static fac_status rebuild(boxed_node *b, const kept *k, size_t n, fac_tensors saved, fac_value *out) {
    for (size_t i = 0; i < n; i++) {
        if (k[i].tag == FAC_TAG_TENSOR)
            out[i] = fac__value_tensor(saved.v[k[i].first]);
        else if (k[i].tag == FAC_TAG_TENSORS)
            out[i] = fac__value_tensors(saved.v + k[i].first, k[i].n);
        else
            out[i] = fac_value_copy(k[i].plain);
    }
    (void)b;
    return fac_error();
}

static fac_status call_backward(boxed_node *b, fac_value *args, fac_value *results, fac_tensor *const *grads,
                                fac_tensor **temps) {
    fac_tensors saved;
    FAC_TRY(fac__unpack_list(&b->saved, &b->node, "an argument", &saved));
    FAC_TRY(rebuild(b, b->args, b->op->n_args, saved, args));
    FAC_TRY(rebuild(b, b->results, b->op->n_rets, saved, results));
    fac_handle_list given;
    FAC_TRY(fac__handle_list(&given, (fac_tensors){grads, b->node.n_outputs}));
    fac_status st;
    FAC_CALLBACK(st = b->g.fn(b->g.context, args, results, given.l, temps));
    fac__handle_list_free(&given);
    if (st != FAC_OK && fac_error() == FAC_OK) FAC_FAIL(st, "the gradient of %s returned an error", b->op->name);
    FAC_TRY(fac_error());
    return fac__to_headers(temps, b->node.n_edges, b->op->name, "gradient");
}

static fac_status boxed_apply(fac_node *n, fac_tensor *const *grads, fac_tensor **out) {
    boxed_node *b = (boxed_node *)n;
    FAC_CHECK(b->g.fn, FAC_ERR_AUTOGRAD,
              "derivative for %s is not implemented: give it one with fac_register_gradient, or detach its inputs",
              b->op->name);
    size_t n_values = b->op->n_args + b->op->n_rets;
    fac_value *values = fac__alloc_zero(n_values * sizeof *values + n->n_edges * sizeof(fac_tensor *));
    if (!values) return FAC_ERR_MEMORY;
    fac_tensor **temps = (fac_tensor **)(values + n_values);
    fac_scope s = fac_scope_begin();
    fac_status st = call_backward(b, values, values + b->op->n_args, grads, temps);
    for (uint32_t i = 0; st == FAC_OK && i < n->n_edges; i++) out[i] = fac__take(temps[i]);
    for (size_t i = 0; i < n_values; i++) fac_value_release(&values[i]);
    fac_scope_end(&s);
    fac__free(values);
    return st;
}

static void boxed_release(fac_node *n) { fac__saved_list_release(&((boxed_node *)n)->saved); }

static void boxed_destroy(fac_node *n) {
    boxed_node *b = (boxed_node *)n;
    size_t n_values = b->op->n_args + b->op->n_rets;
    for (size_t i = 0; b->args && i < n_values; i++) fac_value_release(&b->args[i].plain);
    fac__free(b->args);
}

static const fac_node_class boxed_class = {.name = "Boxed",
                                           .size = sizeof(boxed_node),
                                           .apply = boxed_apply,
                                           .release = boxed_release,
                                           .destroy = boxed_destroy,
                                           .user_code = true};

/* ---- recording -------------------------------------------------------------------------------------------------------------------- */

static boxed_node *boxed_new(fac_thread *th, const fac_call_info *c, const fac_value *args, size_t n_outputs) {
    size_t n_args = c->op->n_args, n_values = n_args + c->op->n_rets;
    size_t n_edges = count_tensors(args, n_args);
    if (n_edges >= UINT16_MAX || n_outputs >= UINT16_MAX) {
        FAC_FAIL(FAC_ERR_OVERFLOW, "%s has too many tensors", c->op->name);
        return NULL;
    }
    boxed_node *b = (boxed_node *)fac__node_new(th, &boxed_class, (uint32_t)n_edges, (uint32_t)n_outputs);
    if (!b) return NULL;
    b->op = c->op;
    b->g = *(const gradient *)c->context;
    snprintf(b->name, sizeof b->name, "%sBackward", c->op->schema->name);
    b->cls = boxed_class;
    b->cls.name = b->name;
    b->node.cls = &b->cls;
    b->args = fac__alloc_zero(n_values * sizeof *b->args);
    if (!b->args) {
        fac__node_unref(&b->node);
        return NULL;
    }
    b->results = b->args + n_args;
    return b;
}

/* An argument that the operator writes was replaced by its result: what it was before is not kept. */
static bool is_written(const fac_operator *op, size_t arg) { return op->schema->args[arg].type.write; }

static fac_status connect(boxed_node *b, const fac_value *args) {
    uint32_t edge = 0;
    for (size_t i = 0; i < b->op->n_args; i++) {
        value_tensors l = tensors_of(&args[i]);
        for (size_t j = 0; j < l.n; j++) FAC_TRY(fac__node_connect(&b->node, edge++, nth(&l, j)));
        if (is_written(b->op, i) && fac__thread()->error == FAC_OK)
            for (size_t j = 0; j < l.n; j++) FAC_TRY(fac__check_inplace(nth(&l, j), true));
    }
    return FAC_OK;
}

/* Describes values in k; tensors are counted on from *next. */
static void describe(kept *k, const fac_value *v, size_t n, size_t *next) {
    for (size_t i = 0; i < n; i++) {
        size_t count = tensors_of(&v[i]).n;
        bool plain = v[i].tag != FAC_TAG_TENSOR && v[i].tag != FAC_TAG_TENSORS;
        k[i] = (kept){plain ? fac_value_copy(v[i]) : fac_value_none(), v[i].tag, *next, count};
        *next += count;
    }
}

static fac_status save_args(boxed_node *b, const fac_value *args) {
    for (size_t i = 0; i < b->op->n_args; i++) {
        value_tensors l = tensors_of(&args[i]);
        for (size_t j = 0; j < l.n; j++)
            FAC_TRY(fac__save(&b->saved.v[b->args[i].first + j], is_written(b->op, i) ? NULL : nth(&l, j)));
    }
    return FAC_OK;
}

static bool among_written(const fac_operator *op, const fac_value *args, const fac_tensor *t) {
    for (size_t i = 0; i < op->n_args; i++) {
        value_tensors l = tensors_of(&args[i]);
        for (size_t j = 0; is_written(op, i) && j < l.n; j++)
            if (nth(&l, j) == t) return true;
    }
    return false;
}

static fac_status set_histories(boxed_node *b, const fac_value *args, const fac_value *results) {
    uint32_t nr = 0;
    for (size_t i = 0; i < b->op->n_rets; i++) {
        value_tensors l = tensors_of(&results[i]);
        for (size_t j = 0; j < l.n; j++, nr++) {
            bool written = among_written(b->op, args, nth(&l, j));
            FAC_TRY(written ? fac__rebase_history(nth(&l, j), &b->node, nr)
                            : fac__set_history(nth(&l, j), &b->node, nr));
            if (b->g.fn) FAC_TRY(fac__save_output(&b->saved.v[b->results[i].first + j], nth(&l, j), nr));
        }
    }
    return FAC_OK;
}

/* What was written changed its version; no other key does it for operators without a generated kernel. */
static fac_status bump_written(const fac_operator *op, const fac_value *args) {
    for (size_t i = 0; i < op->n_args; i++) {
        value_tensors l = tensors_of(&args[i]);
        for (size_t j = 0; is_written(op, i) && j < l.n; j++) FAC_TRY(fac__bump_version(nth(&l, j)));
    }
    return FAC_OK;
}

static fac_status redispatch(const fac_call_info *c, fac_thread *th, fac_value *stack) {
    fac_keyset was = th->exclude;
    th->exclude |= FAC_KS_AUTOGRAD;
    fac_status st = fac_redispatch_below(c, FAC_KEY_AUTOGRAD, stack);
    th->exclude = was;
    return st;
}

/* ---- operators that write ------------------------------------------------------------------------------------------------ */

/* Whether an operator writes, and gives single tensors only, so that its outputs can be counted before it is called. */
static bool can_prepare(const fac_schema *s) {
    bool writes = false;
    for (size_t i = 0; i < s->n_args; i++) writes = writes || s->args[i].type.write;
    for (size_t i = 0; i < s->n_rets; i++)
        if (s->rets[i].type.kind != FAC_TYPE_TENSOR || s->rets[i].type.list) return false;
    return writes;
}

/* The argument that a result is, by the schema: NULL if it is none of those written. */
static fac_tensor *written_as(const fac_schema *s, const fac_value *args, size_t ret) {
    const fac_schema_type *r = &s->rets[ret].type;
    for (size_t i = 0; i < s->n_args; i++) {
        const fac_schema_type *a = &s->args[i].type;
        if (a->write && a->alias == r->alias && args[i].tag == FAC_TAG_TENSOR) return fac__value_header(&args[i]);
    }
    return NULL;
}

/* What is saved, and the new histories: all that can fail before the operator writes. */
static fac_status prepare(boxed_node *b, const fac_value *args, fac_rebase *rebases) {
    const fac_schema *s = b->op->schema;
    size_t n = 0;
    FAC_TRY(connect(b, args));
    describe(b->args, args, s->n_args, &n);
    for (size_t i = 0; i < s->n_rets; i++) b->results[i] = (kept){fac_value_none(), FAC_TAG_TENSOR, n++, 1};
    if (b->g.fn) {
        FAC_TRY(fac__saved_list_reserve(&b->saved, n));
        FAC_TRY(save_args(b, args));
    }
    for (uint32_t i = 0; i < s->n_rets; i++) {
        fac_tensor *t = written_as(s, args, i);
        if (!t) continue;
        FAC_TRY(fac__version_make(t));
        if (b->g.fn) FAC_TRY(fac__save_output_begin(&b->saved.v[b->results[i].first], t, i));
        FAC_TRY(fac__rebase_begin(t, &b->node, i, &rebases[i]));
    }
    return FAC_OK;
}

/* Result i, which is an argument that was written or, if the kernel gave another tensor than it promised, a new one. */
static fac_status finish_result(boxed_node *b, const fac_value *args, fac_tensor *t, uint32_t i, fac_rebase *r) {
    fac_saved *saved = b->g.fn ? &b->saved.v[b->results[i].first] : NULL;
    if (t && t == written_as(b->op->schema, args, i)) {
        FAC_TRY(fac__rebase_end(r, FAC_OK));
        return saved ? fac__save_output_end(saved) : FAC_OK;
    }
    (void)fac__rebase_end(r, FAC_ERR_STATE);
    if (saved) fac__saved_release(saved);
    if (t) FAC_TRY(fac__set_history(t, &b->node, i));
    return saved ? fac__save_output(saved, t, i) : FAC_OK;
}

static fac_status run_prepared(const fac_call_info *c, fac_thread *th, boxed_node *b, const fac_value *args,
                               fac_value *stack, fac_rebase *rebases) {
    fac_status st = prepare(b, args, rebases);
    if (st == FAC_OK) st = redispatch(c, th, stack);
    const bool called = st == FAC_OK;
    if (called) st = bump_written(c->op, args);
    for (uint32_t i = 0; i < c->op->n_rets; i++)
        st = st == FAC_OK ? finish_result(b, args, fac__value_header(&stack[i]), i, &rebases[i])
                          : fac__rebase_end(&rebases[i], st);
    for (size_t i = 0; called && st != FAC_OK && i < c->op->n_rets; i++) fac_value_release(&stack[i]);
    return st;
}

static fac_status record_writing(const fac_call_info *c, fac_thread *th, const fac_value *args, fac_value *stack) {
    const size_t n = c->op->n_rets;
    fac_rebase *rebases = fac__alloc_zero((n ? n : 1) * sizeof *rebases);
    boxed_node *b = rebases ? boxed_new(th, c, args, n) : NULL;
    fac_status st = b ? run_prepared(c, th, b, args, stack, rebases) : fac_error();
    if (b) fac__node_unref(&b->node);
    fac__free(rebases);
    return st;
}

/* ---- other operators ------------------------------------------------------------------------------------------------------ */

/* Calls below with the arguments in `args` kept aside, then builds the node: the number of its outputs is known by then.
   Edges must show the history before the call, so they are gathered by a node of their own. */
static fac_status record(const fac_call_info *c, fac_thread *th, const fac_value *args, fac_value *stack) {
    boxed_node *before = boxed_new(th, c, args, 0);
    if (!before) return fac_error();
    fac_status st = connect(before, args);
    if (st == FAC_OK) st = redispatch(c, th, stack);
    if (st != FAC_OK) {
        fac__node_unref(&before->node);
        return st;
    }
    boxed_node *b = boxed_new(th, c, args, count_tensors(stack, c->op->n_rets));
    st = b ? FAC_OK : fac_error();
    if (b) {
        size_t n_saved = 0;
        memcpy(b->node.edges, before->node.edges, b->node.n_edges * sizeof *b->node.edges);
        memset(before->node.edges, 0, b->node.n_edges * sizeof *b->node.edges);
        describe(b->args, args, c->op->n_args, &n_saved);
        describe(b->results, stack, c->op->n_rets, &n_saved);
        if (st == FAC_OK && b->g.fn) st = fac__saved_list_reserve(&b->saved, n_saved);
        /* Arguments are kept at the version before, so one that shares memory with what was written is found out. */
        if (st == FAC_OK && b->g.fn) st = save_args(b, args);
        if (st == FAC_OK) st = bump_written(c->op, args);
        if (st == FAC_OK) st = set_histories(b, args, stack);
        fac__node_unref(&b->node);
    }
    fac__node_unref(&before->node);
    for (size_t i = 0; st != FAC_OK && i < c->op->n_rets; i++) fac_value_release(&stack[i]);
    return st;
}

static fac_status autograd_kernel(const fac_call_info *c, fac_value *stack) {
    fac_thread *th = fac__thread();
    size_t n = c->op->n_args;
    bool recorded = fac__grad_enabled(th) && any_requires_grad(stack, n);
    fac_value few[16], *args = n <= FAC_COUNT(few) ? few : fac__alloc_array(n, sizeof *args);
    if (!args) return FAC_ERR_MEMORY;
    memcpy(args, stack, n * sizeof *args); /* borrowed, as the stack's are; the call writes over the stack */
    fac_status st = !recorded                    ? redispatch(c, th, stack)
                    : can_prepare(c->op->schema) ? record_writing(c, th, args, stack)
                                                 : record(c, th, args, stack);
    if (st == FAC_OK && !recorded) st = bump_written(c->op, args);
    if (args != few) fac__free(args);
    return st;
}

/* ---- registration ---------------------------------------------------------------------------------------------------------------------- */

fac_registration *fac_register_gradient(const char *op, fac_operator_backward fn, void *context, const char *where) {
    if (!op || !fn) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "fac_register_gradient needs an operator's name and a function");
        return NULL;
    }
    gradient *g = fac__alloc(sizeof *g);
    if (!g) return NULL;
    fac__mutex_lock(&lock);
    *g = (gradient){fn, context, registered};
    registered = g;
    fac__mutex_unlock(&lock);
    return fac_register_boxed(op, "Autograd", autograd_kernel, g, where);
}

fac_status fac__boxed_gradients_init(void) {
    return fac_register_fallback("Autograd", autograd_kernel, &no_gradient, FAC_HERE) ? FAC_OK : fac_error();
}

void fac__boxed_gradients_shutdown(void) {
    fac__mutex_lock(&lock);
    while (registered) {
        gradient *next = registered->next;
        fac__free(registered);
        registered = next;
    }
    fac__mutex_unlock(&lock);
}
