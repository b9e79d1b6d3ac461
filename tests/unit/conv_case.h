/* Convolutions that are computed in two ways: their settings, and one of them with its gradients. */
#ifndef FAC_TESTS_UNIT_CONV_CASE_H
#define FAC_TESTS_UNIT_CONV_CASE_H

#include "linalg_test.h"

/* Sizes of input and weight; the rest as convolution() takes it. */
typedef struct conv_case {
    const char *what;
    int64_t input[5], weight[5], stride[3], padding[3], dilation[3], output_padding[3];
    int nd;
    int64_t groups;
    bool transposed;
    /* Whether oneDNN is used for it; PERHAPS: versions differ in what they have kernels for. */
    enum { UNASKED, NEVER, PERHAPS, ALWAYS } library;
} conv_case;

#define LIST(a) ((fac_ints){(a), (size_t)k->nd})

typedef struct results {
    fac_tensor *y, *grad[3];
} results;

/* Forward, and the gradients of input, weight and bias for the gradient `g` of the result (made by the first call). */
static inline results run_case(const conv_case *k, fac_tensor *x, fac_tensor *w, fac_tensor *b, fac_tensor **g) {
    fac_dtype dtype = fac_tensor_dtype(x);
    results r = {.y = fac_convolution(x, w, b, LIST(k->stride), LIST(k->padding), LIST(k->dilation), k->transposed,
                                      LIST(k->output_padding), k->groups)};
    assert_no_error();
    if (!*g) *g = random_of(FAC_F64, fac_tensor_sizes(r.y));
    fac_convolution_backward_result d = fac_convolution_backward(
        fac_to_dtype(*g, dtype), x, w, fac_tensor_sizes(b), LIST(k->stride), LIST(k->padding), LIST(k->dilation),
        k->transposed, LIST(k->output_padding), k->groups, FAC_INTS(1, 1, 1));
    assert_no_error();
    r.grad[0] = d.result0;
    r.grad[1] = d.result1;
    r.grad[2] = d.result2;
    return r;
}

static inline int64_t bias_size(const conv_case *k) { return k->transposed ? k->weight[1] * k->groups : k->weight[0]; }

#endif
