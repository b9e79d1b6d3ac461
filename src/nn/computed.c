/* Tensors of modules that are computed of other parts. */
#include "nn/computed.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

fac_computed *fac__computed_of(const fac_module *m, const char *name) {
    for (size_t i = 0; i < m->computed.n; i++)
        if (strcmp(m->computed.v[i].name, name) == 0) return &m->computed.v[i];
    return NULL;
}

fac_status fac__compute_all(fac_module *m, bool update) {
    for (size_t i = 0; i < m->computed.n; i++) {
        fac_tensor *t = m->computed.v[i].compute(m, &m->computed.v[i], update);
        if (!t) return fac_error();
        fac__slot_set(fac__module_slot(m, m->computed.v[i].name), t);
    }
    return FAC_OK;
}

fac_tensor *fac__slot_value(fac_module *m, fac_slot *s) {
    const fac_computed *c = s->kind == FAC_SLOT_COMPUTED ? fac__computed_of(m, s->name) : NULL;
    return c ? c->compute(m, c, false) : s->tensor;
}

fac_slot *fac__filled_slot(fac_module *m, const char *name, const char *op) {
    if (fac_error() || !fac__given(m, "module") || !fac__given(name, "name")) return NULL;
    fac_slot *s = fac__module_slot(m, name);
    if (s && s->tensor) return s;
    FAC_FAIL(FAC_ERR_NOT_FOUND, "%s: %s has no parameter or buffer '%s'", op, m->cls->name, name);
    return NULL;
}

fac_tensor *fac_module_value(fac_module *m, const char *name) {
    fac_slot *s = fac__filled_slot(m, name, "module_value");
    if (!s) return NULL;
    fac_scope scope = fac_scope_begin();
    fac_tensor *t = fac__slot_value(m, s);
    if (t && s->kind == FAC_SLOT_COMPUTED) t = fac_scope_yield(&scope, t);
    fac_scope_end(&scope);
    return t;
}

/* ---- beginning and ending ---- */

fac_computed *fac__computed_begin(fac_module *m, fac_slot *s, fac_compute_fn compute) {
    if (FAC_VEC_GROW(&m->computed)) return NULL;
    char *name = fac__strdup(s->name);
    if (!name) return NULL;
    fac_computed *c = &m->computed.v[m->computed.n++];
    *c = (fac_computed){.name = name, .compute = compute, .persistent = s->persistent};
    c->buffer = s->kind == FAC_SLOT_BUFFER;
    s->kind = FAC_SLOT_COMPUTED;
    s->persistent = false;
    return c;
}

void fac__computed_end(fac_module *m, const char *name, fac_tensor *t) {
    fac_slot *s = fac__module_slot(m, name);
    fac_computed *c = fac__computed_of(m, name);
    s->kind = c->buffer ? FAC_SLOT_BUFFER : FAC_SLOT_PARAMETER;
    s->persistent = c->persistent;
    fac__slot_set(s, t);
    fac__free(c->name);
    memmove(c, c + 1, (size_t)(m->computed.v + --m->computed.n - c) * sizeof *c);
}

static void part_name(char name[160], const char *base, const char *suffix) {
    snprintf(name, 160, "%s%s", base, suffix);
}

fac_status fac__computed_part(fac_module *m, const char *name, const char *suffix, fac_tensor *t, bool buffer) {
    char full[160];
    part_name(full, name, suffix);
    if (!t) return fac_error();
    if (buffer) {
        (void)fac_module_add_buffer(m, full, t);
        return fac_error();
    }
    const bool learned = fac_requires_grad(t);
    if (fac_module_add_parameter(m, full, t)) fac_set_requires_grad(t, learned);
    return fac_error();
}

static fac_slot *part_slot(fac_module *m, const char *name, const char *suffix) {
    char full[160];
    part_name(full, name, suffix);
    return fac__module_slot(m, full);
}

fac_tensor *fac__computed_part_of(fac_module *m, const char *name, const char *suffix) {
    const fac_slot *s = part_slot(m, name, suffix);
    if (s && s->tensor) return s->tensor;
    FAC_FAIL(FAC_ERR_NOT_FOUND, "%s has no '%s%s', of which '%s' is computed", m->cls->name, name, suffix, name);
    return NULL;
}

fac_tensor *fac__computed_take(fac_module *m, const char *name, const char *suffix) {
    fac_slot *s = part_slot(m, name, suffix);
    return s ? fac__module_take_slot(m, s) : NULL;
}

static fac_status begin_with(fac_module *m, const char *name, const fac_computed *how) {
    fac_computed *c = fac__computed_begin(m, fac__module_slot(m, name), how->compute);
    if (!c) return fac_error();
    c->dim = how->dim, c->iterations = how->iterations, c->eps = how->eps;
    return fac__compute_all(m, false);
}

fac_status fac__computed_start(fac_module *m, const char *name, const fac_computed *how, const char *const *suffixes,
                               fac_status st) {
    fac_tensor *own = fac__handle_ref(fac__module_slot(m, name)->tensor);
    if (!st) st = begin_with(m, name, how);
    if (st && fac__computed_of(m, name)) fac__computed_end(m, name, own);
    for (; st && *suffixes; suffixes++) fac__handle_unref(fac__computed_take(m, name, *suffixes));
    fac__handle_unref(own);
    return st;
}

/* ---- with the module ---- */

void fac__computed_free(fac_module *m) {
    for (size_t i = 0; i < m->computed.n; i++) fac__free(m->computed.v[i].name);
    fac__free(m->computed.v);
}

fac_status fac__computed_slot(fac_module *to, const char *name) {
    FAC_TRY(FAC_VEC_GROW(&to->slots));
    char *copy = fac__strdup(name);
    if (!copy) return fac_error();
    to->slots.v[to->slots.n++] = (fac_slot){copy, NULL, FAC_SLOT_COMPUTED, false};
    return FAC_OK;
}

/* The parts are there already; the values are made anew. */
fac_status fac__computed_copy(fac_module *to, const fac_module *m) {
    for (size_t i = 0; i < m->computed.n; i++) {
        FAC_TRY(FAC_VEC_GROW(&to->computed));
        fac_computed c = m->computed.v[i];
        if (!(c.name = fac__strdup(c.name))) return fac_error();
        to->computed.v[to->computed.n++] = c;
    }
    if (!m->computed.n) return FAC_OK;
    fac_scope s = fac_scope_begin();
    FAC_NO_GRAD(g);
    const fac_status st = fac__compute_all(to, false);
    fac_scope_end(&s);
    return st;
}
