/* Scopes: one vector of owned temporaries per thread, and marks into it.

   Each reference that a public function returns is in the vector of the calling thread, or it was moved out: by fac_keep to the
   program, by fac_yield to an outer scope, by fac__take to the library. A tensor may stand in the vector several times, once per
   reference. The entries from a scope's mark to the next one's are that scope's; marks rise, so ending a scope ends those
   within it. Only the thread itself touches its vector: a scope that another thread ends is one that has ended. */
#include "core/handle.h"
#include "core/valid.h"

static const uint64_t NO_SCOPE = 0; /* serial of a handle that could not be opened; ending it does nothing */

fac_scope fac_scope_begin(void) {
    fac_thread *th = fac__thread();
    fac_scope none = {NO_SCOPE, 0};
    if (FAC_UNLIKELY(!atomic_load_explicit(&fac__started, memory_order_acquire))) (void)!fac_init();
    if (FAC_UNLIKELY(th->n_scopes == th->cap_scopes)) {
        if (th != fac__tls || th->n_scopes > UINT32_MAX) return none;
        if (fac__vec_grow((void **)&th->marks, th->n_scopes, &th->cap_scopes, sizeof *th->marks) != FAC_OK) return none;
    }
    uint32_t depth = (uint32_t)th->n_scopes++;
    th->marks[depth] = (fac_scope_mark){th->n_temps, ++th->next_serial};
    return (fac_scope){th->next_serial, depth};
}

/* The handle's mark, NULL if it has ended (or was another thread's). */
static fac_scope_mark *mark_of(const fac_thread *th, const fac_scope *s) {
    if (!th || !s || s->serial == NO_SCOPE || s->depth >= th->n_scopes || th->marks[s->depth].serial != s->serial)
        return NULL;
    return &th->marks[s->depth];
}

/* One at a time, since a destructor may look at the vector. */
static void release_temps(fac_thread *th, size_t start) {
    while (th->n_temps > start) {
        fac_tensor *t = th->temps[--th->n_temps];
        if (t) fac__unref(t);
    }
}

void fac_scope_end(fac_scope *s) {
    fac_thread *th = fac__tls;
    const fac_scope_mark *m = mark_of(th, s);
    if (!m) return;
    size_t start = m->start;
    th->n_scopes = s->depth;
    s->serial = NO_SCOPE;
    release_temps(th, start);
}

void fac__scopes_end_all(fac_thread *th) {
    th->n_scopes = 0;
    release_temps(th, 0);
}

void fac_scope_unwind(fac_scope *s) {
    fac_thread *th = fac__tls;
    if (mark_of(th, s)) th->n_scopes = (size_t)s->depth + 1;
}

static fac_tensor *no_scope(fac_tensor *owned) {
    fac__unref(owned);
    FAC_FAIL(FAC_ERR_STATE,
             "no scope is open, so nothing could own the result; write FAC_SCOPE(s); at the top of the block");
    return NULL;
}

fac_tensor *fac__adopt(fac_thread *th, fac_tensor *owned) {
    if (FAC_UNLIKELY(!owned)) return NULL;
    FAC_INVARIANT(fac__tensor_is_valid(owned));
    if (FAC_UNLIKELY(th->n_scopes == 0)) return no_scope(owned);
    if (FAC_UNLIKELY(th->n_temps == th->cap_temps) &&
        fac__vec_grow((void **)&th->temps, th->n_temps, &th->cap_temps, sizeof(fac_tensor *)) != FAC_OK) {
        fac__unref(owned);
        return NULL;
    }
    th->temps[th->n_temps++] = owned;
    return owned;
}

/* Takes t's newest entry out of the innermost scope; false if that scope does not own it. */
static bool remove_temp(fac_thread *th, const fac_tensor *t) {
    if (th->n_scopes == 0) return false;
    size_t start = th->marks[th->n_scopes - 1].start, i = th->n_temps;
    while (i > start && th->temps[i - 1] != t) i--;
    if (i == start) return false;
    th->temps[i - 1] = NULL;
    while (th->n_temps > start && !th->temps[th->n_temps - 1]) th->n_temps--;
    return true;
}

fac_tensor *fac__take(fac_tensor *t) {
    fac_thread *th = fac__tls;
    if (t && !(th && remove_temp(th, t))) fac__ref(t);
    return t;
}

void fac_drop(fac_tensor *t) {
    FAC_OPEN_OPTIONAL(t, "fac_drop", "t");
    if (!t) return;
    fac_thread *th = fac__thread();
    if (remove_temp(th, t))
        fac__unref(t);
    else
        FAC_FAIL(FAC_ERR_STATE,
                 "fac_drop: the tensor is no temporary of the innermost scope; use fac_release for one that was kept");
}

/* The newest entry of the vector moves to the scope around the one at `depth`: it changes places with the first entry
   of each scope on the way, which then begins one later. */
static void sink_top(fac_thread *th, size_t depth) {
    size_t at = th->n_temps - 1;
    for (size_t d = th->n_scopes; d-- > depth;) {
        size_t first = th->marks[d].start++;
        fac_tensor *moved = th->temps[at];
        th->temps[at] = th->temps[first];
        th->temps[first] = moved;
        at = first;
    }
}

fac_tensor *fac_scope_yield(fac_scope *s, fac_tensor *t) {
    fac_thread *th = fac__thread();
    if (!t || th->error != FAC_OK) return NULL;
    FAC_OPEN(t, "fac_yield", "t", NULL);
    return fac__handle(fac__scope_yield(s, t));
}

fac_tensor *fac__scope_yield(fac_scope *s, fac_tensor *t) {
    fac_thread *th = fac__thread();
    if (!t || th->error != FAC_OK) return NULL;
    if (!fac__given(s, "scope")) return NULL;
    if (!mark_of(th, s)) {
        FAC_FAIL(FAC_ERR_STATE, "fac_yield: the scope has ended");
        return NULL;
    }
    if (s->depth == 0) {
        FAC_FAIL(FAC_ERR_STATE, "fac_yield: no scope encloses this one; use fac_keep to let the tensor outlive it");
        return NULL;
    }
    bool on_top = th->n_temps > th->marks[th->n_scopes - 1].start && th->temps[th->n_temps - 1] == t;
    if (!on_top && !fac__adopt(th, fac__ref(t))) return NULL;
    sink_top(th, s->depth);
    return t;
}

/* ---- counted references ------------------------------------------------------------------------------------------- */

fac_tensor *fac_keep(fac_tensor *t) {
    FAC_OPEN_OPTIONAL(t, "fac_keep", "t", NULL);
    if (!t) return NULL;
    fac__count_kept(t);
    return fac__handle(fac__ref(t));
}

bool fac__unkeep(fac_tensor *t) {
    int kept = atomic_load_explicit(&t->kept, memory_order_relaxed);
    while (kept > 0)
        if (atomic_compare_exchange_weak_explicit(&t->kept, &kept, kept - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void fac_release(fac_tensor *t) {
    FAC_OPEN_OPTIONAL(t, "fac_release", "t");
    if (!t) return;
    if (fac__unkeep(t)) {
        fac__unref(t);
        return;
    }
    if (fac_error()) return;
    FAC_FAIL(FAC_ERR_STATE, "the tensor was not kept, or was released as often as it was kept");
    fac__error_context("fac_release", "t");
}
