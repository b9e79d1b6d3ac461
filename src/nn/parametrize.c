/* Parametrisations: parameters that are the results of modules. Module m holds a ModuleDict "parametrizations" with
   a list for each name, of the modules through which the originals go, and of the originals as parameters or
   buffers. */
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include "nn/computed.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>

const fac_module_class fac__parametrization_list_class = {.name = "ParametrizationList", .version = 1};

static fac_module *list_of(fac_module *m, const char *name) {
    const fac_child *all = fac__module_child_of(m, "parametrizations", strlen("parametrizations"));
    if (!all || all->module->cls != &fac__module_dict_class) return NULL;
    const fac_child *c = fac__module_child_of(all->module, name, strlen(name));
    return c ? c->module : NULL;
}

/* What the modules of a list make of the originals. */
static fac_tensor *result_of(const fac_module *list, fac_tensors originals) {
    fac_tensor *y = originals.v[0];
    for (size_t i = 0; i < list->children.n && y; i++)
        y = i ? fac_forward(list->children.v[i].module, y) : fac_forward_many(list->children.v[i].module, originals);
    return y;
}

static fac_tensor *compute(fac_module *m, const fac_computed *c, bool update) {
    const fac_module *list = list_of(m, c->name);
    fac_tensor *originals[FAC_MODULE_MAX_OUTPUTS];
    if (!list || !list->slots.n || list->slots.n > FAC_COUNT(originals)) {
        FAC_FAIL(FAC_ERR_STATE, "%s: '%s' has lost its parametrisation", m->cls->name, c->name);
        return NULL;
    }
    (void)update;
    for (size_t i = 0; i < list->slots.n; i++) originals[i] = list->slots.v[i].tensor;
    return result_of(list, (fac_tensors){originals, list->slots.n});
}

bool fac_parametrize_is_parametrized(fac_module *m, const char *name) {
    if (fac_error() || !fac__given(m, "module")) return false;
    if (name) return list_of(m, name) != NULL;
    const fac_child *all = fac__module_child_of(m, "parametrizations", strlen("parametrizations"));
    return all && all->module->cls == &fac__module_dict_class && all->module->children.n;
}

/* ---- registering ---- */

static fac_status check_same(const char *name, const fac_tensor *was, const fac_tensor *is) {
    FAC_CHECK(is, FAC_ERR_ARGUMENT, "a parametrisation must return a tensor");
    FAC_CHECK(fac_tensor_dtype(was) == fac_tensor_dtype(is), FAC_ERR_DTYPE,
              "a parametrisation may not change the dtype of '%s', %s, to %s, unless `unsafe` is given", name,
              fac_dtype_name(fac_tensor_dtype(was)), fac_dtype_name(fac_tensor_dtype(is)));
    FAC_CHECK(fac__same_sizes(fac__header(was), fac__header(is)), FAC_ERR_SHAPE,
              "a parametrisation may not change the shape of '%s', %s, to %s, unless `unsafe` is given", name,
              FAC_SHAPE_TEXT(fac__header(was)), FAC_SHAPE_TEXT(fac__header(is)));
    return FAC_OK;
}

/* One more for a tensor that has some. */
static fac_status add_to_list(fac_module *m, const char *name, fac_module *p, bool unsafe) {
    if (!unsafe) {
        fac_tensor *before = fac_module_value(m, name), *after = before ? fac_forward(p, before) : NULL;
        FAC_TRY(fac_error());
        FAC_TRY(check_same(name, before, after));
    }
    return fac_module_list_append(list_of(m, name), fac_module_keep(p)) ? FAC_OK : fac_error();
}

/* From what the present value can be made. */
static fac_status invert(fac_module *p, fac_tensor *value, fac_tensor **out, size_t *n) {
    out[0] = value, *n = 1;
    if (!p->cls->right_inverse) return FAC_OK;
    FAC_NO_GRAD(g);
    fac_status st = FAC_OK;
    FAC_CALLBACK(st = p->cls->right_inverse(p, value, out, n));
    FAC_TRY(fac_error());
    if (st == FAC_ERR_UNSUPPORTED) return out[0] = value, *n = 1, FAC_OK;
    FAC_CHECK(!st && *n >= 1 && *n <= FAC_MODULE_MAX_OUTPUTS, FAC_ERR_ARGUMENT, "right_inverse of %s gave %zu tensors",
              p->cls->name, *n);
    return FAC_OK;
}

/* A tensor alone keeps the parameter that there is, several are new ones. */
static fac_status add_originals(fac_module *list, const fac_slot *s, fac_tensor *const *v, size_t n) {
    const bool buffer = s->kind == FAC_SLOT_BUFFER, learned = fac_requires_grad(s->tensor);
    if (n == 1) {
        if (v[0] != s->tensor) {
            FAC_CHECK(fac_tensor_dtype(v[0]) == fac_tensor_dtype(s->tensor), FAC_ERR_DTYPE,
                      "right_inverse may not change the dtype");
            FAC_NO_GRAD(g);
            FAC_TRY(fac_set_data(s->tensor, v[0]));
        }
        return fac__computed_part(list, "original", "", s->tensor, buffer);
    }
    for (size_t i = 0; i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        fac_tensor *leaf = fac_detach(v[i]);
        if (leaf && learned) fac_set_requires_grad(leaf, true);
        FAC_TRY(fac__computed_part(list, "original", number, leaf, buffer));
    }
    return FAC_OK;
}

static fac_status add_list(fac_module *m, const char *name, fac_module *list) {
    const fac_child *all = fac__module_child_of(m, "parametrizations", strlen("parametrizations"));
    fac_module *dict = all ? all->module : fac_module_add(m, "parametrizations", fac_module_dict_new());
    return dict && fac_module_dict_set(dict, name, fac_module_keep(list)) ? FAC_OK : fac_error();
}

/* Takes the list, and the dictionary with the last one, out of m. */
static void drop_list(fac_module *m, const char *name) {
    fac_child *all = fac__module_child_of(m, "parametrizations", strlen("parametrizations"));
    if (!all) return;
    const fac_child *c = fac__module_child_of(all->module, name, strlen(name));
    if (c) fac_module_release(fac__module_take_child(all->module, (size_t)(c - all->module->children.v)));
    if (!all->module->children.n) fac_module_release(fac__module_take_child(m, (size_t)(all - m->children.v)));
}

/* The tensor is no longer a parameter of m but what its list computes; as before where that fails. */
static fac_status use_list(fac_module *m, const char *name, fac_module *list) {
    static const char *const none[] = {NULL};
    const fac_computed how = {.compute = compute};
    const fac_status st = fac__computed_start(m, name, &how, none, add_list(m, name, list));
    if (st) drop_list(m, name);
    return st;
}

static fac_status fill_list(fac_module *m, fac_slot *s, fac_module *list, fac_module *p, bool unsafe) {
    fac_tensor *originals[FAC_MODULE_MAX_OUTPUTS] = {NULL};
    size_t n;
    if (!fac_module_list_append(list, fac_module_keep(p))) return fac_error();
    FAC_TRY(invert(p, s->tensor, originals, &n));
    if (!unsafe) FAC_TRY(check_same(s->name, s->tensor, result_of(list, (fac_tensors){originals, n})));
    FAC_TRY(fac_error());
    fac_tensor *own = s->tensor, *before = fac_detach(own);
    if (!before) return fac_error();
    fac_status st = add_originals(list, s, originals, n);
    if (!st) st = use_list(m, s->name, list);
    if (st) (void)!fac__set_data(fac__header(own), fac__header(before)); /* of a kind, so that nothing is refused */
    return st;
}

static fac_status add_first(fac_module *m, fac_slot *s, fac_module *p, bool unsafe) {
    FAC_CHECK(s->kind != FAC_SLOT_COMPUTED, FAC_ERR_ARGUMENT,
              "'%s' is pruned or normed; it can be parametrised when that is removed", s->name);
    fac_module *list = fac__container_new(&fac__parametrization_list_class, NULL, 0);
    if (!list) return fac_error();
    const fac_status st = fill_list(m, s, list, p, unsafe);
    fac_module_release(list);
    return st;
}

static fac_status register_in_scope(fac_module *m, const char *name, fac_module *p, bool unsafe) {
    FAC_SCOPE(s);
    fac_slot *slot = fac__filled_slot(m, name, "parametrize_register");
    if (!slot) return fac_error();
    FAC_CHECK(p, FAC_ERR_ARGUMENT, "the parametrisation is NULL");
    FAC_CHECK(!fac__module_holds(p, m), FAC_ERR_ARGUMENT, "a module cannot be below itself");
    fac_module_train(p, m->training);
    return list_of(m, name) ? add_to_list(m, name, p, unsafe) : add_first(m, slot, p, unsafe);
}

fac_status(fac_parametrize_register)(fac_module *m, const char *name, fac_module *parametrization,
                                     const fac_parametrize_register_kw *kw) {
    fac_parametrize_register_kw k;
    fac_status st = fac_error();
    if (!st) st = fac__open_parametrize_register_kw(&k, kw);
    if (!st) st = register_in_scope(m, name, parametrization, k.unsafe);
    fac_module_release(parametrization);
    return st;
}

/* ---- removing ---- */

/* What the tensor becomes: an original with the present value or its own, or a new leaf. */
static fac_tensor *what_stays(fac_module *m, const char *name, const fac_module *list, bool parametrized) {
    FAC_NO_GRAD(g);
    fac_tensor *original = list->slots.v[0].tensor;
    if (list->slots.n == 1 && !parametrized) return original;
    if (!parametrized) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "'%s' is made of several tensors, which cannot be left in its place", name);
        return NULL;
    }
    fac_tensor *value = fac_module_value(m, name);
    if (!value) return NULL;
    if (list->slots.n == 1) return fac_set_data(original, fac_detach(value)) ? NULL : original;
    fac_tensor *leaf = fac_clone(value);
    return leaf && fac_requires_grad(original) ? fac_set_requires_grad(leaf, true) : leaf;
}

fac_status(fac_parametrize_remove)(fac_module *m, const char *name, const fac_parametrize_remove_kw *kw) {
    fac_parametrize_remove_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_parametrize_remove_kw(&k, kw));
    if (!fac__filled_slot(m, name, "parametrize_remove")) return fac_error();
    const fac_module *list = list_of(m, name);
    FAC_CHECK(list, FAC_ERR_NOT_FOUND, "%s has no parametrisation of '%s'", m->cls->name, name);
    FAC_SCOPE(s);
    fac_tensor *t = what_stays(m, name, list, k.leave_parametrized);
    if (!t) return fac_error();
    fac__computed_end(m, name, t);
    drop_list(m, name);
    return fac_error();
}
