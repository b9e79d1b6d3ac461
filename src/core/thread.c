/* Thread states: made on first use, freed by a pthread key's destructor. Objects freed on a thread go to that thread's
   own lists, whichever thread made them: headers are all alike, so none has to go home. */
#include "core/thread.h"
#include "base/mutex.h"
#include "core/slot.h"
#include <pthread.h>

_Thread_local fac_thread *fac__tls __attribute__((tls_model("initial-exec")));

atomic_bool fac__started;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static fac_mutex lock = FAC_MUTEX_INIT; /* all below, and the links between states */
static fac_thread *all_threads;
static uint64_t thread_count;                 /* ever made; the high half of a scope's serial */
static _Atomic(int64_t) live_of_the_departed; /* also counts for threads that have no state */

/* What a thread gets when there is no memory for a state: every operator is inert, since an error is pending. It is
   shared, so nothing but the error is read from it. */
static fac_thread no_memory = {
    .error = FAC_ERR_MEMORY,
    .error_message = no_memory.error_text,
    .facts = {.source_file = "", .op = "thread", .line = -1}, /* so that nothing is written into it */
    .error_text = "out of memory: cannot allocate the state of a thread",
};
static _Thread_local bool stateless; /* this thread was given the above, and has not cleared the error since */

fac_thread *fac__thread_if_any(void) { return fac__tls ? fac__tls : stateless ? &no_memory : NULL; }

void fac__thread_forgive(void) { stateless = false; }

static fac_thread *without_state(void) {
    stateless = true;
    return &no_memory;
}

static void free_list(fac_freelist *l) {
    for (void *p = fac__freelist_pop(l); p; p = fac__freelist_pop(l)) fac__free(p);
}

/* Of the rooms above; never taken out again. */
typedef void (*trim_fn)(fac_thread *th);
static _Atomic(trim_fn) trims[4];

void fac__thread_on_trim(void (*trim)(fac_thread *th)) {
    size_t i = 0;
    for (; i < FAC_COUNT(trims); i++) {
        trim_fn old = NULL;
        if (atomic_compare_exchange_strong(&trims[i], &old, trim) || old == trim) return;
    }
    FAC_ASSERT(i < FAC_COUNT(trims));
}

static void free_lists(fac_thread *th) {
    fac__slots_return(th);
    free_list(&th->storages);
    free_list(&th->versions);
    for (size_t i = 0; i < FAC_SMALL_CLASSES; i++) free_list(&th->small[i]);
    for (size_t i = 0; i < FAC_COUNT(trims); i++) {
        trim_fn trim = atomic_load_explicit(&trims[i], memory_order_acquire);
        if (trim) trim(th);
    }
}

static void unlink_thread(fac_thread *th) {
    fac__mutex_lock(&lock);
    if (th->prev)
        th->prev->next = th->next;
    else
        all_threads = th->next;
    if (th->next) th->next->prev = th->prev;
    fac__cancel_end(th);
    atomic_fetch_add_explicit(&live_of_the_departed, atomic_load_explicit(&th->live, memory_order_relaxed),
                              memory_order_relaxed);
    fac__mutex_unlock(&lock);
}

/* Releases the temporaries of scopes that the thread left open, then everything it caches. */
static void end_thread(void *state) {
    fac_thread *th = state;
    fac__tls = th; /* pthreads clears the key's value, not ours; destructors below use it */
    fac__scopes_end_all(th);
    if (th->dual_depth) fac__autograd.end_thread(th);
    if (th->casts) th->drop_casts(th);
    fac_error_clear();
    free_lists(th);
    fac__free(th->temps);
    fac__free(th->marks);
    fac__tls = NULL;
    unlink_thread(th);
    fac__free(th);
}

static void make_key(void) { key_made = pthread_key_create(&key, end_thread) == 0; }

static void link_thread(fac_thread *th) {
    fac__mutex_lock(&lock);
    th->next_serial = ++thread_count << 40; /* serials differ between threads too */
    th->next = all_threads;
    if (all_threads) all_threads->prev = th;
    all_threads = th;
    fac__cancel_begin(th);
    fac__mutex_unlock(&lock);
}

fac_thread *fac__thread_start(void) {
    pthread_once(&key_once, make_key);
    /* Not fac__alloc, which would report a failure to the state that is not there yet. */
    fac_thread *th = fac__memory_hook.alloc(fac__memory_hook.ctx, sizeof *th, _Alignof(max_align_t));
    if (!th) return without_state();
    memset(th, 0, sizeof *th);
    if (!key_made || pthread_setspecific(key, th) != 0) {
        fac__free(th);
        return without_state();
    }
    th->error_message = th->error_text;
    th->facts.source_file = "";
    link_thread(th);
    fac__tls = th;
    if (stateless) FAC_FAIL(FAC_ERR_MEMORY, "%s", no_memory.error_text); /* still pending: nobody has cleared it */
    stateless = false;
    if (fac_init() != FAC_OK) return th; /* the error is pending in the new state */
    return th;
}

void *fac__object_alloc_slow(const fac_thread *th, size_t bytes) { return th == &no_memory ? NULL : fac__alloc(bytes); }

#define BLOCK_STEP 128 /* the sizes of blocks on the lists fac_thread.small[] are multiples of this */

static size_t block_class(size_t bytes) { return bytes ? (bytes - 1) / BLOCK_STEP : 0; }

void *fac__block_new(fac_thread *th, size_t bytes) {
    size_t c = block_class(bytes);
    if (FAC_UNLIKELY(c >= FAC_SMALL_CLASSES)) return fac__object_alloc_slow(th, bytes);
    return fac__object_alloc(th, &th->small[c], (c + 1) * BLOCK_STEP);
}

void fac__block_free(void *p, size_t bytes) {
    size_t c = block_class(bytes);
    fac_thread *th = fac__tls;
    if (FAC_LIKELY(p && th && c < FAC_SMALL_CLASSES) && fac__freelist_push(&th->small[c], p, FAC_FREELIST_MAX)) return;
    fac__free(p);
}

void fac__thread_end(void) {
    fac_thread *th = fac__tls;
    if (!th) return;
    pthread_setspecific(key, NULL);
    end_thread(th);
}

void fac__thread_trim(void) {
    fac_thread *th = fac__tls;
    if (!th) return;
    free_lists(th);
    if (th->n_scopes) return;
    fac__free(th->temps);
    fac__free(th->marks);
    th->temps = NULL;
    th->marks = NULL;
    th->cap_temps = th->cap_scopes = 0;
}

void fac__threads_each(void (*visit)(void *context, fac_thread *th), void *context) {
    fac__mutex_lock(&lock);
    for (fac_thread *th = all_threads; th; th = th->next) visit(context, th);
    fac__mutex_unlock(&lock);
}

/* ---- live objects ------------------------------------------------------------------------------------------------ */

void fac__live_add(int64_t n) {
    fac_thread *th = fac__tls;
    if (FAC_LIKELY(th != NULL))
        fac__count(&th->live, n);
    else
        atomic_fetch_add_explicit(&live_of_the_departed, n, memory_order_relaxed);
}

static void add_live(void *total, fac_thread *th) {
    *(int64_t *)total += atomic_load_explicit(&th->live, memory_order_relaxed);
}

int64_t fac_live(void) {
    int64_t total = 0;
    fac__threads_each(add_live, &total);
    return total + atomic_load_explicit(&live_of_the_departed, memory_order_relaxed);
}
