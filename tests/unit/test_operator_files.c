/* What one entry of an operator file yields, seen from outside: forms, tables, tags, meta tensors. */
#include "dispatch/operator.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>
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
    assert_int_equal(fac_tensor_size(fac_matmul(fac_flatten(c, .end_dim = 1), fac_t(b)), 0), 4000000);
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

static const fac_kernel *kernel_for(const char *op, fac_functionality f, fac_backend b) {
    const fac_operator *o = fac_operator_find(op);
    assert_non_null(o);
    return fac__pick(o, &(fac_keyset){fac__func_bit(f) | fac__backend_bit(b)});
}

static void S099_the_entrys_kernels_fill_its_row_and_keys_may_share_one(void **state) {
    (void)state;
    const fac_kernel *cpu = kernel_for("aten::add.Tensor", FAC_KEY_DENSE, FAC_BACKEND_CPU),
                     *cuda = kernel_for("aten::add.Tensor", FAC_KEY_DENSE, FAC_BACKEND_CUDA),
                     *meta = kernel_for("aten::add.Tensor", FAC_KEY_DENSE, FAC_BACKEND_META),
                     *none = kernel_for("aten::add.Tensor", FAC_KEY_DENSE, FAC_BACKEND_XLA);
    assert_true(cpu->direct_typed && cpu->direct_typed == cuda->direct_typed);
    assert_true(meta->direct_typed && meta->direct_typed != cpu->direct_typed);
    assert_string_equal(none->label, "missing");
    assert_ptr_not_equal(kernel_for("aten::mm", FAC_KEY_DENSE, FAC_BACKEND_CPU)->direct_typed,
                         kernel_for("aten::mm", FAC_KEY_DENSE, FAC_BACKEND_CUDA)->direct_typed);
}

static void S103_an_entry_with_a_gradient_has_an_autograd_kernel(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_string_equal(kernel_for("aten::mul.Tensor", FAC_KEY_AUTOGRAD, FAC_BACKEND_CPU)->label, "kernel");
    fac_tensor *x = fac_set_requires_grad(fac_tensor_of(2, 3), true), *w = fac_tensor_of(5, 7), *y = fac_mul(x, w);
    assert_non_null(strstr(fac_node_name(fac_grad_fn(y)), "MulBackward"));
    assert_ok(fac_backward(fac_sum(y)));
    assert_true(fac_equal(fac_grad_of(x), w)); /* grad * other, as the entry says */
    assert_null(fac_grad_fn(fac_gt(x, w)));    /* nondifferentiable by its entry */
}

static void S101_the_device_check_names_both_devices_and_can_be_left_to_the_iterator(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *meta = fac_empty(FAC_SHAPE(2, 2), .device = fac_device_make(FAC_META, -1)),
               *here = fac_ones(FAC_SHAPE(2, 2));
    assert_null(fac_mm(here, meta));
    assert_error(FAC_ERR_DEVICE, "but self is on cpu and mat2 is on meta");
    assert_null(fac_add(here, meta)); /* NoCheck: the iterator's own words */
    assert_non_null(strstr(fac_error_message(), "cpu"));
    assert_null(strstr(fac_error_message(), "self is on"));
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

static int warnings;
static void count_warning(void *context, const char *message) {
    (void)context;
    warnings += strstr(message, "was resized from shape") != NULL;
}

static void S014_an_output_of_the_wrong_size_is_resized_with_a_warning(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(1, 2, 3), *empty = fac_empty(FAC_SHAPE(0)), *wrong = fac_zeros(FAC_SHAPE(2));
    fac_set_warning_handler(count_warning, NULL);
    warnings = 0;
    assert_ptr_equal(fac_add_out(empty, a, a), empty);
    assert_int_equal(warnings, 0);
    assert_ptr_equal(fac_add_out(wrong, a, a), wrong);
    assert_int_equal(warnings, 1);
    fac_set_warning_handler(NULL, NULL);
    assert_true(fac_equal(empty, fac_tensor_of(2, 4, 6)) && fac_equal(wrong, empty));
    assert_true(fac_is_alias_of(a, fac_narrow(a, 0, 1, 2)));
    assert_false(fac_is_alias_of(empty, wrong));
}

/* The schema's mark says which argument is changed; that very tensor comes back. */
static void S019_in_place_forms_return_self_and_their_schemas_mark_it(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2), *y = fac_tensor_of(10, 20);
    assert_ptr_equal(fac_add_(x, y), x);
    assert_true(fac_equal(x, fac_tensor_of(11, 22)));
    assert_ptr_equal(fac_mul_(x, 2), x);
    assert_true(fac_equal(x, fac_tensor_of(22, 44)));
    assert_ptr_equal(fac_copy_(x, y), x);
    assert_true(fac_equal(x, y));
    assert_ptr_equal(fac_zero_(x), x);
    assert_true(fac_equal(x, fac_tensor_of(0, 0)));
    assert_ptr_equal(fac_normal_(x), x);
    assert_int_equal(fac_tensor_version(x), 5);
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const char *name = fac_operator_name(fac_operator_at(i)), *dot = strchr(name, '.');
        const size_t n = dot ? (size_t)(dot - name) : strlen(name);
        if (strncmp(name, "aten::", 6) || strncmp(name, "aten::_", 7) == 0 || name[n - 1] != '_') continue;
        const char *schema = fac_operator_schema(fac_operator_at(i));
        if (!strstr(schema, "(Tensor(a!) self")) fail_msg("%s does not mark self", schema);
    }
}

static void S029_a_generator_repeats_its_stream_for_a_seed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x[3];
    for (int i = 0; i < 3; i++) {
        fac_generator *g = fac_generator_new(i < 2 ? 7 : 8);
        fac_manual_seed((uint64_t)i); /* the default one has no say */
        x[i] = fac_normal_(fac_zeros(FAC_SHAPE(2000)), .mean = 3, .std = 0.5, .generator = g);
        fac_generator_release(g);
    }
    assert_true(fac_equal(x[0], x[1]) && !fac_equal(x[0], x[2]));
    assert_true(fabs(fac_item(fac_mean(x[0])) - 3) < 0.06 && fabs(fac_item(fac_std(x[0])) - 0.5) < 0.04);
}

static void S030_arithmetic_of_tensors_and_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_of(-1, 2.5), *i = fac_tensor_from((const int32_t[]){3, -4}, FAC_I32, FAC_INTS(2));
    assert_true(fac_equal(fac_add(a, i), fac_tensor_of(2, -1.5)));
    assert_int_equal(fac_tensor_dtype(fac_add(a, i)), FAC_F32);
    assert_int_equal(fac_tensor_dtype(fac_mul(i, 2)), FAC_I32);
    assert_int_equal(fac_tensor_dtype(fac_mul(i, 2.0)), FAC_F32);
    assert_true(fac_equal(fac_mul(a, 2), fac_tensor_of(-2, 5)));
    assert_true(fac_item(fac_matmul(a, fac_tensor_of(2, 4))) == 8);
    assert_true(fac_equal(fac_abs(a), fac_tensor_of(1, 2.5)));
    assert_true(fac_item(fac_mean(a)) == 0.75 && fac_item(fac_sum(a)) == 1.5 && fac_item(fac_max(a)) == 2.5);
    assert_int_equal(fac_tensor_dtype(fac_sum(i)), FAC_I64);
    fac_tensor *less = fac_lt(a, i); /* -1 < 3, 2.5 < -4 */
    assert_int_equal(fac_tensor_dtype(less), FAC_BOOL);
    assert_true(fac_item(fac_select(less, 0, 0)) == 1 && fac_item(fac_select(less, 0, 1)) == 0);
}

/* Zero is zero, in C as by name, and refused as in PyTorch. */
static void keywords_zero_of_step_and_groups_is_an_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_tensor_of(1, 2, 3, 4), *image = fac_ones(FAC_SHAPE(1, 2, 3)), *w = fac_ones(FAC_SHAPE(4, 2, 1));
    assert_null(fac_slice(x, 0, .start = 1, .step = 0));
    assert_error(FAC_ERR_ARGUMENT, "slice step must be positive");
    assert_null(fac_conv1d(image, w, NULL, .groups = 0));
    assert_error(FAC_ERR_ARGUMENT, "non-positive groups is not supported");

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
    assert_error(FAC_ERR_DTYPE, "mm: matrix products are not implemented for 'bool'");
    for (int d = FAC_C64; d <= FAC_C128; d++) {
        fac_tensor *x = fac_ones(FAC_SHAPE(3), .dtype = (fac_dtype)d);
        assert_null(fac_floor(x));
        assert_non_null(strstr(fac_error_message(), "floor"));
        assert_error(FAC_ERR_DTYPE, fac_dtype_name((fac_dtype)d));
    }
}

FAC_TEST_MAIN(FAC_TEST(keywords_zero_of_step_and_groups_is_an_error),
              FAC_TEST(S010_a_dtype_without_a_kernel_is_an_error_naming_operator_and_dtype),
              FAC_TEST(S018_out_forms_write_to_the_given_tensor_and_return_it),
              FAC_TEST(S020_E20_meta_tensors_run_shapes_only), FAC_TEST(S028_data_is_the_address_of_the_first_element),
              FAC_TEST(S096_S098_S100_E12_one_entry_gives_every_form),
              FAC_TEST(S099_the_entrys_kernels_fill_its_row_and_keys_may_share_one),
              FAC_TEST(S103_an_entry_with_a_gradient_has_an_autograd_kernel),
              FAC_TEST(S101_the_device_check_names_both_devices_and_can_be_left_to_the_iterator),
              FAC_TEST(S102_tags_can_be_asked_for), FAC_TEST(E29_device_strings_parse_or_are_named),
              FAC_TEST(S014_an_output_of_the_wrong_size_is_resized_with_a_warning),
              FAC_TEST(S019_in_place_forms_return_self_and_their_schemas_mark_it),
              FAC_TEST(S029_a_generator_repeats_its_stream_for_a_seed),
              FAC_TEST(S030_arithmetic_of_tensors_and_numbers))
