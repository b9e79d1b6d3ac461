/* The rules of names: which operator has which, and what each rule gives. source: PyTorch's "Named Tensors
   operator coverage" */
#include "dispatch/value.h"
#include "ops/names.h"
#include <stdlib.h>

/* Names of operators, with an overload where it differs from the others'; forms in place and into an output
   follow the plain one. Pointwise operators are not here. In alphabetical order for each rule. */
static const struct {
    fac_name_rule rule;
    const char *operators;
} table[] = {
    {FAC_NAMES_UNIFY, " copy glu_backward glu_jvp lerp masked_fill max.other maximum min.other minimum where "},
    {FAC_NAMES_KEEP,
     " _conj _conj_physical _log_softmax _neg_view _softmax _to_copy _to_dense alias alpha_dropout bernoulli bernoulli.p cauchy chunk clone conj "
     "contiguous cummax cummin cumprod cumsum dequantize.self detach dropout empty_like exponential feature_dropout fill flip full_like geometric glu "
     "imag index_fill log_normal log_softmax log_softmax.int logcumsumexp narrow native_dropout normal ones_like rand_like "
     "randn_like random real resolve_conj resolve_neg roll slice softmax softmax.int sort split split_with_sizes to_dense topk tril triu "
     "uniform unsafe_chunk unsafe_split unsafe_split_with_sizes view.dtype zero zeros_like "},
    {FAC_NAMES_REDUCE,
     " all amax amin aminmax any argmax argmin count_nonzero kthvalue linalg_vector_norm logsumexp max mean median min mode nanmean "
     "nanmedian nansum norm prod select std std_mean sum unbind var var_mean "},
    {FAC_NAMES_PRODUCT, " bmm dot matmul mm mv vdot "},
    {FAC_NAMES_ADDED, " addbmm addmm addmv baddbmm "},
    {FAC_NAMES_LINEAR, " linear "},
    {FAC_NAMES_TRANSPOSE, " transpose "},
    {FAC_NAMES_PERMUTE, " permute "},
    {FAC_NAMES_REVERSE, " numpy_T t "},
    {FAC_NAMES_SQUEEZE, " squeeze "},
    {FAC_NAMES_UNSQUEEZE, " unsqueeze "},
    {FAC_NAMES_EXPAND, " expand "},
    {FAC_NAMES_JOIN, " cat concat concatenate "},
    {FAC_NAMES_FORGET,
     " _local_scalar_dense equal is_nonzero is_same_size is_set_to masked_select nonzero record_stream "},
};

static bool has_word(const char *words, const char *word, size_t n) {
    for (const char *at = words; (at = strstr(at, word)) != NULL; at++)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

static fac_name_rule rule_of(const char *word) {
    for (size_t i = 0; i < FAC_COUNT(table); i++)
        if (has_word(table[i].operators, word, strlen(word))) return table[i].rule;
    return FAC_NAMES_REFUSE;
}

fac_name_rule fac__name_rule(const fac_operator *op) {
    char base[96], full[160];
    const fac_schema *s = atomic_load_explicit(&op->schema, memory_order_acquire);
    if (strcmp(s->ns, "aten") != 0) return FAC_NAMES_REFUSE;
    snprintf(base, sizeof base, "%s", s->name);
    const size_t n = strlen(base);
    if (n > 1 && base[n - 1] == '_' && base[n - 2] != '_') base[n - 1] = '\0';
    snprintf(full, sizeof full, "%s.%s", base, s->overload);
    fac_name_rule r = rule_of(full);
    if (!r) r = rule_of(base);
    return r || !fac__is_pointwise(op) ? r : FAC_NAMES_UNIFY;
}

/* ---- arguments ---------------------------------------------------------------------------------------------- */

static const fac_value *argument(const fac_schema *s, const fac_value *args, const char *name) {
    for (size_t i = 0; i < s->n_args; i++)
        if (strcmp(s->args[i].name, name) == 0) return &args[i];
    return NULL;
}

/* An integer among the arguments, or `otherwise`. */
static int64_t integer(const fac_schema *s, const fac_value *args, const char *name, int64_t otherwise) {
    const fac_value *v = argument(s, args, name);
    return v && (v->tag == FAC_TAG_INT || v->tag == FAC_TAG_BOOL) ? v->payload : otherwise;
}

/* Tensor number k of the call, lists and outputs left out; NULL if there is none. */
static const fac_tensor *tensor(const fac_schema *s, const fac_value *args, size_t k) {
    for (size_t i = 0; i < s->n_args; i++) {
        if (args[i].tag != FAC_TAG_TENSOR || (s->args[i].type.write && s->args[i].kwarg_only)) continue;
        if (!k--) return fac__value_header(&args[i]);
    }
    return NULL;
}

static void names_at(const fac_schema *s, const fac_value *args, size_t k, fac_dim_names *out) {
    const fac_tensor *t = tensor(s, args, k);
    out->n = 0;
    if (t) fac__names_of(t, out);
}

/* The dimensions that the argument `dim` names, as bits; all if it is absent, not given or an empty list. */
static fac_status dims_of(const fac_schema *s, const fac_value *args, int ndim, uint64_t *out) {
    const fac_value *v = argument(s, args, "dim");
    if (!v) v = argument(s, args, "dims");
    int64_t one;
    fac_ints dims = {NULL, 0};
    if (v && v->tag == FAC_TAG_INTS) dims = fac_value_as_ints(*v);
    if (v && v->tag == FAC_TAG_INT) one = v->payload, dims = (fac_ints){&one, 1};
    return fac__dim_mask(dims, ndim, out);
}

/* ---- putting names together --------------------------------------------------------------------------------- */

/* A name of one list where the other has none must not stand elsewhere in that. */
static fac_status check_aligned(const fac_dim_names *a, const fac_dim_names *b) {
    for (int i = 0; i < a->n; i++)
        for (int j = 0; a->v[i] && j < b->n; j++)
            FAC_CHECK(a->v[i] != b->v[j] || a->n - i == b->n - j, FAC_ERR_ARGUMENT,
                      "dimension '%s' stands at different positions from the right in %s and %s", a->v[i],
                      FAC_NAMES_TEXT(a), FAC_NAMES_TEXT(b));
    return FAC_OK;
}

/* a becomes what both say, aligned at the right. */
static fac_status unify(fac_dim_names *a, const fac_dim_names *b) {
    const fac_dim_names x = *a;
    const int n = x.n > b->n ? x.n : b->n;
    FAC_TRY(check_aligned(&x, b));
    for (int i = 0; i < n; i++) {
        const int p = i - (n - x.n), q = i - (n - b->n);
        const char *left = p >= 0 ? x.v[p] : NULL, *right = q >= 0 ? b->v[q] : NULL;
        FAC_CHECK(
            !left || !right || left == right, FAC_ERR_ARGUMENT,
            "dimension '%s' of %s and dimension '%s' of %s are at the same position from the right, but their names do not match",
            left, FAC_NAMES_TEXT(&x), right, FAC_NAMES_TEXT(b));
        a->v[i] = left ? left : right;
    }
    a->n = n;
    return FAC_OK;
}

static fac_status unify_all(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    fac_dim_names next;
    names_at(s, args, 0, out);
    for (size_t k = 1; tensor(s, args, k); k++) {
        names_at(s, args, k, &next);
        FAC_TRY(unify(out, &next));
    }
    return FAC_OK;
}

/* Batches are unified; the rows of the first and the columns of the second remain. */
static fac_status product(const fac_dim_names *a, const fac_dim_names *b, fac_dim_names *out) {
    fac_dim_names batch = *b;
    *out = *a;
    out->n = a->n > 2 ? a->n - 2 : 0;
    batch.n = b->n > 2 ? b->n - 2 : 0;
    FAC_TRY(unify(out, &batch));
    if (a->n >= 2) out->v[out->n++] = a->v[a->n - 2];
    if (b->n >= 2) out->v[out->n++] = b->v[b->n - 1];
    for (int i = 0; i < out->n; i++)
        for (int j = 0; j < i && out->v[i]; j++)
            FAC_CHECK(
                out->v[i] != out->v[j], FAC_ERR_ARGUMENT,
                "the product of matrices with dimensions %s and %s would have two dimensions '%s'; rename one first",
                FAC_NAMES_TEXT(a), FAC_NAMES_TEXT(b), out->v[i]);
    return FAC_OK;
}

static fac_status product_of(const fac_schema *s, const fac_value *args, size_t first, fac_dim_names *out) {
    fac_dim_names a, b;
    names_at(s, args, first, &a);
    names_at(s, args, first + 1, &b);
    return product(&a, &b, out);
}

static fac_status added(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    fac_dim_names self;
    FAC_TRY(product_of(s, args, 1, out));
    if (strcmp(s->name, "addbmm") == 0) out->v[0] = out->v[1], out->v[1] = out->v[2], out->n = 2;
    names_at(s, args, 0, &self);
    return unify(out, &self);
}

static fac_status linear(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    fac_dim_names a, w;
    names_at(s, args, 0, &a);
    names_at(s, args, 1, &w);
    const char *first = w.n ? w.v[0] : NULL;
    if (w.n == 2) w.v[0] = w.v[1], w.v[1] = first;
    return product(&a, &w, out);
}

/* ---- taking dimensions away, moving them -------------------------------------------------------------------- */

static void drop(fac_dim_names *l, uint64_t mask) {
    int n = 0;
    for (int d = 0; d < l->n; d++)
        if (!(mask >> d & 1)) l->v[n++] = l->v[d];
    l->n = n;
}

static fac_status reduce(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    uint64_t mask;
    names_at(s, args, 0, out);
    FAC_TRY(dims_of(s, args, out->n, &mask));
    if (!integer(s, args, "keepdim", 0)) drop(out, mask);
    return FAC_OK;
}

static fac_status transpose(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    int64_t a, b;
    names_at(s, args, 0, out);
    FAC_TRY(fac__wrap_dim(integer(s, args, "dim0", 0), out->n, &a));
    FAC_TRY(fac__wrap_dim(integer(s, args, "dim1", 0), out->n, &b));
    if (!out->n) return FAC_OK;
    const char *first = out->v[a];
    out->v[a] = out->v[b];
    out->v[b] = first;
    return FAC_OK;
}

static fac_status permute(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    fac_dim_names all;
    const fac_value *v = argument(s, args, "dims");
    const fac_ints dims = fac_value_as_ints(*v);
    names_at(s, args, 0, &all);
    *out = all;
    for (size_t i = 0; i < dims.n && (int)i < all.n; i++) {
        int64_t d;
        FAC_TRY(fac__wrap_dim(dims.v[i], all.n, &d));
        out->v[i] = all.v[d];
    }
    return FAC_OK;
}

static fac_status squeeze(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    uint64_t mask;
    const fac_tensor *t = tensor(s, args, 0);
    names_at(s, args, 0, out);
    FAC_TRY(dims_of(s, args, out->n, &mask));
    const fac_value *dims = argument(s, args, "dim");
    if (dims && dims->tag == FAC_TAG_INTS && fac_value_as_ints(*dims).n == 0) mask = 0;
    for (int d = 0; d < out->n; d++)
        if (t->sizes[d] != 1) mask &= ~((uint64_t)1 << d);
    drop(out, mask);
    return FAC_OK;
}

static fac_status unsqueeze(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    int64_t at;
    names_at(s, args, 0, out);
    FAC_TRY(fac__wrap_dim(integer(s, args, "dim", 0), out->n + 1, &at));
    if (out->n == FAC_MAX_DIMS) return FAC_OK; /* the operator refuses it */
    for (int d = out->n++; d > at; d--) out->v[d] = out->v[d - 1];
    out->v[at] = NULL;
    return FAC_OK;
}

static fac_status expand(const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    const fac_value *v = argument(s, args, "size");
    const size_t n = v && v->tag == FAC_TAG_INTS ? fac_value_as_ints(*v).n : 1;
    fac_dim_names wide = {.n = (int)(n < FAC_MAX_DIMS ? n : FAC_MAX_DIMS)};
    names_at(s, args, 0, out);
    return unify(out, &wide);
}

/* Positions from the left, too, as there are as many; one-dimensional tensors without elements take no part. */
static fac_status join(const fac_value *args, fac_dim_names *out) {
    const fac_tensors l = fac__value_headers(&args[0]);
    out->n = 0;
    for (size_t i = 0; i < l.n; i++) {
        fac_dim_names next;
        fac__names_of(l.v[i], &next);
        if (next.n != 1 || l.v[i]->numel) FAC_TRY(unify(out, &next));
    }
    return FAC_OK;
}

fac_status fac__names_by_rule(fac_name_rule rule, const fac_schema *s, const fac_value *args, fac_dim_names *out) {
    out->n = 0;
    switch (rule) {
    case FAC_NAMES_UNIFY: return unify_all(s, args, out);
    case FAC_NAMES_REDUCE: return reduce(s, args, out);
    case FAC_NAMES_PRODUCT: return product_of(s, args, 0, out);
    case FAC_NAMES_ADDED: return added(s, args, out);
    case FAC_NAMES_LINEAR: return linear(s, args, out);
    case FAC_NAMES_TRANSPOSE: return transpose(s, args, out);
    case FAC_NAMES_PERMUTE: return permute(s, args, out);
    case FAC_NAMES_SQUEEZE: return squeeze(s, args, out);
    case FAC_NAMES_UNSQUEEZE: return unsqueeze(s, args, out);
    case FAC_NAMES_EXPAND: return expand(s, args, out);
    case FAC_NAMES_JOIN: return join(args, out);
    case FAC_NAMES_KEEP:
    case FAC_NAMES_REVERSE: names_at(s, args, 0, out); break;
    default: break;
    }
    for (int i = 0; rule == FAC_NAMES_REVERSE && i < out->n / 2; i++) {
        const char *first = out->v[i];
        out->v[i] = out->v[out->n - 1 - i];
        out->v[out->n - 1 - i] = first;
    }
    return FAC_OK;
}
