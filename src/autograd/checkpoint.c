/* Checkpointing: what a piece of the graph saves is dropped and computed again when backward first asks for it.

   The piece is recorded as always, but with saved-tensor hooks that keep a number instead of the tensor. Unpacking runs the
   function once more, with hooks that catch what it saves, in the same order: the k-th caught is the k-th dropped. So
   gradients flow to whatever the function used, leaves it closes over included, and every kind of pass works.

   Within a vmap the frame keeps the values of all samples, and both times the function gets them as samples of fresh levels: those of
   the vmap may be closed when it runs again. So a sample that it closes over is an error the first time. */
#include "autograd/leaf.h"
#include "autograd/mode.h"
#include "autograd/saved.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "ops/batch/batch.h"

typedef struct frame {
    atomic_int refs; /* one per number handed out, and one while forward runs */
    fac_checkpoint_fn fn;
    void *context;
    fac_tensor **inputs; /* owned; an entry may be NULL */
    unsigned *versions;
    size_t n_inputs;
    uint64_t seed, offset; /* of the default generator when forward ran */
    fac_keyset include, exclude;
    fac_autocast autocast;
    fac_batch_levels *levels; /* of samples whose values the inputs are; NULL: of none */
    size_t n_dropped;         /* by forward */
    fac_tensor **caught;      /* by the last run: n_dropped slots, each emptied when it is unpacked */
    size_t n_caught;
} frame;

typedef struct number {
    frame *f;
    size_t i;
} number;

static void drop_caught(frame *f) {
    for (size_t i = 0; f->caught && i < f->n_dropped; i++) fac__unref(f->caught[i]);
    fac__free(f->caught);
    f->caught = NULL;
    f->n_caught = 0;
}

static void frame_unref(frame *f) {
    if (!fac__last_ref(&f->refs)) return;
    drop_caught(f);
    for (size_t i = 0; f->inputs && i < f->n_inputs; i++) fac__unref(f->inputs[i]);
    fac__free(f->inputs);
    fac__free(f->versions);
    fac__batch_levels_unref(f->levels);
    fac__free(f);
}

static frame *frame_new(fac_checkpoint_fn fn, void *context, fac_tensors inputs) {
    const fac_thread *th = fac__thread();
    frame *f = fac__alloc_zero(sizeof *f);
    if (!f) return NULL;
    atomic_init(&f->refs, 1);
    f->fn = fn;
    f->context = context;
    f->include = th->include;
    f->exclude = th->exclude;
    f->autocast = th->autocast;
    f->autocast.uncached = true; /* when it is run again */
    fac_generator_get_state(fac_default_generator(), &f->seed, &f->offset);
    f->n_inputs = inputs.n;
    f->inputs = fac__alloc_array(inputs.n, sizeof *f->inputs);
    f->versions = fac__alloc_array(inputs.n, sizeof *f->versions);
    bool whole = f->inputs && f->versions;
    for (size_t i = 0; f->inputs && i < inputs.n; i++) f->inputs[i] = fac__ref(inputs.v[i]);
    for (size_t i = 0; whole && i < inputs.n; i++) f->versions[i] = inputs.v[i] ? fac__version_of(inputs.v[i]) : 0;
    if (whole) return f;
    frame_unref(f);
    return NULL;
}

/* ---- running it again ---------------------------------------------------------------------------------------------------- */

static void *catch_saved(void *context, fac_tensor *t) {
    frame *f = context;
    if (f->n_caught < f->n_dropped && fac__alias(fac__header(t), true, &f->caught[f->n_caught]) != FAC_OK) return NULL;
    f->n_caught++;
    return f;
}

static fac_tensor *never_unpacked(void *context, void *handle) {
    (void)context, (void)handle;
    FAC_FAIL(FAC_ERR_AUTOGRAD, "a checkpointed function may not run backward through what it computes");
    return NULL;
}

/* Temporaries that stand for the inputs: the same memory, cut off from what made them. */
static fac_status detached_inputs(const frame *f, fac_tensor **out) {
    fac_thread *th = fac__thread();
    for (size_t i = 0; i < f->n_inputs; i++) {
        out[i] = NULL;
        if (!f->inputs[i]) continue;
        FAC_CHECK(fac__version_of(f->inputs[i]) == f->versions[i], FAC_ERR_AUTOGRAD,
                  "input %zu of a checkpointed function has been modified by an inplace operation since it ran", i);
        fac_tensor *alias = NULL;
        FAC_TRY(fac__alias(f->inputs[i], true, &alias));
        out[i] = fac__adopt(th, alias);
        if (!out[i]) return fac_error();
        if (fac__requires_grad(f->inputs[i])) FAC_TRY(fac__set_requires_grad(out[i], true));
    }
    return FAC_OK;
}

static fac_tensor *call_back(fac_checkpoint_fn fn, void *context, fac_tensors inputs) {
    fac_tensor *y;
    FAC_CALLBACK(y = fn(context, inputs));
    return y;
}

/* The function's result, a handle, or the value of one that is a sample. */
static fac_tensor *call_with_samples(const frame *f, fac_tensor **inputs) {
    fac_batch_stay stay;
    fac_tensor *y = NULL;
    FAC_TRY_NULL(fac__batch_enter(f->levels, &stay));
    if (fac__batch_raise_all(inputs, f->n_inputs, f->levels->n) == FAC_OK) {
        fac__to_handles(inputs, f->n_inputs);
        y = call_back(f->fn, f->context, (fac_tensors){inputs, f->n_inputs});
    }
    fac_status st = y ? fac__to_headers(&y, 1, "checkpoint", "output") : fac_error();
    if (st == FAC_OK && y) st = fac__batch_lower_all(&y, 1, f->levels->n);
    fac__batch_leave(&stay);
    return st == FAC_OK ? fac__handle(y) : NULL;
}

/* Of headers. */
static fac_tensor *call_frame(const frame *f, fac_tensor **inputs) {
    if (f->levels) return call_with_samples(f, inputs);
    fac__to_handles(inputs, f->n_inputs);
    return call_back(f->fn, f->context, (fac_tensors){inputs, f->n_inputs});
}

static fac_status run_again(frame *f) {
    fac_tensor **inputs = fac__alloc_array(f->n_inputs, sizeof *inputs);
    if (!inputs) return FAC_ERR_MEMORY;
    if (detached_inputs(f, inputs) == FAC_OK) call_frame(f, inputs);
    fac__free(inputs);
    return fac_error();
}

/* With the random numbers, the keys and the mode of the first time. */
static fac_status recompute(frame *f) {
    drop_caught(f);
    f->caught = fac__alloc_zero(f->n_dropped * sizeof *f->caught);
    if (!f->caught) return FAC_ERR_MEMORY;
    uint64_t seed, offset;
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    fac_generator_set_state(fac_default_generator(), f->seed, f->offset);
    fac_saved_tensor_hooks outer = fac__saved_tensor_hooks;
    fac__saved_tensor_hooks = (fac_saved_tensor_hooks){catch_saved, never_unpacked, NULL, f};
    fac_thread *th = fac__thread();
    const fac_autocast autocast = th->autocast;
    fac_recording was = fac__recording_begin();
    fac__include_restore(th, f->include);
    fac__autocast_set(th, f->autocast);
    th->exclude = f->exclude;
    fac_scope s = fac_scope_begin();
    fac_status st = run_again(f);
    fac_scope_end(&s);
    th->autocast = autocast;
    fac__recording_end(was);
    fac__saved_tensor_hooks = outer;
    fac_generator_set_state(fac_default_generator(), seed, offset);
    FAC_TRY(st);
    FAC_CHECK(
        f->n_caught == f->n_dropped, FAC_ERR_AUTOGRAD,
        "a checkpointed function saved %zu tensors when it was run again, but %zu the first time; it must do the same "
        "both times",
        f->n_caught, f->n_dropped);
    return FAC_OK;
}

/* ---- hooks of the first run -------------------------------------------------------------------------------------------------- */

static void *drop_saved(void *context, fac_tensor *t) {
    (void)t;
    frame *f = context;
    number *n = fac__alloc(sizeof *n);
    if (!n) return NULL;
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    *n = (number){f, f->n_dropped++};
    return n;
}

static fac_tensor *compute_saved(void *context, void *handle) {
    (void)context;
    const number *n = handle;
    if (!n->f->caught || !n->f->caught[n->i]) FAC_TRY_NULL(recompute(n->f));
    fac_tensor *t = n->f->caught[n->i];
    n->f->caught[n->i] = NULL;
    return fac__adopt_handle(fac__thread(), t);
}

static void forget_number(void *context, void *handle) {
    (void)context;
    number *n = handle;
    frame_unref(n->f);
    fac__free(n);
}

/* Values in the place of the samples; those of the innermost scope. */
static fac_status begin_samples(frame *f) {
    if (!fac__thread()->batch) return FAC_OK;
    f->levels = fac__batch_levels_now();
    if (!f->levels) return fac_error();
    for (size_t i = 0; i < f->n_inputs; i++) {
        fac_tensor *value = NULL;
        if (!f->inputs[i]) continue;
        FAC_TRY(fac__batch_lower(f->inputs[i], &value));
        fac__unref(f->inputs[i]);
        f->inputs[i] = value;
        f->versions[i] = fac__version_of(value);
    }
    return FAC_OK;
}

static frame *frame_of_handles(fac_checkpoint_fn fn, void *context, fac_tensors inputs) {
    fac_handle_list open;
    frame *f = NULL;
    if (fac__open_list(&open, inputs, true, "checkpoint", "inputs") == FAC_OK) f = frame_new(fn, context, open.l);
    fac__handle_list_free(&open);
    if (f && begin_samples(f) == FAC_OK) return f;
    if (f) frame_unref(f);
    return NULL;
}

/* The first time: the function's result, of which nothing that it saves is kept. */
static fac_tensor *run_first(frame *f, fac_tensors inputs) {
    fac__thread()->autocast.uncached = true; /* both times, as what a cast saves is counted too */
    if (!f->levels) return call_back(f->fn, f->context, inputs);
    fac_tensor **values = fac__alloc_array(f->n_inputs + 1, sizeof *values), *y = NULL;
    if (!values) return NULL;
    for (size_t i = 0; i < f->n_inputs; i++) values[i] = f->inputs[i];
    const fac_batch_sight was = fac__batch_hide(NULL);
    y = call_with_samples(f, values);
    fac__batch_see(was);
    fac__free(values);
    if (y && (fac__to_headers(&y, 1, "checkpoint", "output") || fac__batch_raise_all(&y, 1, f->levels->n))) return NULL;
    return y ? fac__handle(y) : NULL;
}

fac_tensor *fac_checkpoint(fac_checkpoint_fn fn, void *context, fac_tensors inputs) {
    FAC_TRY_NULL(fac_error());
    if (!fn || (inputs.n && !inputs.v)) {
        FAC_FAIL(FAC_ERR_ARGUMENT, "checkpoint needs a function and its inputs");
        return NULL;
    }
    if (!fac__grad_enabled(fac__thread())) return call_back(fn, context, inputs);
    frame *f = frame_of_handles(fn, context, inputs);
    if (!f) return NULL;
    fac_saved_tensor_hooks outer = fac__saved_tensor_hooks;
    fac__saved_tensor_hooks = (fac_saved_tensor_hooks){drop_saved, compute_saved, forget_number, f};
    const fac_autocast autocast = fac__thread()->autocast;
    fac_scope s = fac_scope_begin();
    fac_tensor *out = fac_scope_yield(&s, run_first(f, inputs));
    fac_scope_end(&s);
    fac__thread()->autocast = autocast;
    fac__saved_tensor_hooks = outer;
    frame_unref(f);
    return out;
}
