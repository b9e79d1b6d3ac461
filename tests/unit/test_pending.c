/* Lazy conjugation and negation: what is a view, what reads and writes through the flags, and what refuses them. */
#include "core/tensor.h"
#include "support/support.h"

#include <facula/facula.h>
#include <string.h>

static fac_tensor *complex_of(const double *re_im, fac_ints sizes) { return fac_tensor_from(re_im, FAC_C128, sizes); }

static fac_tensor *two(void) { return complex_of((double[]){1, 2, 3, -4}, FAC_INTS(2)); }

static fac_tensor *called(const char *op, fac_tensor *t) {
    fac_value arg = fac_value_tensor(t), result = fac_value_none();
    const fac_status st = fac_call(op, &arg, 1, &result);
    fac_value_release(&arg);
    if (st != FAC_OK || fac_scope_take(&result, 1) != FAC_OK) return NULL;
    return fac_value_as_tensor(result);
}
static fac_tensor *neg_view(fac_tensor *t) { return called("aten::_neg_view", t); }

static void assert_numbers(fac_tensor *t, const double *expected, size_t n) {
    double got[32];
    const bool complex = fac_dtype_is_complex(fac_tensor_dtype(t));
    assert_true(n <= FAC_COUNT(got));
    assert_ok(fac_tensor_read(t, complex ? FAC_C128 : FAC_F64, got, complex ? n / 2 : n));
    for (size_t i = 0; i < n; i++) assert_true(got[i] == expected[i]);
}
#define ASSERT_NUMBERS(t, ...) \
    assert_numbers((t), (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static bool has_key(fac_tensor *t) { return (fac_tensor_keys(t) & fac_keyset_of(FAC_KEY_CONJUGATE)) != 0; }

/* ---- views ---------------------------------------------------------------------------------------------------------------- */

static void S022_conj_is_a_view_whose_flag_turns(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two(), *c = fac_conj(x), *r = fac_ones(FAC_INTS(2));
    assert_true(fac_is_conj(c) && !fac_is_conj(x) && has_key(c) && !has_key(x));
    assert_true(fac_is_alias_of(c, x) && fac_tensor_data(c) == fac_tensor_data(x));
    ASSERT_NUMBERS(c, 1, -2, 3, 4);
    assert_true(!fac_is_conj(fac_conj(c)) && !has_key(fac_conj(c)));
    assert_ptr_equal(fac_conj(r), r);
    assert_ptr_equal(fac_resolve_conj(x), x);
    assert_ptr_equal(fac_resolve_neg(c), c);
    fac_tensor *y = fac_resolve_conj(c);
    assert_true(!fac_is_conj(y) && !fac_is_alias_of(y, x));
    ASSERT_NUMBERS(y, 1, -2, 3, 4);
    assert_no_error();
}

static void S022_views_hand_the_flags_on(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_of((double[]){1, 2, 3, 4, 5, 6, 7, 8}, FAC_INTS(2, 2)), *h = fac_adjoint(x);
    assert_true(fac_is_conj(h) && fac_is_alias_of(h, x));
    ASSERT_NUMBERS(h, 1, -2, 5, -6, 3, -4, 7, -8);
    assert_true(fac_is_conj(fac_select(h, 0, 1)) && fac_is_conj(fac_view(fac_conj(x), FAC_INTS(4))));
    assert_true(fac_is_conj(fac_detach(h)) && fac_is_conj(fac_mh(x)) && !fac_is_conj(fac_mh(h)));
    assert_true(!fac_is_conj(fac_clone(h)) && !fac_is_conj(fac_zeros_like(h)) && !fac_is_conj(fac_empty_like(h)));
    assert_no_error();
}

static void S022_parts_of_a_conjugate_are_views_of_its_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two(), *c = fac_conj(x), *re = fac_real(c), *im = fac_imag(c);
    assert_true(fac_is_alias_of(re, x) && fac_is_alias_of(im, x));
    assert_true(!fac_is_neg(re) && fac_is_neg(im) && !fac_is_conj(im));
    ASSERT_NUMBERS(re, 1, 3);
    ASSERT_NUMBERS(im, -2, 4);
    fac_fill_(im, 7);
    ASSERT_NUMBERS(x, 1, -7, 3, -7);
    assert_no_error();
}

static void S022_what_reads_memory_as_another_dtype_refuses_flags(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two();
    assert_null(fac_view_as_real(fac_conj(x)));
    assert_error(FAC_ERR_UNSUPPORTED, "resolve_conj");
    assert_true(fac_is_neg(fac_view_as_real(neg_view(x))));
    ASSERT_NUMBERS(fac_view_as_real(neg_view(x)), -1, -2, -3, 4);
    assert_null(neg_view(fac_tensor_from((bool[]){true}, FAC_BOOL, FAC_INTS(1))));
    assert_error(FAC_ERR_DTYPE, "bool");
    assert_null(called("aten::_conj", fac_ones(FAC_INTS(2))));
    assert_error(FAC_ERR_DTYPE, "complex");
}

/* ---- reading -------------------------------------------------------------------------------------------------------------- */

static void S022_elements_are_read_through_the_flags(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *c = fac_conj(two()), *n = neg_view(fac_tensor_from((uint8_t[]){1, 0, 200}, FAC_U8, FAC_INTS(3)));
    char *text = fac_tensor_string(c), *plain = fac_tensor_string(fac_resolve_conj(c));
    assert_string_equal(text, plain);
    fac_string_free(text);
    fac_string_free(plain);
    ASSERT_NUMBERS(n, 255, 0, 56);
    ASSERT_NUMBERS(fac_resolve_neg(n), 255, 0, 56);
    assert_true(fac_item(neg_view(fac_full(FAC_INTS(1), 3.0))) == -3);
    assert_true(fac_equal(c, fac_conj_physical(two())) && !fac_equal(c, two()));
    ASSERT_NUMBERS(neg_view(c), -1, 2, -3, -4);
    ASSERT_NUMBERS(fac_to_dtype(neg_view(c), FAC_C64), -1, 2, -3, -4);
    assert_no_error();
}

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

static void S022_what_is_written_reaches_the_base(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two(), *c = fac_conj(x), *y = complex_of((double[]){0, 1, 0, 1}, FAC_INTS(2));
    assert_ptr_equal(fac_add_(c, y), c);
    ASSERT_NUMBERS(c, 1, -1, 3, 5);
    ASSERT_NUMBERS(x, 1, 1, 3, -5);
    fac_copy_(c, y);
    ASSERT_NUMBERS(x, 0, -1, 0, -1);
    fac_copy_(c, fac_conj(y));
    ASSERT_NUMBERS(x, 0, 1, 0, 1);
    fac_copy_(neg_view(c), fac_full(FAC_INTS(2), 2.0));
    ASSERT_NUMBERS(x, -2, 0, -2, 0);
    fac_copy_(x, y);
    fac_copy_(x, c); /* over itself */
    ASSERT_NUMBERS(x, 0, -1, 0, -1);
    assert_no_error();
}

static void S022_an_out_with_a_flag_is_resized_and_written(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two(), *base = complex_of((double[]){0, 0}, FAC_INTS(1)), *out = fac_conj(base);
    assert_ptr_equal(fac_mul_out(out, x, x), out);
    assert_true(fac_is_conj(out) && fac_tensor_size(out, 0) == 2);
    ASSERT_NUMBERS(out, -3, 4, -7, -24);
    assert_no_error();
}

static void S022_a_tensor_listed_twice_is_changed_twice(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = two(), *c = fac_conj(x), *list[] = {c, c};
    fac_value args[] = {fac_value_tensors(list, 2), fac_value_float(1)};
    assert_ok(fac_call("aten::_foreach_add_.Scalar", args, 2, NULL));
    fac_value_release(&args[0]);
    ASSERT_NUMBERS(x, 3, 2, 5, -4);
}

static void S022_elements_that_lie_on_each_other_are_not_written(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_of((double[]){1, 2}, FAC_INTS(1)), *c = fac_conj(fac_expand(x, FAC_INTS(3)));
    assert_null(fac_add_(c, two()));
    fac_error_clear();
    assert_null(fac_mul_(c, 2.0));
    assert_error(FAC_ERR_ARGUMENT, "single memory location");
    ASSERT_NUMBERS(x, 1, 2);
}

/* ---- products ------------------------------------------------------------------------------------------------------------- */

static int copies;
static fac_status counted(const fac_call_info *c, fac_value *stack) {
    (void)c;
    copies++;
    fac_tensor *t = fac_value_as_tensor(stack[0]);
    FAC_SCOPE(s);
    stack[0] = fac_value_tensor(fac_complex_from_parts(fac_select(fac_view_as_real(t), -1, 0),
                                                       fac_neg(fac_select(fac_view_as_real(t), -1, 1))));
    return fac_error();
}

static void compare_products(void) {
    FAC_SCOPE(s);
    copies = 0;
    fac_registration *r = fac_register_boxed("aten::_conj_physical", "CPU", counted, NULL, FAC_HERE);
    fac_tensor *a = fac_randn(FAC_INTS(5, 5), .dtype = FAC_C128), *v = fac_select(a, 0, 0);
    fac_tensor *got[] = {fac_mm(fac_adjoint(a), a),        fac_matmul(a, fac_conj(a)),
                         fac_mv(fac_conj(a), fac_conj(v)), fac_dot(fac_conj(v), v),
                         fac_vdot(fac_conj(v), v),         fac_addmm(a, fac_conj(a), fac_adjoint(a)),
                         fac_linear(a, fac_conj(a), NULL)};
    assert_int_equal(copies, 0);
    assert_non_null(fac_exp(fac_conj(a)));
    assert_int_equal(copies, 1);
    fac_registration_release(r);
    fac_tensor *c = fac_conj_physical(a), *w = fac_conj_physical(v), *h = fac_conj_physical(fac_t(a));
    fac_tensor *expected[] = {fac_mm(h, a),   fac_matmul(a, c),   fac_mv(c, w),          fac_dot(w, v),
                              fac_vdot(w, v), fac_addmm(a, c, h), fac_linear(a, c, NULL)};
    for (size_t i = 0; i < FAC_COUNT(got); i++) assert_true(fac_allclose(got[i], expected[i], .rtol = 1e-12));
    assert_no_error();
}

static void S022_products_read_conjugates_without_a_copy(void **state) {
    (void)state;
    compare_products();
    fac_shutdown(); /* the memory of registrations stays until then */
    assert_ok(fac_init());
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------ */

static fac_status chain(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = fac_mul(in.v[0], 1.0), *c = fac_conj(fac_select(x, 0, 1));
    fac_mul_(c, in.v[1]);
    fac_mul_(fac_imag(fac_conj(x)), 3.0);
    out[0] = fac_mul(x, fac_conj(fac_t(x)));
    return fac_error();
}

static void S022_changes_through_conjugated_views_go_backward(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_randn(FAC_INTS(2, 2), .dtype = FAC_C128), true);
    fac_tensor *y = fac_set_requires_grad(fac_randn(FAC_INTS(2), .dtype = FAC_C128), true);
    assert_ok(fac_gradcheck(chain, NULL, FAC_TENSORS(x, y), 1));
    assert_ok(fac_gradgradcheck(chain, NULL, FAC_TENSORS(x, y), 1));
}

static void S022_gradients_of_leaves_have_no_flag_and_add_up(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(two(), true), *g = complex_of((double[]){1, 1, 2, 2}, FAC_INTS(2));
    assert_ok(fac_backward(fac_conj(x), .gradient = g));
    assert_false(fac_is_conj(fac_grad_of(x)));
    ASSERT_NUMBERS(fac_grad_of(x), 1, -1, 2, -2);
    assert_ok(fac_backward(fac_conj(x), .gradient = g));
    ASSERT_NUMBERS(fac_grad_of(x), 2, -2, 4, -4);
    ASSERT_NUMBERS(g, 1, 1, 2, 2);
}

static void S022_long_chains_of_views_keep_the_flags(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *leaf = fac_set_requires_grad(two(), true), *x = fac_mul(leaf, 1.0), *v = x;
    for (int i = 0; i < 101; i++) v = fac_conj(v);
    fac_mul_(v, complex_of((double[]){0, 1}, FAC_INTS(1)));
    assert_ok(fac_backward(x, .gradient = fac_ones_like(x)));
    ASSERT_NUMBERS(fac_grad_of(leaf), 0, 1, 0, 1);
}

static void S022_meta_tensors_carry_the_flags(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_empty(FAC_INTS(2, 3), .dtype = FAC_C64, .device = fac_device_make(FAC_META, -1));
    fac_tensor *h = fac_adjoint(x);
    assert_true(fac_is_conj(h) && !fac_is_conj(fac_resolve_conj(h)) && !fac_is_conj(fac_exp(h)));
    assert_true(fac_tensor_size(fac_mm(h, x), 0) == 3);
    assert_no_error();
}

static void S022_a_real_tensor_is_its_own_conjugate(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(2)), *y = fac_conj_physical(x), *out = fac_empty(FAC_INTS(2));
    assert_true(fac_tensor_data(y) == fac_tensor_data(x));
    assert_non_null(fac_conj_physical_out(out, x));
    assert_true(fac_tensor_data(out) != fac_tensor_data(x) && fac_equal(out, x));
    fac_tensor *z = two(), *w = fac_conj_physical(z);
    assert_true(fac_tensor_data(w) != fac_tensor_data(z) && fac_equal(w, fac_conj(z)));
    assert_non_null(fac_conj_physical_(z));
    assert_true(fac_equal(w, z));
    assert_no_error();
}

FAC_TEST_MAIN(FAC_TEST(S022_a_real_tensor_is_its_own_conjugate), FAC_TEST(S022_conj_is_a_view_whose_flag_turns),
              FAC_TEST(S022_views_hand_the_flags_on), FAC_TEST(S022_parts_of_a_conjugate_are_views_of_its_base),
              FAC_TEST(S022_what_reads_memory_as_another_dtype_refuses_flags),
              FAC_TEST(S022_elements_are_read_through_the_flags), FAC_TEST(S022_what_is_written_reaches_the_base),
              FAC_TEST(S022_an_out_with_a_flag_is_resized_and_written),
              FAC_TEST(S022_a_tensor_listed_twice_is_changed_twice),
              FAC_TEST(S022_elements_that_lie_on_each_other_are_not_written),
              FAC_TEST(S022_products_read_conjugates_without_a_copy),
              FAC_TEST(S022_changes_through_conjugated_views_go_backward),
              FAC_TEST(S022_gradients_of_leaves_have_no_flag_and_add_up),
              FAC_TEST(S022_long_chains_of_views_keep_the_flags), FAC_TEST(S022_meta_tensors_carry_the_flags))
