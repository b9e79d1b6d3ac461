/* Moving and casting a module's tensors, and copying whole modules. */
#include "core/guard.h"
#include "keywords_gen.h"
#include "nn/computed.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <stdatomic.h>

static atomic_bool overwrite_params;

bool fac_set_overwrite_module_params(bool on) { return atomic_exchange(&overwrite_params, on); }

/* What a tensor becomes, in the innermost scope; t itself if nothing changes. */
typedef fac_tensor *(*convert_fn)(const void *context, fac_tensor *t);

/* A parameter keeps its identity (its data is swapped) unless the process asked for new objects. Its gradient
   follows, with its own requires_grad. */
static fac_status convert_parameter(fac_slot *slot, convert_fn fn, const void *context) {
    FAC_NO_GRAD(g);
    fac_tensor *t = slot->tensor, *r = fn(context, t), *grad = fac_grad_of(t);
    if (!r) return fac_error();
    fac_tensor *new_grad = NULL;
    if (grad && !(new_grad = fn(context, grad))) return fac_error();
    if (r == t && new_grad == grad) return FAC_OK;
    const bool requires_grad = fac_requires_grad(t), grad_requires = grad && fac_requires_grad(grad);
    fac__handle_ref(new_grad);
    fac_status st = FAC_OK;
    if (r != t && atomic_load(&overwrite_params)) {
        fac_tensor *leaf = fac_detach(r);
        if (!leaf)
            st = fac_error();
        else {
            if (requires_grad) fac_set_requires_grad(leaf, true);
            fac__slot_set(slot, leaf);
            t = leaf;
        }
    } else if (r != t) {
        if (grad) st = fac_set_grad(t, NULL);
        if (!st) st = fac_set_data(t, r);
    }
    if (!st && new_grad) {
        if (grad_requires && new_grad != grad) fac_set_requires_grad(new_grad, true);
        st = fac_set_grad(t, new_grad);
    }
    fac__handle_unref(new_grad);
    return st;
}

static fac_status convert_slots(fac_module *m, fac_slot_kind kind, convert_fn fn, const void *context) {
    for (size_t i = 0; i < m->slots.n; i++) {
        fac_slot *s = &m->slots.v[i];
        if (!s->tensor || s->kind != kind) continue;
        fac_scope scope = fac_scope_begin();
        fac_status st = FAC_OK;
        if (kind == FAC_SLOT_PARAMETER)
            st = convert_parameter(s, fn, context);
        else {
            fac_tensor *r = fn(context, s->tensor);
            if (r)
                fac__slot_set(s, r);
            else
                st = fac_error();
        }
        fac_scope_end(&scope);
        if (st) return st;
    }
    return FAC_OK;
}

/* Children, then parameters with their gradients, then buffers. */
static fac_status convert(fac_module *m, convert_fn fn, const void *context) {
    for (size_t i = 0; i < m->children.n; i++) FAC_TRY(convert(m->children.v[i].module, fn, context));
    FAC_TRY(convert_slots(m, FAC_SLOT_PARAMETER, fn, context));
    return convert_slots(m, FAC_SLOT_BUFFER, fn, context);
}

/* What a memory format is asked of. */
static bool is_image(fac_tensor *t) { return fac_tensor_ndim(t) == 4 || fac_tensor_ndim(t) == 5; }

static fac_tensor *to_kw(const void *context, fac_tensor *t) {
    const fac_module_to_kw *kw = context;
    const fac_dtype d = fac_tensor_dtype(t);
    const bool cast = kw->dtype && (fac_dtype_is_floating(d) || fac_dtype_is_complex(d));
    const fac_memory_format format = is_image(t) ? kw->memory_format : FAC_FORMAT_DEFAULT;
    fac_device device = kw->device.type ? kw->device : fac_tensor_device(t);
    FAC_TRY_NULL(fac__device_resolve(&device));
    const bool lies = !format || format == FAC_PRESERVE || fac_tensor_is_contiguous_as(t, format);
    if (lies && (!cast || kw->dtype == d) && fac_device_equal(device, fac_tensor_device(t))) return t;
    return fac_to(t, .dtype = cast ? kw->dtype : d, .device = device, .non_blocking = kw->non_blocking,
                  .memory_format = format);
}

/* Refuses a format that one of the tensors cannot have, before any is converted. */
static fac_status check_format(void *context, const char *path, fac_module *owner, fac_slot *s) {
    (void)owner;
    const fac_memory_format format = *(const fac_memory_format *)context;
    const int wanted = format == FAC_CHANNELS_LAST ? 4 : format == FAC_CHANNELS_LAST_3D ? 5 : 0;
    if (!wanted || !s->tensor || !is_image(s->tensor)) return FAC_OK;
    FAC_CHECK(fac_tensor_ndim(s->tensor) == wanted, FAC_ERR_ARGUMENT,
              "required rank %d tensor to use %s format, but %s has %d dimensions", wanted,
              wanted == 4 ? "channels_last" : "channels_last_3d", path, fac_tensor_ndim(s->tensor));
    return FAC_OK;
}

/* Takes over what a given tensor is. */
static fac_status follow_tensor(fac_module_to_kw *kw) {
    if (!kw->tensor) return FAC_OK;
    FAC_CHECK(!kw->dtype && !kw->device.type, FAC_ERR_ARGUMENT,
              "fac_module_to takes either a tensor or a dtype and a device");
    kw->dtype = fac_tensor_dtype(kw->tensor);
    kw->device = fac_tensor_device(kw->tensor);
    return FAC_OK;
}

fac_status(fac_module_to)(fac_module *m, const fac_module_to_kw *kw) {
    fac_module_to_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_module_to_kw(&k, kw));
    if (!fac__given(m, "module")) return fac_error();
    FAC_TRY(follow_tensor(&k));
    FAC_CHECK(!k.dtype || fac_dtype_is_floating(k.dtype) || fac_dtype_is_complex(k.dtype), FAC_ERR_DTYPE,
              "fac_module_to only accepts floating or complex dtypes, but got %s", fac_dtype_name(k.dtype));
    FAC_TRY(fac__module_walk_slots(m, check_format, &k.memory_format));
    return convert(m, to_kw, &k);
}

fac_status fac_module_cuda(fac_module *m, int index) {
    return fac_module_to(m, .device = fac_device_make(FAC_CUDA, index));
}

fac_status fac_module_cpu(fac_module *m) { return fac_module_to(m, .device = fac_device_make(FAC_CPU, -1)); }

static fac_status switch_grad(void *context, const char *path, fac_module *owner, fac_slot *s) {
    (void)path, (void)owner;
    if (s->kind == FAC_SLOT_PARAMETER && s->tensor && !fac_set_requires_grad(s->tensor, *(bool *)context))
        return fac_error();
    return FAC_OK;
}

fac_status fac_module_set_requires_grad(fac_module *m, bool on) { return fac__module_walk_slots(m, switch_grad, &on); }

static fac_status drop_grad(void *context, const char *path, fac_module *owner, fac_slot *s) {
    (void)context, (void)path, (void)owner;
    return s->kind == FAC_SLOT_PARAMETER && s->tensor ? fac_set_grad(s->tensor, NULL) : FAC_OK;
}

fac_status fac_module_zero_grad(fac_module *m) { return fac__module_walk_slots(m, drop_grad, NULL); }

/* ---- copying ---- */

/* What became of each tensor and module already copied, so that shared ones stay shared. */
typedef struct copies {
    struct copy_pair {
        void *from, *to;
    } * v;
    size_t n, cap;
} copies;

static void *copied(const copies *c, const void *from) {
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].from == from) return c->v[i].to;
    return NULL;
}

static fac_status remember(copies *c, void *from, void *to) {
    FAC_TRY(FAC_VEC_GROW(c));
    c->v[c->n++] = (struct copy_pair){from, to};
    return FAC_OK;
}

static fac_status copy_slot(copies *c, fac_module *to, const fac_slot *s) {
    if (s->kind == FAC_SLOT_COMPUTED) return fac__computed_slot(to, s->name);
    fac_scope scope = fac_scope_begin();
    fac_tensor *t = s->tensor ? copied(c, s->tensor) : NULL;
    fac_status st = FAC_OK;
    if (s->tensor && !t) {
        FAC_NO_GRAD(g);
        t = fac_clone(s->tensor);
        st = t ? remember(c, s->tensor, t) : fac_error();
    }
    if (!st && s->kind == FAC_SLOT_PARAMETER) {
        fac_module_add_parameter(to, s->name, t);
        if (t && !fac_error()) fac_set_requires_grad(t, fac_requires_grad(s->tensor));
        st = fac_error();
    } else if (!st) {
        (void)fac_module_add_buffer(to, s->name, t, .persistent = s->persistent);
        st = fac_error();
    }
    fac_scope_end(&scope);
    return st;
}

fac_status fac_module_copy_values(fac_module *copy, fac_module *self) {
    FAC_CHECK(copy && self && copy->cls == self->cls, FAC_ERR_ARGUMENT,
              "values are copied between two modules of one class");
    if (self->cls->state_size) memcpy(copy->state, self->state, self->cls->state_size);
    return FAC_OK;
}

/* Of a module that has its parts already, so that the class finds them by their names. */
static fac_status copy_state(fac_module *to, fac_module *m) {
    fac_status st = FAC_OK;
    if (m->cls->copy) FAC_CALLBACK(st = m->cls->copy(to, m));
    return st ? FAC_FAIL(st, "the state of %s could not be copied", m->cls->name) : fac_error();
}

static fac_module *copy_tree(copies *c, fac_module *m);

static fac_status copy_into(copies *c, fac_module *to, fac_module *m) {
    FAC_TRY(remember(c, m, to));
    for (size_t i = 0; i < m->slots.n; i++) FAC_TRY(copy_slot(c, to, &m->slots.v[i]));
    for (size_t i = 0; i < m->children.n; i++) {
        fac_module *child = copy_tree(c, m->children.v[i].module);
        if (!child || !fac_module_add(to, m->children.v[i].name, child)) return fac_error();
    }
    FAC_TRY(copy_state(to, m));
    return fac__computed_copy(to, m);
}

static fac_module *copy_tree(copies *c, fac_module *m) {
    fac_module *shared = copied(c, m);
    if (shared) return fac_module_keep(shared);
    if ((m->cls->state_size || m->cls->destroy) && !m->cls->copy) {
        FAC_FAIL(
            FAC_ERR_UNSUPPORTED,
            "%s cannot be copied: its class has no `copy` function (fac_module_copy_values serves a state without pointers)",
            m->cls->name);
        return NULL;
    }
    fac_module *to = fac_module_new(m->cls);
    if (!to) return NULL;
    /* What `init` has added lives until the copy's state, or the `destroy` of a copy that failed, needs it no
       more. */
    const fac_module added = {.slots = to->slots, .children = to->children};
    memset(&to->slots, 0, sizeof to->slots);
    memset(&to->children, 0, sizeof to->children);
    to->training = m->training;
    to = fac__nn_done(to, copy_into(c, to, m));
    fac__module_free_parts(&added);
    return to;
}

fac_module *fac_module_copy(fac_module *m) {
    if (fac_error() || !fac__given(m, "module")) return NULL;
    copies c = {0};
    fac_module *r = copy_tree(&c, m);
    fac__free(c.v);
    return r;
}
