/* What one entry of an operator file yields, seen from outside: forms, tables, tags, meta tensors. */
#include "support/support.h"
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

static void S018_out_forms_write_to_the_given_tensor_and_return_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *out = fac_empty(FAC_SHAPE(2)), *a = fac_tensor_of(5, 7), *b = fac_tensor_of(1, 2);
    assert_ptr_equal(fac_sub_out(out, a, b), out);
    assert_true(fac_equal(out, fac_tensor_of(4, 5)));
    fac_tensor *m = fac_empty(FAC_SHAPE(1, 2, 2));
    assert_ptr_equal(fac_bmm_out(m, fac_ones(FAC_SHAPE(1, 2, 3)), fac_ones(FAC_SHAPE(1, 3, 2))), m);
    assert_true(fac_item(fac_sum(m)) == 12);
}

static void S020_E20_meta_tensors_run_shapes_only(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_device meta = fac_device_make(FAC_META, -1);
    fac_tensor *a = fac_empty(FAC_SHAPE(1000000, 1, 3), .device = meta),
               *b = fac_empty(FAC_SHAPE(4, 3), .device = meta);
    fac_tensor *c = fac_add(a, b);
    assert_int_equal(fac_tensor_device(c).type, FAC_META);
    assert_int_equal(fac_tensor_size(c, 1), 4);
    assert_null(fac_tensor_data(c));
    assert_null(fac_tensor_storage(c));
    assert_int_equal(fac_tensor_size(fac_matmul(fac_flatten(c, .end_dim = FAC_INT(1)), fac_t(b)), 0), 4000000);
}

static void S028_data_is_the_address_of_the_first_element(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *t = fac_tensor_of(1, 2, 3);
    assert_true(*(float *)fac_tensor_data(t) == 1);
    assert_ptr_equal(fac_tensor_data(fac_narrow(t, 0, 2, 1)), (float *)fac_tensor_data(t) + 2);
}

static void S096_S098_S100_E12_one_entry_gives_every_form(void **state) {
    (void)state;
    const char *forms[] = {"aten::sub.Tensor", "aten::sub_.Tensor", "aten::sub.out", "aten::zero_"};
    for (int i = 0; i < 4; i++) assert_non_null(fac_operator_find(forms[i]));
    assert_string_equal(fac_operator_schema(fac_operator_find("aten::sub.out")),
                        "sub.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)");
    assert_non_null(strstr(fac_operator_doc(fac_operator_find("aten::sub.Tensor")), "."));
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(1, 2, 3), *wrong = fac_ones(FAC_SHAPE(2));
    assert_null(fac_sub(a, wrong)); /* the same shape rule speaks for all forms */
    assert_error(FAC_ERR_SHAPE, "must match");
    assert_null(fac_sub_(a, wrong));
    assert_error(FAC_ERR_SHAPE, "must match");
    assert_null(fac_sub_out(fac_empty(FAC_SHAPE(3)), a, wrong));
    assert_error(FAC_ERR_SHAPE, "must match");
}

static void S108_sub_scales_and_takes_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(5, 6);
    assert_true(fac_equal(fac_sub(a, fac_tensor_of(1, 2), .alpha = FAC_NUM(2)), fac_tensor_of(3, 2)));
    assert_true(fac_equal(fac_sub(a, 1), fac_tensor_of(4, 5)));
    fac_tensor *flags = fac_ones(FAC_SHAPE(2), .dtype = FAC_BOOL);
    assert_null(fac_sub(flags, flags));
    assert_error(FAC_ERR_DTYPE, "bool");
}

static char *row_of(const char *op) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_ok(fac_dispatch_dump(fac_operator_find(op), f));
    fclose(f);
    return text;
}

static void S099_S103_the_table_row_has_a_kernel_for_each_key_of_the_entry(void **state) {
    (void)state;
    char *row = row_of("aten::add.Tensor");
    assert_non_null(strstr(row, "CPU"));
    assert_non_null(strstr(row, "Meta"));
    assert_non_null(strstr(row, "Autograd"));
    free(row);
}

static void S101_the_device_check_names_both_devices(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *meta = fac_empty(FAC_SHAPE(2, 2), .device = fac_device_make(FAC_META, -1));
    assert_null(fac_mm(fac_ones(FAC_SHAPE(2, 2)), meta));
    assert_error(FAC_ERR_DEVICE, "meta");
}

static void S102_tags_can_be_asked_for(void **state) {
    (void)state;
    assert_true(fac_operator_has_tag(fac_operator_find("aten::mm"), "core"));
    assert_false(fac_operator_has_tag(fac_operator_find("aten::mm"), "nondeterministic_seeded"));
}

static void E29_device_strings_parse_or_are_named(void **state) {
    (void)state;
    const fac_device d = fac_device_parse("cuda:2");
    assert_int_equal(d.type, FAC_CUDA);
    assert_int_equal(d.index_plus, 3);
    assert_int_equal(fac_device_parse("gpu:1").type, FAC_DEVICE_UNSET);
    assert_error(FAC_ERR_DEVICE, "gpu:1");
}

static void E46_E47_linear_is_addmm_for_matrices_and_matmul_beyond(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(4, 3)), *w = fac_randn(FAC_SHAPE(2, 3)), *b = fac_randn(FAC_SHAPE(2));
    assert_true(fac_equal(fac_linear(x, w, b), fac_addmm(b, x, fac_t(w))));
    fac_tensor *x3 = fac_randn(FAC_SHAPE(5, 4, 3));
    assert_true(
        fac_allclose(fac_linear(x3, w, NULL), fac_matmul(x3, fac_t(w)), .rtol = FAC_NUM(1e-5), .atol = FAC_NUM(1e-6)));
}

static void E48_E49_E50_matmul_of_batches_is_bmm_after_broadcasting(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(2, 1, 3, 4)), *b = fac_randn(FAC_SHAPE(5, 4, 6)), *c = fac_matmul(a, b);
    fac_tensor *left = fac_reshape(fac_expand(a, FAC_INTS(2, 5, 3, 4)), FAC_INTS(10, 3, 4));
    fac_tensor *right = fac_reshape(fac_expand(b, FAC_INTS(2, 5, 4, 6)), FAC_INTS(10, 4, 6));
    assert_true(fac_allclose(c, fac_view(fac_bmm(left, right), FAC_INTS(2, 5, 3, 6)), .rtol = FAC_NUM(1e-5),
                             .atol = FAC_NUM(1e-6)));
}

/* The keyword's zero is "not given" in C. By name there is no such reading: zero is zero, and refused as in PyTorch. */
static void keywords_zero_of_step_and_groups_is_the_default_but_an_error_by_name(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3, 4);
    assert_true(fac_equal(fac_slice(x, 0, .start = FAC_INT(1), .step = 0), fac_tensor_of(2, 3, 4)));
    fac_tensor *image = fac_ones(FAC_SHAPE(1, 2, 3)), *w = fac_ones(FAC_SHAPE(4, 2, 1)),
               *up = fac_ones(FAC_SHAPE(2, 3, 1));
    assert_true(fac_equal(fac_conv1d(image, w, NULL, .groups = 0), fac_conv1d(image, w, NULL, .groups = 1)));
    assert_int_equal(fac_tensor_size(fac_conv_transpose1d(image, up, NULL, .groups = 0), 1), 3);
    assert_no_error();

    for (int64_t step = -1; step <= 0; step++) {
        fac_value args[] = {fac_value_tensor(x), fac_value_int(0), fac_value_none(), fac_value_none(),
                            fac_value_int(step)},
                  out;
        assert_int_equal(fac_call("aten::slice.Tensor", args, 5, &out), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "slice step must be positive");
        fac_value_release(&args[0]);
    }
    const char *names[] = {"aten::conv1d", "aten::conv1d.padding"};
    for (int i = 0; i < 2; i++) {
        fac_value args[] = {fac_value_tensor(image),
                            fac_value_tensor(w),
                            fac_value_none(),
                            fac_value_ints((int64_t[]){1}, 1),
                            i ? fac_value_string("valid") : fac_value_ints((int64_t[]){0}, 1),
                            fac_value_ints((int64_t[]){1}, 1),
                            fac_value_int(0)},
                  out;
        assert_int_equal(fac_call(names[i], args, 7, &out), FAC_ERR_ARGUMENT);
        assert_error(FAC_ERR_ARGUMENT, "non-positive groups is not supported");
        for (int k = 0; k < 7; k++) fac_value_release(&args[k]);
    }
    fac_value bounds[] = {fac_value_int(0), fac_value_int(1), fac_value_int(0)}, out;
    assert_int_equal(fac_call("aten::arange.start_step", bounds, 3, &out), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "step must be nonzero");
}

/* The table's kernel looks the dtype up; one that it lacks is refused by name. */
static void S010_a_dtype_without_a_kernel_is_an_error_naming_operator_and_dtype(void **state) {
    (void)state;
    FAC_SCOPE(s);
    for (int d = FAC_DTYPE_DEFAULT + 1; d < FAC_DTYPE_COUNT; d++) {
        fac_tensor *x = fac_full(FAC_SHAPE(3), 1, .dtype = (fac_dtype)d), *sum = fac_add(x, x);
        assert_no_error();
        assert_int_equal(fac_tensor_dtype(sum), d);
        assert_true(fac_item(fac_select(sum, 0, 2)) == (d == FAC_BOOL ? 1 : 2));
    }
    fac_tensor *truths = fac_full(FAC_SHAPE(2, 2), 1, .dtype = FAC_BOOL);
    assert_null(fac_mm(truths, truths));
    assert_error(FAC_ERR_DTYPE, "mm: matrix products are not implemented for 'Bool'");
    for (int d = FAC_C64; d <= FAC_C128; d++) {
        fac_tensor *x = fac_ones(FAC_SHAPE(3), .dtype = (fac_dtype)d);
        assert_null(fac_floor(x));
        assert_non_null(strstr(fac_error_message(), "floor"));
        assert_error(FAC_ERR_DTYPE, fac_dtype_name((fac_dtype)d));
    }
}

FAC_TEST_MAIN(FAC_TEST(keywords_zero_of_step_and_groups_is_the_default_but_an_error_by_name),
              FAC_TEST(S010_a_dtype_without_a_kernel_is_an_error_naming_operator_and_dtype),
              FAC_TEST(S018_out_forms_write_to_the_given_tensor_and_return_it),
              FAC_TEST(S020_E20_meta_tensors_run_shapes_only), FAC_TEST(S028_data_is_the_address_of_the_first_element),
              FAC_TEST(S096_S098_S100_E12_one_entry_gives_every_form), FAC_TEST(S108_sub_scales_and_takes_numbers),
              FAC_TEST(S099_S103_the_table_row_has_a_kernel_for_each_key_of_the_entry),
              FAC_TEST(S101_the_device_check_names_both_devices), FAC_TEST(S102_tags_can_be_asked_for),
              FAC_TEST(E29_device_strings_parse_or_are_named),
              FAC_TEST(E46_E47_linear_is_addmm_for_matrices_and_matmul_beyond),
              FAC_TEST(E48_E49_E50_matmul_of_batches_is_bmm_after_broadcasting))
