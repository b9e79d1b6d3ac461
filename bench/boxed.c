/* Calls as text: a reader by descent that makes each value as it is read. */
#include "boxed.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 64, DIMS = 8, NAME = 96 };

typedef struct reader {
    const char *at;
    bool bad;
} reader;

static void skip(reader *r) {
    while (*r->at == ' ') r->at++;
}
static bool eat(reader *r, const char *what) {
    skip(r);
    const size_t n = strlen(what);
    if (strncmp(r->at, what, n) != 0) return false;
    r->at += n;
    return true;
}
static void want(reader *r, const char *what) {
    if (!eat(r, what)) r->bad = true;
}

/* A number; *out_whole if it is written without a point. */
static double number(reader *r, bool *out_whole) {
    char *end;
    skip(r);
    double x = strtod(r->at, &end);
    if (end == r->at) r->bad = true;
    *out_whole = !memchr(r->at, '.', (size_t)(end - r->at)) && !memchr(r->at, 'e', (size_t)(end - r->at));
    r->at = end;
    if (*r->at == 'K' || *r->at == 'M') x *= *r->at++ == 'K' ? 1024 : 1024 * 1024;
    return x;
}

/* ---- tensors ---------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    fac_dtype dtype;
} dtypes[] = {{"bool", FAC_BOOL}, {"u8", FAC_U8},     {"i8", FAC_I8},     {"i16", FAC_I16},   {"i32", FAC_I32},
              {"i64", FAC_I64},   {"f16", FAC_F16},   {"bf16", FAC_BF16}, {"f32", FAC_F32},   {"f64", FAC_F64},
              {"c64", FAC_C64},   {"c128", FAC_C128}, {"qi8", FAC_QINT8}, {"qu8", FAC_QUINT8}};

/* The dtype that the text begins with, DEFAULT if none. */
static fac_dtype dtype_at(reader *r) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const size_t n = strlen(dtypes[i].name);
        if (strncmp(r->at, dtypes[i].name, n) != 0 || isalnum((unsigned char)r->at[n])) continue;
        r->at += n;
        return dtypes[i].dtype;
    }
    return FAC_DTYPE_DEFAULT;
}

/* Symmetric and positive definite, or near the unit matrix. */
static fac_tensor *matrices(fac_ints sizes, fac_dtype dtype, bool spd) {
    fac_tensor *x = fac_div(fac_randn(sizes, .dtype = dtype), 8.0),
               *one = fac_eye(sizes.v[sizes.n - 1], .dtype = dtype);
    return spd ? fac_add(fac_matmul(x, fac_transpose(x, -2, -1)), one) : fac_add(x, one);
}

/* "0,3}": elements, repeated. "0:9}": drawn evenly. */
static fac_tensor *listed(reader *r, fac_ints sizes, fac_dtype dtype) {
    double v[ITEMS];
    int64_t n = 0;
    bool whole, drawn;
    v[n++] = number(r, &whole);
    drawn = eat(r, ":");
    while (n < ITEMS && (n == 1 ? drawn || eat(r, ",") : eat(r, ","))) v[n++] = number(r, &whole);
    want(r, "}");
    if (drawn && fac_dtype_is_floating(dtype))
        return fac_to_dtype(fac_add(fac_mul(fac_rand(sizes), v[1] - v[0]), v[0]), dtype);
    if (drawn) return fac_to_dtype(fac_add(fac_randint((int64_t)(v[1] - v[0]), sizes), v[0]), dtype);
    int64_t numel = 1;
    for (size_t i = 0; i < sizes.n; i++) numel *= sizes.v[i];
    fac_tensor *some = fac_to_dtype(fac_tensor_from(v, FAC_F64, FAC_INTS(n)), dtype);
    return fac_reshape(fac_narrow(fac_tile(some, FAC_INTS(numel / n + 1)), 0, 0, numel), sizes);
}

/* Numbers of which a share is there, in the layout that the text names. */
static fac_tensor *sparse(reader *r, const char *layout, fac_ints sizes, fac_dtype dtype) {
    bool whole;
    const double share = number(r, &whole);
    want(r, "}");
    fac_tensor *t = fac_to_dtype(fac_mul(fac_randn(sizes), fac_lt(fac_rand(sizes), share)), dtype);
    if (strncmp(layout, "csr", 3) == 0) return fac_to_sparse_csr(t);
    if (strncmp(layout, "csc", 3) == 0) return fac_to_sparse_csc(t);
    if (strncmp(layout, "bsr", 3) == 0) return fac_to_sparse_bsr(t, FAC_INTS(4, 4));
    t = fac_to_sparse(t);
    if (strncmp(layout, "coo", 3) == 0) return t;
    fac_tensor *indices = fac_indices(t), *values = fac_values(t);
    return fac_sparse_coo_tensor_indices_size(fac_cat(FAC_TENSORS(indices, indices), 1),
                                              fac_cat(FAC_TENSORS(values, values), 0), sizes);
}

static fac_tensor *quantized(reader *r, fac_ints sizes, fac_dtype dtype) {
    fac_tensor *t = fac_randn(sizes);
    if (eat(r, "{channels}")) {
        fac_tensor *scales = fac_full(FAC_INTS(sizes.v[0]), 0.05, .dtype = FAC_F64),
                   *zeros = fac_zeros(FAC_INTS(sizes.v[0]), .dtype = FAC_I64);
        return fac_quantize_per_channel(t, scales, zeros, 0, dtype);
    }
    const bool strided = eat(r, "'s"), turned = !strided && eat(r, "'t");
    if (strided) t = fac_stack(FAC_TENSORS(t, t), -1);
    if (turned) t = fac_contiguous(fac_transpose(t, -2, -1));
    t = fac_quantize_per_tensor(t, 0.05, 3, dtype);
    return strided ? fac_select(t, -1, 0) : turned ? fac_transpose(t, -2, -1) : t;
}

static fac_tensor *plain(fac_ints sizes, fac_dtype dtype) {
    if (fac_dtype_is_floating(dtype) || fac_dtype_is_complex(dtype)) return fac_randn(sizes, .dtype = dtype);
    return fac_to_dtype(fac_randint(dtype == FAC_BOOL ? 2 : 10, sizes), dtype);
}

static const char *const layouts[] = {"{coo:", "{csr:", "{csc:", "{bsr:", "{loose:"};

/* What follows a dtype's name. */
static fac_tensor *tensor(reader *r, fac_dtype dtype) {
    int64_t sizes[DIMS];
    fac_ints s = {sizes, 0};
    bool whole;
    want(r, "[");
    while (!r->bad && s.n < DIMS && !eat(r, "]")) {
        sizes[s.n++] = (int64_t)number(r, &whole);
        eat(r, ",");
    }
    if (r->bad) return NULL;
    if (dtype == FAC_QINT8 || dtype == FAC_QUINT8) return quantized(r, s, dtype);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (eat(r, layouts[i])) return sparse(r, layouts[i] + 1, s, dtype);
    fac_tensor *t = eat(r, "{spd}")    ? matrices(s, dtype, true)
                    : eat(r, "{eye}")  ? matrices(s, dtype, false)
                    : eat(r, "{perm}") ? fac_to_dtype(fac_randperm(sizes[0]), dtype)
                    : eat(r, "{")      ? listed(r, s, dtype)
                                       : plain(s, dtype);
    if (eat(r, "'c")) return fac_contiguous(t, .memory_format = FAC_CHANNELS_LAST);
    if (eat(r, "'s")) return fac_select(fac_stack(FAC_TENSORS(t, t), -1), -1, 0);
    return eat(r, "'t") ? fac_transpose(fac_contiguous(fac_transpose(t, -2, -1)), -2, -1) : t;
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

/* Whether argument i of the schema is a list of scalars, which is written like one of floats. */
static bool takes_scalars(const fac_operator *op, size_t i) {
    const char *at = strchr(fac_operator_schema(op), '(') + 1;
    int depth = 0;
    for (; *at && i > 0; at++) {
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
        if (*at != ',' || depth) continue;
        while (at[1] == ' ') at++;
        if (at[1] != '*') i--;
    }
    while (*at == ' ') at++;
    return strncmp(at, "Scalar[", 7) == 0;
}

static fac_value list(reader *r, bool scalars) {
    fac_tensor *tensors[ITEMS];
    double floats[ITEMS];
    int64_t ints[ITEMS];
    bool bools[ITEMS], all_whole = true, of_bools = false, of_tensors = false, whole;
    size_t n = 0;
    while (!r->bad && n < ITEMS && !eat(r, "]")) {
        skip(r);
        const fac_dtype dtype = dtype_at(r);
        if (dtype || strncmp(r->at, "None", 4) == 0) {
            of_tensors = true;
            tensors[n] = eat(r, "None") ? NULL : tensor(r, dtype);
        } else if (*r->at == 'T' || *r->at == 'F') {
            of_bools = true;
            bools[n] = eat(r, "True") || (want(r, "False"), false);
        } else {
            floats[n] = number(r, &whole);
            ints[n] = (int64_t)floats[n];
            all_whole = all_whole && whole;
        }
        n++;
        eat(r, ",");
    }
    if (r->bad) return fac_value_none();
    if (of_tensors) return fac_value_tensors(tensors, n);
    if (of_bools) return fac_value_bools(bools, n);
    if (!scalars) return all_whole ? fac_value_ints(ints, n) : fac_value_floats(floats, n);
    fac_scalar s[ITEMS];
    for (size_t i = 0; i < n; i++) s[i] = fac_scalar_f_(floats[i]);
    return fac_value_scalars(s, n);
}

static fac_value text(reader *r) {
    char word[NAME];
    size_t n = 0;
    while (*r->at && *r->at != '"' && n + 1 < sizeof word) word[n++] = *r->at++;
    word[n] = 0;
    want(r, "\"");
    return fac_value_string(word);
}

static fac_value value(reader *r, bool scalars) {
    bool whole;
    if (eat(r, "None")) return fac_value_none();
    if (eat(r, "True")) return fac_value_bool(true);
    if (eat(r, "False")) return fac_value_bool(false);
    if (eat(r, "\"")) return text(r);
    if (eat(r, "[")) return list(r, scalars);
    if (eat(r, "dtype(")) {
        const fac_dtype d = dtype_at(r);
        want(r, ")");
        return fac_value_dtype(d);
    }
    skip(r);
    const fac_dtype dtype = dtype_at(r);
    if (dtype) return fac_value_tensor(tensor(r, dtype));
    const double x = number(r, &whole);
    return whole ? fac_value_int((int64_t)x) : fac_value_float(x);
}

/* ---- backward ---------------------------------------------------------------------------------------------------------- */

static bool has_gradient(fac_tensor *t) {
    return t && (fac_dtype_is_floating(fac_tensor_dtype(t)) || fac_dtype_is_complex(fac_tensor_dtype(t)));
}

static void add_leaves(boxed_call *c, fac_tensors list) {
    for (size_t i = 0; i < list.n && c->n_leaves < BOXED_LEAVES; i++)
        if (has_gradient(list.v[i])) c->leaves[c->n_leaves++] = fac_set_requires_grad(list.v[i], true);
}

/* The tensors of a value, `one` being room for one; none if it holds something else. */
static fac_tensors tensors_in(fac_value v, fac_tensor **one) {
    if (v.tag == FAC_TAG_TENSORS) return fac_value_as_tensors(v);
    if (v.tag != FAC_TAG_TENSOR) return (fac_tensors){NULL, 0};
    *one = fac_value_as_tensor(v);
    return (fac_tensors){one, 1};
}

static void find_leaves(boxed_call *c) {
    fac_tensor *one;
    for (size_t i = 0; i < c->n; i++) add_leaves(c, tensors_in(c->args[i], &one));
}

/* The first tensor among the results that has gradients. */
static fac_tensor *root_of(const fac_value *results, size_t n) {
    fac_tensor *one;
    for (size_t i = 0; i < n; i++) {
        const fac_tensors list = tensors_in(results[i], &one);
        for (size_t k = 0; k < list.n; k++)
            if (has_gradient(list.v[k]) && fac_requires_grad(list.v[k])) return list.v[k];
    }
    return NULL;
}

static bool run_backward(boxed_call *c, const fac_value *results, size_t n) {
    FAC_SCOPE(s);
    fac_tensor *root = root_of(results, n), *grads[BOXED_LEAVES];
    if (!root) return fprintf(stderr, "bench: %s has no result with a gradient\n", fac_operator_name(c->op)), false;
    if (!c->ones) c->ones = fac_keep(fac_ones_like(root));
    const fac_tensors leaves = {c->leaves, c->n_leaves};
    return c->ones && fac_grad(FAC_TENSORS(root), leaves, grads, .grad_outputs = FAC_TENSORS(c->ones),
                               .allow_unused = true) == FAC_OK;
}

bool boxed_make(boxed_call *c, const char *text) {
    char name[NAME];
    *c = (boxed_call){.backward = strncmp(text, "grad ", 5) == 0};
    if (c->backward) text += 5;
    const char *open = strchr(text, '(');
    if (!open || (size_t)(open - text) >= sizeof name) return fprintf(stderr, "bench: '%s' is no call\n", text), false;
    memcpy(name, text, (size_t)(open - text));
    name[open - text] = 0;
    c->op = fac_operator_find(name);
    if (!c->op) return false;
    reader r = {open + 1, false};
    while (!r.bad && c->n < BOXED_ARGS && !eat(&r, ")")) {
        c->args[c->n] = value(&r, takes_scalars(c->op, c->n));
        c->n++;
        eat(&r, ",");
    }
    if (!r.bad && !*r.at && c->backward) find_leaves(c);
    if (!r.bad && !*r.at && fac_error() == FAC_OK) return true;
    if (fac_error() == FAC_OK) fprintf(stderr, "bench: '%s' was not understood at '%s'\n", text, r.at);
    boxed_drop(c);
    return false;
}

void boxed_drop(boxed_call *c) {
    for (size_t i = 0; i < c->n; i++) fac_value_release(&c->args[i]);
    fac_release(c->ones);
    *c = (boxed_call){0};
}

/* Of tensors in memory of rows and columns; what is sparse or opaque counts as nothing. */
static double bytes_in(fac_value v) {
    fac_tensor *one;
    const fac_tensors list = tensors_in(v, &one);
    double bytes = 0;
    for (size_t i = 0; i < list.n; i++)
        if (list.v[i] && fac_tensor_layout(list.v[i]) == FAC_STRIDED)
            bytes += (double)fac_tensor_numel(list.v[i]) * (double)fac_dtype_size(fac_tensor_dtype(list.v[i]));
    return bytes;
}

double boxed_bytes(boxed_call *c, double *out_numel) {
    fac_value results[BOXED_RESULTS];
    const size_t n = fac_operator_return_count(c->op);
    double bytes = 0;
    *out_numel = 0;
    if (n > BOXED_RESULTS || fac_call_op(c->op, c->args, c->n, results) != FAC_OK) return 0;
    for (size_t i = 0; i < c->n; i++) bytes += bytes_in(c->args[i]);
    for (size_t i = 0; i < n; i++) {
        fac_tensor *one;
        const fac_tensors list = tensors_in(results[i], &one);
        if (i == 0 && list.n && list.v[0]) *out_numel = (double)fac_tensor_numel(list.v[0]);
        bytes += bytes_in(results[i]);
        fac_value_release(&results[i]);
    }
    return bytes;
}

bool boxed_run(boxed_call *c) {
    fac_value results[BOXED_RESULTS];
    const size_t n = fac_operator_return_count(c->op);
    if (n > BOXED_RESULTS || fac_call_op(c->op, c->args, c->n, results) != FAC_OK) return false;
    const bool ok = !c->backward || run_backward(c, results, n);
    for (size_t i = 0; i < n; i++) fac_value_release(&results[i]);
    return ok;
}
