/* State dicts: collecting, checking, loading, and their files. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/io.h>
#include <facula/ops.h>

/* ---- hooks over the whole tree ---- */

typedef struct state_walk {
    int kind;
    fac_state *state;
    const fac_state *missing, *unexpected; /* after loading */
    fac_module *m;                         /* whose hooks run */
} state_walk;

/* The function of h, of whatever kind it is. */
static fac_status call_state_hook(const fac_listed_hook *h, const state_walk *w) {
    if (h->kind == FAC_MODULE_HOOK_STATE_PRE) return ((fac_status(*)(void *, fac_module *))h->fn)(h->context, w->m);
    if (h->kind == FAC_MODULE_HOOK_LOAD_POST)
        return ((fac_status(*)(void *, fac_module *, const fac_state *, const fac_state *))h->fn)(
            h->context, w->m, w->missing, w->unexpected);
    return ((fac_status(*)(void *, fac_module *, fac_state *))h->fn)(h->context, w->m, w->state);
}

static fac_status visit_state_hook(const fac_listed_hook *h, void *context) {
    const state_walk *w = context;
    fac_scope s = fac_scope_begin();
    fac_status st = call_state_hook(h, w);
    fac_scope_end(&s);
    return st ? FAC_FAIL(st, "a hook on the state of %s returned an error", w->m->cls->name) : fac_error();
}

static fac_status run_state_hooks(void *context, fac_module *m) {
    state_walk *w = context;
    w->m = m;
    return fac__hooks_each(m->hooks, w->kind, visit_state_hook, w);
}

static fac_status state_hooks(fac_module *m, state_walk w) { return fac_module_apply(m, run_state_hooks, &w); }

/* ---- making ---- */

static bool is_saved(const fac_slot *s) { return s->tensor && s->persistent; }

static fac_status add_entry(void *context, const char *path, fac_module *owner, fac_slot *slot) {
    (void)owner;
    return is_saved(slot) ? fac_state_set(context, path, slot->tensor) : FAC_OK;
}

fac_state *fac_module_state_dict(fac_module *m) {
    if (fac_error() || !fac__given(m, "module")) return NULL;
    fac_state *s = fac_state_new();
    if (!s) return NULL;
    if (!state_hooks(m, (state_walk){.kind = FAC_MODULE_HOOK_STATE_PRE}) && !fac__module_walk_slots(m, add_entry, s) &&
        !state_hooks(m, (state_walk){.kind = FAC_MODULE_HOOK_STATE, .state = s}))
        return s;
    fac_state_free(s);
    return NULL;
}

/* ---- loading ---- */

struct match {
    const fac_state *from;
    fac_state *own, *missing, *unexpected; /* every saved slot of the module; those not in `from`; those only there */
};

static fac_status match_slot(void *context, const char *path, fac_module *owner, fac_slot *slot) {
    struct match *x = context;
    (void)owner;
    if (!is_saved(slot)) return FAC_OK;
    FAC_TRY(fac_state_set(x->own, path, slot->tensor));
    return fac_state_get(x->from, path) ? FAC_OK : fac_state_set(x->missing, path, slot->tensor);
}

static fac_status match_names(struct match *x, fac_module *m) {
    FAC_TRY(fac__module_walk_slots(m, match_slot, x));
    for (size_t i = 0; i < x->from->n; i++) {
        const fac_named *e = &x->from->v[i];
        if (!fac_state_get(x->own, e->name)) FAC_TRY(fac_state_set(x->unexpected, e->name, e->tensor));
    }
    return FAC_OK;
}

static fac_status check_tensor(const char *path, const fac_tensor *t, const fac_tensor *own) {
    FAC_CHECK(fac__same_sizes(t, own), FAC_ERR_SHAPE, "size mismatch for %s: the state has %s, the module %s", path,
              FAC_SHAPE_TEXT(t), FAC_SHAPE_TEXT(own));
    FAC_CHECK(fac_can_cast((fac_dtype)t->dtype, (fac_dtype)own->dtype), FAC_ERR_DTYPE, "%s: %s does not fit into %s",
              path, fac_dtype_name((fac_dtype)t->dtype), fac_dtype_name((fac_dtype)own->dtype));
    FAC_CHECK(t->device.type != FAC_META || own->device.type == FAC_META, FAC_ERR_DEVICE,
              "%s: a meta tensor in the state has no data to load", path);
    FAC_TRY(fac__check_writable(own));
    return fac__check_no_overlap(own);
}

static fac_status check_tensors(const struct match *x) {
    for (size_t i = 0; i < x->own->n; i++) {
        const fac_tensor *t = fac__header(fac_state_get(x->from, x->own->v[i].name));
        if (t) FAC_TRY(check_tensor(x->own->v[i].name, t, fac__header(x->own->v[i].tensor)));
    }
    return FAC_OK;
}

static fac_status add_names(fac_buf *text, const char *what, const fac_state *names) {
    for (size_t i = 0; i < names->n; i++)
        FAC_TRY(fac__buf_printf(text, "%s%s'%s'", i ? ", " : text->n ? "; " : "", i ? "" : what, names->v[i].name));
    return FAC_OK;
}

static fac_status check_names(const struct match *x) {
    if (!x->missing->n && !x->unexpected->n) return FAC_OK;
    fac_buf text = {0};
    fac_status st = add_names(&text, "missing ", x->missing);
    if (!st) st = add_names(&text, "unexpected ", x->unexpected);
    if (!st) st = FAC_FAIL(FAC_ERR_NOT_FOUND, "the state does not fit the module: %s", text.data);
    fac__buf_free(&text);
    return st;
}

static fac_status copy_all(const struct match *x) {
    FAC_NO_GRAD(g);
    for (size_t i = 0; i < x->own->n; i++) {
        fac_tensor *from = fac_state_get(x->from, x->own->v[i].name);
        if (from && !fac_copy_(x->own->v[i].tensor, from)) return fac_error();
    }
    return FAC_OK;
}

static fac_status append_all(fac_state *to, const fac_state *names) {
    for (size_t i = 0; to && i < names->n; i++) FAC_TRY(fac_state_set(to, names->v[i].name, names->v[i].tensor));
    return FAC_OK;
}

static fac_status load_matched(struct match *x, fac_module *m, const fac_module_load_state_dict_kw *k) {
    FAC_TRY(state_hooks(m, (state_walk){.kind = FAC_MODULE_HOOK_LOAD, .state = (fac_state *)(uintptr_t)x->from}));
    FAC_TRY(match_names(x, m));
    FAC_TRY(append_all(k->missing, x->missing));
    FAC_TRY(append_all(k->unexpected, x->unexpected));
    FAC_TRY(check_tensors(x));
    if (k->strict) FAC_TRY(check_names(x));
    FAC_TRY(copy_all(x));
    return state_hooks(
        m, (state_walk){.kind = FAC_MODULE_HOOK_LOAD_POST, .missing = x->missing, .unexpected = x->unexpected});
}

fac_status(fac_module_load_state_dict)(fac_module *m, const fac_state *s, const fac_module_load_state_dict_kw *kw) {
    fac_module_load_state_dict_kw k;
    if (fac_error() || fac__open_module_load_state_dict_kw(&k, kw)) return fac_error();
    FAC_CHECK(m && s, FAC_ERR_ARGUMENT, "a module or its state is NULL");
    FAC_CHECK(s != k.missing && s != k.unexpected, FAC_ERR_ARGUMENT,
              "the list of missing or unexpected names is the state itself");
    struct match x = {s, fac_state_new(), fac_state_new(), fac_state_new()};
    fac_status st = x.own && x.missing && x.unexpected ? load_matched(&x, m, &k) : fac_error();
    fac_state_free(x.own);
    fac_state_free(x.missing);
    fac_state_free(x.unexpected);
    return st;
}

/* ---- files ---- */

/* Versions are kept in the metadata as one text: "path=version", separated by blanks; "." is the module itself. */
static fac_status add_version(fac_buf *text, const fac_named *e) {
    return fac__buf_printf(text, "%s%s=%d", text->n ? " " : "", e->name[0] ? e->name : ".", e->module->cls->version);
}

static char *versions_of(fac_module *m) {
    fac_buf text = {0};
    fac_state *all = fac_module_modules(m);
    fac_status st = all ? FAC_OK : fac_error();
    for (size_t i = 0; !st && i < all->n; i++) st = add_version(&text, &all->v[i]);
    fac_state_free(all);
    if (!st) return text.data;
    fac__buf_free(&text);
    return NULL;
}

fac_status fac_module_save(fac_module *m, const char *path) {
    if (fac_error()) return fac_error();
    fac_state *s = fac_module_state_dict(m);
    char *versions = s ? versions_of(m) : NULL;
    fac_status st = fac_error();
    if (versions) {
        const fac_metadata meta[] = {{"module", m->cls->name}, {"module.versions", versions}};
        st = fac__state_write(s, path, meta, FAC_COUNT(meta));
    }
    fac__free(versions);
    fac_state_free(s);
    return st;
}

/* Cuts the text into names and numbers, in place. What is no "path=version" is passed over. */
static fac_status parse_versions(char *text, fac_map *out) {
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *number = strchr(word, '=');
        int version;
        if (!number || sscanf(number + 1, "%d", &version) != 1 || version < 0) continue;
        *number = 0;
        FAC_TRY(fac__map_set(out, word, (void *)((intptr_t)version + 1)));
    }
    return FAC_OK;
}

/* The version that a module was saved with; its present one if the file does not say. */
static int version_in(const fac_map *versions, const fac_named *e) {
    const intptr_t found = (intptr_t)fac__map_get(versions, e->name[0] ? e->name : ".");
    return found ? (int)(found - 1) : e->module->cls->version;
}

static fac_status upgrade(const fac_named *e, fac_state *entries, int from) {
    fac_buf prefix = {0};
    fac_status st = fac__buf_printf(&prefix, "%s%s", e->name, e->name[0] ? "." : "");
    if (!st) FAC_CALLBACK(st = e->module->cls->upgrade(e->module, entries, prefix.data, from));
    fac__buf_free(&prefix);
    return st ? FAC_FAIL(st, "the entries of %s could not be upgraded", e->module->cls->name) : fac_error();
}

static fac_status upgrade_from(fac_module *m, fac_state *entries, const fac_map *versions) {
    fac_state *all = fac_module_modules(m);
    if (!all) return fac_error();
    fac_status st = FAC_OK;
    for (size_t i = 0; i < all->n && !st; i++) {
        fac_module *x = all->v[i].module;
        const int v = version_in(versions, &all->v[i]);
        if (v > x->cls->version)
            st = FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' was saved by version %d of %s; this one is %d", all->v[i].name, v,
                          x->cls->name, x->cls->version);
        else if (v < x->cls->version && x->cls->upgrade)
            st = upgrade(&all->v[i], entries, v);
    }
    fac_state_free(all);
    return st;
}

static fac_status upgrade_all(fac_module *m, fac_state *entries, const char *versions) {
    char *text = fac__strdup(versions ? versions : "");
    if (!text) return fac_error();
    fac_map parsed = {0};
    fac_status st = parse_versions(text, &parsed);
    if (!st) st = upgrade_from(m, entries, &parsed);
    fac__map_free(&parsed);
    fac__free(text);
    return st;
}

fac_status(fac_module_load)(fac_module *m, const char *path, const fac_module_load_kw *kw) {
    fac_module_load_kw k;
    if (fac_error() || fac__open_module_load_kw(&k, kw) || !fac__given(m, "module")) return fac_error();
    fac_safetensors *f = fac_safetensors_open(path);
    if (!f) return fac_error();
    fac_state *s = fac_state_new();
    fac_status st = s ? fac_safetensors_verify(f) : fac_error();
    if (!st) st = fac__state_read(f, s);
    if (!st) st = upgrade_all(m, s, fac_safetensors_metadata(f, "module.versions"));
    if (!st) st = fac_module_load_state_dict(m, s, k.strict, .missing = k.missing, .unexpected = k.unexpected);
    fac_state_free(s);
    fac_safetensors_close(f);
    return st;
}
