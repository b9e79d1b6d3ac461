/* Module objects: making, registration, modes. */
#include "nn/module.h"
#include "core/nested.h"
#include "keywords_gen.h"
#include "nn/computed.h"

static void free_slot(fac_slot *s) {
    fac__free(s->name);
    fac__handle_unref(s->tensor);
}

void fac__module_free_parts(const fac_module *m) {
    for (size_t i = 0; i < m->slots.n; i++) free_slot(&m->slots.v[i]);
    for (size_t i = 0; i < m->children.n; i++) {
        fac__free(m->children.v[i].name);
        fac_module_release(m->children.v[i].module);
    }
    fac__free(m->slots.v);
    fac__free(m->children.v);
}

/* After the class's `destroy`, which a module whose `init` failed does without. */
static void free_made(fac_module *m) {
    fac__hooks_free(m->hooks);
    fac__computed_free(m);
    fac__module_free_parts(m);
    fac__free(m->state);
    fac__free(m);
    fac__live_add(-1);
}

static fac_status make_state(fac_module *m) {
    if (m->cls->state_size && !(m->state = fac__alloc_zero(m->cls->state_size))) return fac_error();
    fac_status st = FAC_OK;
    if (m->cls->init) FAC_CALLBACK(st = m->cls->init(m));
    return st ? FAC_FAIL(st, "the state of %s could not be made", m->cls->name) : FAC_OK;
}

fac_module *fac_module_new(const fac_module_class *cls) {
    if (fac_init()) return NULL;
    if (!cls || !cls->name) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "the class of a new module %s", cls ? "has no name" : "is NULL");
        return NULL;
    }
    if (cls->forward_all && (cls->n_outputs < 1 || cls->n_outputs > FAC_MODULE_MAX_OUTPUTS)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "%s: a class has 1 to %d results, not %zu", cls->name, FAC_MODULE_MAX_OUTPUTS,
                 cls->n_outputs);
        return NULL;
    }
    fac_module *m = fac__alloc_zero(sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->refs, 1);
    m->cls = cls;
    m->training = true;
    fac__live_add(1);
    if (make_state(m)) {
        free_made(m);
        return NULL;
    }
    if (cls->init && fac_error()) { /* it has made the state, and left an error all the same */
        fac_module_release(m);
        return NULL;
    }
    return m;
}

fac_module *fac_module_keep(fac_module *m) {
    if (m) atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

static void module_free(fac_module *m) {
    if (m->cls->destroy) FAC_CALLBACK(m->cls->destroy(m));
    free_made(m);
}

void fac_module_release(fac_module *m) {
    if (m && fac__last_ref(&m->refs)) module_free(m);
}

void *fac_module_state(fac_module *m) { return fac__given(m, "module") ? m->state : NULL; }
const fac_module_class *fac_module_class_of(const fac_module *m) { return fac__given(m, "module") ? m->cls : NULL; }

/* ---- registration ---- */

static fac_status check_name(fac_module *m, const char *name) {
    FAC_CHECK(m != NULL, FAC_ERR_ARGUMENT, "a module is NULL");
    FAC_CHECK(name && name[0], FAC_ERR_ARGUMENT, "the name of a part of %s is empty", m->cls->name);
    FAC_CHECK(!strchr(name, '.'), FAC_ERR_ARGUMENT, "the name '%s' holds a dot, which separates modules", name);
    FAC_CHECK(!fac__module_slot(m, name) && !fac__module_child_of(m, name, strlen(name)), FAC_ERR_ARGUMENT,
              "%s already has a part named '%s'", m->cls->name, name);
    return FAC_OK;
}

static fac_status add_slot(fac_module *m, const char *name, fac_tensor *t, fac_slot_kind kind, bool persistent) {
    FAC_TRY(check_name(m, name));
    const fac_tensor *header = t ? fac__open(t, "fac_module_add", name) : NULL;
    if (t && !header) return fac_error();
    FAC_CHECK(!fac__nested_of(header), FAC_ERR_UNSUPPORTED,
              "'%s' is a nested tensor, which cannot be a parameter or a buffer; add its components (unbind)", name);
    FAC_TRY(FAC_VEC_GROW(&m->slots));
    char *copy = fac__strdup(name);
    if (!copy) return fac_error();
    m->slots.v[m->slots.n++] = (fac_slot){copy, fac__handle_ref(t), kind, persistent};
    return FAC_OK;
}

fac_tensor *fac_module_add_parameter(fac_module *m, const char *name, fac_tensor *t) {
    if (fac_error() || (t && !fac__open(t, "fac_module_add", name ? name : "t"))) return NULL;
    if (t && !fac_is_leaf(t)) {
        FAC_FAIL(FAC_ERR_AUTOGRAD, "parameter '%s' was computed by an operation; a parameter should be a leaf",
                 name ? name : "");
        return NULL;
    }
    if (fac_error() || add_slot(m, name, t, FAC_SLOT_PARAMETER, true)) return NULL;
    if (t && (fac_dtype_is_floating(fac_tensor_dtype(t)) || fac_dtype_is_complex(fac_tensor_dtype(t))))
        fac_set_requires_grad(t, true);
    if (!fac_error()) return t;
    free_slot(&m->slots.v[--m->slots.n]);
    return NULL;
}

fac_tensor *(fac_module_add_buffer)(fac_module *m, const char *name, fac_tensor *t,
                                    const fac_module_add_buffer_kw *kw) {
    fac_module_add_buffer_kw k;
    if (fac_error() || fac__open_module_add_buffer_kw(&k, kw)) return NULL;
    return add_slot(m, name, t, FAC_SLOT_BUFFER, k.persistent) ? NULL : t;
}

bool fac__module_holds(const fac_module *m, const fac_module *wanted) {
    if (m == wanted) return true;
    for (size_t i = 0; i < m->children.n; i++)
        if (fac__module_holds(m->children.v[i].module, wanted)) return true;
    return false;
}

fac_module *fac__module_take_child(fac_module *m, size_t i) {
    const fac_child gone = m->children.v[i];
    memmove(&m->children.v[i], &m->children.v[i + 1], (--m->children.n - i) * sizeof gone);
    fac__free(gone.name);
    return gone.module;
}

fac_tensor *fac__module_take_slot(fac_module *m, fac_slot *s) {
    const fac_slot gone = *s;
    const size_t i = (size_t)(s - m->slots.v);
    memmove(s, s + 1, (--m->slots.n - i) * sizeof *s);
    fac__free(gone.name);
    return gone.tensor;
}

static fac_status add_child(fac_module *m, const char *name, fac_module *child) {
    FAC_TRY(check_name(m, name));
    FAC_CHECK(!fac__module_holds(child, m), FAC_ERR_ARGUMENT, "a module cannot be below itself");
    FAC_TRY(FAC_VEC_GROW(&m->children));
    char *copy = fac__strdup(name);
    if (!copy) return fac_error();
    m->children.v[m->children.n++] = (fac_child){copy, child};
    return FAC_OK;
}

fac_module *fac_module_add(fac_module *m, const char *name, fac_module *child) {
    if (!child) {
        if (!fac_error()) FAC_FAIL(FAC_ERR_ARGUMENT, "child '%s' is NULL", name ? name : "");
        return NULL;
    }
    if (fac_error() || add_child(m, name, child)) {
        fac_module_release(child);
        return NULL;
    }
    return child;
}

/* ---- modes ---- */

void fac_module_train(fac_module *m, bool on) {
    if (!fac__given(m, "module")) return;
    m->training = on;
    for (size_t i = 0; i < m->children.n; i++) fac_module_train(m->children.v[i].module, on);
}

bool fac_module_is_training(const fac_module *m) { return fac__given(m, "module") && m->training; }
