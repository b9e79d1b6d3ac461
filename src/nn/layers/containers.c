/* ModuleList, ModuleDict, ParameterList and ParameterDict: parts for modules of one's own. */
#include "nn/module.h"
#include <facula/ops.h>

const fac_module_class fac__module_list_class = {.name = "ModuleList", .version = 1};
const fac_module_class fac__module_dict_class = {.name = "ModuleDict", .version = 1};

/* ---- lists of modules ---- */

static bool is_list(const fac_module *m) {
    if (fac_error() || !fac__given(m, "list")) return false;
    if (m->cls == &fac__module_list_class || m->cls == &fac__sequential_class ||
        m->cls == &fac__parametrization_list_class)
        return true;
    FAC_FAIL(FAC_ERR_ARGUMENT, "a ModuleList or Sequential is wanted, not %s", m->cls->name);
    return false;
}

/* The index from the start, below n; -1 with an error. */
static int64_t place_of(const fac_module *m, int64_t index, size_t n) {
    const int64_t i = index < 0 ? index + (int64_t)n : index;
    if (i >= 0 && i < (int64_t)n) return i;
    FAC_FAIL(FAC_ERR_INDEX, "index %lld is out of range for a %s of %zu", (long long)index, m->cls->name, n);
    return -1;
}

fac_module *fac_module_list_new(fac_module *const *modules, size_t n) {
    return fac__container_new(&fac__module_list_class, modules, n);
}

size_t fac_module_list_len(fac_module *list) { return is_list(list) ? list->children.n : 0; }

fac_module *fac_module_list_get(fac_module *list, int64_t index) {
    if (!is_list(list)) return NULL;
    const int64_t i = place_of(list, index, list->children.n);
    return i < 0 ? NULL : list->children.v[i].module;
}

fac_module *fac_module_list_append(fac_module *list, fac_module *m) {
    char name[24];
    if (!is_list(list)) {
        fac_module_release(m);
        return NULL;
    }
    snprintf(name, sizeof name, "%zu", list->children.n);
    return fac_module_add(list, name, m);
}

/* Names stay where they are, modules move. */
fac_module *fac_module_list_insert(fac_module *list, int64_t index, fac_module *m) {
    const bool good = is_list(list);
    const int64_t i = !good || index == (int64_t)list->children.n ? index : place_of(list, index, list->children.n);
    if (!good || i < 0) {
        fac_module_release(m);
        return NULL;
    }
    if (!fac_module_list_append(list, m)) return NULL;
    fac_child *v = list->children.v;
    for (size_t j = list->children.n - 1; j > (size_t)i; j--) v[j].module = v[j - 1].module;
    return v[i].module = m;
}

/* In the place of a child; takes over m. */
static fac_module *replace(fac_module *owner, fac_child *c, fac_module *m) {
    if (!m || fac__module_holds(m, owner)) {
        if (!fac_error()) FAC_FAIL(FAC_ERR_ARGUMENT, m ? "a module cannot be below itself" : "the module is NULL");
        fac_module_release(m);
        return NULL;
    }
    fac_module *old = c->module;
    c->module = m;
    fac_module_release(old);
    return m;
}

fac_module *fac_module_list_set(fac_module *list, int64_t index, fac_module *m) {
    const int64_t i = is_list(list) ? place_of(list, index, list->children.n) : -1;
    if (i >= 0) return replace(list, &list->children.v[i], m);
    fac_module_release(m);
    return NULL;
}

fac_status fac_module_list_extend(fac_module *list, fac_module *other) {
    if (!is_list(list) || !is_list(other)) return fac_error();
    const size_t n = other->children.n; /* which grows if it is the same list */
    for (size_t i = 0; i < n; i++)
        if (!fac_module_list_append(list, fac_module_keep(other->children.v[i].module))) return fac_error();
    return FAC_OK;
}

fac_module *fac_module_list_pop(fac_module *list, int64_t index) {
    const int64_t i = is_list(list) ? place_of(list, index, list->children.n) : -1;
    if (i < 0) return NULL;
    fac_child *v = list->children.v;
    fac_module *gone = v[i].module;
    for (size_t j = (size_t)i; j + 1 < list->children.n; j++) v[j].module = v[j + 1].module;
    v[list->children.n - 1].module = gone;
    return fac__module_take_child(list, list->children.n - 1);
}

/* ---- modules by name ---- */

static bool is_dict(const fac_module *m, const char *name) {
    if (fac_error() || !fac__given(m, "dict") || !fac__given(name, "name")) return false;
    if (m->cls == &fac__module_dict_class) return true;
    FAC_FAIL(FAC_ERR_ARGUMENT, "a ModuleDict is wanted, not %s", m->cls->name);
    return false;
}

static fac_child *child_named(fac_module *dict, const char *name) {
    return fac__module_child_of(dict, name, strlen(name));
}

fac_module *fac_module_dict_new(void) { return fac__container_new(&fac__module_dict_class, NULL, 0); }

fac_module *fac_module_dict_get(fac_module *dict, const char *name) {
    return is_dict(dict, name) ? fac_module_child(dict, name) : NULL;
}

bool fac_module_dict_has(fac_module *dict, const char *name) { return is_dict(dict, name) && child_named(dict, name); }

fac_module *fac_module_dict_set(fac_module *dict, const char *name, fac_module *m) {
    if (!is_dict(dict, name)) {
        fac_module_release(m);
        return NULL;
    }
    fac_child *c = child_named(dict, name);
    return c ? replace(dict, c, m) : fac_module_add(dict, name, m);
}

fac_module *fac_module_dict_pop(fac_module *dict, const char *name) {
    if (!is_dict(dict, name) || !fac_module_child(dict, name)) return NULL;
    return fac__module_take_child(dict, (size_t)(child_named(dict, name) - dict->children.v));
}

fac_status fac_module_dict_clear(fac_module *dict) {
    if (!is_dict(dict, "")) return fac_error();
    while (dict->children.n) fac_module_release(fac__module_take_child(dict, dict->children.n - 1));
    return FAC_OK;
}

/* ---- parameters ---- */

/* "torch.float32", or, as a dictionary has it, "torch.FloatTensor". */
static void dtype_text(const fac_tensor *t, bool as_type, const char *device, char *buf, size_t size) {
    static const char *const types[][2] = {{"float32", "Float"}, {"float64", "Double"},    {"float16", "Half"},
                                           {"int64", "Long"},    {"bfloat16", "BFloat16"}, {"int32", "Int"}};
    const char *dtype = fac_dtype_name(fac_tensor_dtype(t)), *type = dtype;
    for (size_t j = 0; j < FAC_COUNT(types); j++)
        if (strcmp(types[j][0], dtype) == 0) type = types[j][1];
    const int n = (int)strcspn(device, ":");
    if (as_type)
        snprintf(buf, size, "torch.%.*s%s%sTensor", n, device, n ? "." : "", type);
    else
        snprintf(buf, size, "torch.%s", dtype);
}

static void sizes_text(const fac_tensor *t, char *buf, size_t size) {
    size_t at = 0;
    buf[0] = 0;
    for (int d = 0; d < fac_tensor_ndim(t) && at < size; d++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", d ? "x" : "", (long long)fac_tensor_size(t, d));
}

/* One line for each: "(0): Parameter containing: [torch.float32 of size 2x3]", with the device behind unless it
   is the host. */
static void describe_parameters(fac_module *self, char *buf, size_t size, bool by_type) {
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < self->slots.n && at < size; i++) {
        const fac_tensor *t = self->slots.v[i].tensor;
        const int32_t kind = fac_tensor_device(t).type;
        char device[32] = "", dtype[64], sizes[160];
        if (kind != FAC_CPU && kind != FAC_META) fac_device_format(fac_tensor_device(t), device, sizeof device);
        dtype_text(t, by_type, device, dtype, sizeof dtype);
        sizes_text(t, sizes, sizeof sizes);
        at += (size_t)snprintf(buf + at, size - at, "%s  (%s): Parameter containing: [%s of size %s%s%s%s]",
                               i ? "\n" : "", self->slots.v[i].name, dtype, sizes, *device ? " (" : "", device,
                               *device ? ")" : "");
    }
}

static void list_describe(fac_module *self, char *buf, size_t size) { describe_parameters(self, buf, size, false); }
static void dict_describe(fac_module *self, char *buf, size_t size) { describe_parameters(self, buf, size, true); }

static const fac_module_class parameter_list_class = {.name = "ParameterList", .version = 1, .describe = list_describe};
static const fac_module_class parameter_dict_class = {.name = "ParameterDict", .version = 1, .describe = dict_describe};

static bool holds_parameters(const fac_module *m, const fac_module_class *cls) {
    if (fac_error() || !fac__given(m, "module")) return false;
    if (m->cls == cls) return true;
    FAC_FAIL(FAC_ERR_ARGUMENT, "a %s is wanted, not %s", cls->name, m->cls->name);
    return false;
}

/* In the place of the parameter in a slot, and learned as all parameters. */
static fac_tensor *put(fac_module *m, const fac_slot *s, fac_tensor *t) {
    if (!fac__open(t, "fac_module_set_tensor", s->name) || fac_module_set_tensor(m, s->name, t)) return NULL;
    if (fac_dtype_is_floating(fac_tensor_dtype(t)) || fac_dtype_is_complex(fac_tensor_dtype(t)))
        fac_set_requires_grad(t, true);
    return fac_error() ? NULL : t;
}

static fac_tensor *add_given(fac_module *m, const char *name, fac_tensor *t) {
    return fac__open(t, "fac_module_add", name) ? fac_module_add_parameter(m, name, t) : NULL;
}

size_t fac_parameter_list_len(fac_module *list) {
    return holds_parameters(list, &parameter_list_class) ? list->slots.n : 0;
}

fac_tensor *fac_parameter_list_get(fac_module *list, int64_t index) {
    if (!holds_parameters(list, &parameter_list_class)) return NULL;
    const int64_t i = place_of(list, index, list->slots.n);
    return i < 0 ? NULL : list->slots.v[i].tensor;
}

fac_tensor *fac_parameter_list_append(fac_module *list, fac_tensor *t) {
    char name[24];
    if (!holds_parameters(list, &parameter_list_class)) return NULL;
    snprintf(name, sizeof name, "%zu", list->slots.n);
    return add_given(list, name, t);
}

fac_tensor *fac_parameter_list_set(fac_module *list, int64_t index, fac_tensor *t) {
    if (!holds_parameters(list, &parameter_list_class)) return NULL;
    const int64_t i = place_of(list, index, list->slots.n);
    return i < 0 ? NULL : put(list, &list->slots.v[i], t);
}

fac_status fac_parameter_list_extend(fac_module *list, fac_tensors parameters) {
    FAC_TRY(fac_error());
    if (!fac__list_given(parameters.v, parameters.n, "parameters")) return fac_error();
    for (size_t i = 0; i < parameters.n; i++)
        if (!fac_parameter_list_append(list, parameters.v[i])) return fac_error();
    return FAC_OK;
}

fac_module *fac_parameter_list_new(fac_tensors parameters) {
    fac_module *m = fac_error() ? NULL : fac_module_new(&parameter_list_class);
    return m ? fac__nn_done(m, fac_parameter_list_extend(m, parameters)) : NULL;
}

fac_module *fac_parameter_dict_new(void) { return fac__container_new(&parameter_dict_class, NULL, 0); }

fac_tensor *fac_parameter_dict_get(fac_module *dict, const char *name) {
    return holds_parameters(dict, &parameter_dict_class) ? fac_module_parameter(dict, name) : NULL;
}

bool fac_parameter_dict_has(fac_module *dict, const char *name) {
    return holds_parameters(dict, &parameter_dict_class) && fac__given(name, "name") && fac__module_slot(dict, name);
}

fac_tensor *fac_parameter_dict_set(fac_module *dict, const char *name, fac_tensor *t) {
    if (!holds_parameters(dict, &parameter_dict_class) || !fac__given(name, "name")) return NULL;
    const fac_slot *s = fac__module_slot(dict, name);
    return s ? put(dict, s, t) : add_given(dict, name, t);
}

fac_tensor *fac_parameter_dict_pop(fac_module *dict, const char *name) {
    if (!holds_parameters(dict, &parameter_dict_class) || !fac_module_parameter(dict, name)) return NULL;
    fac_tensor *t = fac__module_take_slot(dict, fac__module_slot(dict, name));
    (void)fac_keep(t);
    fac__handle_unref(t);
    return t;
}

fac_status fac_parameter_dict_clear(fac_module *dict) {
    if (!holds_parameters(dict, &parameter_dict_class)) return fac_error();
    while (dict->slots.n) fac__handle_unref(fac__module_take_slot(dict, &dict->slots.v[dict->slots.n - 1]));
    return FAC_OK;
}
