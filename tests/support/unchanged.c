/* Takes pictures of tensors' bytes, sizes, versions and histories, and compares them. */
#include "unchanged.h"

#include "autograd/autograd_meta.h"
#include "core/guard.h"
#include "core/handle.h"
#include <stdlib.h>

/* Copies a storage's bytes to the host, from any device. */
static bool read_bytes(const fac_storage *s, char *to) {
    if (s->bytes == 0) return true;
    if (s->device.type == FAC_CPU) return memcpy(to, s->data, (size_t)s->bytes) != NULL;
    fac_device cpu = fac_device_make(FAC_CPU, -1);
    return fac__copy_bytes(cpu, to, s->device, s->data, s->bytes, true) == FAC_OK;
}

static bool note(tensor_state *s, const fac_tensor *handle) {
    fac_tensor *t = fac__header(handle);
    *s = (tensor_state){.t = t};
    if (!t) return true;
    s->header = *t;
    memcpy(s->dims, t->sizes, t->ndim * sizeof *s->dims);
    memcpy(s->dims + t->ndim, t->strides, t->ndim * sizeof *s->dims);
    s->version = fac__version_of(t);
    s->requires_grad = fac__requires_grad(t);
    s->grad_fn = t->ag ? t->ag->grad_fn : NULL;
    s->output_nr = t->ag ? t->ag->output_nr : 0;
    if (!t->storage) return true;
    s->storage = *t->storage;
    s->bytes = malloc((size_t)t->storage->bytes + 1);
    return s->bytes && read_bytes(t->storage, s->bytes);
}

bool state_note(state *s, fac_tensor *const *tensors, size_t n) {
    fac_generator_get_state(NULL, &s->seed, &s->offset);
    s->n = n;
    s->tensors = calloc(n ? n : 1, sizeof *s->tensors);
    bool ok = s->tensors != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = note(&s->tensors[i], tensors[i]);
    return ok;
}

void state_free(state *s) {
    for (size_t i = 0; s->tensors && i < s->n; i++) free(s->tensors[i].bytes);
    free(s->tensors);
}

static const char *changed_storage(const tensor_state *s) {
    const fac_storage *now = s->t->storage;
    if (now != s->header.storage) return "storage";
    if (!now) return NULL;
    if (now->bytes != s->storage.bytes) return "storage size";
    if (now->data != s->storage.data) return "storage address";
    char *bytes = malloc((size_t)now->bytes + 1);
    bool same = bytes && read_bytes(now, bytes) && memcmp(bytes, s->bytes, (size_t)now->bytes) == 0;
    free(bytes);
    return same ? NULL : "bytes";
}

static const char *changed_history(const tensor_state *s) {
    const struct fac_autograd *ag = s->t->ag;
    if (fac__version_of(s->t) != s->version) return "version";
    if (fac__requires_grad(s->t) != s->requires_grad) return "requires_grad";
    if ((ag ? ag->grad_fn : NULL) != s->grad_fn) return "grad_fn";
    return (ag ? ag->output_nr : 0) != s->output_nr ? "output of grad_fn" : NULL;
}

static const char *changed(const tensor_state *s) {
    const fac_tensor *t = s->t, *was = &s->header;
    if (t->ndim != was->ndim) return "rank";
    if (memcmp(t->sizes, s->dims, t->ndim * sizeof *s->dims) != 0 || t->numel != was->numel) return "sizes";
    if (memcmp(t->strides, s->dims + t->ndim, t->ndim * sizeof *s->dims) != 0) return "strides";
    if (t->offset != was->offset) return "offset";
    if (t->dtype != was->dtype) return "dtype";
    if (t->flags != was->flags || t->keys != was->keys) return "flags or keys";
    if (!fac_device_equal(t->device, was->device)) return "device";
    const char *what = changed_storage(s);
    return what ? what : changed_history(s);
}

const char *state_changed(const state *s, size_t *out_which) {
    uint64_t seed, offset;
    for (*out_which = 0; *out_which < s->n; ++*out_which) {
        const char *what = s->tensors[*out_which].t ? changed(&s->tensors[*out_which]) : NULL;
        if (what) return what;
    }
    fac_generator_get_state(NULL, &seed, &offset);
    return seed != s->seed || offset != s->offset ? "generator" : NULL;
}
