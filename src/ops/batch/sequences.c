/* Layers over sequences: those of all samples are one batch of them, where the samples share the weights. */
#include "ops/batch/rules.h"

static bool is_one_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* [T, B, ...], or false. */
static bool has_steps(const char *name) {
    static const char *const names[] = {"input", "output", "gates", "cells", "grad_output"};
    return is_one_of(name, names, FAC_COUNT(names));
}

/* [B, ...], or false. */
static bool is_state(const char *name) {
    static const char *const names[] = {"hx", "cx", "grad_h", "grad_c"};
    return is_one_of(name, names, FAC_COUNT(names));
}

/* Packed sequences, weights of a sample's own and their gradients, which are sums over all sequences, go to the loop. */
static bool fits(const batch_call *b) {
    const int mask = batch_find(b, "output_mask");
    const fac_ints wanted = mask < 0 ? (fac_ints){NULL, 0} : fac_value_as_ints(b->stack[mask]);
    if (b->stack[batch_find(b, "batch_sizes")].tag != FAC_TAG_NONE || (wanted.n == 3 && wanted.v[2])) return false;
    for (size_t i = 0; i < b->n; i++) {
        const batch_tensor *x = &b->v[i];
        const char *name = b->schema->args[x->arg].name;
        if (has_steps(name) ? x->rank != 3 || x->given->numel == 0 : is_state(name) ? x->rank != 2 : x->batched)
            return false;
    }
    return true;
}

fac_status fac__batch_sequences(batch_call *b) {
    if (!fits(b)) return fac__batch_loop(b);
    for (size_t i = 0; i < b->n; i++) {
        batch_tensor *x = &b->v[i];
        const char *name = b->schema->args[x->arg].name;
        if (has_steps(name)) FAC_TRY(batch_into_channels(b, x));
        if (!is_state(name)) continue;
        FAC_TRY(batch_front(b, x, true));
        FAC_TRY(batch_flatten(x, 0, 2));
    }
    FAC_TRY(batch_call_op(b));
    for (size_t i = 0; i < b->schema->n_rets; i++) {
        const fac_tensor *t = fac__value_header(&b->outs[i]);
        if (t) FAC_TRY(t->ndim == 3 ? batch_out_of_channels(b, i) : batch_split(&b->outs[i], b->level->size));
    }
    return FAC_OK;
}
