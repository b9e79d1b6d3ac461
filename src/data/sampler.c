/* Orders of samples, epoch by epoch. Each kind writes the whole order of an epoch, which depends on seed and epoch alone. */
#include "data/sampler.h"
#include "core/thread.h"
#include "data/random.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <math.h>
#include <stdlib.h>

static void *make(size_t bytes, int64_t length, int64_t seed,
                  fac_status (*fill)(const fac_sampler *s, int64_t epoch, int64_t *out)) {
    fac_sampler *s = fac__alloc_zero(bytes);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    s->length = length;
    s->seed = seed;
    s->fill = fill;
    s->order = fill ? fac__alloc_array((size_t)length, sizeof *s->order) : NULL;
    if (!fill || s->order) return s;
    fac__free(s);
    return NULL;
}

fac_sampler *fac_sampler_keep(fac_sampler *s) {
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void fac_sampler_release(fac_sampler *s) {
    if (!s || !fac__last_ref(&s->refs)) return;
    if (s->end) s->end(s);
    fac__free(s->order);
    fac__free(s);
}

/* Seed and epoch both go through the mixer, so that neighbouring epochs and seeds share nothing. */
static uint64_t first_state(const fac_sampler *s, int64_t epoch) {
    uint64_t e = (uint64_t)epoch;
    return (uint64_t)s->seed ^ fac__split_mix(&e);
}

/* ---- of n samples -------------------------------------------------------------------------------------------------- */

typedef struct plain_sampler {
    fac_sampler base;
    int64_t n;
} plain_sampler;

static fac_status fill_permutations(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const plain_sampler *p = (const plain_sampler *)s;
    uint64_t state = first_state(s, epoch);
    int64_t at = 0;
    for (; p->n > 0 && at + p->n <= s->length; at += p->n) fac__split_mix_order(&state, out + at, p->n);
    if (at == s->length) return FAC_OK;
    int64_t *whole = fac__alloc_array((size_t)p->n, sizeof *whole); /* a permutation of which the epoch has a part */
    if (!whole) return fac_error();
    fac__split_mix_order(&state, whole, p->n);
    memcpy(out + at, whole, (size_t)(s->length - at) * sizeof *out);
    fac__free(whole);
    return FAC_OK;
}

static fac_status fill_draws(const fac_sampler *s, int64_t epoch, int64_t *out) {
    uint64_t state = first_state(s, epoch);
    for (int64_t i = 0; i < s->length; i++) out[i] = fac__split_mix_below(&state, ((const plain_sampler *)s)->n);
    return FAC_OK;
}

fac_sampler *(fac_sampler_new)(int64_t n, const fac_sampler_new_kw *kw) {
    fac_sampler_new_kw k;
    FAC_TRY_NULL(fac__open_sampler_new_kw(&k, kw));
    if (n < 0) return FAC_FAIL(FAC_ERR_ARGUMENT, "a sampler of %lld samples is not possible", (long long)n), NULL;
    const int64_t length = k.num_samples == FAC_UNSET ? n : k.num_samples;
    if (length < 0 || (length > n && (n == 0 || !(k.shuffle || k.replacement))))
        return FAC_FAIL(FAC_ERR_ARGUMENT,
                        "num_samples is %lld, but there are %lld samples: more need .shuffle or .replacement",
                        (long long)length, (long long)n),
               NULL;
    plain_sampler *p = make(sizeof *p, length, k.seed,
                            k.replacement ? fill_draws
                            : k.shuffle   ? fill_permutations
                                          : NULL);
    if (!p) return NULL;
    p->n = n;
    return &p->base;
}

/* ---- by weight ------------------------------------------------------------------------------------------------------ */

/* In [0, 1). */
static double uniform(uint64_t *state) { return (double)(fac__split_mix(state) >> 11) * 0x1p-53; }

typedef struct ranked {
    double key;
    int64_t index;
} ranked;

typedef struct weighted_sampler {
    fac_sampler base;
    int64_t n;
    double *weights; /* owned; with replacement: sums up to each */
} weighted_sampler;

static fac_status fill_weighted(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const weighted_sampler *w = (const weighted_sampler *)s;
    uint64_t state = first_state(s, epoch);
    for (int64_t i = 0; i < s->length; i++) {
        const double x = uniform(&state) * w->weights[w->n - 1];
        int64_t low = 0, high = w->n - 1; /* the first whose sum is greater */
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (w->weights[middle] > x)
                high = middle;
            else
                low = middle + 1;
        }
        out[i] = low;
    }
    return FAC_OK;
}

static int by_key(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The least of exponential times whose rates are the weights: Efraimidis, Spirakis 2006. The keys are their logarithms, which
   are finite for the smallest weights too, so that none of weight 0 comes before those. */
static fac_status fill_ranked(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const weighted_sampler *w = (const weighted_sampler *)s;
    uint64_t state = first_state(s, epoch);
    ranked *v = fac__alloc_array((size_t)w->n, sizeof *v);
    if (!v) return fac_error();
    for (int64_t i = 0; i < w->n; i++)
        v[i] = (ranked){w->weights[i] > 0 ? log(-log1p(-uniform(&state))) - log(w->weights[i]) : INFINITY, i};
    qsort(v, (size_t)w->n, sizeof *v, by_key);
    for (int64_t i = 0; i < s->length; i++) out[i] = v[i].index;
    fac__free(v);
    return FAC_OK;
}

static void weighted_end(fac_sampler *s) { fac__free(((weighted_sampler *)s)->weights); }

static fac_status check_weights(fac_floats weights, int64_t num_samples, bool replacement) {
    double sum = 0;
    int64_t positive = 0;
    if (!fac__list_given(weights.v, weights.n, "weights")) return fac_error();
    FAC_CHECK(num_samples >= 0, FAC_ERR_ARGUMENT, "num_samples is %lld", (long long)num_samples);
    for (size_t i = 0; i < weights.n; i++) {
        FAC_CHECK(weights.v[i] >= 0 && weights.v[i] <= 1e300, FAC_ERR_ARGUMENT,
                  "weight %zu is %g: weights are finite and not negative", i, weights.v[i]);
        sum += weights.v[i];
        positive += weights.v[i] > 0;
    }
    FAC_CHECK(sum <= 1e308, FAC_ERR_ARGUMENT, "the sum of the weights is not finite");
    const int64_t need = replacement ? num_samples > 0 : num_samples;
    FAC_CHECK(positive >= need, FAC_ERR_ARGUMENT, "%lld weights are above 0, but %lld samples are to be drawn%s",
              (long long)positive, (long long)num_samples, replacement ? "" : " without replacement");
    return FAC_OK;
}

fac_sampler *(fac_sampler_weighted)(fac_floats weights, int64_t num_samples, const fac_sampler_weighted_kw *kw) {
    fac_sampler_weighted_kw k;
    FAC_TRY_NULL(fac__open_sampler_weighted_kw(&k, kw));
    FAC_TRY_NULL(check_weights(weights, num_samples, k.replacement));
    weighted_sampler *w = make(sizeof *w, num_samples, k.seed, k.replacement ? fill_weighted : fill_ranked);
    if (!w) return NULL;
    w->base.end = weighted_end;
    w->n = (int64_t)weights.n;
    w->weights = fac__alloc_array(weights.n, sizeof *w->weights);
    if (!w->weights) {
        fac_sampler_release(&w->base);
        return NULL;
    }
    double sum = 0;
    for (size_t i = 0; i < weights.n; i++) w->weights[i] = k.replacement ? (sum += weights.v[i]) : weights.v[i];
    /* Those behind the last that counts are never drawn. */
    while (k.replacement && w->n > 1 && weights.v[w->n - 1] == 0) w->n--;
    return &w->base;
}

/* ---- given numbers ----------------------------------------------------------------------------------------------------- */

typedef struct subset_sampler {
    fac_sampler base;
    bool shuffle;
    int64_t *indices; /* owned */
} subset_sampler;

static fac_status fill_subset(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const subset_sampler *u = (const subset_sampler *)s;
    uint64_t state = first_state(s, epoch);
    if (u->shuffle)
        fac__split_mix_order(&state, out, s->length);
    else
        for (int64_t i = 0; i < s->length; i++) out[i] = i;
    for (int64_t i = 0; i < s->length; i++) out[i] = u->indices[out[i]];
    return FAC_OK;
}

static void subset_end(fac_sampler *s) { fac__free(((subset_sampler *)s)->indices); }

fac_sampler *(fac_sampler_subset)(fac_ints indices, const fac_sampler_subset_kw *kw) {
    fac_sampler_subset_kw k;
    FAC_TRY_NULL(fac__open_sampler_subset_kw(&k, kw));
    if (!fac__list_given(indices.v, indices.n, "indices")) return NULL;
    subset_sampler *u = make(sizeof *u, (int64_t)indices.n, k.seed, fill_subset);
    if (!u) return NULL;
    u->base.end = subset_end;
    u->shuffle = k.shuffle;
    u->indices = fac__alloc_array(indices.n, sizeof *u->indices);
    if (u->indices) {
        if (indices.n) memcpy(u->indices, indices.v, indices.n * sizeof *indices.v);
        return &u->base;
    }
    fac_sampler_release(&u->base);
    return NULL;
}

/* ---- the program's own ------------------------------------------------------------------------------------------------- */

typedef struct own_sampler {
    fac_sampler base;
    fac_sampler_fn fn;
    void *context;
} own_sampler;

static fac_status fill_own(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const own_sampler *o = (const own_sampler *)s;
    fac_status st;
    FAC_CALLBACK(st = o->fn(o->context, epoch, out, s->length));
    if (fac_error()) return fac_error();
    FAC_CHECK(st == FAC_OK, st, "the function that gives the order of epoch %lld failed without saying why",
              (long long)epoch);
    return FAC_OK;
}

fac_sampler *fac_sampler_of(fac_sampler_fn fn, void *context, int64_t n) {
    if (fac_error() || !fac__given((const void *)(uintptr_t)fn, "function that gives the order")) return NULL;
    if (n < 0) return FAC_FAIL(FAC_ERR_ARGUMENT, "a sampler of %lld samples is not possible", (long long)n), NULL;
    own_sampler *o = make(sizeof *o, n, 0, fill_own);
    if (!o) return NULL;
    o->fn = fn;
    o->context = context;
    return &o->base;
}

/* ---- of other orders --------------------------------------------------------------------------------------------------- */

typedef struct shared_sampler {
    fac_sampler base;
    fac_sampler *of; /* counted */
    int64_t rank, replicas;
} shared_sampler;

static fac_status order_of(const fac_sampler *s, int64_t epoch, int64_t *out) {
    if (s->fill) return s->fill(s, epoch, out);
    for (int64_t i = 0; i < s->length; i++) out[i] = i;
    return FAC_OK;
}

static fac_status fill_shared(const fac_sampler *s, int64_t epoch, int64_t *out) {
    const shared_sampler *d = (const shared_sampler *)s;
    int64_t *whole = fac__alloc_array((size_t)d->of->length, sizeof *whole);
    if (!whole) return fac_error();
    const fac_status st = order_of(d->of, epoch, whole);
    /* replicas and length make no more than twice the whole and the replicas, which make no overflow with it */
    for (int64_t i = 0; i < s->length && st == FAC_OK; i++) out[i] = whole[(d->rank + i * d->replicas) % d->of->length];
    fac__free(whole);
    return st;
}

static fac_status fill_batched(const fac_sampler *s, int64_t epoch, int64_t *out) {
    return order_of(((const shared_sampler *)s)->of, epoch, out);
}

static void shared_end(fac_sampler *s) { fac_sampler_release(((shared_sampler *)s)->of); }

static fac_status check_shared(const fac_sampler *of) {
    if (fac_error()) return fac_error();
    if (!fac__given(of, "sampler")) return fac_error();
    FAC_CHECK(!of->batch, FAC_ERR_ARGUMENT, "the sampler gives batches already; make them last");
    return FAC_OK;
}

fac_sampler *(fac_sampler_distributed)(fac_sampler *of, int64_t rank, int64_t replicas,
                                       const fac_sampler_distributed_kw *kw) {
    fac_sampler_distributed_kw k;
    FAC_TRY_NULL(check_shared(of));
    FAC_TRY_NULL(fac__open_sampler_distributed_kw(&k, kw));
    if (replicas < 1 || replicas > INT32_MAX || rank < 0 || rank >= replicas)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "rank %lld of %lld replicas: ranks are 0 ... replicas - 1", (long long)rank,
                        (long long)replicas),
               NULL;
    const int64_t length = k.drop_last ? of->length / replicas : fac__div_up(of->length, replicas);
    shared_sampler *d = make(sizeof *d, length, of->seed, fill_shared);
    if (!d) return NULL;
    d->base.end = shared_end;
    d->of = fac_sampler_keep(of);
    d->rank = rank;
    d->replicas = replicas;
    return &d->base;
}

fac_sampler *(fac_sampler_batch)(fac_sampler *of, int64_t batch_size, const fac_sampler_batch_kw *kw) {
    fac_sampler_batch_kw k;
    FAC_TRY_NULL(check_shared(of));
    FAC_TRY_NULL(fac__open_sampler_batch_kw(&k, kw));
    if (batch_size < 1)
        return FAC_FAIL(FAC_ERR_ARGUMENT, "batch_size should be positive, but is %lld", (long long)batch_size), NULL;
    shared_sampler *b = make(sizeof *b, of->length, of->seed, of->fill ? fill_batched : NULL);
    if (!b) return NULL;
    b->base.end = shared_end;
    b->base.batch = batch_size;
    b->base.drop_last = k.drop_last;
    b->of = fac_sampler_keep(of);
    return &b->base;
}

/* ---- going along ------------------------------------------------------------------------------------------------------- */

int64_t fac_sampler_length(const fac_sampler *s) {
    if (!fac__given(s, "sampler")) return 0;
    if (!s->batch) return s->length;
    return s->length / s->batch + (s->length % s->batch != 0 && !s->drop_last);
}

void fac__sampler_seek(fac_sampler *s, int64_t epoch, int64_t at) {
    if (s->epoch != epoch) s->ready = false;
    s->epoch = epoch;
    s->at = at;
}

void fac_sampler_start(fac_sampler *s, int64_t epoch) {
    if (fac__given(s, "sampler")) fac__sampler_seek(s, epoch, 0);
}

fac_status fac__sampler_ready(fac_sampler *s) {
    if (!s->order || s->ready) return FAC_OK;
    FAC_TRY(s->fill(s, s->epoch, s->order));
    s->ready = true;
    return FAC_OK;
}

/* How many numbers come next, of which there is room for so many. */
static int64_t next_count(const fac_sampler *s, int64_t room) {
    const int64_t left = s->length - s->at;
    if (!s->batch) return fac__max(0, fac__min(room, left));
    if (s->drop_last && left < s->batch) return 0;
    return fac__min(s->batch, left);
}

int64_t fac_sampler_next(fac_sampler *s, int64_t *out, int64_t room) {
    if (fac_error() || !fac__given(s, "sampler") || fac__sampler_ready(s)) return 0;
    const int64_t n = next_count(s, room);
    if (n > fac__max(0, room))
        return FAC_FAIL(FAC_ERR_ARGUMENT, "there is room for %lld numbers, but the batch has %lld", (long long)room,
                        (long long)n),
               0;
    return fac__list_given(out, (size_t)n, "indices") ? fac__sampler_take(s, out, room) : 0;
}

int64_t fac__sampler_take(fac_sampler *s, int64_t *out, int64_t room) {
    const int64_t n = next_count(s, room);
    for (int64_t i = 0; i < n; i++) out[i] = s->order ? s->order[s->at + i] : s->at + i;
    s->at += n;
    return n;
}

fac_data_state fac_sampler_get_state(const fac_sampler *s) {
    if (!fac__given(s, "sampler")) return (fac_data_state){0};
    return (fac_data_state){s->epoch, s->at, s->length, s->seed};
}

fac_status fac_sampler_set_state(fac_sampler *s, fac_data_state state) {
    if (fac_error()) return fac_error();
    if (!fac__given(s, "sampler")) return fac_error();
    FAC_CHECK(state.length == s->length && state.seed == s->seed, FAC_ERR_ARGUMENT,
              "the state is of an order of %lld numbers with seed %lld; this one has %lld with seed %lld",
              (long long)state.length, (long long)state.seed, (long long)s->length, (long long)s->seed);
    FAC_CHECK(state.at >= 0 && state.at <= s->length &&
                  (!s->batch || state.at % s->batch == 0 || state.at == s->length),
              FAC_ERR_ARGUMENT, "the state is at number %lld, where this order does not stop", (long long)state.at);
    fac__sampler_seek(s, state.epoch, state.at);
    return FAC_OK;
}
