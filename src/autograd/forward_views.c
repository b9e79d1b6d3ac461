/* Views that were made before their base became a dual tensor. A plain tensor becomes dual where a dual one changes it, and nobody
   knows its views. So from then on, as long as its level is open, the thread's calls all come by the fallback of ForwardAD, which
   gives such a view among its arguments its own part of the base's tangent: the way from the base is gone again. */
#include "autograd/autograd_meta.h"
#include "autograd/forward_call.h"

/* The outermost level in which a plain tensor has become dual on this thread. */
static _Thread_local fac_level since __attribute__((tls_model("initial-exec")));

void fac__dual_note_change(fac_level level) {
    if (!fac__level_is_open(since) || level.number < since.number) since = level;
}

fac_level fac__dual_watched(void) { return since; }

/* Once the level is closed, those inside it may be open still, if another thread had opened it. */
void fac__dual_watch_views(fac_thread *th) {
    if (!since.number || th != fac__tls) return;
    if (!fac__level_is_open(since)) since = fac__level_outermost();
    if (since.number)
        th->include |= FAC_KS_FORWARD;
    else
        th->include &= ~FAC_KS_FORWARD;
}

void fac__dual_watch_from(fac_thread *th, fac_level level) {
    if (th != fac__tls) return;
    since = level;
    fac__dual_watch_views(th);
}

static bool is_behind(const fac_tensor *t) {
    const fac_dual_parts *base = t->ag && t->ag->base ? fac__dual_parts(t->ag->base) : NULL;
    const fac_dual_parts *own = base ? fac__dual_parts(t) : NULL;
    return base && fac__differentiable((fac_dtype)t->dtype) && (!own || own->level.number < base->level.number);
}

static fac_status replay(fac_tensor *t, fac_tensor **out) {
    fac_view_step *way = NULL;
    FAC_TRY(fac__view_way(t, &way));
    const fac_recording was = fac__recording_begin();
    const fac_status st = fac__view_replay(way, t->ag->base, out);
    fac__recording_end(was);
    fac__view_step_unref(way);
    return st;
}

/* A history from before the base became dual is the primal's. A base that wants a gradient on the level leads to a new one. */
static fac_status take_parts(fac_tensor *t, const fac_dual_parts *p) {
    if (!fac__requires_grad(t->ag->base))
        fac__node_unref(atomic_exchange_explicit(&t->ag->grad_fn, NULL, memory_order_acq_rel));
    return fac__dual_become(t, fac__ref(p->primal), fac__ref(p->tangent), p->level);
}

static fac_status catch_up(fac_tensor *t) {
    fac_tensor *again = NULL;
    if (!is_behind(t)) return FAC_OK;
    fac_status st = replay(t, &again);
    const fac_dual_parts *p = fac__dual_parts(again), *base = fac__dual_parts(t->ag->base);
    /* a view by detach has no tangent */
    if (st == FAC_OK && p && p->level.number == base->level.number) st = take_parts(t, p);
    fac__unref(again);
    return st;
}

fac_status fac__dual_catch_up(fac_tensor *t) {
    if (!t || fac__thread()->tangents_off) return FAC_OK;
    FAC_TRY(catch_up(t));
    fac_tensor *part = fac__dual_open_part(t);
    return part != t ? catch_up(part) : FAC_OK;
}
