/* What has no rule runs sample by sample: the operator is called with slices of its batched arguments, and the
   results are stacked. Slices are views, so what is written reaches the tensor. The first time, for each operator, a
   warning says so. */
#include "ops/batch/call.h"
#include "ops_gen.h"
#include <facula/tensor.h>

/* ---- the warning ------------------------------------------------------------------------------------------------ */

enum { MOST_WARNED = 1024 };
static _Atomic(const fac_operator *) warned[MOST_WARNED];

void fac__batch_shutdown(void) {
    for (size_t i = 0; i < MOST_WARNED; i++) atomic_store(&warned[i], NULL);
}

/* Takes the first free place for op, unless it has one. The table is full long after the user has understood. */
static bool is_first(const fac_operator *op) {
    for (size_t i = 0; i < MOST_WARNED; i++) {
        const fac_operator *there = NULL;
        if (atomic_compare_exchange_strong(&warned[i], &there, op)) return true;
        if (there == op) return false;
    }
    return false;
}

static void warn_once(const fac_operator *op) {
    if (is_first(op))
        fac__warn("vmap: %s is called sample by sample: it has no rule for batches of these arguments. "
                  "The results are the same; it "
                  "takes longer",
                  op->name);
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

/* The arguments of sample i. */
static fac_status slice(batch_call *b, int64_t i) {
    for (size_t k = 0; k < b->n; k++) {
        batch_tensor *x = &b->v[k];
        const fac_batched *given = fac__batched(x->given);
        fac_tensor *next = NULL;
        if (!x->batched) continue;
        FAC_TRY(batch_become(x, fac__c_select_int(given->value, given->dim, i, &next), &next));
    }
    return FAC_OK;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* The tensor at place j of a result, be it one or a list. */
static fac_tensor *entry(const fac_value *v, size_t j) {
    return v->tag == FAC_TAG_TENSORS ? fac__value_headers(v).v[j] : fac__value_header(v);
}

/* Place j of result r of all samples, stacked; owned, NULL where none of them has it. */
static fac_status stack_entry(batch_call *b, const fac_value *all, size_t r, size_t j, fac_tensor **out) {
    const size_t n = (size_t)b->level->size, n_rets = b->schema->n_rets;
    fac_tensor **v = fac__alloc_array(n, sizeof *v);
    fac_status st = v ? FAC_OK : fac_error();
    size_t there = 0;
    *out = NULL;
    for (size_t i = 0; i < n && st == FAC_OK; i++) {
        v[i] = entry(&all[i * n_rets + r], j);
        there += v[i] != NULL;
        if (v[i]) st = fac__batch_check(v[i]);
        if (st == FAC_OK && v[i] && v[0] && !fac__same_sizes(v[i], v[0]))
            st = FAC_FAIL(FAC_ERR_SHAPE, "within vmap, one sample gives sizes %s and another %s", FAC_SHAPE_TEXT(v[0]),
                          FAC_SHAPE_TEXT(v[i]));
    }
    if (st == FAC_OK && there && there < n)
        st = FAC_FAIL(FAC_ERR_UNSUPPORTED, "within vmap, some samples give a result and others none");
    if (st == FAC_OK && there) st = fac__c_stack((fac_tensors){v, n}, 0, out);
    fac__free(v);
    return st;
}

static fac_status stack_list(batch_call *b, const fac_value *all, size_t r) {
    const size_t n = fac__value_headers(&all[r]).n;
    for (int64_t i = 1; i < b->level->size; i++)
        FAC_CHECK(fac__value_headers(&all[(size_t)i * b->schema->n_rets + r]).n == n, FAC_ERR_SHAPE,
                  "within vmap, samples give lists of different lengths");
    fac_tensor **made = fac__alloc_zero((n ? n : 1) * sizeof *made);
    fac_status st = made ? FAC_OK : fac_error();
    for (size_t j = 0; j < n && st == FAC_OK; j++) st = stack_entry(b, all, r, j, &made[j]);
    if (st == FAC_OK) {
        b->outs[r] = fac__value_tensors(made, n);
        st = fac_error();
    }
    for (size_t j = 0; made && j < n; j++) fac__unref(made[j]);
    fac__free(made);
    return st;
}

/* A result that is no tensor follows from sizes and dtypes, which samples share; what follows from values is refused.
   */
static fac_status stack_result(batch_call *b, fac_value *all, size_t r) {
    fac_tensor *made = NULL;
    if (all[r].tag == FAC_TAG_TENSORS) return stack_list(b, all, r);
    if (all[r].tag != FAC_TAG_TENSOR && all[r].tag != FAC_TAG_NONE) {
        b->outs[r] = all[r];
        all[r] = fac_value_none();
        return FAC_OK;
    }
    if (b->schema->rets[r].type.write) return FAC_OK; /* the argument itself */
    FAC_TRY(stack_entry(b, all, r, 0, &made));
    batch_give(b, r, made);
    return fac_error();
}

/* g: samples draw the same numbers from it, those of the first again and again. NULL: they do not draw, or go on
   drawing. */
static fac_status loop(batch_call *b, fac_value *all, fac_generator *g) {
    const size_t n_rets = b->schema->n_rets;
    uint64_t seed = 0, offset = 0;
    fac_value *outs = b->outs;
    fac_status st = FAC_OK;
    if (g) fac_generator_get_state(g, &seed, &offset);
    for (int64_t i = 0; i < b->level->size && st == FAC_OK; i++) {
        if (g && i) fac_generator_set_state(g, seed, offset);
        st = slice(b, i);
        b->outs = &all[(size_t)i * n_rets];
        if (st == FAC_OK) st = batch_call_op(b);
        b->outs = outs;
    }
    for (size_t r = 0; r < n_rets && st == FAC_OK; r++) st = stack_result(b, all, r);
    return st;
}

/* The loop with room for the results of all samples. */
static fac_status loop_in_room(batch_call *b, fac_generator *g) {
    int64_t n;
    FAC_CHECK(fac__mul(b->level->size, (int64_t)b->schema->n_rets, &n), FAC_ERR_OVERFLOW,
              "within vmap, %lld samples are too many", (long long)b->level->size);
    fac_value *all = fac__alloc_array((size_t)n + 1, sizeof *all);
    if (!all) return fac_error();
    for (int64_t i = 0; i < n; i++) all[i] = fac_value_none();
    const fac_status st = loop(b, all, g);
    for (int64_t i = 0; i < n; i++) fac_value_release(&all[i]);
    fac__free(all);
    return st;
}

/* A kernel that moves what no schema says it writes, running statistics, would move it once for each sample. */
static fac_status check_updates(const batch_call *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].written && !b->v[i].batched)
            return batch_refuse(b, "it changes a tensor that all samples share, which would be changed once for each");
    return FAC_OK;
}

fac_status fac__batch_loop(batch_call *b) {
    FAC_TRY(check_updates(b));
    if (!b->facts || !b->facts->offsets) warn_once(b->op);
    /* A rule that gave up may have left its own arguments. */
    for (size_t i = 0; i < b->op->n_args; i++) fac_value_release(&b->args[i]);
    for (size_t k = 0; k < b->n; k++) {
        b->v[k].front = false;
        if (b->v[k].batched) continue;
        fac_tensor *given = fac__ref(b->v[k].given);
        FAC_TRY(batch_become(&b->v[k], FAC_OK, &given));
    }
    return loop_in_room(b, NULL);
}

/* ---- random numbers --------------------------------------------------------------------------------------------- */

static fac_generator *generator_of(const batch_call *b) {
    for (size_t i = 0; i < b->schema->n_args; i++)
        if (b->stack[i].tag == FAC_TAG_GENERATOR) return fac_value_as_generator(b->stack[i]);
    return fac_default_generator();
}

static fac_status same_for_all(batch_call *b) {
    if (b->level->chunked && generator_of(b) != fac_default_generator())
        return batch_refuse(b, "with randomness \"same\" and chunk_size its numbers have to come from the default "
                               "generator, which alone begins anew with each chunk, and it was given another");
    if (b->any) return loop_in_room(b, generator_of(b));
    b->plain = true;
    return batch_call_op(b);
}

/* Every tensor gets a place for each sample, so that each draws its own; what has no rule for that runs sample by
   sample. */
static fac_status different_for_each(batch_call *b) {
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].written && !b->v[i].batched)
            return batch_refuse(b, "random numbers that differ between samples cannot be written to a tensor that all "
                                   "samples share; make it of a batched tensor, or use randomness=\"same\"");
    }
    if (b->facts->batch != FAC_BATCH_LOOP && b->facts->batch != FAC_BATCH_REFUSED) FAC_TRY(batch_front_all(b, true));
    return fac__batch_rules[b->facts->batch](b);
}

fac_status fac__batch_random_call(batch_call *b) {
    switch (b->level->random) {
    case FAC_RANDOM_DIFFERENT: return different_for_each(b);
    case FAC_RANDOM_SAME: return same_for_all(b);
    default: break;
    }
    return batch_refuse(
        b, "it draws random numbers, and randomness is \"error\". With \"different\" each sample draws its "
           "own, with \"same\" all draw the same");
}
