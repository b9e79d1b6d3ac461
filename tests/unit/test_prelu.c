/* PReLU through its whole path: the entries of its operators, the kernel under them, the derivative that calls another operator, and the
   module whose weight learns. tests/cuda/test_cuda_prelu.c has the iterator that both directions share. */
#include "support/dispatch.h"
#include <facula/facula.h>
#include <math.h>
#include <string.h>

static const char *schema_of(const char *name) {
    const fac_operator *op = fac_operator_find(name);
    assert_non_null(op);
    return fac_operator_schema(op);
}

static void E36_prelu_and_its_directions_are_operators_of_the_file(void **state) {
    (void)state;
    assert_string_equal(schema_of("aten::prelu"), "prelu(Tensor self, Tensor weight) -> Tensor");
    assert_string_equal(schema_of("aten::_prelu_kernel"), "_prelu_kernel(Tensor self, Tensor weight) -> Tensor");
    assert_string_equal(schema_of("aten::_prelu_kernel_backward"),
                        "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)");
}

enum { C = 3, W = 37, ALL = 2 * C * W }; /* rows that fill no whole number of vectors */
static const double weights[C] = {0.5, -2, 0.25};

static double element(int i) { return i % 3 == 2 ? 0 : i % 2 ? 0.25 * i : -0.5 * i; }
static double slope(int i) { return element(i) > 0 ? 1 : weights[i / W % C]; }

/* [2, C, W], exact in every floating dtype that holds integers up to 256 and their quarters. */
static fac_tensor *input(fac_dtype dtype) {
    double v[ALL];
    for (int i = 0; i < ALL; i++) v[i] = element(i);
    return fac_set_requires_grad(fac_to_dtype(fac_tensor_from(v, FAC_F64, FAC_INTS(2, C, W)), dtype), true);
}

static fac_tensor *weight(fac_dtype dtype) {
    return fac_set_requires_grad(fac_to_dtype(fac_tensor_from(weights, FAC_F64, FAC_INTS(C)), dtype), true);
}

static void E40_the_kernel_of_prelu_computes_each_dtype_on_the_cpu(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F64, FAC_F32, FAC_F16, FAC_BF16};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        double y[ALL], x[ALL];
        fac_tensor *in = input(dtypes[d]), *out = fac_prelu(in, weight(dtypes[d]));
        assert_int_equal(fac_tensor_dtype(out), dtypes[d]);
        assert_ok(fac_tensor_read(in, FAC_F64, x, ALL));
        assert_ok(fac_tensor_read(out, FAC_F64, y, ALL));
        for (int i = 0; i < ALL; i++) assert_true(y[i] == slope(i) * x[i]); /* products with powers of two are exact */
    }
}

static char trace[256];

static void note(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    if (!enter || !strstr(fac_operator_name(op), "_prelu_kernel")) return;
    strncat(trace, fac_operator_name(op) + strlen("aten::"), sizeof trace - strlen(trace) - 2);
    strcat(trace, " ");
}

/* The gradient of sum(u * dy/dx) for the weight is the sum of u where x is not positive. */
static void E38_the_derivative_of_prelu_is_an_operator_that_has_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = input(FAC_F64), *w = weight(FAC_F64), *first[2] = {NULL}, *second = NULL;
    fac_tensor *u = fac_expand(fac_arange(W, .dtype = FAC_F64), FAC_INTS(2, C, W));
    trace[0] = 0;
    fac_set_call_observer(note, NULL);
    fac_tensor *y = fac_prelu(x, w);
    const fac_status st = fac_grad(FAC_TENSORS(fac_sum(y)), FAC_TENSORS(x, w), first, .create_graph = true);
    fac_set_call_observer(NULL, NULL);
    assert_ok(st);
    assert_string_equal(trace, "_prelu_kernel _prelu_kernel_backward ");
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(first[0], u))), FAC_TENSORS(w), &second));
    double of_x[ALL], of_w[C], twice[C], want_w[C] = {0}, want_twice[C] = {0};
    assert_ok(fac_tensor_read(first[0], FAC_F64, of_x, ALL));
    assert_ok(fac_tensor_read(first[1], FAC_F64, of_w, C));
    assert_ok(fac_tensor_read(second, FAC_F64, twice, C));
    for (int i = 0; i < ALL; i++) {
        assert_true(of_x[i] == slope(i));
        if (element(i) <= 0) want_w[i / W % C] += element(i), want_twice[i / W % C] += i % W;
    }
    for (int c = 0; c < C; c++) assert_true(of_w[c] == want_w[c] && twice[c] == want_twice[c]);
}

/* Of -1 the layer makes -w: with the loss (y + 1)^2 and a rate of 0.25 each step halves the way of w to 1. */
static void E37_S165_the_weight_of_a_prelu_module_learns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_module *m = fac_prelu_new(.num_parameters = 2);
    fac_optimizer *o = fac_sgd_new(m, 0.25);
    fac_tensor *w = fac_module_parameter(m, "weight");
    assert_no_error();
    assert_true(fac_requires_grad(w) && fac_tensor_numel(w) == 2);
    double want[2] = {0.25, 0.25}, got[2];
    for (int step = 0; step < 4; step++) {
        FAC_SCOPE(inner);
        fac_optimizer_zero_grad(o);
        fac_tensor *y = fac_forward(m, fac_reshape(fac_tensor_of(-1, 3), FAC_INTS(1, 2))); /* the second is positive */
        assert_ok(fac_backward(fac_sum(fac_square(fac_add(y, 1)))));
        assert_ok(fac_optimizer_step(o));
        want[0] += 0.5 * (1 - want[0]);
        assert_ok(fac_tensor_read(w, FAC_F64, got, 2));
        assert_true(got[0] == want[0] && got[1] == want[1]);
    }
    fac_optimizer_release(o);
    fac_module_release(m);
}

FAC_TEST_MAIN(FAC_TEST(E36_prelu_and_its_directions_are_operators_of_the_file),
              FAC_TEST(E40_the_kernel_of_prelu_computes_each_dtype_on_the_cpu),
              DISPATCH_TEST(E38_the_derivative_of_prelu_is_an_operator_that_has_one),
              FAC_TEST(E37_S165_the_weight_of_a_prelu_module_learns))
