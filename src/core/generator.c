/* Generators: a seed and the next offset. */
#include "core/generator.h"
#include "base/mutex.h"
#include "core/keyset.h"
#include "core/tensor.h"
#include <facula/dispatch.h>

struct fac_generator {
    atomic_int refs;
    bool is_default; /* lives as long as the process */
    atomic_bool is_custom;
    fac_mutex lock; /* of the two below */
    uint64_t seed, offset;
};

static fac_generator the_default = {.refs = 1, .is_default = true, .lock = FAC_MUTEX_INIT};

fac_generator *fac_default_generator(void) { return &the_default; }

fac_generator *fac_generator_new(uint64_t seed) {
    fac_generator *g = fac__alloc(sizeof *g);
    if (!g) return NULL;
    *g = (fac_generator){.lock = FAC_MUTEX_INIT, .seed = seed};
    atomic_init(&g->refs, 1);
    fac__live_add(1);
    return g;
}

fac_generator *fac_generator_keep(fac_generator *g) {
    if (g) atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void fac_generator_release(fac_generator *g) {
    if (!g || !fac__last_ref(&g->refs)) return;
    if (g->is_default) { /* released more often than kept: it stays */
        fac_generator_keep(g);
        return;
    }
    fac__mutex_destroy(&g->lock);
    fac__free(g);
    fac__live_add(-1);
}

void fac_generator_set_state(fac_generator *g, uint64_t seed, uint64_t offset) {
    if (!g) g = &the_default;
    fac__mutex_lock(&g->lock);
    g->seed = seed;
    g->offset = offset;
    fac__mutex_unlock(&g->lock);
}

void fac_generator_get_state(fac_generator *g, uint64_t *out_seed, uint64_t *out_offset) {
    if (!g) g = &the_default;
    fac__mutex_lock(&g->lock);
    if (out_seed) *out_seed = g->seed;
    if (out_offset) *out_offset = g->offset;
    fac__mutex_unlock(&g->lock);
}

fac_status fac_generator_set_custom(fac_generator *g, bool custom) {
    FAC_CHECK(g != NULL, FAC_ERR_ARGUMENT, "the generator is NULL");
    atomic_store_explicit(&g->is_custom, custom, memory_order_relaxed);
    return FAC_OK;
}

fac_keyset fac__generator_keys_of(const fac_generator *g) {
    return atomic_load_explicit(&g->is_custom, memory_order_relaxed) ? fac__func_bit(FAC_KEY_CUSTOM_RNG) : 0;
}

void fac_manual_seed(uint64_t seed) { fac_generator_set_state(&the_default, seed, 0); }

/* ---- draws of a call ------------------------------------------------------------------------------------------------ */

/* Stands for the generator of an operator that runs and has drawn nothing yet. */
static fac_generator nobody;

static bool has_drawn(const fac_draws *d) { return d->g && d->g != &nobody; }

static void note(fac_generator *g, uint64_t offset, uint64_t n) {
    fac_draws *d = &fac__thread()->draws;
    if (d->g == &nobody) *d = (fac_draws){fac_generator_keep(g), offset, 0};
    if (d->g == g) d->n += n;
}

static void give_back(fac_draws d) {
    fac__mutex_lock(&d.g->lock);
    if (d.g->offset == d.before + d.n) d.g->offset = d.before;
    fac__mutex_unlock(&d.g->lock);
}

fac_draws fac__draws_begin(void) {
    fac_thread *th = fac__thread();
    fac_draws outer = th->draws;
    th->draws = (fac_draws){.g = &nobody};
    return outer;
}

/* What a successful operator has drawn, the operator around it has drawn too. */
fac_status fac__draws_end(fac_draws outer, fac_status st) {
    fac_draws *current = &fac__thread()->draws, own = *current;
    if (st == FAC_OK && outer.g == &nobody) return FAC_OK;
    if (st != FAC_OK && has_drawn(&own)) give_back(own);
    if (st == FAC_OK && own.g == outer.g) outer.n += own.n;
    *current = outer;
    if (has_drawn(&own)) fac_generator_release(own.g);
    return st;
}

fac_status fac__draw(fac_generator *g, uint64_t n, fac_draw *out) {
    const uint64_t limit = (uint64_t)1 << 48; /* what the counter has room for: see philox.h */
    if (!g) g = &the_default;
    fac__mutex_lock(&g->lock);
    bool fits = g->offset < limit && n <= limit - g->offset;
    *out = (fac_draw){g->seed, g->offset};
    if (fits) g->offset += n;
    fac__mutex_unlock(&g->lock);
    if (fits && n) note(g, out->offset, n);
    return fits ? FAC_OK
                : FAC_FAIL(FAC_ERR_OVERFLOW,
                           "the generator is used up: its offset %llu may not pass 2^48; seed it again",
                           (unsigned long long)out->offset);
}
