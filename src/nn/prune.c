/* Pruning: parameters that are the product of what is learned and a mask of zeros and ones. Pruning again masks
   more of what the mask has left. */
#include "keywords_gen.h"
#include "nn/computed.h"
#include <facula/nn_utils.h>
#include <facula/ops.h>
#include <math.h>

static fac_tensor *compute_masked(fac_module *m, const fac_computed *c, bool update) {
    fac_tensor *mask = fac__computed_part_of(m, c->name, "_mask");
    fac_tensor *w = mask ? fac__computed_part_of(m, c->name, "_orig") : NULL;
    (void)update;
    return w ? fac_mul(fac_to(mask, .dtype = fac_tensor_dtype(w)), w) : NULL;
}

/* ---- masks ---- */

/* What decides which elements go. */
typedef struct rule {
    enum { NOTHING, RANDOM, SMALLEST, RANDOM_CHANNELS, SMALLEST_CHANNELS, GIVEN } kind;
    double amount;
    bool count;
    double order; /* of norms */
    int64_t dim;
    fac_tensor *mask, *scores;
} rule;

static fac_status check_amount(const rule *r) {
    if (r->count)
        FAC_CHECK(r->amount >= 0 && r->amount == floor(r->amount), FAC_ERR_ARGUMENT,
                  "amount=%g should be a non-negative whole number, as .count is given", r->amount);
    else
        FAC_CHECK(r->amount >= 0 && r->amount <= 1, FAC_ERR_ARGUMENT,
                  "amount=%g should be in the range [0, 1], unless .count is given", r->amount);
    return FAC_OK;
}

/* How many of n go; -1 with an error if there are fewer. */
static int64_t number_of(const rule *r, int64_t n) {
    if (!r->count) return (int64_t)nearbyint(r->amount * (double)n);
    if (r->amount <= (double)n) return (int64_t)r->amount;
    FAC_FAIL(FAC_ERR_ARGUMENT, "amount=%g should be smaller than the number of parameters to prune=%lld", r->amount,
             (long long)n);
    return -1;
}

/* A list with zeros at the places of the n smallest values, which stand for the elements `indices` of it. */
static fac_tensor *without_smallest(fac_tensor *list, fac_tensor *indices, fac_tensor *values, int64_t n) {
    fac_topk_result t = fac_topk(values, n, .largest = false);
    fac_tensor *gone = fac_index_select(indices, 0, t.indices);
    return gone ? fac_index_copy(list, 0, gone, fac_new_zeros(list, FAC_INTS(n))) : NULL;
}

/* Elements of what is left. */
static fac_tensor *elements_masked(const rule *r, fac_tensor *scores, fac_tensor *mask) {
    fac_tensor *flat = fac_flatten(mask, 0);
    fac_tensor *left = fac_flatten(fac_nonzero(fac_eq(flat, 1)), 0);
    const int64_t n = left ? number_of(r, fac_tensor_numel(left)) : -1;
    if (n <= 0) return n < 0 ? NULL : mask;
    fac_tensor *values = fac_index_select(fac_flatten(scores, 0), 0, left);
    values = r->kind == RANDOM ? fac_rand_like(values) : fac_abs(values);
    fac_tensor *made = without_smallest(flat, left, values, n);
    return made ? fac_reshape(made, fac_tensor_sizes(mask)) : NULL;
}

static fac_ints all_but(const fac_tensor *t, int64_t dim, int64_t room[FAC_MAX_DIMS]) {
    size_t n = 0;
    for (int d = 0; d < fac_tensor_ndim(t); d++)
        if (d != dim) room[n++] = d;
    return fac_ints_of(room, n);
}

/* Whole channels of those that are not masked yet. */
static fac_tensor *channels_masked(const rule *r, fac_tensor *scores, fac_tensor *mask) {
    int64_t room[FAC_MAX_DIMS], dim = r->dim;
    const int dims = fac_tensor_ndim(scores);
    if (dims <= 1 || dim < -dims || dim >= dims) {
        FAC_FAIL(dims <= 1 ? FAC_ERR_SHAPE : FAC_ERR_INDEX,
                 "structured pruning of dimension %lld takes a tensor of more dimensions than %d", (long long)dim,
                 dims);
        return NULL;
    }
    if (dim < 0) dim += dims;
    const fac_ints others = all_but(scores, dim, room);
    fac_tensor *left = fac_flatten(fac_nonzero(fac_ne(fac_sum(mask, .dims = others), 0)), 0);
    const int64_t n = left ? number_of(r, fac_tensor_numel(left)) : -1;
    if (n <= 0) return n < 0 ? NULL : mask;
    fac_tensor *rows = fac_index_select(scores, dim, left);
    fac_tensor *values = r->kind == RANDOM_CHANNELS
                             ? fac_rand(FAC_INTS(fac_tensor_numel(left)), .device = fac_tensor_device(left))
                             : fac_linalg_vector_norm(rows, .ord = r->order, .dims = others);
    fac_tensor *ones = fac_ones(FAC_INTS(fac_tensor_size(scores, dim)), .dtype = fac_tensor_dtype(mask),
                                .device = fac_tensor_device(mask));
    int64_t sizes[FAC_MAX_DIMS];
    for (int d = 0; d < dims; d++) sizes[d] = d == dim ? -1 : 1;
    fac_tensor *keep = without_smallest(ones, left, values, n);
    return keep ? fac_mul(mask, fac_reshape(keep, fac_ints_of(sizes, (size_t)dims))) : NULL;
}

static fac_tensor *masked(const rule *r, fac_tensor *scores, fac_tensor *mask) {
    switch (r->kind) {
    case RANDOM:
    case SMALLEST: return elements_masked(r, scores, mask);
    case RANDOM_CHANNELS:
    case SMALLEST_CHANNELS: return channels_masked(r, scores, mask);
    case GIVEN: return fac_mul(mask, fac_to(r->mask, .dtype = fac_tensor_dtype(mask)));
    default: return mask;
    }
}

/* ---- modules ---- */

static fac_status check_like(const char *what, const fac_tensor *t, const fac_tensor *like) {
    FAC_CHECK(fac__same_sizes(fac__header(t), fac__header(like)), FAC_ERR_SHAPE,
              "%s %s should have the shape of the parameter, %s", what, FAC_SHAPE_TEXT(fac__header(t)),
              FAC_SHAPE_TEXT(fac__header(like)));
    return FAC_OK;
}

static const char *const parts[] = {"_orig", "_mask", NULL};

static fac_status begin(fac_module *m, const char *name, const fac_slot *s, fac_tensor *mask) {
    const fac_computed how = {.compute = compute_masked};
    fac_status st = fac__computed_part(m, name, "_orig", s->tensor, s->kind == FAC_SLOT_BUFFER);
    if (!st) st = fac__computed_part(m, name, "_mask", mask, true);
    return fac__computed_start(m, name, &how, parts, st);
}

static fac_tensor *mask_for(fac_module *m, const rule *r, const fac_slot *s, const fac_computed *c) {
    FAC_NO_GRAD(g);
    fac_tensor *value = fac_module_value(m, s->name);
    fac_tensor *before = !value ? NULL : c ? fac__computed_part_of(m, s->name, "_mask") : fac_ones_like(value);
    if (!before || (r->scores && check_like("importance_scores", r->scores, value)) ||
        (r->mask && check_like("the mask", r->mask, value)))
        return NULL;
    fac_tensor *mask = masked(r, r->scores ? r->scores : value, before);
    return mask ? fac_clone(mask) : NULL;
}

static fac_status apply(fac_module *m, const char *name, const rule *r, const char *op) {
    FAC_TRY(check_amount(r));
    fac_slot *s = fac__filled_slot(m, name, op);
    if (!s) return fac_error();
    fac_computed *c = fac__computed_of(m, name);
    FAC_CHECK(!c || c->compute == compute_masked, FAC_ERR_ARGUMENT, "%s: '%s' is normed or parametrised", op, name);
    FAC_SCOPE(scope);
    fac_tensor *mask = mask_for(m, r, s, c);
    if (!mask) return fac_error();
    if (!c) return begin(m, name, s, mask);
    char full[160];
    snprintf(full, sizeof full, "%s_mask", name);
    FAC_TRY(fac_module_set_tensor(m, full, mask));
    return fac__compute_all(m, false);
}

fac_status fac_prune_identity(fac_module *m, const char *name) {
    FAC_TRY(fac_error());
    return apply(m, name, &(rule){.kind = NOTHING}, "prune_identity");
}

fac_status(fac_prune_random_unstructured)(fac_module *m, const char *name, double amount,
                                          const fac_prune_random_unstructured_kw *kw) {
    fac_prune_random_unstructured_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_prune_random_unstructured_kw(&k, kw));
    const rule r = {.kind = RANDOM, .amount = amount, .count = k.count};
    return apply(m, name, &r, "prune_random_unstructured");
}

fac_status(fac_prune_l1_unstructured)(fac_module *m, const char *name, double amount,
                                      const fac_prune_l1_unstructured_kw *kw) {
    fac_prune_l1_unstructured_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_prune_l1_unstructured_kw(&k, kw));
    const rule r = {.kind = SMALLEST, .amount = amount, .count = k.count, .scores = k.importance_scores};
    return apply(m, name, &r, "prune_l1_unstructured");
}

fac_status(fac_prune_random_structured)(fac_module *m, const char *name, double amount,
                                        const fac_prune_random_structured_kw *kw) {
    fac_prune_random_structured_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_prune_random_structured_kw(&k, kw));
    const rule r = {.kind = RANDOM_CHANNELS, .amount = amount, .count = k.count, .dim = k.dim};
    return apply(m, name, &r, "prune_random_structured");
}

fac_status(fac_prune_ln_structured)(fac_module *m, const char *name, double amount, double n, int64_t dim,
                                    const fac_prune_ln_structured_kw *kw) {
    fac_prune_ln_structured_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_prune_ln_structured_kw(&k, kw));
    const rule r = {.kind = SMALLEST_CHANNELS,
                    .amount = amount,
                    .count = k.count,
                    .order = n,
                    .dim = dim,
                    .scores = k.importance_scores};
    return apply(m, name, &r, "prune_ln_structured");
}

fac_status fac_prune_custom_from_mask(fac_module *m, const char *name, fac_tensor *mask) {
    FAC_TRY(fac_error());
    if (!fac__open(mask, "prune_custom_from_mask", "mask")) return fac_error();
    return apply(m, name, &(rule){.kind = GIVEN, .mask = mask}, "prune_custom_from_mask");
}

/* ---- many parameters as one ---- */

/* All values, or all masks, one behind the other. */
static fac_tensor *in_a_row(fac_module *const *modules, const char *const *names, size_t n, fac_tensors scores,
                            bool masks) {
    fac_tensor **v = fac__alloc((n ? n : 1) * sizeof(fac_tensor *)), *made = NULL;
    if (!v) return NULL;
    for (size_t i = 0; i < n; i++) {
        fac_tensor *t = scores.n && !masks ? scores.v[i] : fac_module_value(modules[i], names[i]);
        if (t && masks) {
            const fac_computed *c = fac__computed_of(modules[i], names[i]);
            t = c && c->compute == compute_masked ? fac__computed_part_of(modules[i], names[i], "_mask")
                                                  : fac_ones_like(t);
        }
        v[i] = fac_flatten(t, 0);
    }
    made = fac_cat(fac_tensors_of(v, n));
    fac__free(v);
    return made;
}

static fac_status apply_parts(fac_module *const *modules, const char *const *names, size_t n, fac_tensor *all) {
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        fac_tensor *value = fac_module_value(modules[i], names[i]);
        if (!value) return fac_error();
        const int64_t size = fac_tensor_numel(value);
        fac_tensor *part = fac_reshape(fac_narrow(all, 0, at, size), fac_tensor_sizes(value));
        FAC_TRY(fac_prune_custom_from_mask(modules[i], names[i], part));
        at += size;
    }
    return FAC_OK;
}

fac_status(fac_prune_global_unstructured)(fac_module *const *modules, const char *const *names, size_t n,
                                          const char *method, double amount,
                                          const fac_prune_global_unstructured_kw *kw) {
    fac_prune_global_unstructured_kw k;
    FAC_TRY(fac_error());
    FAC_TRY(fac__open_prune_global_unstructured_kw(&k, kw));
    FAC_CHECK(modules && names && n && method, FAC_ERR_ARGUMENT,
              "prune_global_unstructured: modules, names or method is NULL, or there are none");
    const bool smallest = strcmp(method, "l1") == 0;
    FAC_CHECK(smallest || strcmp(method, "random") == 0, FAC_ERR_ARGUMENT,
              "prune_global_unstructured: method should be \"l1\" or \"random\", not \"%s\"", method);
    FAC_CHECK(!k.importance_scores.n || k.importance_scores.n == n, FAC_ERR_ARGUMENT,
              "prune_global_unstructured: there are %zu importance_scores for %zu parameters", k.importance_scores.n,
              n);
    rule r = {.amount = amount, .count = k.count};
    r.kind = smallest ? SMALLEST : RANDOM;
    FAC_TRY(check_amount(&r));
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *scores = in_a_row(modules, names, n, k.importance_scores, false);
    fac_tensor *before = scores ? in_a_row(modules, names, n, k.importance_scores, true) : NULL;
    if (!before) return fac_error();
    FAC_TRY(check_like("importance_scores", scores, before));
    fac_tensor *mask = elements_masked(&r, scores, before);
    return mask ? apply_parts(modules, names, n, mask) : fac_error();
}

/* ---- for good ---- */

fac_status fac_prune_remove(fac_module *m, const char *name) {
    if (!fac__filled_slot(m, name, "prune_remove")) return fac_error();
    const fac_computed *c = fac__computed_of(m, name);
    FAC_CHECK(c && c->compute == compute_masked, FAC_ERR_ARGUMENT,
              "Parameter '%s' of %s has to be pruned before pruning can be removed", name, m->cls->name);
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *value = fac_module_value(m, name), *orig = fac__computed_part_of(m, name, "_orig");
    if (!value || !orig || fac_set_data(orig, fac_detach(value))) return fac_error();
    fac__computed_end(m, name, orig);
    for (const char *const *p = parts; *p; p++) fac__handle_unref(fac__computed_take(m, name, *p));
    return FAC_OK;
}

bool fac_prune_is_pruned(fac_module *m) {
    if (fac_error() || !fac__given(m, "module")) return false;
    for (size_t i = 0; i < m->computed.n; i++)
        if (m->computed.v[i].compute == compute_masked) return true;
    for (size_t i = 0; i < m->children.n; i++)
        if (fac_prune_is_pruned(m->children.v[i].module)) return true;
    return false;
}
