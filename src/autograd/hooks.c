/* Lists of hooks and the table of their handles. */
#include "autograd/hooks.h"
#include "autograd/autograd_meta.h"
#include "autograd/engine_ops.h"
#include "base/mutex.h"
#include "core/handle.h"

/* A list's entry; its hook comes first, so that a visit gets from one to the other. */
typedef struct fac_hook_entry {
    fac_listed_hook hook;
    struct fac_hook_entry *prev, *next;
    fac_hooks *list;
    uint64_t id;      /* 0: without a handle */
    atomic_bool dead; /* removed; unlinked once nobody walks the list */
} fac_hook_entry;

/* ---- handles: slot number in the low half, the slot's generation in the high half ---------------------------------- */

/* Guards the table, the links of all lists, and the entries that retain gradients. Never held while a hook runs. */
static fac_mutex lock = FAC_MUTEX_INIT;

#define NO_SLOT UINT32_MAX

static struct {
    struct slot {
        fac_hook_entry *entry; /* NULL: free */
        uint32_t generation;
        uint32_t next_free;
    } * v;
    size_t n, cap;
    size_t named;  /* slots in use; the table is freed with the last */
    uint32_t free; /* the first free slot, NO_SLOT if none; meaningful while n > 0 */
} slots;

static uint32_t generations; /* names given; never 0, so that no handle is NULL */

static fac_status add_slot(void) {
    FAC_CHECK(slots.n < NO_SLOT, FAC_ERR_OVERFLOW, "too many hooks");
    FAC_TRY(FAC_VEC_GROW(&slots));
    slots.free = (uint32_t)slots.n;
    slots.v[slots.n++] = (struct slot){NULL, 0, NO_SLOT};
    return FAC_OK;
}

/* Gives e a number; under the lock. */
static fac_status name_entry(fac_hook_entry *e) {
    if (slots.n == 0 || slots.free == NO_SLOT) FAC_TRY(add_slot());
    const uint32_t i = slots.free;
    slots.free = slots.v[i].next_free;
    if (++generations == 0) generations = 1;
    slots.v[i] = (struct slot){e, generations, NO_SLOT};
    slots.named++;
    e->id = (uint64_t)generations << 32 | i;
    return FAC_OK;
}

/* The entry that `id` names, NULL if it is gone; under the lock. */
static fac_hook_entry *entry_of(uint64_t id) {
    const size_t i = (uint32_t)id;
    return i < slots.n && slots.v[i].generation == id >> 32 ? slots.v[i].entry : NULL;
}

static void drop_table(void) {
    fac__free(slots.v);
    slots.v = NULL;
    slots.n = slots.cap = 0;
}

/* e's number names nothing from now on; under the lock. */
static void forget(fac_hook_entry *e) {
    if (!e->id) return;
    const uint32_t i = (uint32_t)e->id;
    slots.v[i] = (struct slot){NULL, 0, slots.free};
    slots.free = i;
    e->id = 0;
    if (--slots.named == 0) drop_table();
}

/* ---- lists -------------------------------------------------------------------------------------------------------- */

/* In order of registration. Entries are unlinked only while nobody walks the list, so a walk needs no lock between its
   first entry and its last. */
struct fac_hooks {
    fac_hook_entry *first, *last;
    size_t walks, dead;      /* walks under way; entries that were removed during one */
    _Atomic(uint32_t) kinds; /* a bit for each kind that was added since the list was empty; read without the lock */
    bool abandoned;          /* the owner is gone: the last walk frees the list */
};

static const fac_hook_entry *entry_with(const fac_listed_hook *h) { return (const fac_hook_entry *)h; }
static bool alive(const fac_hook_entry *e) { return !atomic_load_explicit(&e->dead, memory_order_relaxed); }

static void append(fac_hooks *list, fac_hook_entry *e) {
    e->list = list;
    e->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = e;
    list->last = e;
    atomic_fetch_or_explicit(&list->kinds, UINT32_C(1) << e->hook.kind, memory_order_relaxed);
}

static void take_out(fac_hook_entry *e) {
    fac_hooks *list = e->list;
    *(e->prev ? &e->prev->next : &list->first) = e->next;
    *(e->next ? &e->next->prev : &list->last) = e->prev;
}

static void unlink_entry(fac_hook_entry *e) {
    fac_hooks *list = e->list;
    take_out(e);
    if (!list->first) atomic_store_explicit(&list->kinds, 0, memory_order_relaxed);
    fac__free(e);
}

static void remove_entry(fac_hook_entry *e) {
    forget(e);
    atomic_store_explicit(&e->dead, true, memory_order_relaxed);
    if (e->list->walks)
        e->list->dead++;
    else
        unlink_entry(e);
}

static void sweep(fac_hooks *list) {
    for (fac_hook_entry *e = list->first, *next; e && list->dead; e = next) {
        next = e->next;
        if (alive(e)) continue;
        unlink_entry(e);
        list->dead--;
    }
}

static void free_list(fac_hooks *list) {
    while (list->first) unlink_entry(list->first);
    fac__free(list);
}

fac_hook *fac__hook_add(fac_hooks **list, fac_listed_hook hook, bool named) {
    if (!*list) *list = fac__alloc_zero(sizeof **list);
    fac_hook_entry *e = *list ? fac__alloc_zero(sizeof *e) : NULL;
    if (!e) return NULL;
    e->hook = hook;
    fac__mutex_lock(&lock);
    fac_status st = named ? name_entry(e) : FAC_OK;
    if (st == FAC_OK) append(*list, e);
    uint64_t id = e->id;
    fac__mutex_unlock(&lock);
    if (st == FAC_OK) return named ? (fac_hook *)(uintptr_t)id : (fac_hook *)e;
    fac__free(e);
    return NULL;
}

void fac_hook_remove(fac_hook *h) {
    fac__mutex_lock(&lock);
    fac_hook_entry *e = entry_of((uintptr_t)h);
    if (e) remove_entry(e);
    fac__mutex_unlock(&lock);
}

static void put_first(fac_hook_entry *e) {
    fac_hooks *list = e->list;
    if (!e->prev) return;
    take_out(e);
    e->prev = NULL;
    e->next = list->first;
    list->first = list->first->prev = e;
}

bool fac__hook_put_first(fac_hook *h) {
    fac__mutex_lock(&lock);
    fac_hook_entry *e = entry_of((uintptr_t)h);
    const bool busy = e && e->list->walks;
    if (e && !busy) put_first(e);
    fac__mutex_unlock(&lock);
    return !busy;
}

void fac__hooks_free(fac_hooks *list) {
    if (!list) return;
    fac__mutex_lock(&lock);
    for (fac_hook_entry *e = list->first; e; e = e->next) {
        forget(e);
        atomic_store_explicit(&e->dead, true, memory_order_relaxed);
    }
    list->abandoned = true;
    if (!list->walks) free_list(list);
    fac__mutex_unlock(&lock);
}

/* ---- walks -------------------------------------------------------------------------------------------------------- */

static bool may_have(fac_hooks *list, int kind) {
    return list && atomic_load_explicit(&list->kinds, memory_order_relaxed) >> kind & 1;
}

static const fac_hook_entry *begin_walk(fac_hooks *list, const fac_hook_entry **out_last) {
    fac__mutex_lock(&lock);
    const fac_hook_entry *first = list->first;
    *out_last = list->last;
    if (first) list->walks++;
    fac__mutex_unlock(&lock);
    return first;
}

static void end_walk(fac_hooks *list) {
    fac__mutex_lock(&lock);
    if (--list->walks == 0) {
        if (list->abandoned)
            free_list(list);
        else
            sweep(list);
    }
    fac__mutex_unlock(&lock);
}

fac_status fac__hooks_each(fac_hooks *list, int kind, fac_hook_visit visit, void *context) {
    const fac_hook_entry *last, *first = may_have(list, kind) ? begin_walk(list, &last) : NULL;
    if (!first) return FAC_OK;
    fac_status st = FAC_OK;
    fac__callback_begin();
    for (const fac_hook_entry *e = first; st == FAC_OK; e = e->next) {
        if (e->hook.kind == kind && alive(e)) st = visit(&e->hook, context);
        if (e == last) break; /* its link may change meanwhile */
    }
    fac__callback_end();
    end_walk(list);
    return st;
}

fac_hook *fac__hook_handle(const fac_listed_hook *h) { return (fac_hook *)(uintptr_t)entry_with(h)->id; }

fac_status fac__hook_call(fac_hook *h, fac_hook_visit visit, void *context) {
    fac__mutex_lock(&lock);
    fac_hook_entry *e = entry_of((uintptr_t)h);
    fac_hooks *list = e ? e->list : NULL;
    if (list) list->walks++;
    fac__mutex_unlock(&lock);
    if (!list) return FAC_OK;
    const fac_status st = visit(&e->hook, context);
    end_walk(list);
    return st;
}

bool fac__hooks_any(fac_hooks *list, int kind) {
    if (!may_have(list, kind)) return false;
    fac__mutex_lock(&lock);
    const fac_hook_entry *e = list->first;
    while (e && (e->hook.kind != kind || !alive(e))) e = e->next;
    fac__mutex_unlock(&lock);
    return e != NULL;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

/* Owned references of what a hook left in place of the gradients it was given. All are taken before any is dropped: it may
   have exchanged them. */
static void take_replaced(fac_tensor *const *grads, fac_tensor *const *before, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (grads[i] != before[i]) fac__take(grads[i]);
    for (size_t i = 0; i < n; i++)
        if (grads[i] != before[i]) fac__unref(before[i]);
}

static fac_status visit_tensor_hook(const fac_listed_hook *h, void *context) {
    fac_tensor **grad = (fac_tensor **)context + h->nr, *before = *grad;
    if (!before) return FAC_OK;
    fac_scope s = fac_scope_begin();
    fac_tensor *r = ((fac_grad_hook)h->fn)(h->context, fac__handle(before));
    if (r) r = fac__open(r, "a hook", "replacement");
    fac_status st = fac_error();
    if (st == FAC_OK && r) {
        *grad = r;
        take_replaced(grad, &before, 1);
    }
    fac_scope_end(&s);
    return st;
}

fac_status fac__run_tensor_hooks(fac_hooks *list, fac_tensor **grads) {
    return fac__hooks_each(list, FAC_HOOK_TENSOR, visit_tensor_hook, grads);
}

typedef fac_status (*pre_hook)(void *context, fac_tensor **grads, size_t n);
typedef fac_status (*post_hook)(void *context, fac_tensor **grad_inputs, size_t n_in, fac_tensor *const *grad_outputs,
                                size_t n_out);
typedef void (*post_accumulate_hook)(void *context, fac_tensor *t);

/* What hooks on a node are called with. */
typedef struct node_call {
    fac_tensor **grads; /* owned and replaceable */
    size_t n;
    fac_tensor *const *outs; /* of post-hooks: what had arrived */
    size_t n_out;
} node_call;

/* The status that a hook returned, or the error that it left pending. */
static fac_status hook_status(fac_status st) {
    if (st != FAC_OK && fac_error() == FAC_OK) return FAC_FAIL(st, "a hook returned an error");
    return fac_error();
}

/* Calls the hook with handles of the gradients, and takes over what it put in their place. */
static fac_status with_handles(const fac_listed_hook *h, const node_call *c, fac_tensor **given, fac_tensors outs) {
    fac_scope s = fac_scope_begin();
    fac_status st = h->kind == FAC_HOOK_PRE ? ((pre_hook)h->fn)(h->context, given, c->n)
                                            : ((post_hook)h->fn)(h->context, given, c->n, outs.v, outs.n);
    st = hook_status(st);
    if (st == FAC_OK) st = fac__to_headers(given, c->n, "a hook", "replacement");
    if (st == FAC_OK) {
        take_replaced(given, c->grads, c->n);
        memcpy(c->grads, given, c->n * sizeof *given);
    }
    fac_scope_end(&s);
    return st;
}

static fac_status visit_node_hook(const fac_listed_hook *h, void *context) {
    const node_call *c = context;
    fac_handle_list given, beside;
    FAC_TRY(fac__handle_list(&given, (fac_tensors){c->grads, c->n}));
    fac_status st = fac__handle_list(&beside, (fac_tensors){c->outs, c->n_out});
    if (st == FAC_OK) st = with_handles(h, c, given.v, beside.l);
    fac__handle_list_free(&beside);
    fac__handle_list_free(&given);
    return st;
}

fac_status fac__run_pre_hooks(fac_hooks *list, fac_tensor **grads, size_t n) {
    node_call c = {grads, n, NULL, 0};
    return fac__hooks_each(list, FAC_HOOK_PRE, visit_node_hook, &c);
}

fac_status fac__run_post_hooks(fac_hooks *list, fac_tensor **grad_inputs, size_t n_in, fac_tensor *const *grad_outputs,
                               size_t n_out) {
    node_call c = {grad_inputs, n_in, grad_outputs, n_out};
    return fac__hooks_each(list, FAC_HOOK_POST, visit_node_hook, &c);
}

static fac_status visit_post_accumulate_hook(const fac_listed_hook *h, void *leaf) {
    fac_scope s = fac_scope_begin();
    ((post_accumulate_hook)h->fn)(h->context, fac__handle(leaf));
    fac_status st = fac_error();
    fac_scope_end(&s);
    return st;
}

fac_status fac__run_post_accumulate_hooks(fac_hooks *list, fac_tensor *leaf) {
    return fac__hooks_each(list, FAC_HOOK_POST_ACCUMULATE, visit_post_accumulate_hook, leaf);
}

/* ---- retained gradients --------------------------------------------------------------------------------------------- */
/* The entry holds its tensor's data without a count, or node and tensor would hold each other. The tensor takes the entry
   off when it dies, and holds the node until then; the lock keeps the data alive for as long as a pass writes to it. */

fac_status fac__retain_at(fac_node *n, uint32_t nr, struct fac_autograd *ag) {
    fac_hook_entry *e =
        (fac_hook_entry *)fac__hook_add(&n->hooks, (fac_listed_hook){NULL, ag, FAC_HOOK_RETAIN, nr, NULL}, false);
    if (!e) return FAC_ERR_MEMORY;
    fac__retain_remove(ag);
    ag->retained = e;
    return FAC_OK;
}

void fac__retain_remove(struct fac_autograd *ag) {
    if (!ag->retained) return;
    fac__mutex_lock(&lock);
    remove_entry(ag->retained);
    fac__mutex_unlock(&lock);
    ag->retained = NULL;
}

/* What the entry's tensor has so far, counted; *out_alive false if it is gone. */
static fac_tensor *retained_so_far(const fac_listed_hook *h, bool *out_alive) {
    fac__mutex_lock(&lock);
    *out_alive = alive(entry_with(h));
    fac_tensor *grad = *out_alive ? fac__ref(((struct fac_autograd *)h->context)->grad) : NULL;
    fac__mutex_unlock(&lock);
    return grad;
}

/* Puts a counted grad where the entry says; returns what it replaced, for release outside the lock. */
static fac_tensor *put_retained(const fac_listed_hook *h, fac_tensor *grad) {
    fac_tensor *old = grad;
    fac__mutex_lock(&lock);
    if (alive(entry_with(h))) {
        struct fac_autograd *ag = h->context;
        old = ag->grad;
        ag->grad = grad;
    }
    fac__mutex_unlock(&lock);
    return old;
}

static fac_status visit_retained(const fac_listed_hook *h, void *context) {
    fac_tensor *grad = ((fac_tensor **)context)[h->nr], *sum = NULL;
    bool wanted = false;
    fac_tensor *before = grad ? retained_so_far(h, &wanted) : NULL;
    if (!wanted) return FAC_OK;
    fac_status st = before ? fac__ag_add(before, grad, &sum) : fac__ag_clone(grad, &sum);
    fac__unref(before);
    if (st == FAC_OK) fac__unref(put_retained(h, sum));
    return st;
}

fac_status fac__run_retain_hooks(fac_hooks *list, fac_tensor *const *grads) {
    return fac__hooks_each(list, FAC_HOOK_RETAIN, visit_retained, (void *)(uintptr_t)grads);
}
