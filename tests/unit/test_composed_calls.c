/* Which operators a composed one or a gradient calls: the paths of linear and matmul, seen by an observer of calls. */
#include "nn/module.h"
#include "support/dispatch.h"
#include <facula/facula.h>
#include <string.h>

static char calls[2048];

static void note(void *context, const fac_operator *op, fac_keyset keys, bool enter) {
    (void)context, (void)keys;
    if (!enter || strlen(calls) + strlen(fac_operator_name(op)) + 2 > sizeof calls) return;
    strcat(calls, fac_operator_name(op) + strlen("aten::"));
    strcat(calls, " ");
}

static void watch(void) {
    calls[0] = 0;
    fac_set_call_observer(note, NULL);
}
static fac_tensor *seen(fac_tensor *y) {
    fac_set_call_observer(NULL, NULL);
    assert_no_error();
    return y;
}
/* Runs an expression and notes the operators beneath it in `calls`, such as "linear t addmm ". */
#define OBSERVED(expression) (watch(), seen(expression))

/* The named operators were called in this order, others perhaps between; an entry with '!' was not called at all. */
static void assert_calls(const char *const *names) {
    const char *at = calls;
    char word[64];
    for (; *names; names++) {
        const bool absent = **names == '!';
        snprintf(word, sizeof word, "%s ", *names + absent);
        const char *found = calls;
        for (found = absent ? calls : at; (found = strstr(found, word)); found++)
            if (found == calls || found[-1] == ' ') break;
        if (absent != !found) fail_msg("'%s' in '%s'", *names, calls);
        if (!absent) at = found + strlen(word);
    }
}
#define ASSERT_CALLS(...) assert_calls((const char *const[]){__VA_ARGS__, NULL})

#define RANDOM(...) fac_randn(FAC_SHAPE(__VA_ARGS__), .dtype = FAC_F64)
static bool close_to(fac_tensor *a, fac_tensor *b) { return fac_allclose(a, b, .rtol = 1e-12, .atol = 1e-12); }

static void E46_E47_S171_linear_fuses_the_bias_of_a_matrix(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(4, 3), *w = RANDOM(2, 3), *b = RANDOM(2), *more = RANDOM(2, 5, 4, 3);
    fac_tensor *y = OBSERVED(fac_linear(x, w, b));
    ASSERT_CALLS("linear", "t", "addmm", "!mm", "!add.Tensor", "!add_.Tensor");
    assert_true(close_to(y, fac_add(fac_mm(x, fac_t(w)), b)));
    y = OBSERVED(fac_linear(more, w, b)); /* without gaps: the rows of one matrix */
    ASSERT_CALLS("linear", "t", "addmm", "_unsafe_view", "!matmul", "!add_.Tensor");
    assert_true(close_to(y, fac_add(fac_matmul(more, fac_t(w)), b)));
    assert_int_equal(fac_tensor_ndim(y), 4);
    more = fac_transpose(more, 0, 1);
    y = OBSERVED(fac_linear(more, w, b));
    ASSERT_CALLS("linear", "t", "matmul", "add_.Tensor", "!addmm");
    assert_true(close_to(y, fac_add(fac_matmul(more, fac_t(w)), b)));
    OBSERVED(fac_linear(x, w, NULL));
    ASSERT_CALLS("linear", "t", "matmul", "mm", "!add_.Tensor", "!addmm");

    fac_module *m = fac_linear_new(3, 2);
    fac_tensor *in = fac_ones(FAC_SHAPE(4, 3));
    y = OBSERVED(fac_forward(m, in));
    ASSERT_CALLS("linear", "addmm");
    assert_true(fac_equal(y, fac_linear(in, fac_module_parameter(m, "weight"), fac_module_parameter(m, "bias"))));
    fac_module_release(m);
}

static void gradient_of_index_add_is_not_multiplied_by_one(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(3, 2), *at = fac_zeros(FAC_SHAPE(3), .dtype = FAC_I64), *source[1] = {RANDOM(3, 2)}, *grad;
    assert_non_null(fac_set_requires_grad(source[0], true));
    for (int alpha = 1; alpha <= 2; alpha++) {
        fac_tensor *sum = fac_sum(fac_index_add(x, 0, at, source[0], .alpha = alpha));
        watch();
        assert_ok(fac_grad(FAC_TENSORS(sum), fac_tensors_of(source, 1), &grad));
        seen(grad);
        if (alpha == 1)
            ASSERT_CALLS("index_select", "!mul.Scalar");
        else
            ASSERT_CALLS("index_select", "mul.Scalar");
        assert_true(fac_equal(grad, fac_full_like(grad, alpha)));
    }
}

static fac_status vendor_linear(const fac_call_info *c, fac_value *stack) {
    ++*(int *)c->context;
    stack[0] = fac_value_copy(stack[0]);
    return FAC_OK;
}

static void S171_linear_of_a_vendors_layout_goes_to_the_vendors_kernel(void **state) {
    (void)state;
    int vendors = 0;
    assert_non_null(fac_register_boxed("aten::linear", "VendorCPU", vendor_linear, &vendors, FAC_HERE));
    fac_tensor *t = tensor_with_keys(keys_on(FAC_KEY_VENDOR, FAC_BACKEND_CPU) | FAC_KS_DENSE);
    fac_value args[] = {fac_value_tensor(t), fac_value_tensor(t)}, out;
    assert_ok(fac_call("aten::linear", args, 2, &out));
    assert_int_equal(vendors, 1);
    for (int i = 0; i < 2; i++) fac_value_release(&args[i]);
    fac_value_release(&out);
    fac_release(t);
    FAC_SCOPE(s);
    assert_non_null(fac_linear(RANDOM(2, 2), RANDOM(2, 2), NULL));
    assert_int_equal(vendors, 1);
}

static void S172_E48_matmul_goes_by_rank(void **state) {
    (void)state;
    FAC_SCOPE(s);
    OBSERVED(fac_matmul(RANDOM(3), RANDOM(3)));
    ASSERT_CALLS("matmul", "dot", "!mm", "!bmm");
    OBSERVED(fac_matmul(RANDOM(2, 3), RANDOM(3)));
    ASSERT_CALLS("matmul", "mv", "!mm", "!bmm");
    OBSERVED(fac_matmul(RANDOM(3), RANDOM(3, 2)));
    ASSERT_CALLS("matmul", "unsqueeze", "mm", "squeeze.dim", "!bmm");
    OBSERVED(fac_matmul(RANDOM(2, 3), RANDOM(3, 2)));
    ASSERT_CALLS("matmul", "mm", "!bmm");
    OBSERVED(fac_matmul(RANDOM(4, 2, 3), RANDOM(3, 2))); /* one product over the folded batch */
    ASSERT_CALLS("matmul", "mm", "_unsafe_view", "!bmm");
}

static void S173_S175_E49_E50_batches_are_expanded_flattened_and_viewed_back(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(2, 1, 3, 4), *b = RANDOM(5, 4, 6), *c = OBSERVED(fac_matmul(a, b));
    ASSERT_CALLS("matmul", "expand", "reshape", "expand", "reshape", "bmm", "_unsafe_view", "!mm");
    fac_tensor *left = fac_reshape(fac_expand(a, FAC_INTS(2, 5, 3, 4)), FAC_INTS(10, 3, 4));
    fac_tensor *right = fac_reshape(fac_expand(b, FAC_INTS(2, 5, 4, 6)), FAC_INTS(10, 4, 6));
    assert_true(close_to(c, fac_view(fac_bmm(left, right), FAC_INTS(2, 5, 3, 6))));
}

static void S174_a_batch_of_one_that_needs_a_gradient_is_squeezed_and_folded(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = RANDOM(1, 4, 3), *x = RANDOM(6, 2, 4);
    OBSERVED(fac_matmul(x, w));
    ASSERT_CALLS("expand", "bmm", "!mm");
    fac_set_requires_grad(w, true);
    OBSERVED(fac_matmul(x, w));
    ASSERT_CALLS("squeeze.dim", "matmul", "mm", "!bmm", "!expand");
}

static void S177_matmul_into_an_output_resizes_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(3, 2, 4), *b = RANDOM(3, 4, 5), *empty = fac_empty(FAC_SHAPE(0), .dtype = FAC_F64);
    assert_ptr_equal(fac_matmul_out(empty, a, b), empty);
    assert_true(close_to(empty, fac_matmul(a, b)));
    fac_tensor *turned = fac_transpose(fac_zeros(FAC_SHAPE(5, 2, 3), .dtype = FAC_F64), 0, 2);
    const int64_t stride = fac_tensor_stride(turned, 0);
    assert_ptr_equal(fac_matmul_out(turned, a, b), turned);
    assert_true(close_to(turned, fac_matmul(a, b)));
    assert_int_equal(fac_tensor_stride(turned, 0), stride); /* of the right size: written as it lies */
}

static fac_tensor *conv_of_turned(fac_tensor *x, fac_tensor *w, fac_tensor *b, int64_t pad) {
    fac_tensor *y = fac_conv1d(fac_permute(x, FAC_INTS(1, 2, 0)), fac_permute(w, FAC_INTS(2, 1, 0)), b, .padding = pad);
    return fac_permute(y, FAC_INTS(2, 0, 1));
}

static void assert_close_halves(fac_tensor *a, fac_tensor *b) {
    assert_true(fac_dtype_size(fac_tensor_dtype(a)) == 2 ? fac_allclose(a, b, .rtol = 0.01, .atol = 0.05)
                                                         : close_to(a, b));
}

/* The gradients of conv_tbc and those by name, beside the gradients of conv1d. */
static void check_tbc_gradients(fac_tensor *const in[3], int64_t pad, bool wide) {
    fac_tensor *y = fac_conv_tbc(in[0], in[1], in[2], .pad = pad), *z = conv_of_turned(in[0], in[1], in[2], pad);
    fac_tensor *g = fac_randn_like(y), *got[3], *want[3];
    assert_close_halves(y, z);
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(y, g))), fac_tensors_of(in, 3), got));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(z, g))), fac_tensors_of(in, 3), want));
    fac_value args[5] = {fac_value_tensor(g), fac_value_tensor(in[0]), fac_value_tensor(in[1]), fac_value_tensor(in[2]),
                         fac_value_int(pad)};
    fac_value named[3];
    watch();
    assert_ok(fac_call("aten::conv_tbc_backward", args, 5, named));
    seen(y);
    if (wide)
        ASSERT_CALLS("mm", "!addmm_", "!convolution_backward");
    else
        ASSERT_CALLS("mm", "addmm_", "!convolution_backward");
    for (int i = 0; i < 3; i++) {
        assert_close_halves(got[i], want[i]);
        assert_close_halves(fac_value_as_tensor(named[i]), want[i]);
        fac_value_release(&named[i]);
    }
    for (int i = 0; i < 5; i++) fac_value_release(&args[i]);
}

static void conv_tbc_is_a_product_for_each_step_of_the_kernel(void **state) {
    (void)state;
    const fac_dtype dtypes[] = {FAC_F64, FAC_BF16};
    for (int i = 0; i < 2; i++)
        for (int64_t pad = 0; pad <= 4; pad += 2) { /* less than, all of, and more than the kernel's width less one */
            FAC_SCOPE(s);
            fac_tensor *in[3] = {fac_transpose(RANDOM(2, 7, 5), 0, 1), fac_transpose(RANDOM(3, 6, 5), 1, 2), RANDOM(6)};
            for (int k = 0; k < 3; k++) in[k] = fac_set_requires_grad(fac_to_dtype(in[k], dtypes[i]), true);
            check_tbc_gradients(in, pad, dtypes[i] == FAC_BF16);
        }
    FAC_SCOPE(s);
    fac_tensor *w = RANDOM(3, 5, 6), *b = RANDOM(6);
    assert_true(close_to(fac_conv_tbc(RANDOM(0, 2, 5), w, b, .pad = 2), fac_expand(b, FAC_INTS(2, 2, 6))));
    assert_int_equal(fac_tensor_numel(fac_conv_tbc(RANDOM(4, 0, 5), w, b)), 0);
    assert_null(fac_conv_tbc(RANDOM(2, 2, 5), w, b));
    assert_int_equal(fac_error(), FAC_ERR_SHAPE);
    fac_error_clear();
    assert_null(fac_conv_tbc(RANDOM(2, 2, 5), w, b, .pad = INT64_MAX));
    assert_int_equal(fac_error(), FAC_ERR_OVERFLOW);
    fac_error_clear();
}

static void instance_norm_brings_together_what_has_gaps(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(2, 3, 5, 4), *in[2] = {x, fac_transpose(x, 2, 3)}, *g = RANDOM(2, 3, 4, 5), *y[2], *grad[2];
    in[0] = fac_contiguous(in[1]);
    for (int i = 0; i < 2; i++) {
        in[i] = fac_set_requires_grad(fac_detach(in[i]), true);
        y[i] = OBSERVED(fac_instance_norm(in[i], NULL, NULL, NULL, NULL, true, 0.1, 1e-5, false));
        if (i)
            ASSERT_CALLS("contiguous", "clone", "batch_norm");
        else
            ASSERT_CALLS("batch_norm", "!clone");
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_mul(y[i], g))), fac_tensors_of(&in[i], 1), &grad[i]));
    }
    assert_true(fac_equal(y[0], y[1]));
    assert_true(fac_equal(grad[0], grad[1]));
}

static void gradients_of_running_extremes_are_added_to_one_zero(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x[1] = {fac_set_requires_grad(RANDOM(3, 9), true)}, *grad;
    fac_cummax_result most = fac_cummax(x[0], 1);
    fac_tensor *sum = fac_sum(fac_mul(most.values, fac_full_like(most.values, 2)));
    watch();
    assert_ok(fac_grad(FAC_TENSORS(sum), fac_tensors_of(x, 1), &grad));
    seen(grad);
    ASSERT_CALLS("expand", "scatter_add", "!zeros_like");
    fac_tensor *zeros = fac_zeros_like(x[0]);
    assert_true(close_to(grad, fac_scatter_add(zeros, 1, most.indices, fac_full_like(zeros, 2))));
}

/* Each starts the library afresh: a former observer's record lives until shutdown. */
FAC_TEST_MAIN(DISPATCH_TEST(E46_E47_S171_linear_fuses_the_bias_of_a_matrix),
              DISPATCH_TEST(gradient_of_index_add_is_not_multiplied_by_one),
              DISPATCH_TEST(S171_linear_of_a_vendors_layout_goes_to_the_vendors_kernel),
              DISPATCH_TEST(S172_E48_matmul_goes_by_rank),
              DISPATCH_TEST(S173_S175_E49_E50_batches_are_expanded_flattened_and_viewed_back),
              DISPATCH_TEST(S174_a_batch_of_one_that_needs_a_gradient_is_squeezed_and_folded),
              DISPATCH_TEST(S177_matmul_into_an_output_resizes_it),
              DISPATCH_TEST(conv_tbc_is_a_product_for_each_step_of_the_kernel),
              DISPATCH_TEST(instance_norm_brings_together_what_has_gaps),
              DISPATCH_TEST(gradients_of_running_extremes_are_added_to_one_zero))
