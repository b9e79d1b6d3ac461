/* The parts of a module by their paths, and errors that tell what there is instead. */
#include "nn/module.h"

fac_child *fac__module_child_of(fac_module *m, const char *name, size_t len) {
    for (size_t i = 0; i < m->children.n; i++)
        if (strlen(m->children.v[i].name) == len && memcmp(m->children.v[i].name, name, len) == 0)
            return &m->children.v[i];
    return NULL;
}

fac_slot *fac__module_slot(fac_module *m, const char *name) {
    for (size_t i = 0; i < m->slots.n; i++)
        if (strcmp(m->slots.v[i].name, name) == 0) return &m->slots.v[i];
    return NULL;
}

/* ---- what is not there ---- */

/* What is looked for: a child, or a parameter or buffer. */
typedef enum sought { SOUGHT_CHILD, SOUGHT_TENSOR } sought;

enum { NAMES_SHOWN = 8, NAMES_TEXT = 512 };

/* The i-th name that could have been meant: the kind that is looked for comes first. */
static const char *name_at(const fac_module *m, sought what, size_t i) {
    const size_t n = what == SOUGHT_TENSOR ? m->slots.n : 0;
    return i < n ? m->slots.v[i].name : m->children.v[i - n].name;
}

/* "'weight', 'bias' and 3 more" */
static const char *names_of(const fac_module *m, sought what, char text[NAMES_TEXT]) {
    const size_t n = m->children.n + (what == SOUGHT_TENSOR ? m->slots.n : 0);
    size_t at = 0;
    snprintf(text, NAMES_TEXT, "none");
    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++)
        at += (size_t)snprintf(text + at, NAMES_TEXT - at, "%s'%.40s'", i ? ", " : "", name_at(m, what, i));
    if (n > NAMES_SHOWN) snprintf(text + at, NAMES_TEXT - at, " and %zu more", n - NAMES_SHOWN);
    return text;
}

/* `name`, of len bytes, is the part of `path` that m does not have. */
static void *missing(const fac_module *m, sought what, const char *path, const char *name, size_t len) {
    char names[NAMES_TEXT];
    const bool whole = name == path && !path[len];
    FAC_FAIL(FAC_ERR_NOT_FOUND, "%s has no %s '%.*s'%s%s%s; it has %s", m->cls->name,
             what == SOUGHT_CHILD ? "child" : "parameter or buffer", (int)len, name, whole ? "" : ", looked up as '",
             whole ? "" : path, whole ? "" : "'", names_of(m, what, names));
    return NULL;
}

/* ---- paths ---- */

/* Follows the path up to its last name, which *last then points to. */
static fac_module *descend(fac_module *m, const char *path, const char **last) {
    if (!m || !path) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "a module or the path in it is NULL");
        return NULL;
    }
    const char *name = path;
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        const size_t len = (size_t)(dot - name);
        fac_child *c = fac__module_child_of(m, name, len);
        if (!c) return missing(m, SOUGHT_CHILD, path, name, len);
        m = c->module;
    }
    *last = name;
    return m;
}

/* Slot of a dotted path; NULL with an error that names what is missing and what is there. */
static fac_slot *find_slot(fac_module *m, const char *path) {
    const char *name;
    fac_module *owner = descend(m, path, &name);
    if (!owner) return NULL;
    fac_slot *s = fac__module_slot(owner, name);
    return s ? s : missing(owner, SOUGHT_TENSOR, path, name, strlen(name));
}

static fac_tensor *find_tensor(fac_module *m, const char *path, fac_slot_kind kind) {
    if (fac_error()) return NULL;
    fac_slot *s = find_slot(m, path);
    if (!s || s->kind == kind) return s ? s->tensor : NULL;
    static const char *const kinds[] = {"a parameter", "a buffer", "computed of other parts (fac_module_value)"};
    FAC_FAIL(FAC_ERR_NOT_FOUND, "'%s' is not %s but %s", path, kinds[kind], kinds[s->kind]);
    return NULL;
}

fac_tensor *fac_module_parameter(fac_module *m, const char *path) { return find_tensor(m, path, FAC_SLOT_PARAMETER); }
fac_tensor *fac_module_buffer(fac_module *m, const char *path) { return find_tensor(m, path, FAC_SLOT_BUFFER); }

fac_module *fac_module_child(fac_module *m, const char *path) {
    const char *name;
    if (fac_error() || !(m = descend(m, path, &name))) return NULL;
    const size_t len = strlen(name);
    fac_child *c = fac__module_child_of(m, name, len);
    return c ? c->module : missing(m, SOUGHT_CHILD, path, name, len);
}

/* ---- another tensor in a slot ---- */

void fac__slot_set(fac_slot *s, fac_tensor *t) {
    fac__handle_ref(t);
    fac__handle_unref(s->tensor);
    s->tensor = t;
}

fac_status fac_module_set_tensor(fac_module *m, const char *path, fac_tensor *t) {
    if (fac_error()) return fac_error();
    if (t && !fac__open(t, "fac_module_set_tensor", "t")) return fac_error();
    fac_slot *s = find_slot(m, path);
    if (!s) return fac_error();
    FAC_CHECK(s->kind != FAC_SLOT_COMPUTED, FAC_ERR_ARGUMENT, "'%s' is computed of other parts, which may be set",
              path);
    if (s->kind == FAC_SLOT_PARAMETER && t && !fac_is_leaf(t))
        return FAC_FAIL(FAC_ERR_AUTOGRAD, "parameter '%s' should be a leaf", path);
    fac__slot_set(s, t);
    return FAC_OK;
}
