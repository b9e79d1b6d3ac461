/* Saved-tensor hooks: what a graph keeps goes through a pair of user functions. */
#include "autograd/autograd_meta.h"
#include "autograd/mode.h"
#include "autograd/saved.h"
#include "core/handle.h"

_Thread_local fac_saved_tensor_hooks fac__saved_tensor_hooks __attribute__((tls_model("initial-exec")));

void fac_set_saved_tensor_hooks(const fac_saved_tensor_hooks *hooks) {
    if (hooks && !hooks->pack != !hooks->unpack) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "saved-tensor hooks need both pack and unpack, but %s is NULL",
                 hooks->pack ? "unpack" : "pack");
        return;
    }
    fac__saved_tensor_hooks = hooks ? *hooks : (fac_saved_tensor_hooks){NULL, NULL, NULL, NULL};
}

fac_status fac__pack(fac_saved *s, fac_tensor *t) {
    fac_saved_hooks *h = fac__alloc_zero(sizeof *h);
    if (!h) return FAC_ERR_MEMORY;
    h->fn = fac__saved_tensor_hooks;
    fac_status st = s->is_output ? FAC_OK : fac__gradient_edge(t, &s->edge);
    if (st == FAC_OK) {
        fac_scope scope = fac_scope_begin();
        fac_recording was = fac__recording_save(fac__thread());
        fac__thread()->grad_disabled = true;
        fac_set_saved_tensor_hooks(NULL); /* what pack computes is not packed again */
        FAC_CALLBACK(h->handle = h->fn.pack(h->fn.context, fac__handle(t)));
        fac__saved_tensor_hooks = h->fn;
        fac__recording_end(was);
        fac_scope_end(&scope);
        (void)fac__error_prefix("the pack hook of a saved tensor");
        st = fac_error();
    }
    s->hooks = h;
    return st;
}

fac_status fac__unpack_hooked(fac_saved *s, fac_tensor **out) {
    fac_thread *th = fac__thread();
    fac_recording was = fac__recording_save(th);
    th->exclude &= ~(FAC_KS_AUTOGRAD | FAC_KS_ADINPLACEORVIEW); /* user code sees the keys it expects */
    FAC_CALLBACK(*out = s->hooks->fn.unpack(s->hooks->fn.context, s->hooks->handle));
    fac__recording_end(was);
    (void)fac__error_prefix("the unpack hook of a saved tensor");
    if (*out) *out = fac__open(*out, "the unpack hook of a saved tensor", "result");
    FAC_CHECK(*out || fac_error() != FAC_OK, FAC_ERR_AUTOGRAD, "the unpack hook of a saved tensor returned NULL");
    return fac_error();
}

void fac__packed_release(fac_saved_hooks *h) {
    if (h->fn.destroy && h->handle) FAC_CALLBACK(h->fn.destroy(h->fn.context, h->handle));
    fac__free(h);
}
