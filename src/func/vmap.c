/* fac_vmap: a level, batched tensors in the place of what is mapped, one call of the function, and the values of its
   outputs. */
#include "base/base.h"
#include "core/handle.h"
#include "core/names.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include "ops/batch/batch.h"
#include "ops_gen.h"
#include <facula/func.h>

/* What is asked for, with headers. */
typedef struct request {
    fac_func fn;
    void *context;
    fac_tensors inputs;
    size_t n_outputs;
    fac_ints in_dims, out_dims; /* one of each, or one for all */
    int64_t size;
    fac_batch_random random;
} request;

static int64_t dim_of(fac_ints dims, size_t i) { return dims.v[dims.n == 1 ? 0 : i]; }

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static fac_status read_randomness(const char *text, fac_batch_random *out) {
    static const char *const words[] = {"error", "different", "same"};
    for (size_t i = 0; text && i < FAC_COUNT(words); i++)
        if (strcmp(text, words[i]) == 0) {
            *out = (fac_batch_random)i;
            return FAC_OK;
        }
    return FAC_FAIL(FAC_ERR_ARGUMENT, "vmap: randomness should be \"error\", \"different\" or \"same\", not \"%s\"",
                    text ? text : "NULL");
}

static fac_status check_dims(const char *what, fac_ints dims, size_t n) {
    FAC_CHECK(dims.n == 1 || dims.n == n, FAC_ERR_ARGUMENT, "vmap: %s names %zu dimensions for %zu tensors", what,
              dims.n, n);
    return FAC_OK;
}

/* The size that all mapped dimensions have. */
static fac_status find_size(request *r) {
    int64_t d;
    r->size = -1;
    for (size_t i = 0; i < r->inputs.n; i++) {
        const int64_t dim = dim_of(r->in_dims, i);
        const fac_tensor *t = r->inputs.v[i];
        if (dim == FAC_UNSET) continue;
        FAC_CHECK(t->ndim > 0, FAC_ERR_SHAPE,
                  "vmap: input %zu has no dimension to map over; give in_dims with FAC_UNSET "
                  "for what is the same for all samples",
                  i);
        FAC_CHECK(!fac__is_opaque(t), FAC_ERR_UNSUPPORTED,
                  "vmap: input %zu is a %s tensor, which cannot be mapped over: make it dense (fac_to_dense, "
                  "fac_dequantize), or the same for all samples with FAC_UNSET in in_dims",
                  i, t->cls->name);
        FAC_TRY(fac__wrap_dim(dim, t->ndim, &d));
        FAC_CHECK(r->size < 0 || r->size == t->sizes[d], FAC_ERR_SHAPE,
                  "vmap: input %zu has %lld samples in dimension %lld, but others have %lld", i, (long long)t->sizes[d],
                  (long long)d, (long long)r->size);
        r->size = t->sizes[d];
    }
    FAC_CHECK(r->size >= 0, FAC_ERR_ARGUMENT, "vmap has nothing to map over: no input is given a dimension in in_dims");
    FAC_CHECK(r->size > 0, FAC_ERR_SHAPE, "vmap: the mapped dimensions are empty, so there is no sample to call with");
    return FAC_OK;
}

/* ---- a chunk of samples ----------------------------------------------------------------------------------------- */

/* The names of t, without that of the mapped dimension (or with none in its place: `at` of a sample's names). */
static fac_status pass_names(const fac_tensor *t, int dim, bool to_sample, fac_tensor *out) {
    fac_dim_names own, l = {.n = 0};
    uint32_t number;
    fac__names_of(t, &own);
    for (int d = 0; d < own.n; d++) {
        if (d == dim && to_sample) continue;
        if (d == dim) l.v[l.n++] = NULL;
        l.v[l.n++] = own.v[d];
    }
    if (dim == own.n) l.v[l.n++] = NULL;
    FAC_TRY(fac__names_number(&l, &number));
    fac__set_names(out, number);
    return FAC_OK;
}

/* Owned: a batched tensor of the samples from `from` on. A sample has the names, its value has none. */
static fac_status wrap_input(const request *r, const fac_batch_level *l, fac_tensor *t, int dim, int64_t from,
                             fac_tensor **out) {
    fac_tensor *part = NULL;
    const fac_keyset was = fac__names_hide();
    fac_status st = FAC_OK;
    *out = NULL;
    if (l->size != r->size)
        st = fac__c_narrow(t, dim, from, l->size, &part);
    else if (t->names)
        st = fac__c_alias(t, &part);
    else
        part = fac__ref(t);
    if (st == FAC_OK) st = fac__batch_wrap(l, part, dim, out);
    fac__names_see(was);
    if (st == FAC_OK && t->names) st = pass_names(t, dim, true, *out);
    if (st != FAC_OK) fac__unref(*out), *out = NULL;
    return st;
}

/* Handles of temporaries of the innermost scope: what fn is called with. */
static fac_status wrap_inputs(const request *r, const fac_batch_level *l, int64_t from, fac_tensor **out) {
    fac_thread *th = fac__thread();
    for (size_t i = 0; i < r->inputs.n; i++) {
        fac_tensor *t = r->inputs.v[i], *part = NULL;
        int64_t d = dim_of(r->in_dims, i);
        if (d == FAC_UNSET) {
            out[i] = fac__handle(t);
            continue;
        }
        FAC_TRY(fac__wrap_dim(d, t->ndim, &d));
        FAC_TRY(wrap_input(r, l, t, (int)d, from, &part));
        out[i] = fac__adopt_handle(th, part);
        if (!out[i]) return fac_error();
    }
    return FAC_OK;
}

static fac_status call(const request *r, fac_tensors inputs, fac_tensor **outputs) {
    fac_status st;
    for (size_t i = 0; i < r->n_outputs; i++) outputs[i] = NULL;
    FAC_CALLBACK(st = r->fn(r->context, inputs, outputs, r->n_outputs));
    if (st != FAC_OK && fac_error() == FAC_OK) return FAC_FAIL(st, "the function that vmap called returned an error");
    FAC_TRY(fac_error());
    for (size_t i = 0; i < r->n_outputs; i++)
        FAC_CHECK(outputs[i], FAC_ERR_ARGUMENT, "the function that vmap called left output %zu unset", i);
    return fac__to_headers(outputs, r->n_outputs, "vmap", "output");
}

/* Owned, of front, which it takes: the samples in dimension `to`, with the names of a sample. */
static fac_status arranged(const fac_tensor *sample, fac_tensor *front, int64_t to, fac_tensor **out) {
    const fac_keyset was = fac__names_hide();
    fac_status st = FAC_OK;
    if (to)
        st = fac__c_movedim_int(front, 0, to, out);
    else if (sample->names)
        st = fac__c_alias(front, out);
    else
        *out = fac__ref(front);
    fac__names_see(was);
    fac__unref(front);
    return st == FAC_OK && sample->names ? pass_names(sample, (int)to, false, *out) : st;
}

/* Owned: the value of an output, with the samples where they are asked for. The level is closed. */
static fac_status value_of(const request *r, const fac_batch_level *l, size_t i, fac_tensor *t, fac_tensor **out) {
    int64_t to = dim_of(r->out_dims, i);
    const fac_batched *b = fac__batched(t);
    const bool mapped = b && b->level == l->id;
    fac_tensor *front = NULL;
    if (b && !mapped && !fac__batch_level_of(t)) return fac_error();
    FAC_CHECK(to != FAC_UNSET || !mapped, FAC_ERR_ARGUMENT,
              "vmap: output %zu differs between samples, but out_dims says that it is the same for all", i);
    if (to == FAC_UNSET) {
        *out = fac__ref(t);
        return FAC_OK;
    }
    FAC_TRY(fac__wrap_dim(to, t->ndim + 1, &to));
    const fac_keyset was = fac__names_hide();
    const fac_status st = fac__batch_front(l, t, true, &front);
    fac__names_see(was);
    return st == FAC_OK ? arranged(t, front, to, out) : st;
}

static fac_status take_outputs(const request *r, const fac_batch_level *l, fac_tensor *const *outputs,
                               fac_tensor **out) {
    for (size_t i = 0; i < r->n_outputs; i++) FAC_TRY(value_of(r, l, i, outputs[i], &out[i]));
    return FAC_OK;
}

/* The outputs of samples [from, from + n), owned. Whatever fn made besides is free when this returns. */
static fac_status run_chunk(const request *r, int64_t from, int64_t n, fac_tensor **out) {
    fac_tensor **room = fac__alloc_zero((r->inputs.n + r->n_outputs + 1) * sizeof *room);
    if (!room) return fac_error();
    fac_tensor **outputs = room + r->inputs.n;
    fac_scope s = fac_scope_begin();
    fac_batch_level l;
    fac__batch_open(&l, n, r->random);
    l.chunked = n < r->size;
    const fac_batch_sight within = fac__batch_hide(l.outer); /* inputs are made outside */
    fac_status st = wrap_inputs(r, &l, from, room);
    fac__batch_see(within);
    if (st == FAC_OK) st = call(r, (fac_tensors){room, r->inputs.n}, outputs);
    fac__batch_close(&l);
    if (st == FAC_OK) st = take_outputs(r, &l, outputs, out);
    fac_scope_end(&s);
    fac__free(room);
    return st;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

/* Chunks of an output, joined; owned. */
static fac_status join(const request *r, size_t i, fac_tensor *const *parts, size_t n_chunks, fac_tensor **out) {
    const int64_t dim = dim_of(r->out_dims, i);
    if (dim == FAC_UNSET || n_chunks == 1) {
        *out = fac__ref(parts[i]);
        return FAC_OK;
    }
    fac_tensor **v = fac__alloc_array(n_chunks, sizeof *v);
    if (!v) return fac_error();
    for (size_t k = 0; k < n_chunks; k++) v[k] = parts[k * r->n_outputs + i];
    const fac_status st = fac__c_cat((fac_tensors){v, n_chunks}, dim, out);
    fac__free(v);
    return st;
}

static fac_status give(const request *r, fac_tensor *const *parts, size_t n_chunks, fac_tensor **out) {
    fac_thread *th = fac__thread();
    for (size_t i = 0; i < r->n_outputs; i++) {
        fac_tensor *whole = NULL;
        FAC_TRY(join(r, i, parts, n_chunks, &whole));
        out[i] = fac__adopt_handle(th, whole);
        if (!out[i]) return fac_error();
    }
    return FAC_OK;
}

static fac_status run_chunks(const request *r, int64_t chunk, size_t n_chunks, fac_tensor **parts) {
    uint64_t seed, offset;
    fac_generator_get_state(fac_default_generator(), &seed, &offset);
    for (size_t k = 0; k < n_chunks; k++) {
        const int64_t from = (int64_t)k * chunk, left = r->size - from;
        if (k && r->random == FAC_RANDOM_SAME) fac_generator_set_state(fac_default_generator(), seed, offset);
        FAC_TRY(run_chunk(r, from, left < chunk ? left : chunk, parts + k * r->n_outputs));
    }
    return FAC_OK;
}

static fac_status run(const request *r, int64_t chunk, fac_tensor **out) {
    const size_t n_chunks = (size_t)((r->size - 1) / chunk + 1);
    int64_t n;
    FAC_CHECK(fac__thread()->n_scopes > 0, FAC_ERR_STATE, "no scope is open, so nothing could own the results of vmap");
    FAC_CHECK(fac__mul((int64_t)n_chunks, (int64_t)r->n_outputs, &n), FAC_ERR_OVERFLOW, "vmap: too many chunks");
    fac_tensor **parts = fac__alloc_array((size_t)n + 1, sizeof *parts);
    if (!parts) return fac_error();
    for (int64_t i = 0; i < n; i++) parts[i] = NULL;
    fac_status st = run_chunks(r, chunk, n_chunks, parts);
    if (st == FAC_OK) st = give(r, parts, n_chunks, out);
    for (int64_t i = 0; i < n; i++) fac__unref(parts[i]);
    fac__free(parts);
    for (size_t i = 0; i < r->n_outputs && st != FAC_OK; i++) out[i] = NULL;
    return st;
}

static fac_status map(request *r, const fac_vmap_kw *k, fac_tensor **out) {
    FAC_TRY(check_dims("in_dims", r->in_dims, r->inputs.n));
    FAC_TRY(check_dims("out_dims", r->out_dims, r->n_outputs));
    FAC_TRY(read_randomness(k->randomness, &r->random));
    FAC_CHECK(k->chunk_size == FAC_UNSET || k->chunk_size > 0, FAC_ERR_ARGUMENT,
              "vmap: chunk_size should be at least 1, not %lld", (long long)k->chunk_size);
    FAC_TRY(find_size(r));
    return run(r, k->chunk_size == FAC_UNSET ? r->size : k->chunk_size, out);
}

fac_status(fac_vmap)(fac_func fn, void *context, fac_tensors inputs, fac_tensor **out_outputs, size_t n_outputs,
                     const fac_vmap_kw *kw) {
    fac_vmap_kw k;
    fac_handle_list open;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_vmap_kw(&k, kw));
    FAC_CHECK(fn && (out_outputs || !n_outputs), FAC_ERR_ARGUMENT, "vmap needs a function and a place for its outputs");
    for (size_t i = 0; i < n_outputs; i++) out_outputs[i] = NULL;
    request r = {.fn = fn, .context = context, .n_outputs = n_outputs, .in_dims = k.in_dims, .out_dims = k.out_dims};
    fac_status st = fac__open_list(&open, inputs, false, "vmap", "inputs");
    r.inputs = open.l;
    if (st == FAC_OK) st = map(&r, &k, out_outputs);
    fac__handle_list_free(&open);
    return st;
}

const char *fac_operator_batch_rule(const fac_operator *op) {
    return fac__given(op, "operator") ? fac__batch_kind_name(op) : "";
}
