/* Lists of hooks and the table of their handles. */
#include "autograd/hooks.h"
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include <pthread.h>

/* ---- handles: slot number in the low half, the slot's generation in the high half ---------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the table, and the entries that retain gradients */
static struct {
    struct slot {
        fac_hook_entry *entry; /* NULL: free */
        uint32_t generation;
    } * v;
    size_t n, cap;
    size_t named; /* slots in use; the table is freed with the last */
} slots;

static uint32_t generations; /* names given; never 0, so that no handle is NULL */

/* Gives e a number; under the lock. */
static fac_status name_entry(fac_hook_entry *e) {
    size_t i = 0;
    while (i < slots.n && slots.v[i].entry) i++;
    if (i == slots.n) {
        FAC_CHECK(i < UINT32_MAX, FAC_ERR_OVERFLOW, "too many hooks");
        FAC_TRY(FAC_VEC_GROW(&slots));
        slots.v[slots.n++] = (struct slot){NULL, 0};
    }
    if (++generations == 0) generations = 1;
    slots.v[i] = (struct slot){e, generations};
    slots.named++;
    e->id = (uint64_t)slots.v[i].generation << 32 | (uint32_t)i;
    return FAC_OK;
}

/* The slot that `id` names, NULL if its hook is gone; under the lock. */
static struct slot *slot_of(uint64_t id) {
    size_t i = (uint32_t)id;
    return i < slots.n && slots.v[i].entry && slots.v[i].generation == id >> 32 ? &slots.v[i] : NULL;
}

static void forget(uint64_t id) {
    struct slot *s = id ? slot_of(id) : NULL;
    if (!s) return;
    s->entry = NULL;
    if (--slots.named) return;
    fac__free(slots.v);
    slots.v = NULL;
    slots.n = slots.cap = 0;
}

void fac_hook_remove(fac_hook *h) {
    uint64_t id = (uintptr_t)h;
    pthread_mutex_lock(&lock);
    struct slot *s = slot_of(id);
    if (s) {
        atomic_store_explicit(&s->entry->dead, true, memory_order_relaxed);
        s->entry->id = 0;
        forget(id);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- lists -------------------------------------------------------------------------------------------------------- */

static fac_hooks *list_of(fac_hooks **list) {
    if (!*list) *list = fac__alloc_zero(sizeof **list);
    return *list;
}

fac_hook *fac__hook_add(fac_hooks **list, int kind, uint32_t nr, void (*fn)(void), void *context, bool named) {
    fac_hook_entry *e = list_of(list) ? fac__alloc_zero(sizeof *e) : NULL;
    if (!e) return NULL;
    e->kind = kind;
    e->nr = nr;
    e->fn = fn;
    e->context = context;
    pthread_mutex_lock(&lock);
    fac_status st = named ? name_entry(e) : FAC_OK;
    if (st == FAC_OK) {
        fac_hook_entry **at = &(*list)->first;
        while (*at) at = &(*at)->next;
        *at = e;
    }
    uint64_t id = e->id;
    pthread_mutex_unlock(&lock);
    if (st == FAC_OK) return named ? (fac_hook *)(uintptr_t)id : (fac_hook *)e;
    fac__free(e);
    return NULL;
}

void fac__hooks_free(fac_hooks *list) {
    if (!list) return;
    pthread_mutex_lock(&lock);
    for (fac_hook_entry *e = list->first; e; e = e->next) forget(e->id);
    pthread_mutex_unlock(&lock);
    for (fac_hook_entry *e = list->first, *next; e; e = next) {
        next = e->next;
        fac__free(e);
    }
    fac__free(list);
}

static bool alive(const fac_hook_entry *e) { return !atomic_load_explicit(&e->dead, memory_order_relaxed); }

/* The first live entry of a kind from e on. */
static const fac_hook_entry *next_of(const fac_hook_entry *e, int kind) {
    while (e && (e->kind != kind || !alive(e))) e = e->next;
    return e;
}

#define EACH_HOOK(e, list, kind) \
    for (const fac_hook_entry *e = (list) ? next_of((list)->first, kind) : NULL; e; e = next_of(e->next, kind))

bool fac__hooks_any(const fac_hooks *list, int kind) { return list && next_of(list->first, kind); }

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* Owned references of the temporaries that a hook left in place of the gradients it was given. */
static void take_replaced(fac_tensor **grads, fac_tensor *const *before, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (grads[i] == before[i]) continue;
        fac__take(grads[i]);
        fac__unref(before[i]);
    }
}

fac_status fac__run_tensor_hooks(const fac_hooks *list, uint32_t nr, fac_tensor **grad) {
    EACH_HOOK(e, list, FAC_HOOK_TENSOR) {
        if (e->nr != nr || !*grad) continue;
        fac_scope s = fac_scope_begin();
        fac_tensor *before = *grad, *r = ((fac_grad_hook)e->fn)(e->context, before);
        fac_status st = fac_error();
        if (st == FAC_OK && r) {
            *grad = r;
            take_replaced(grad, &before, 1);
        }
        fac_scope_end(&s);
        FAC_TRY(st);
    }
    return FAC_OK;
}

typedef fac_status (*pre_hook)(void *context, fac_tensor **grads, size_t n);
typedef fac_status (*post_hook)(void *context, fac_tensor **grad_inputs, size_t n_in, fac_tensor *const *grad_outputs,
                                size_t n_out);
typedef void (*post_accumulate_hook)(void *context, fac_tensor *t);

/* The status that a hook returned, or the error that it left pending. */
static fac_status hook_status(fac_status st) {
    if (st != FAC_OK && fac_error() == FAC_OK) return FAC_FAIL(st, "a hook returned an error");
    return fac_error();
}

/* Calls `call` with room for the gradients as they were, so that what was replaced can be told. */
static fac_status with_copy(const fac_hook_entry *e, fac_tensor **grads, size_t n, fac_tensor *const *outs,
                            size_t n_out) {
    fac_tensor *few[8], **before = n <= FAC_COUNT(few) ? few : fac__alloc_array(n, sizeof *before);
    if (!before) return FAC_ERR_MEMORY;
    memcpy(before, grads, n * sizeof *before);
    fac_scope s = fac_scope_begin();
    fac_status st = e->kind == FAC_HOOK_PRE ? ((pre_hook)e->fn)(e->context, grads, n)
                                            : ((post_hook)e->fn)(e->context, grads, n, outs, n_out);
    st = hook_status(st);
    if (st == FAC_OK)
        take_replaced(grads, before, n);
    else
        memcpy(grads, before, n * sizeof *before);
    fac_scope_end(&s);
    if (before != few) fac__free(before);
    return st;
}

fac_status fac__run_pre_hooks(const fac_hooks *list, fac_tensor **grads, size_t n) {
    EACH_HOOK(e, list, FAC_HOOK_PRE) FAC_TRY(with_copy(e, grads, n, NULL, 0));
    return FAC_OK;
}

fac_status fac__run_post_hooks(const fac_hooks *list, fac_tensor **grad_inputs, size_t n_in,
                               fac_tensor *const *grad_outputs, size_t n_out) {
    EACH_HOOK(e, list, FAC_HOOK_POST) FAC_TRY(with_copy(e, grad_inputs, n_in, grad_outputs, n_out));
    return FAC_OK;
}

fac_status fac__run_post_accumulate_hooks(const fac_hooks *list, fac_tensor *leaf) {
    EACH_HOOK(e, list, FAC_HOOK_POST_ACCUMULATE) {
        fac_scope s = fac_scope_begin();
        ((post_accumulate_hook)e->fn)(e->context, leaf);
        fac_status st = fac_error();
        fac_scope_end(&s);
        FAC_TRY(st);
    }
    return FAC_OK;
}

/* ---- retained gradients --------------------------------------------------------------------------------------------- */
/* The entry holds its tensor's data without a count, or node and tensor would hold each other. The tensor takes the entry
   off when it dies; the lock keeps the data alive for as long as a pass writes to it. */

fac_status fac__retain_add(fac_node *n, uint32_t nr, struct fac_autograd *ag) {
    return fac__hook_add(&n->hooks, FAC_HOOK_RETAIN, nr, NULL, ag, false) ? FAC_OK : FAC_ERR_MEMORY;
}

void fac__retain_remove(fac_node *n, const struct fac_autograd *ag) {
    if (!n || !n->hooks) return;
    pthread_mutex_lock(&lock);
    for (fac_hook_entry *e = n->hooks->first; e; e = e->next)
        if (e->kind == FAC_HOOK_RETAIN && e->context == ag) atomic_store_explicit(&e->dead, true, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

/* What the entry's tensor has so far, counted; *out_alive false if it is gone. */
static fac_tensor *retained_so_far(const fac_hook_entry *e, bool *out_alive) {
    pthread_mutex_lock(&lock);
    *out_alive = alive(e);
    fac_tensor *grad = *out_alive ? fac__ref(((struct fac_autograd *)e->context)->grad) : NULL;
    pthread_mutex_unlock(&lock);
    return grad;
}

/* Puts a counted grad where the entry says; returns what it replaced, for release outside the lock. */
static fac_tensor *put_retained(const fac_hook_entry *e, fac_tensor *grad) {
    fac_tensor *old = grad;
    pthread_mutex_lock(&lock);
    if (alive(e)) {
        struct fac_autograd *ag = e->context;
        old = ag->grad;
        ag->grad = grad;
    }
    pthread_mutex_unlock(&lock);
    return old;
}

fac_status fac__run_retain_hooks(const fac_hooks *list, uint32_t nr, fac_tensor *grad) {
    EACH_HOOK(e, list, FAC_HOOK_RETAIN) {
        if (e->nr != nr || !grad) continue;
        bool wanted;
        fac_tensor *sum = NULL, *before = retained_so_far(e, &wanted);
        if (!wanted) continue;
        fac_status st = before ? fac__ag_add(before, grad, &sum) : fac__ag_clone(grad, &sum);
        fac__unref(before);
        FAC_TRY(st);
        fac__unref(put_retained(e, sum));
    }
    return FAC_OK;
}
