/* The bits of results for 1, 2, 3 and 7 threads are the same: operators of all kinds through the boxed door, at sizes that
   several threads share, each a few times since blocks go to whichever thread comes first. */
#include "support/support.h"
#include <facula/facula.h>

enum { ARGS = 12, RESULTS = 4, TIMES = 3 };

typedef struct call {
    const char *op;
    fac_value args[ARGS];
    size_t n;
} call;

#define T(t) fac_value_tensor(t)
#define I(i) fac_value_int(i)
#define INTS(...) \
    fac_value_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define BOOL(b) fac_value_bool(b)
#define NONE fac_value_none()
#define CALL(name, ...) \
    { .op = "aten::" name, .args = {__VA_ARGS__}, .n = sizeof((fac_value[]){__VA_ARGS__}) / sizeof(fac_value) }

typedef struct results {
    fac_value v[RESULTS];
    size_t n;
} results;

static void run(const call *c, int threads, results *r) {
    assert_ok(fac_set_num_threads(threads));
    fac_generator_set_state(NULL, 17, 0);
    r->n = fac_operator_return_count(fac_operator_lookup(c->op));
    assert_in_range(r->n, 1, RESULTS);
    assert_ok(fac_call(c->op, c->args, c->n, r->v));
}

static void drop(results *r) {
    for (size_t i = 0; i < r->n; i++) fac_value_release(&r->v[i]);
}

static void expect_equal(const char *op, int threads, const fac_value *a, const fac_value *b) {
    fac_tensor *x = fac_value_as_tensor(*a), *y = fac_value_as_tensor(*b);
    const size_t bytes = (size_t)fac_tensor_numel(x) * fac_dtype_size(fac_tensor_dtype(x));
    assert_true(fac_tensor_is_contiguous(x) && fac_tensor_is_contiguous(y));
    if (memcmp(fac_tensor_data(x), fac_tensor_data(y), bytes) != 0)
        fail_msg("%s: other bits with %d threads than with one", op, threads);
}

static void expect_same_bits(const call *c) {
    const int counts[] = {2, 3, 7};
    results one, many;
    run(c, 1, &one);
    for (size_t t = 0; t < FAC_COUNT(counts) * TIMES; t++) {
        run(c, counts[t / TIMES], &many);
        for (size_t i = 0; i < one.n; i++) expect_equal(c->op, counts[t / TIMES], &one.v[i], &many.v[i]);
        drop(&many);
    }
    drop(&one);
}

static void expect_all(call *calls, size_t n) {
    for (size_t i = 0; i < n; i++) {
        expect_same_bits(&calls[i]);
        for (size_t j = 0; j < calls[i].n; j++) fac_value_release(&calls[i].args[j]);
    }
}

static void bits_of_products_and_convolutions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int were = fac_num_threads();
    fac_tensor *a = fac_randn(FAC_INTS(300, 700)), *b = fac_randn(FAC_INTS(700, 500)),
               *v = fac_randn(FAC_INTS(33, 5000));
    fac_tensor *big = fac_randn(FAC_INTS(600, 600)), *batch = fac_randn(FAC_INTS(9, 70, 70));
    fac_tensor *x = fac_randn(FAC_INTS(6, 16, 33, 31)), *w = fac_randn(FAC_INTS(32, 16, 3, 3));
    fac_tensor *g = fac_randn(FAC_INTS(6, 32, 33, 31)), *h = fac_to_dtype(a, FAC_BF16), *k = fac_to_dtype(b, FAC_BF16);
    const bool mask[] = {true, true, true};
    assert_no_error();
    call calls[] = {
        CALL("mm", T(a), T(b)),
        CALL("mm", T(v), T(fac_randn(FAC_INTS(5000, 17)))),
        CALL("mm", T(big), T(big)),
        CALL("mm", T(h), T(k)),
        CALL("bmm", T(batch), T(batch)),
        CALL("convolution", T(x), T(w), NONE, INTS(1, 1), INTS(1, 1), INTS(1, 1), BOOL(false), INTS(0, 0), I(1)),
        CALL("convolution_backward", T(g), T(x), T(w), NONE, INTS(1, 1), INTS(1, 1), INTS(1, 1), BOOL(false),
             INTS(0, 0), I(1), fac_value_bools(mask, 3)),
    };
    expect_all(calls, FAC_COUNT(calls));
    assert_ok(fac_set_num_threads(were));
}

static void bits_of_reductions_and_norms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int were = fac_num_threads();
    fac_tensor *x = fac_randn(FAC_INTS(513, 1031)), *image = fac_randn(FAC_INTS(4, 24, 33, 35));
    fac_tensor *w = fac_randn(FAC_INTS(1031)), *c = fac_ones(FAC_INTS(24));
    assert_no_error();
    call calls[] = {
        CALL("sum", T(x)),
        CALL("sum.dim_IntList", T(x), INTS(0)),
        CALL("sum.dim_IntList", T(x), INTS(1)),
        CALL("mean.dim", T(image), INTS(0, 2)),
        CALL("var", T(x)),
        CALL("argmax", T(x)),
        CALL("logsumexp", T(x), INTS(0)),
        CALL("cumsum", T(x), I(1)),
        CALL("_softmax", T(x), I(0), BOOL(false)),
        CALL("_softmax", T(x), I(1), BOOL(false)),
        CALL("native_layer_norm", T(x), INTS(1031), T(w), T(w), fac_value_float(1e-5)),
        CALL("native_batch_norm", T(image), T(c), T(c), NONE, NONE, BOOL(true), fac_value_float(0.1),
             fac_value_float(1e-5)),
    };
    expect_all(calls, FAC_COUNT(calls));
    assert_ok(fac_set_num_threads(were));
}

static void bits_of_random_numbers_sorts_and_scatters(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int were = fac_num_threads();
    fac_tensor *x = fac_randn(FAC_INTS(300, 999)), *zeros = fac_zeros(FAC_INTS(300, 40));
    fac_tensor *at = fac_randint(40, FAC_INTS(300, 999)), *words = fac_randint(50, FAC_INTS(4000));
    fac_tensor *rows = fac_randn(FAC_INTS(4000, 64)), *few = fac_zeros(FAC_INTS(50, 64));
    assert_no_error();
    call calls[] = {
        CALL("randn", INTS(100003)),
        CALL("rand", INTS(100003)),
        CALL("bernoulli.p", T(x), fac_value_float(0.3)),
        CALL("native_dropout", T(x), fac_value_float(0.3), BOOL(true)),
        CALL("sort", T(x), I(1)),
        CALL("topk", T(x), I(20)),
        CALL("scatter_add", T(zeros), I(1), T(at), T(x)),
        CALL("index_add", T(few), I(0), T(words), T(rows)),
        CALL("embedding_dense_backward", T(rows), T(words), I(50), I(-1), BOOL(false)),
    };
    expect_all(calls, FAC_COUNT(calls));
    assert_ok(fac_set_num_threads(were));
}

FAC_TEST_MAIN(FAC_TEST(bits_of_products_and_convolutions), FAC_TEST(bits_of_reductions_and_norms),
              FAC_TEST(bits_of_random_numbers_sorts_and_scatters))
