/* Replays calls whose results, or refusal, a current PyTorch gave; see data/gen_reference_cases.py. Every call goes through the
   boxed door. */
#include "support/replay.h"
#include "core/scalar.h"
#include "core/tensor_make.h"
#include <facula/facula.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ARGS = 24, MAX_RESULTS = 8, MAX_TENSORS = 8, MAX_LIST = 64 };

/* What one case is made of while it runs. */
typedef struct replay {
    const char *op;
    fac_value args[MAX_ARGS];
    size_t n_args;
    fac_tensor *inputs[MAX_TENSORS]; /* all tensors among the arguments, in order; the scope's */
    size_t n_inputs;
    bool gradients;
    char why[512]; /* what differs; empty while nothing does */
} replay;

/* ---- tensors as text ----------------------------------------------------------------------------------------------------- */

static fac_dtype dtype_named(const char *text, size_t n) {
    static const struct {
        const char *name;
        fac_dtype dtype;
    } names[] = {{"bool", FAC_BOOL}, {"u8", FAC_U8},   {"i8", FAC_I8},   {"i16", FAC_I16},
                 {"i32", FAC_I32},   {"i64", FAC_I64}, {"f16", FAC_F16}, {"bf16", FAC_BF16},
                 {"f32", FAC_F32},   {"f64", FAC_F64}, {"c64", FAC_C64}, {"c128", FAC_C128}};
    for (size_t i = 0; i < FAC_COUNT(names); i++)
        if (strlen(names[i].name) == n && strncmp(names[i].name, text, n) == 0) return names[i].dtype;
    return FAC_DTYPE_DEFAULT;
}

/* The dtype of a tensor's text; FAC_DTYPE_DEFAULT if the text is not a tensor's. */
static fac_dtype tensor_dtype(const char *text) {
    const char *bracket = strchr(text, '[');
    return bracket ? dtype_named(text, (size_t)(bracket - text)) : FAC_DTYPE_DEFAULT;
}

/* "2,3" up to a character that is neither a digit nor a comma. */
static int read_sizes(const char **text, int64_t *sizes) {
    int n = 0;
    while (**text >= '0' && **text <= '9') {
        sizes[n++] = strtoll(*text, (char **)text, 10);
        if (**text == ',') ++*text;
    }
    return n;
}

/* One element: an integer, a real number, or "1.5+2j". */
static void read_element(const char **text, fac_dtype dtype, void *out) {
    char *end;
    if (fac_dtype_is_integral(dtype, true)) {
        fac__store(out, dtype, fac_scalar_i_(strtoll(*text, &end, 10)));
    } else {
        double z[2] = {strtod(*text, &end), 0};
        if (fac_dtype_is_complex(dtype)) {
            z[1] = strtod(end, &end);
            end++; /* the j */
        }
        fac__store(out, dtype, fac_dtype_is_complex(dtype) ? fac_scalar_c_(z) : fac_scalar_f_(z[0]));
    }
    *text = end;
}

/* "f32[2,3] 1 2 3 4 5 6", row-major; "f32[1,3>2,3] 1 2 3" is expanded to the second sizes. */
static fac_tensor *tensor_of(const char *text) {
    int64_t sizes[FAC_MAX_DIMS], expanded[FAC_MAX_DIMS];
    fac_dtype dtype = tensor_dtype(text);
    const char *p = strchr(text, '[') + 1;
    int n = read_sizes(&p, sizes), m = *p == '>' ? (p++, read_sizes(&p, expanded)) : 0;
    fac_tensor *owned;
    assert_int_equal(*p, ']');
    p++;
    assert_ok(fac__empty(sizes, n, dtype, fac_device_make(FAC_CPU, -1), &owned));
    char *at = fac__data(owned);
    for (int64_t i = 0; i < owned->numel; i++, at += fac__item_size(owned)) read_element(&p, dtype, at);
    assert_string_equal(p, "");
    fac_tensor *t = fac__adopt_handle(fac__thread(), owned);
    fac_ints to = {expanded, (size_t)m};
    return m ? fac_expand(t, to) : t;
}

/* ---- arguments as JSON --------------------------------------------------------------------------------------------------- */

static fac_tensor *input(replay *r, const char *text) {
    fac_tensor *t = tensor_of(text);
    assert_non_null(t);
    assert_true(r->n_inputs < MAX_TENSORS);
    bool floating = !fac_dtype_is_integral(fac_tensor_dtype(t), true);
    if (r->gradients && floating) assert_non_null(fac_set_requires_grad(t, true));
    return r->inputs[r->n_inputs++] = t;
}

static double number(json_t *j) {
    return json_is_string(j) ? strtod(json_string_value(j), NULL) : json_number_value(j);
}

/* {"dtype": "f32"}, {"float": "inf"}, {"complex": [1, 2]}, {"floats": [..]}, {"tensors": []}, {"layout": 0} */
static fac_value tagged(json_t *j) {
    json_t *v;
    double floats[MAX_LIST];
    if ((v = json_object_get(j, "dtype"))) {
        const char *name = json_string_value(v);
        return fac_value_dtype(dtype_named(name, strlen(name)));
    }
    if ((v = json_object_get(j, "float"))) return fac_value_float(number(v));
    if ((v = json_object_get(j, "complex")))
        return fac_value_complex(number(json_array_get(v, 0)), number(json_array_get(v, 1)));
    if ((v = json_object_get(j, "tensors"))) return fac_value_tensors(NULL, 0);
    v = json_object_get(j, "floats");
    size_t n = json_array_size(v);
    assert_true(v && n <= MAX_LIST);
    for (size_t i = 0; i < n; i++) floats[i] = number(json_array_get(v, i));
    return fac_value_floats(floats, n);
}

static fac_value list(replay *r, json_t *j) {
    size_t n = json_array_size(j);
    int64_t ints[MAX_LIST];
    bool bools[MAX_LIST];
    fac_tensor *tensors[MAX_LIST];
    assert_true(n <= MAX_LIST);
    json_t *first = json_array_get(j, 0);
    for (size_t i = 0; i < n; i++) {
        json_t *e = json_array_get(j, i);
        ints[i] = json_integer_value(e);
        bools[i] = json_is_true(e);
        tensors[i] = json_is_string(e) ? input(r, json_string_value(e)) : NULL;
        if (json_is_string(e)) first = e;
    }
    if (json_is_string(first)) return fac_value_tensors(tensors, n);
    return json_is_boolean(first) ? fac_value_bools(bools, n) : fac_value_ints(ints, n);
}

static fac_value value_of(replay *r, json_t *j) {
    switch (json_typeof(j)) {
    case JSON_NULL: return fac_value_none();
    case JSON_TRUE:
    case JSON_FALSE: return fac_value_bool(json_is_true(j));
    case JSON_INTEGER: return fac_value_int(json_integer_value(j));
    case JSON_REAL: return fac_value_float(json_real_value(j));
    case JSON_OBJECT: return tagged(j);
    case JSON_ARRAY: return list(r, j);
    default: break;
    }
    const char *text = json_string_value(j);
    return tensor_dtype(text) ? fac_value_tensor(input(r, text)) : fac_value_string(text);
}

/* ---- comparing ----------------------------------------------------------------------------------------------------------- */

#define DIFFERS(r, ...) (void)((r)->why[0] ? 0 : snprintf((r)->why, sizeof(r)->why, __VA_ARGS__))

/* torch.testing's tolerances: |a - b| <= atol + rtol |b|. */
static bool near(double a, double b, fac_dtype dtype) {
    static const struct {
        double rtol, atol;
    } tolerance[FAC_DTYPE_COUNT] = {[FAC_F16] = {1e-3, 1e-5},   [FAC_BF16] = {1.6e-2, 1e-5}, [FAC_F32] = {1.3e-6, 1e-5},
                                    [FAC_C64] = {1.3e-6, 1e-5}, [FAC_F64] = {1e-7, 1e-7},    [FAC_C128] = {1e-7, 1e-7}};
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= tolerance[dtype].atol + tolerance[dtype].rtol * fabs(b);
}

static bool same_element(const char *a, const char *b, fac_dtype dtype) {
    double x[2], y[2], room[2];
    if (fac_dtype_is_integral(dtype, true))
        return fac__scalar_i64(fac__load(a, dtype, room)) == fac__scalar_i64(fac__load(b, dtype, room));
    fac__scalar_c128(fac__load(a, dtype, room), x);
    fac__scalar_c128(fac__load(b, dtype, room), y);
    return near(x[0], y[0], dtype) && near(x[1], y[1], dtype);
}

static void compare(replay *r, fac_tensor *mine, const char *text, const char *what, size_t i) {
    fac_tensor *theirs = tensor_of(text);
    if (!mine) {
        DIFFERS(r, "%s %zu: nothing, PyTorch has %s", what, i, text);
        return;
    }
    fac_tensor *contiguous = fac_contiguous(fac_resolve_neg(fac_resolve_conj(fac_detach(mine))));
    assert_no_error();
    const fac_tensor *flat = fac__header(contiguous), *wanted = fac__header(theirs);
    if (flat->dtype != wanted->dtype || !fac__same_sizes(flat, wanted)) {
        DIFFERS(r, "%s %zu: %s %s, PyTorch has %s", what, i, fac_dtype_name((fac_dtype)flat->dtype),
                FAC_SHAPE_TEXT(flat), text);
        return;
    }
    const char *a = fac__data(flat), *b = fac__data(wanted);
    int64_t size = fac__item_size(flat);
    for (int64_t e = 0; e < flat->numel; e++) {
        if (same_element(a + e * size, b + e * size, (fac_dtype)flat->dtype)) continue;
        char *got = fac_tensor_string(contiguous);
        DIFFERS(r, "%s %zu: %s, PyTorch has %s", what, i, got, text);
        fac_string_free(got);
        return;
    }
}

static void compare_results(replay *r, fac_value *results, size_t n, json_t *expected, fac_tensor **out,
                            size_t *n_out) {
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (results[i].tag == FAC_TAG_BOOL) continue; /* allclose: the script keeps tensors only */
        fac_tensor *one = fac_value_as_tensor(results[i]);
        fac_tensors many = fac_value_as_tensors(results[i]);
        fac_error_clear();
        for (size_t k = 0; k < many.n; k++) out[(*n_out)++] = many.v[k];
        if (!many.n) out[(*n_out)++] = one;
    }
    if (*n_out != json_array_size(expected))
        DIFFERS(r, "%zu results, PyTorch has %zu", *n_out, json_array_size(expected));
    for (size_t i = 0; i < *n_out && !r->why[0]; i++) {
        json_t *text = json_array_get(expected, i);
        if (json_is_string(text)) compare(r, out[i], json_string_value(text), "result", i);
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------------------------- */

/* The generator's own: element i is ((7 i) % 5 - 2) / 2, with the next one as imaginary part. */
static fac_tensor *seed_like(fac_tensor *like) {
    const fac_tensor *t = fac__header(like);
    fac_tensor *seed;
    assert_ok(fac__empty(t->sizes, t->ndim, (fac_dtype)t->dtype, t->device, &seed));
    char *at = fac__data(seed);
    for (int64_t i = 0; i < seed->numel; i++, at += fac__item_size(seed)) {
        double z[2] = {(double)(7 * i % 5 - 2) / 2, (double)(7 * (i + 1) % 5 - 2) / 2};
        fac__store(at, (fac_dtype)seed->dtype,
                   fac_dtype_is_complex((fac_dtype)seed->dtype) ? fac_scalar_c_(z) : fac_scalar_f_(z[0]));
    }
    return fac__adopt_handle(fac__thread(), seed);
}

static void compare_gradients(replay *r, fac_tensor **results, size_t n, json_t *expected) {
    fac_tensor *flows[MAX_LIST], *seeds[MAX_LIST], *wanted[MAX_TENSORS], *grads[MAX_TENSORS] = {NULL};
    size_t n_flows = 0, n_wanted = 0, place[MAX_TENSORS];
    for (size_t i = 0; i < n; i++)
        if (results[i] && fac_requires_grad(results[i])) {
            seeds[n_flows] = seed_like(results[i]);
            flows[n_flows++] = results[i];
        }
    for (size_t i = 0; i < r->n_inputs; i++)
        if (fac_requires_grad(r->inputs[i])) place[n_wanted] = i, wanted[n_wanted++] = r->inputs[i];
    if (!n_flows) DIFFERS(r, "no result requires a gradient");
    if (r->why[0]) return;
    fac_tensors from = {flows, n_flows}, to = {wanted, n_wanted}, given = {seeds, n_flows};
    if (fac_grad(from, to, grads, .grad_outputs = given, .allow_unused = true)) {
        DIFFERS(r, "gradient: %s", fac_error_message());
        fac_error_clear();
        return;
    }
    for (size_t i = 0; i < n_wanted && !r->why[0]; i++) {
        json_t *text = json_array_get(expected, place[i]);
        if (json_is_string(text)) compare(r, grads[i], json_string_value(text), "gradient", place[i]);
    }
}

/* ---- running ------------------------------------------------------------------------------------------------------------- */

/* A case is [operator, arguments, results or "error: text", gradients or nothing]. */
static void run_case(json_t *c, replay *r) {
    FAC_SCOPE(scope);
    fac_value out[MAX_RESULTS];
    fac_tensor *results[MAX_LIST];
    size_t n = 0, n_results;
    json_t *args = json_array_get(c, 1), *expected = json_array_get(c, 2), *grads = json_array_get(c, 3);
    *r = (replay){.op = json_string_value(json_array_get(c, 0)), .gradients = grads != NULL};
    const fac_operator *op = fac_operator_lookup(r->op);
    if (!op) {
        fac_error_clear();
        DIFFERS(r, "there is no such operator");
        return;
    }
    assert_true(json_array_size(args) <= MAX_ARGS);
    for (size_t i = 0; i < json_array_size(args); i++) r->args[r->n_args++] = value_of(r, json_array_get(args, i));
    fac_status st = fac_call(r->op, r->args, r->n_args, out);
    if (st == FAC_OK) n = fac_operator_return_count(op);
    if (st != FAC_OK && !json_is_string(expected)) DIFFERS(r, "%s", fac_error_message());
    if (st == FAC_OK && json_is_string(expected))
        DIFFERS(r, "accepted, PyTorch refuses: %s", json_string_value(expected));
    fac_error_clear();
    if (st == FAC_OK && !r->why[0]) compare_results(r, out, n, expected, results, &n_results);
    if (st == FAC_OK && !r->why[0] && grads) compare_gradients(r, results, n_results, grads);
    for (size_t i = 0; i < n; i++) fac_value_release(&out[i]);
    for (size_t i = 0; i < r->n_args; i++) fac_value_release(&r->args[i]);
}

void replay_group(void **state) {
    json_t *group = *state;
    size_t differing = 0, n = json_array_size(group);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++) {
        replay r;
        run_case(json_array_get(group, i), &r);
        if (!r.why[0]) continue;
        char *text = json_dumps(json_array_get(json_array_get(group, i), 1), JSON_COMPACT);
        print_error("%s%s\n    %s\n", r.op, text, r.why);
        free(text);
        differing++;
    }
    assert_int_equal(differing, 0);
}

json_t *replay_load(const char *name) {
    char path[4096];
    json_error_t e;
    const char *folder = getenv("FACULA_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/data", name);
    json_t *all = json_load_file(path, 0, &e);
    if (!all) print_error("%s: %s\n", path, e.text);
    return all;
}
