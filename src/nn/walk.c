/* Lists of named tensors and modules, and walking a tree into them. */
#include "keywords_gen.h"
#include "nn/module.h"

/* ---- lists ---- */

/* What fac_state_new makes: the list that users see, and an index of its names. */
typedef struct indexed_state {
    fac_state list;
    fac_map places; /* name -> place in the list, counted from 1 */
} indexed_state;

static fac_map *places_of(const fac_state *s) { return &((indexed_state *)(uintptr_t)s)->places; }

fac_state *fac_state_new(void) { return fac__alloc_zero(sizeof(indexed_state)); }

void fac_state_free(fac_state *s) {
    if (!s) return;
    fac__map_free(places_of(s));
    for (size_t i = 0; i < s->n; i++) {
        fac__free((void *)(uintptr_t)s->v[i].name);
        fac__handle_unref(s->v[i].tensor);
        fac_module_release(s->v[i].module);
    }
    fac__free(s->v);
    fac__free(s);
}

static fac_named *find(const fac_state *s, const char *name) {
    const size_t place = (uintptr_t)fac__map_get(places_of(s), name);
    return place ? &s->v[place - 1] : NULL;
}

static fac_status set_place(const fac_state *s, size_t i) {
    return fac__map_set(places_of(s), s->v[i].name, (void *)(uintptr_t)(i + 1));
}

fac_tensor *fac_state_get(const fac_state *s, const char *name) {
    const fac_named *e = s && name ? find(s, name) : NULL;
    return e ? e->tensor : NULL;
}

static fac_status append(fac_state *s, const char *name, fac_tensor *t, fac_module *m) {
    FAC_TRY(FAC_VEC_GROW(s));
    char *copy = fac__strdup(name);
    if (!copy) return fac_error();
    s->v[s->n] = (fac_named){copy, t, m};
    fac_status st = set_place(s, s->n);
    if (st) {
        fac__free(copy);
        return st;
    }
    fac__handle_ref(t);
    fac_module_keep(m);
    s->n++;
    return FAC_OK;
}

fac_status fac_state_set(fac_state *s, const char *name, fac_tensor *t) {
    FAC_CHECK(s && name, FAC_ERR_ARGUMENT, "a list or a name is NULL");
    if (!fac__open(t, "fac_state_set", name)) return fac_error();
    fac_named *e = find(s, name);
    if (!e) return append(s, name, t, NULL);
    fac__handle_ref(t);
    fac__handle_unref(e->tensor);
    e->tensor = t;
    return FAC_OK;
}

void fac_state_remove(fac_state *s, const char *name) {
    fac_named *e = s && name ? find(s, name) : NULL;
    if (!e) return;
    const fac_named gone = *e;
    const size_t i = (size_t)(e - s->v);
    fac__map_remove(places_of(s), gone.name);
    memmove(e, e + 1, (--s->n - i) * sizeof *e);
    for (size_t j = i; j < s->n; j++) (void)set_place(s, j); /* the names are there: nothing is allocated */
    fac__free((void *)(uintptr_t)gone.name);
    fac__handle_unref(gone.tensor);
    fac_module_release(gone.module);
}

/* ---- walking ---- */

typedef fac_status (*module_visit)(void *context, const char *path, fac_module *m);

/* Parents first. `path` is a shared buffer, cut back after each child. */
static fac_status walk_modules(fac_module *m, fac_buf *path, module_visit visit, void *context) {
    FAC_TRY(visit(context, path->data ? path->data : "", m));
    for (size_t i = 0; i < m->children.n; i++) {
        size_t len = path->n;
        FAC_TRY(fac__buf_printf(path, "%s%s", len ? "." : "", m->children.v[i].name));
        FAC_TRY(walk_modules(m->children.v[i].module, path, visit, context));
        path->n = len;
        path->data[len] = 0;
    }
    return FAC_OK;
}

static fac_status walk_all(fac_module *m, module_visit visit, void *context) {
    if (!fac__given(m, "module")) return fac_error();
    fac_buf path = {0};
    fac_status st = walk_modules(m, &path, visit, context);
    fac__buf_free(&path);
    return st;
}

struct slot_walk {
    fac_slot_visit visit;
    void *context;
};

static fac_status visit_slots(void *context, const char *path, fac_module *m) {
    struct slot_walk *w = context;
    for (size_t i = 0; i < m->slots.n; i++) {
        char *full = fac__format("%s%s%s", path, path[0] ? "." : "", m->slots.v[i].name);
        if (!full) return fac_error();
        fac_status st = w->visit(w->context, full, m, &m->slots.v[i]);
        fac__free(full);
        if (st) return st;
    }
    return FAC_OK;
}

fac_status fac__module_walk_slots(fac_module *m, fac_slot_visit visit, void *context) {
    struct slot_walk w = {visit, context};
    return walk_all(m, visit_slots, &w);
}

/* ---- collecting ---- */

/* A list under construction, to which nothing is added twice. */
typedef struct collection {
    fac_state *list;
    fac_set seen;
    fac_slot_kind kind;
} collection;

static fac_status collect_once(collection *c, const char *path, fac_tensor *t, fac_module *m) {
    const void *what = t ? (const void *)t : m;
    if (fac__set_has(&c->seen, what)) return FAC_OK;
    FAC_TRY(fac__set_add(&c->seen, what));
    return append(c->list, path, t, m);
}

static fac_status collect_slot(void *context, const char *path, fac_module *owner, fac_slot *slot) {
    collection *c = context;
    (void)owner;
    return slot->tensor && slot->kind == c->kind ? collect_once(c, path, slot->tensor, NULL) : FAC_OK;
}

static fac_state *finish(collection *c, fac_status st) {
    fac__set_free(&c->seen);
    if (!st) return c->list;
    fac_state_free(c->list);
    return NULL;
}

static fac_state *collect(fac_module *m, fac_slot_kind kind, bool recurse) {
    if (!fac__given(m, "module")) return NULL;
    collection c = {.list = fac_state_new(), .kind = kind};
    if (!c.list) return NULL;
    struct slot_walk w = {collect_slot, &c};
    return finish(&c, recurse ? fac__module_walk_slots(m, collect_slot, &c) : visit_slots(&w, "", m));
}

fac_state *(fac_module_parameters)(fac_module *m, const fac_module_parameters_kw *kw) {
    fac_module_parameters_kw k;
    return fac__open_module_parameters_kw(&k, kw) ? NULL : collect(m, FAC_SLOT_PARAMETER, k.recurse);
}

fac_state *(fac_module_buffers)(fac_module *m, const fac_module_buffers_kw *kw) {
    fac_module_buffers_kw k;
    return fac__open_module_buffers_kw(&k, kw) ? NULL : collect(m, FAC_SLOT_BUFFER, k.recurse);
}

static fac_status collect_module(void *context, const char *path, fac_module *m) {
    return collect_once(context, path, NULL, m);
}

fac_state *fac_module_modules(fac_module *m) {
    collection c = {.list = fac_state_new()};
    return c.list ? finish(&c, walk_all(m, collect_module, &c)) : NULL;
}

fac_state *fac_module_children(fac_module *m) {
    if (!fac__given(m, "module")) return NULL;
    collection c = {.list = fac_state_new()};
    if (!c.list) return NULL;
    fac_status st = FAC_OK;
    for (size_t i = 0; i < m->children.n && !st; i++)
        st = collect_module(&c, m->children.v[i].name, m->children.v[i].module);
    return finish(&c, st);
}

fac_status fac_module_apply(fac_module *m, fac_status (*fn)(void *context, fac_module *m), void *context) {
    FAC_CHECK(m && fn, FAC_ERR_ARGUMENT, "the module or the function to apply is NULL");
    for (size_t i = 0; i < m->children.n; i++) FAC_TRY(fac_module_apply(m->children.v[i].module, fn, context));
    fac_status st;
    FAC_CALLBACK(st = fn(context, m));
    return st;
}

int64_t fac_module_parameter_count(fac_module *m) {
    fac_state *s = fac_module_parameters(m);
    int64_t n = 0;
    for (size_t i = 0; s && i < s->n; i++) n += fac_tensor_numel(s->v[i].tensor);
    fac_state_free(s);
    return n;
}
