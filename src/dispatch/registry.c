/* Registration: stacks of kernels per operator and place, newest active; schemas; fallbacks; listeners. Each change is
   made in two steps: all that can fail (memory, checks), then the linking and publishing, which cannot. */
#include "dispatch/registry.h"
#include "base/mutex.h"

static fac_mutex lock = FAC_MUTEX_INIT_RECURSIVE; /* of all that registry.h declares, but for the search by name */
static fac_registration *all_registrations;
static fac_definition *all_definitions;
static fac_registration *listeners;

static struct {
    struct library {
        char *ns;
        const fac_registration *first; /* the registration that first declared an operator in the namespace */
    } * v;
    size_t n, cap;
} libraries;

void fac__registry_lock(void) { fac__mutex_lock(&lock); }
void fac__registry_unlock(void) { fac__mutex_unlock(&lock); }

/* A registration with a copy of `where`, in no list but shutdown's. */
static fac_registration *registration_new(fac_reg_kind kind, const char *where) {
    if (!where) where = "an unknown place";
    size_t n = strlen(where) + 1;
    fac_registration *r = fac__alloc_zero(sizeof *r + n);
    if (!r) return NULL;
    r->kind = kind;
    r->where = memcpy(r->where_copy, where, n);
    r->next_all = all_registrations;
    all_registrations = r;
    return r;
}

/* Ends the life of a registration that is in no list any more. Its memory stays: a call may still be in its kernel. */
static void retire(fac_registration *r) { r->kind = FAC_REG_RETIRED; }

/* Takes r out of a list linked by `below`. */
static void unlink_from(fac_registration **head, const fac_registration *r) {
    while (*head && *head != r) head = &(*head)->below;
    if (*head) *head = r->below;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static const fac_definition *definition_of(const fac_operator *op) {
    return atomic_load_explicit(&op->registry->definition, memory_order_relaxed);
}

/* The place's stack, made empty if need be. The pointer lives until the next call. */
static fac_status stack_of(fac_operator *op, int place, struct fac_stack **out) {
    fac_op_registry *g = op->registry;
    for (size_t i = 0; i < g->n; i++) {
        *out = &g->v[i];
        if (g->v[i].place == place) return FAC_OK;
    }
    FAC_TRY(FAC_VEC_GROW(g));
    *out = &g->v[g->n++];
    **out = (struct fac_stack){place, NULL};
    return FAC_OK;
}

static fac_status wrong_signature(const fac_registration *r, const fac_operator *op, const fac_definition *d,
                                  const char *declared) {
    char *wanted = fac__schema_signature(d->schema);
    if (!wanted) return FAC_ERR_MEMORY;
    fac_status st = FAC_FAIL(
        FAC_ERR_ARGUMENT, "the kernel for '%s' registered at %s takes (%s), but the schema declared at %s needs (%s)",
        op->name, r->where, r->signature->text, declared, wanted);
    fac__free(wanted);
    return st;
}

/* Checks the kernel against a schema and makes its record. Signatures with equal text are one object. */
static fac_status fit_kernel(fac_registration *r, const fac_operator *op, const fac_definition *d,
                             const char *declared) {
    if (r->typed && r->signature != d->signature) return wrong_signature(r, op, d, declared);
    return fac__record_ensure(r, d->signature);
}

/* Puts a filled-in kernel on its operator's stack. */
static fac_status push_kernel(fac_registration *r, fac_operator *op) {
    struct fac_stack *s;
    const fac_definition *d = definition_of(op);
    if (d) FAC_TRY(fit_kernel(r, op, d, op->registry->declared->where));
    FAC_TRY(stack_of(op, r->place, &s));
    r->op = op;
    r->below = s->top;
    s->top = r;
    if (d) fac__table_refresh(op);
    return FAC_OK;
}

/* What the caller of a registration function gave. */
typedef struct request {
    const char *op, *key, *where, *label;
    fac_boxed_fn boxed;
    fac_fn typed;
    const fac_signature *signature;
    void *context;
    bool fallthrough, takes_handles;
} request;

static void fill(fac_registration *r, const request *q, int place) {
    r->place = place;
    r->label = place == FAC_PLACE_CATCH_ALL   ? "catch-all"
               : place == FAC_PLACE_EXPLICIT  ? "composite explicit"
               : place == FAC_PLACE_POINTWISE ? "pointwise"
                                              : q->label;
    r->boxed = q->boxed;
    r->typed = q->typed;
    r->signature = q->signature;
    r->takes_handles = q->takes_handles;
    r->context = q->context;
    r->fallthrough = q->fallthrough;
}

static fac_status add_kernel(const request *q, int place, fac_registration **out) {
    fac_operator *op;
    FAC_TRY(fac__entry_make(q->op, NULL, &op));
    fac_registration *r = registration_new(FAC_REG_KERNEL, q->where);
    if (!r) return FAC_ERR_MEMORY;
    fill(r, q, place);
    fac_status st = push_kernel(r, op);
    if (st != FAC_OK)
        retire(r);
    else
        *out = r;
    return st;
}

static fac_registration *register_kernel(const request *q) {
    fac_key key;
    FAC_TRY_NULL(fac_init());
    if (!q->op) FAC_FAIL(FAC_ERR_ARGUMENT, "a kernel's registration names no operator");
    if (!q->op || fac_key_parse(q->key, &key) != FAC_OK) return NULL;
    fac_registration *r = NULL;
    fac__registry_lock();
    fac_status st = add_kernel(q, fac__place_of(key), &r);
    fac__registry_unlock();
    return st == FAC_OK ? r : NULL;
}

fac_registration *fac_register_boxed(const char *op, const char *key, fac_boxed_fn fn, void *context,
                                     const char *where) {
    request q = {.op = op, .key = key, .where = where, .label = "kernel", .boxed = fn, .context = context};
    if (fn) return register_kernel(&q);
    FAC_FAIL(FAC_ERR_ARGUMENT, "the kernel for '%s' is NULL; to skip a key use fac_register_fallthrough",
             op ? op : "(null)");
    return NULL;
}

fac_registration *fac_register_fallthrough(const char *op, const char *key, const char *where) {
    request q = {.op = op, .key = key, .where = where, .label = "fall-through", .fallthrough = true};
    return register_kernel(&q);
}

fac_registration *fac_register_typed(const char *op, const char *key, const char *signature, fac_fn fn, void *context,
                                     const char *where) {
    request q = {.op = op,
                 .key = key,
                 .where = where,
                 .label = "kernel",
                 .typed = fn,
                 .context = context,
                 .takes_handles = true};
    char *text;
    if (!fn)
        FAC_FAIL(FAC_ERR_ARGUMENT, "the kernel for '%s' is NULL; to skip a key use fac_register_fallthrough",
                 op ? op : "(null)");
    if (!fn || fac__signature_normalise(signature, &text) != FAC_OK) return NULL;
    q.signature = fac__signature_find(text);
    if (!q.signature)
        FAC_FAIL(FAC_ERR_UNSUPPORTED,
                 "no built-in operator has the signature '%s', so nothing can box it; register a boxed kernel", text);
    fac__free(text);
    return q.signature ? register_kernel(&q) : NULL;
}

/* ---- fallbacks --------------------------------------------------------------------------------------------------- */

/* While the library starts, what concerns all operators waits for fac__tables_settle: each of the rooms' fallbacks would make all
   tables again. Until then operators have tables of their own kernels. */
static bool held;

static void refresh_all(void) {
    fac_operator *const *ops;
    if (held) return;
    size_t n = fac__listing(&ops);
    for (size_t i = 0; i < n; i++) fac__table_refresh(ops[i]);
}

void fac__tables_hold(void) { held = true; }

fac_status fac__tables_settle(void) {
    fac__registry_lock();
    held = false;
    refresh_all();
    fac__registry_unlock();
    return FAC_OK;
}

void fac__dispatch_pointwise(fac_device_type type) {
    fac_keyset ks = 0;
    fac__registry_lock();
    if (fac__default_keys(fac_device_make(type, 0), &ks) == FAC_OK) fac__pointwise_backends |= ks & FAC_BACKEND_MASK;
    refresh_all();
    fac__registry_unlock();
}

static fac_status add_fallback(const request *q, int place, fac_registration **out) {
    fac_registration *r = registration_new(FAC_REG_FALLBACK, q->where);
    if (!r) return FAC_ERR_MEMORY;
    fill(r, q, place);
    fac_operator *const *ops;
    size_t n = fac__listing(&ops);
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++) st = fac__record_ensure(r, ops[i]->signature);
    if (st != FAC_OK) {
        retire(r);
        return st;
    }
    r->below = fac__fallbacks[place];
    fac__fallbacks[place] = r;
    refresh_all();
    *out = r;
    return FAC_OK;
}

fac_registration *fac_register_fallback(const char *key, fac_boxed_fn fn, void *context, const char *where) {
    request q = {.where = where,
                 .label = fn ? "fallback" : "fallback falls through",
                 .boxed = fn,
                 .context = context,
                 .fallthrough = !fn};
    fac_key k;
    FAC_TRY_NULL(fac_init());
    FAC_TRY_NULL(fac_key_parse(key, &k));
    if (k.alias == FAC_ALIAS_CATCH_ALL || k.alias == FAC_ALIAS_COMPOSITE_EXPLICIT || k.alias == FAC_ALIAS_POINTWISE) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s stands for many keys of one operator and cannot have a fallback; name a key",
                 key);
        return NULL;
    }
    fac_registration *r = NULL;
    fac__registry_lock();
    fac_status st = add_fallback(&q, fac__place_of(k), &r);
    fac__registry_unlock();
    return st == FAC_OK ? r : NULL;
}

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

static void definition_free(fac_definition *d) {
    for (size_t i = 0; d->defaults && i < d->schema->n_args; i++) fac_value_release(&d->defaults[i]);
    fac__free(d->defaults);
    fac__schema_free(d->schema);
    fac__free(d);
}

static fac_status fill_defaults(fac_definition *d) {
    const fac_schema *s = d->schema;
    d->defaults = fac__alloc_array(s->n_args, sizeof *d->defaults);
    if (!d->defaults) return FAC_ERR_MEMORY;
    for (size_t i = 0; i < s->n_args; i++) d->defaults[i] = fac_value_none();
    for (size_t i = 0; i < s->n_args; i++)
        if (s->args[i].default_text) FAC_TRY(fac__default_value(&s->args[i], &d->defaults[i]));
    return FAC_OK;
}

/* Lists of the types that no boxed value holds. */
static fac_status check_boxable(const fac_schema_arg *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fac_type_kind k = v[i].type.kind;
        bool holds = k == FAC_TYPE_TENSOR || k == FAC_TYPE_INT || k == FAC_TYPE_FLOAT || k == FAC_TYPE_BOOL ||
                     k == FAC_TYPE_SCALAR;
        char text[256];
        FAC_CHECK(!v[i].type.list || holds, FAC_ERR_UNSUPPORTED,
                  "values of type %s cannot be passed; lists hold Tensor, int, float, bool or Scalar",
                  fac__type_text(&v[i].type, text, sizeof text));
    }
    return FAC_OK;
}

static fac_status find_signature(fac_definition *d) {
    char *text = fac__schema_signature(d->schema);
    if (!text) return FAC_ERR_MEMORY;
    d->signature = fac__signature_find(text);
    fac__free(text);
    return FAC_OK;
}

static fac_status complete_definition(fac_definition *d, const fac_signature *signature) {
    FAC_TRY(check_boxable(d->schema->args, d->schema->n_args));
    FAC_TRY(check_boxable(d->schema->rets, d->schema->n_rets));
    FAC_TRY(fill_defaults(d));
    d->signature = signature;
    return signature ? FAC_OK : find_signature(d);
}

static fac_status definition_new(const char *schema, const fac_signature *signature, fac_definition **out) {
    *out = NULL;
    fac_definition *d = fac__alloc_zero(sizeof *d);
    if (!d) return FAC_ERR_MEMORY;
    fac_status st = fac__schema_parse(schema, &d->schema);
    if (st == FAC_OK) st = complete_definition(d, signature);
    if (st == FAC_OK)
        *out = d;
    else
        definition_free(d);
    return st;
}

/* Every kernel that came before the schema must suit it; then all have records. */
static fac_status fit_all_kernels(fac_operator *op, const fac_definition *d, const char *where) {
    const fac_op_registry *g = op->registry;
    FAC_TRY(fac__records_ensure_shared(d->signature));
    for (size_t i = 0; i < g->n; i++)
        for (fac_registration *r = g->v[i].top; r; r = r->below) FAC_TRY(fit_kernel(r, op, d, where));
    return FAC_OK;
}

/* Notes the namespace, if it is new. */
static fac_status note_library(const char *ns, const fac_registration *r) {
    for (size_t i = 0; i < libraries.n; i++)
        if (strcmp(libraries.v[i].ns, ns) == 0) return FAC_OK;
    FAC_TRY(FAC_VEC_GROW(&libraries));
    char *copy = fac__strdup(ns);
    if (!copy) return FAC_ERR_MEMORY;
    libraries.v[libraries.n++] = (struct library){copy, r};
    return FAC_OK;
}

static void notify(const fac_operator *op, bool added) {
    for (fac_registration *l = listeners, *next; l; l = next) {
        next = l->below;
        if (l->kind != FAC_REG_LISTENER) continue; /* one before has released it */
        FAC_CALLBACK(l->listener(l->context, op, added));
    }
}

/* From here nothing fails. */
static void publish(fac_operator *op, fac_definition *d, fac_registration *r) {
    op->n_args = d->schema->n_args;
    op->n_rets = d->schema->n_rets;
    op->signature = d->signature;
    op->where = r->where;
    op->registry->declared = r;
    r->op = op;
    fac__table_refresh(op);
    atomic_store_explicit(&op->schema, d->schema, memory_order_release);
    atomic_store_explicit(&op->registry->definition, d, memory_order_release);
    fac__listing_add(op);
    notify(op, true);
}

/* Keeps d in any case: in the list for shutdown. */
static fac_status declare(fac_definition *d, fac_operator *fixed, const char *where, fac_registration **out) {
    fac_operator *op;
    d->next_all = all_definitions;
    all_definitions = d;
    FAC_TRY(fac__entry_make(d->schema->full, fixed, &op));
    FAC_CHECK(!definition_of(op), FAC_ERR_ARGUMENT,
              "operator '%s' is declared twice: first at %s, now at %s; the first declaration stays", op->name,
              op->registry->declared->where, where);
    FAC_TRY(fit_all_kernels(op, d, where));
    FAC_TRY(fac__listing_reserve());
    fac_registration *r = registration_new(FAC_REG_OPERATOR, where);
    if (!r) return FAC_ERR_MEMORY;
    fac_status st = note_library(d->schema->ns, r);
    if (st != FAC_OK) {
        retire(r);
        return st;
    }
    publish(op, d, r);
    *out = r;
    return FAC_OK;
}

fac_registration *fac_register_operator(const char *schema, const char *where) {
    fac_definition *d;
    fac_registration *r = NULL;
    FAC_TRY_NULL(fac_init());
    FAC_TRY_NULL(definition_new(schema, NULL, &d));
    fac__registry_lock();
    fac_status st = declare(d, NULL, where ? where : "an unknown place", &r);
    fac__registry_unlock();
    return st == FAC_OK ? r : NULL;
}

/* The table stays readable for calls under way, and reports a missing kernel to those that come late. */
static void undeclare(fac_operator *op) {
    atomic_store_explicit(&op->registry->definition, NULL, memory_order_release);
    op->registry->declared = NULL;
    fac__table_clear(op);
    fac__listing_remove(op);
    notify(op, false);
}

/* ---- built-in operators ------------------------------------------------------------------------------------------ */

static fac_status add_builtin_kernel(fac_operator *op, const fac_builtin_kernel *k, const fac_signature *signature) {
    fac_key key;
    FAC_TRY(fac_key_parse(k->key, &key));
    fac_registration *r = registration_new(FAC_REG_KERNEL, "generated");
    if (!r) return FAC_ERR_MEMORY;
    request q = {.label = k->typed ? "kernel" : "fall-through",
                 .typed = k->typed,
                 .signature = signature,
                 .fallthrough = !k->typed};
    fill(r, &q, fac__place_of(key));
    return push_kernel(r, op);
}

fac_status fac__builtin_declare(const fac_builtin_op *row) {
    fac_definition *d;
    fac_operator *op;
    fac_registration *r = NULL;
    FAC_TRY(definition_new(row->schema, row->signature, &d));
    fac_status st = fac__entry_make(d->schema->full, row->op, &op);
    if (st == FAC_OK && op != row->op)
        st = FAC_FAIL(FAC_ERR_INTERNAL, "operator '%s' is in the generated table twice", d->schema->full);
    for (const fac_builtin_kernel *k = row->kernels; k && k->key && st == FAC_OK; k++)
        st = add_builtin_kernel(op, k, row->signature);
    if (st != FAC_OK) {
        definition_free(d);
        return st;
    }
    op->doc = row->doc;
    op->tags = row->tags;
    op->facts = &row->facts;
    return declare(d, row->op, "generated", &r);
}

/* ---- listeners, release, shutdown -------------------------------------------------------------------------------- */

fac_registration *fac_register_listener(fac_operator_listener fn, void *context) {
    if (!fn) FAC_FAIL(FAC_ERR_ARGUMENT, "the listener is NULL");
    if (!fn || fac_init() != FAC_OK) return NULL;
    fac__registry_lock();
    fac_registration *r = registration_new(FAC_REG_LISTENER, "listener");
    if (r) {
        r->listener = fn;
        r->context = context;
        r->below = listeners;
        listeners = r;
    }
    fac__registry_unlock();
    return r;
}

static void release_kernel(fac_registration *r) {
    fac_op_registry *g = r->op->registry;
    for (size_t i = 0; i < g->n; i++)
        if (g->v[i].place == r->place) unlink_from(&g->v[i].top, r);
    if (definition_of(r->op)) fac__table_refresh(r->op);
}

void fac_registration_release(fac_registration *r) {
    if (!r) return;
    fac__registry_lock();
    fac_reg_kind kind = r->kind;
    retire(r);
    switch (kind) {
    case FAC_REG_OPERATOR: undeclare(r->op); break;
    case FAC_REG_KERNEL: release_kernel(r); break;
    case FAC_REG_FALLBACK:
        unlink_from(&fac__fallbacks[r->place], r);
        refresh_all();
        break;
    case FAC_REG_LISTENER: unlink_from(&listeners, r); break;
    case FAC_REG_RETIRED: break;
    }
    fac__registry_unlock();
}

void fac__namespaces_print(FILE *stream) {
    for (size_t i = 0; i < libraries.n; i++)
        fprintf(stream, "namespace %s: first declared at %s\n", libraries.v[i].ns, libraries.v[i].first->where);
}

void fac__registry_free(void) {
    fac__registry_lock();
    fac__table_free();
    fac__names_free();
    while (all_registrations) {
        fac_registration *next = all_registrations->next_all;
        fac__records_free(all_registrations);
        fac__free(all_registrations);
        all_registrations = next;
    }
    while (all_definitions) {
        fac_definition *next = all_definitions->next_all;
        definition_free(all_definitions);
        all_definitions = next;
    }
    for (size_t i = 0; i < libraries.n; i++) fac__free(libraries.v[i].ns);
    fac__free(libraries.v);
    libraries.v = NULL;
    libraries.n = libraries.cap = 0;
    listeners = NULL;
    held = false;
    fac__registry_unlock();
}
