/* Levels, batched tensors, and the way from these to the values of all samples and back. */
#include "core/tensor_make.h"
#include "ops/batch/batch.h"
#include "ops_gen.h"

/* ---- levels ----------------------------------------------------------------------------------------------------- */

#define BATCHED_KEY (fac__func_bit(FAC_KEY_BATCHED))

void fac__batch_open(fac_batch_level *l, int64_t size, fac_batch_random random) {
    static _Atomic(uint64_t) last_id;
    fac_thread *th = fac__thread();
    *l = (fac_batch_level){.outer = th->batch,
                           .id = atomic_fetch_add(&last_id, 1) + 1,
                           .size = size,
                           .random = random,
                           .include = th->include};
    th->batch = l;
    th->include |= BATCHED_KEY; /* so that random operators without a batched argument come by as well */
}

void fac__batch_close(const fac_batch_level *l) {
    fac_thread *th = fac__thread();
    th->batch = l->outer;
    fac__include_restore(th, l->include);
}

fac_batch_sight fac__batch_hide(const fac_batch_level *l) {
    fac_thread *th = fac__thread();
    const fac_batch_sight was = {th->batch, th->include};
    th->batch = l;
    if (!l) th->include &= ~BATCHED_KEY;
    return was;
}

void fac__batch_see(fac_batch_sight s) {
    fac_thread *th = fac__thread();
    th->batch = s.batch;
    fac__include_restore(th, s.include);
}

const fac_batch_level *fac__batch_level_of(const fac_tensor *t) {
    const fac_batched *b = fac__batched(t);
    for (const fac_batch_level *l = fac__thread()->batch; b && l; l = l->outer)
        if (l->id == b->level) return l;
    FAC_FAIL(FAC_ERR_STATE,
             "a batched tensor is used after its vmap has ended, or where it is out of sight: in a hook, in "
             "a backward pass, on another thread. What leaves a vmap are the outputs of its function");
    return NULL;
}

int fac__batch_depth(void) {
    int n = 0;
    for (const fac_batch_level *l = fac__thread()->batch; l; l = l->outer) n++;
    return n;
}

/* ---- batched tensors -------------------------------------------------------------------------------------------- */

static void destroy(fac_tensor *t) {
    fac_batched *b = t->ext;
    fac__unref(b->value);
    fac__free(b);
}

const fac_tensor_class fac__batched_class = {
    .name = "batched",
    .destroy = destroy,
    .unread = "each sample of a vmap has its own. Compute with operators, and read the output of vmap"};

/* The sizes and strides of one sample. */
static fac_status show_sample(const fac_tensor *value, int dim, fac_batched *b, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS], strides[FAC_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < value->ndim; d++) {
        if (d == dim) continue;
        sizes[n] = value->sizes[d];
        strides[n++] = value->strides[d];
    }
    const fac_keyset kept = FAC_BACKEND_MASK | fac__func_bit(FAC_KEY_CONJUGATE) | fac__func_bit(FAC_KEY_FORWARD_AD) |
                            fac__func_bit(FAC_KEY_QUANTIZED); /* of float8 */
    const fac_geometry g = {.sizes = sizes,
                            .strides = strides,
                            .ndim = n,
                            .dtype = (fac_dtype)value->dtype,
                            .device = value->device,
                            .keys = (value->keys & kept) | FAC_KS_DENSE | BATCHED_KEY,
                            .flags = value->flags & (FAC_TF_PENDING | FAC_TF_INFERENCE)};
    return fac__tensor_of_class(&fac__batched_class, b, &g, out);
}

fac_status fac__batch_check(const fac_tensor *value) {
    FAC_CHECK(
        !fac__is_opaque(value), FAC_ERR_UNSUPPORTED,
        "within vmap a sample cannot be a %s tensor; make it dense (fac_to_dense, fac_dequantize, fac_to_padded_tensor)",
        value->cls->name);
    return FAC_OK;
}

fac_status fac__batch_wrap(const fac_batch_level *l, fac_tensor *value, int dim, fac_tensor **out) {
    *out = NULL;
    fac_status st = fac__batch_check(value);
    fac_batched *b = st == FAC_OK ? fac__alloc(sizeof *b) : NULL;
    if (st == FAC_OK && !b) st = fac_error();
    if (b) *b = (fac_batched){value, l->id, dim};
    if (st == FAC_OK) st = show_sample(value, dim, b, out);
    if (st != FAC_OK) {
        fac__free(b);
        fac__unref(value);
        return st;
    }
    if (fac__autograd.stand_for && (*out)->dtype >= FAC_F16) st = fac__autograd.stand_for(*out, value);
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

/* ---- samples in front ------------------------------------------------------------------------------------------- */

/* Owned: t expanded by a dimension in front. */
static fac_status expand_front(fac_tensor *t, int64_t size, fac_tensor **out) {
    int64_t sizes[FAC_MAX_DIMS];
    FAC_TRY(fac__batch_check(t));
    FAC_CHECK(t->ndim < FAC_MAX_DIMS, FAC_ERR_SHAPE, "a tensor of %d dimensions has no room for one more", t->ndim);
    sizes[0] = size;
    for (int d = 0; d < t->ndim; d++) sizes[d + 1] = t->sizes[d];
    return fac__c_expand(t, (fac_ints){sizes, (size_t)t->ndim + 1}, false, out);
}

static fac_status move_front(fac_tensor *t, int dim, fac_tensor **out) {
    int64_t dims[FAC_MAX_DIMS];
    if (dim == 0) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    dims[0] = dim;
    for (int d = 0; d < t->ndim; d++)
        if (d != dim) dims[d < dim ? d + 1 : d] = d;
    return fac__c_permute(t, (fac_ints){dims, t->ndim}, out);
}

fac_status fac__batch_front(const fac_batch_level *l, fac_tensor *t, bool expand, fac_tensor **out) {
    const fac_batched *b = fac__batched(t);
    *out = NULL;
    if (b && b->level == l->id) return move_front(b->value, b->dim, out);
    if (expand) return expand_front(t, l->size, out);
    *out = fac__ref(t);
    return FAC_OK;
}

/* From the innermost level outwards; each step sees the levels around its own. */
static fac_status lower(fac_tensor *t, size_t depth, fac_tensor **out) {
    fac_tensor *now = fac__ref(t);
    fac_status st = fac__batched(t) && !fac__batch_level_of(t) ? fac_error() : FAC_OK;
    const fac_batch_sight was = {fac__thread()->batch, fac__thread()->include};
    for (const fac_batch_level *l = was.batch; l && depth-- && st == FAC_OK; l = l->outer) {
        fac_tensor *next = NULL;
        fac__batch_hide(l->outer);
        st = fac__batch_front(l, now, true, &next);
        /* The dimensions of inner levels lie in front so far: this level's goes before them, as the outermost is the
           first. */
        if (st != FAC_OK) break;
        fac__unref(now);
        now = next;
    }
    fac__batch_see(was);
    if (st != FAC_OK) fac__unref(now), now = NULL;
    *out = now;
    return st;
}

fac_status fac__batch_lower(fac_tensor *t, fac_tensor **out) { return lower(t, SIZE_MAX, out); }

/* The outermost level's dimension is the first: it is wrapped first, and lies innermost. */
static fac_status raise_to(const fac_batch_level *l, size_t depth, fac_tensor **value) {
    if (!l || !depth) return FAC_OK;
    FAC_TRY(raise_to(l->outer, depth - 1, value));
    fac_tensor *given = *value;
    *value = NULL;
    return fac__batch_wrap(l, given, 0, value);
}

fac_status fac__batch_raise(fac_tensor *value, fac_tensor **out) {
    *out = value;
    return raise_to(fac__thread()->batch, SIZE_MAX, out);
}

static fac_status move_all(fac_tensor **v, size_t n, size_t depth,
                           fac_status (*move)(fac_tensor *, size_t, fac_tensor **)) {
    for (size_t i = 0; i < n; i++) {
        fac_tensor *moved = NULL;
        if (!v[i]) continue;
        FAC_TRY(move(v[i], depth, &moved));
        v[i] = fac__adopt(fac__thread(), moved);
        if (!v[i]) return fac_error();
    }
    return FAC_OK;
}

static fac_status raise(fac_tensor *t, size_t depth, fac_tensor **out) {
    *out = fac__ref(t);
    return raise_to(fac__thread()->batch, depth, out);
}

fac_status fac__batch_lower_all(fac_tensor **v, size_t n, size_t depth) { return move_all(v, n, depth, lower); }
fac_status fac__batch_raise_all(fac_tensor **v, size_t n, size_t depth) { return move_all(v, n, depth, raise); }

/* ---- code that runs again --------------------------------------------------------------------------------------- */

fac_batch_levels *fac__batch_levels_now(void) {
    const size_t n = (size_t)fac__batch_depth();
    fac_batch_levels *levels = fac__alloc(sizeof *levels + n * sizeof *levels->v);
    if (!levels) return NULL;
    atomic_init(&levels->refs, 1);
    levels->n = n;
    size_t i = n;
    for (const fac_batch_level *l = fac__thread()->batch; l; l = l->outer) levels->v[--i] = *l;
    return levels;
}

fac_batch_levels *fac__batch_levels_ref(fac_batch_levels *l) {
    if (l) atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void fac__batch_levels_unref(fac_batch_levels *l) {
    if (l && fac__last_ref(&l->refs)) fac__free(l);
}

fac_status fac__batch_enter(const fac_batch_levels *like, fac_batch_stay *out) {
    out->levels = fac__alloc_array(like->n + 1, sizeof *out->levels);
    if (!out->levels) return fac_error();
    out->was = fac__batch_hide(fac__thread()->batch);
    for (size_t i = 0; i < like->n; i++) {
        fac__batch_open(&out->levels[i], like->v[i].size, like->v[i].random);
        out->levels[i].chunked = like->v[i].chunked;
    }
    return FAC_OK;
}

void fac__batch_leave(fac_batch_stay *s) {
    fac__batch_see(s->was);
    fac__free(s->levels);
    s->levels = NULL;
}
