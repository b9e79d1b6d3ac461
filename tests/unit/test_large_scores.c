/* Softmax of large scores within attention and cross entropy: sums of exponentials are kept beside their maximum, so that results
   and gradients have the digits that the scores have. Scores are multiples of 1/16 and exact in every dtype used; what is expected
   is computed in f64 by separate operators, or is the same without the offset common to a row. */
#include "linalg_test.h"

enum { BATCH = 2, HEADS = 2, QUERIES = 20, KEYS = 24, WIDTH = 8 };

/* Multiples of 1/4 in [-1, 1], [BATCH, HEADS, rows, WIDTH], the first column all `first`: it makes the offset of the scores. */
static fac_tensor *quarters(int64_t rows, double first) {
    fac_tensor *x = fac_div(fac_round(fac_mul(RANDOM(BATCH, HEADS, rows, WIDTH), 4)), 4);
    assert_non_null(fac_fill_(fac_select(x, -1, 0), first));
    return x;
}

typedef struct form {
    double offset; /* of every score */
    bool causal;
    fac_tensor *mask;
    double far; /* added to the scores of one key */
} form;

/* Attention's output and gradients for query, key, value at unit scale. */
typedef struct answers {
    fac_tensor *t[4];
} answers;

static answers attend(const form *f, fac_tensor *const in[4], fac_dtype dtype) {
    fac_tensor *x[3], *y;
    answers a = {{NULL}};
    for (int i = 0; i < 3; i++) x[i] = fac_set_requires_grad(fac_to(in[i], .dtype = dtype, .copy = true), true);
    if (dtype == FAC_F64) {
        fac_tensor *scores = fac_matmul(x[0], fac_transpose(x[1], -2, -1));
        fac_tensor *see = fac_tril(fac_ones(FAC_INTS(QUERIES, KEYS), .dtype = FAC_BOOL));
        if (f->causal) scores = fac_masked_fill(scores, fac_logical_not(see), -INFINITY);
        y = fac_matmul(fac_softmax(f->mask ? fac_add(scores, f->mask) : scores, -1), x[2]);
    } else {
        fac_tensor *mask = f->mask ? fac_to(f->mask, .dtype = dtype) : NULL;
        y = fac_scaled_dot_product_attention(x[0], x[1], x[2], .attn_mask = mask, .is_causal = f->causal, .scale = 1.0);
    }
    a.t[0] = y;
    fac_tensor *flow = fac_to(in[3], .dtype = dtype);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(y, flow))), fac_tensors_of(x, 3), a.t + 1));
    return a;
}

/* |got - want| / |want| */
static double distance(fac_tensor *got, fac_tensor *want) {
    fac_tensor *d = fac_sub(fac_to(got, .dtype = FAC_F64), want);
    double far = fac_item(fac_linalg_vector_norm(d)), all = fac_item(fac_linalg_vector_norm(want));
    assert_no_error();
    return far / all;
}

static void check_form(const form *f, fac_dtype dtype, double tolerance) {
    FAC_SCOPE(s);
    static const char *const names[] = {"output", "query", "key", "value"};
    fac_tensor *in[4] = {quarters(QUERIES, f->offset / 32), quarters(KEYS, 32), quarters(KEYS, 0.5),
                         quarters(QUERIES, 0.25)};
    if (f->far != 0)
        assert_non_null(fac_fill_(fac_select(fac_select(in[1], -1, 0), -1, 3), 32 + f->far * 32 / f->offset));
    for (int i = 0; i < 4; i++) in[i] = fac_to(fac_to(in[i], .dtype = dtype), .dtype = FAC_F64);
    answers want = attend(f, in, FAC_F64), got = attend(f, in, dtype);
    for (int i = 0; i < 4; i++) {
        double d = distance(got.t[i], want.t[i]);
        if (!(d <= tolerance))
            fail_msg("%s, offset %g%s%s%s: %s is off by %g", fac_dtype_name(dtype), f->offset,
                     f->causal ? ", causal" : "", f->mask ? ", masked" : "", f->far != 0 ? ", one apart" : "", names[i],
                     d);
    }
}

static void check_forms(fac_dtype dtype, double tolerance) {
    FAC_SCOPE(s);
    for (double offset = 64; offset <= 16384; offset *= 16) {
        fac_tensor *mask = fac_mul(fac_round(RANDOM(BATCH, 1, QUERIES, KEYS)), offset);
        check_form(&(form){.offset = offset}, dtype, tolerance);
        check_form(&(form){.offset = -offset}, dtype, tolerance);
        check_form(&(form){.offset = offset, .causal = true}, dtype, tolerance);
        check_form(&(form){.offset = offset, .mask = mask}, dtype, tolerance);
        check_form(&(form){.offset = offset, .far = 4}, dtype, tolerance);
    }
}

static void attention_of_large_scores_keeps_its_digits(void **state) {
    (void)state;
    check_forms(FAC_F32, 1e-5);
}

static void attention_of_large_scores_in_halves_is_rounded_once(void **state) {
    (void)state;
    check_forms(FAC_F16, 1e-3);
    check_forms(FAC_BF16, 8e-3);
}

/* ---- keys in parts ------------------------------------------------------------------------------------------------------ */

#define FLASH "aten::_scaled_dot_product_flash_attention_for_cpu"

/* Calls an operator of n_args and hands its results to the innermost scope. */
static void call(const char *op, fac_value *args, size_t n_args, fac_tensor **out, size_t n) {
    fac_value results[3];
    assert_ok(fac_call(op, args, n_args, results));
    for (size_t i = 0; i < n; i++) out[i] = fac_alias(fac_value_as_tensor(results[i]));
    for (size_t i = 0; i < n; i++) fac_value_release(&results[i]);
    for (size_t i = 0; i < n_args; i++) fac_value_release(&args[i]);
}

static void gradients_of_part(fac_tensor *const in[4], fac_tensor *k, fac_tensor *v, fac_tensor *const forward[2],
                              fac_tensor *grads[3]) {
    fac_value args[] = {fac_value_tensor(in[3]), fac_value_tensor(in[0]),      fac_value_tensor(k),
                        fac_value_tensor(v),     fac_value_tensor(forward[0]), fac_value_tensor(forward[1]),
                        fac_value_float(0.0),    fac_value_bool(false)};
    call(FLASH "_backward", args, FAC_COUNT(args), grads, 3);
}

/* Backward takes output and log-sum-exp of all keys beside a part of the keys: parts add up to the gradients of the whole. */
static void attention_backward_takes_parts_of_the_keys(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *in[4] = {quarters(QUERIES, 8), quarters(KEYS, 32), quarters(KEYS, 1), quarters(QUERIES, 1)};
    fac_value args[] = {fac_value_tensor(in[0]), fac_value_tensor(in[1]), fac_value_tensor(in[2])};
    fac_tensor *forward[2], *whole[3], *part[2][3];
    call(FLASH, args, FAC_COUNT(args), forward, 2);
    gradients_of_part(in, in[1], in[2], forward, whole);
    for (int i = 0; i < 2; i++) {
        int64_t first = i ? 9 : 0, n = i ? KEYS - 9 : 9;
        gradients_of_part(in, fac_narrow(in[1], 2, first, n), fac_narrow(in[2], 2, first, n), forward, part[i]);
    }
    assert_near(fac_add(part[0][0], part[1][0]), whole[0], 1e-11);
    for (int i = 1; i < 3; i++) assert_near(fac_cat(FAC_TENSORS(part[0][i], part[1][i]), .dim = 2), whole[i], 1e-12);
}

/* ---- cross entropy --------------------------------------------------------------------------------------------------------- */

static void check_cross_entropy(fac_dtype dtype, double offset, double tolerance) {
    FAC_SCOPE(s);
    const int64_t classes[] = {0, 3, 2, 8, 1, 5};
    fac_tensor *target = fac_tensor_from(classes, FAC_I64, FAC_INTS(6)), *g[2], *loss[2];
    fac_tensor *x = fac_to(fac_div(fac_round(fac_mul(RANDOM(6, 9), 64)), 16), .dtype = dtype);
    for (int i = 0; i < 2; i++) {
        fac_tensor *moved = fac_set_requires_grad(fac_add(x, i ? offset : 0.0), true);
        loss[i] = fac_cross_entropy(moved, target, .reduction = FAC_REDUCTION_SUM);
        assert_ok(fac_grad(FAC_TENSORS(loss[i]), FAC_TENSORS(moved), &g[i]));
    }
    double far[2] = {distance(loss[1], fac_to(loss[0], .dtype = FAC_F64)),
                     distance(g[1], fac_to(g[0], .dtype = FAC_F64))};
    if (!(far[0] <= tolerance && far[1] <= tolerance))
        fail_msg("%s, offset %g: loss is off by %g, its gradient by %g", fac_dtype_name(dtype), offset, far[0], far[1]);
}

static void cross_entropy_does_not_depend_on_an_offset(void **state) {
    (void)state;
    for (double offset = -16384; offset <= 16384; offset += 4096) {
        check_cross_entropy(FAC_F32, offset, 2e-7);
        check_cross_entropy(FAC_F64, offset, 4e-16);
    }
}

FAC_TEST_MAIN(FAC_TEST(attention_of_large_scores_keeps_its_digits),
              FAC_TEST(attention_of_large_scores_in_halves_is_rounded_once),
              FAC_TEST(attention_backward_takes_parts_of_the_keys),
              FAC_TEST(cross_entropy_does_not_depend_on_an_offset))
