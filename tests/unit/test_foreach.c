/* Operators over lists: each entry's result is the plain operator's, in place a failed call changes no entry, gradients are each entry's own. */
#include "autograd_test.h"

#include "core/tensor.h"

/* ---- calls ---------------------------------------------------------------------------------------------------------------------- */

static fac_status call(const char *op, const fac_value *args, size_t n, fac_tensors *out) {
    fac_value given[6], made = fac_value_none();
    for (size_t i = 0; i < n; i++) given[i] = args[i];
    const fac_status st = fac_error() ? fac_error() : fac_call(op, given, n, &made);
    for (size_t i = 0; i < n; i++) fac_value_release(&given[i]);
    if (out) *out = (fac_tensors){NULL, 0};
    if (!st && out) {
        assert_ok(fac_scope_take(&made, 1));
        *out = fac_value_as_tensors(made);
    } else
        fac_value_release(&made);
    return st;
}

#define LIST(...) fac_value_tensors((fac_tensor *[]){__VA_ARGS__}, FAC_COUNT(((fac_tensor *[]){__VA_ARGS__})))
#define NUMBERS(...) fac_value_scalars((fac_scalar[]){__VA_ARGS__}, FAC_COUNT(((fac_scalar[]){__VA_ARGS__})))
#define CALL(out, op, ...) call("aten::" op, (fac_value[]){__VA_ARGS__}, FAC_COUNT(((fac_value[]){__VA_ARGS__})), (out))

static fac_tensor *numbers(double first, int64_t n) { return fac_add(fac_arange(n, .dtype = FAC_F32), first); }

/* ---- results -------------------------------------------------------------------------------------------------------------------- */

static void foreach_gives_each_entry_its_own_result(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = numbers(1, 3), *b = fac_reshape(numbers(4, 4), FAC_INTS(2, 2));
    fac_tensors r;
    assert_ok(CALL(&r, "_foreach_sqrt", LIST(a, b)));
    assert_int_equal(r.n, 2);
    assert_true(fac_equal(r.v[0], fac_sqrt(a)) && fac_equal(r.v[1], fac_sqrt(b)));
    assert_ok(CALL(&r, "_foreach_add.List", LIST(a, b), LIST(a, b), fac_value_float(0.5)));
    assert_true(fac_equal(r.v[1], fac_mul(b, 1.5)));
}

static void foreach_takes_numbers_in_each_way(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = numbers(1, 3), *b = numbers(2, 2);
    fac_tensors r;
    assert_ok(CALL(&r, "_foreach_mul.Scalar", LIST(a, b), fac_value_float(3)));
    assert_values(r.v[0], 3, 6, 9);
    assert_ok(CALL(&r, "_foreach_sub.ScalarList", LIST(a, b), NUMBERS(fac_scalar_f_(0.5), fac_scalar_i_(2))));
    assert_values(r.v[0], 0.5, 1.5, 2.5);
    assert_values(r.v[1], 0, 1);
    assert_ok(CALL(&r, "_foreach_div.Tensor", LIST(a, b), fac_value_tensor(fac_full(FAC_SHAPE(), 2))));
    assert_values(r.v[1], 1, 1.5);
    assert_ok(CALL(&r, "_foreach_addcmul.Tensor", LIST(a, b), LIST(a, b), LIST(a, b),
                   fac_value_tensor(fac_tensor_of(10, -1))));
    assert_values(r.v[0], 11, 42, 93);
    assert_values(r.v[1], -2, -6);
    assert_ok(CALL(&r, "_foreach_pow.ScalarAndTensor", fac_value_int(2), LIST(a, b)));
    assert_values(r.v[0], 2, 4, 8);
    assert_ok(CALL(&r, "_foreach_norm.Scalar", LIST(a, b), fac_value_int(1)));
    assert_values(r.v[0], 6);
    assert_ok(CALL(&r, "_foreach_maximum.List", LIST(a, b), LIST(fac_tensor_of(2, 2, 2), fac_tensor_of(0, 9))));
    assert_values(r.v[0], 2, 2, 3);
    assert_values(r.v[1], 2, 9);
    assert_ok(CALL(&r, "_foreach_zero", LIST(a, b)));
    assert_values(r.v[1], 0, 0);
}

/* A tie with a number is shared, as maximum shares it, where clamp_min's passes nothing. */
static void foreach_maximum_halves_the_gradient_of_a_tie(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const struct {
        const char *op;
        bool list;
        float want[4];
    } cases[] = {{"aten::_foreach_maximum.Scalar", false, {0, 0.5f, 1, 1}},
                 {"aten::_foreach_maximum.ScalarList", true, {0, 0.5f, 1, 1}},
                 {"aten::_foreach_minimum.Scalar", false, {1, 0.5f, 0, 1}},
                 {"aten::_foreach_minimum.ScalarList", true, {1, 0.5f, 0, 1}},
                 {"aten::_foreach_clamp_min.Scalar", false, {0, 0, 1, 0}},
                 {"aten::_foreach_clamp_max.ScalarList", true, {1, 0, 0, 0}}};
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        fac_tensor *x = fac_set_requires_grad(fac_tensor_of(1, 2, 3, NAN), true);
        fac_tensors r;
        const fac_value bound = cases[i].list ? NUMBERS(fac_scalar_f_(2)) : fac_value_float(2);
        assert_ok(call(cases[i].op, (fac_value[]){LIST(x), bound}, 2, &r));
        assert_ok(fac_backward(fac_sum(r.v[0])));
        assert_true(fac_equal(fac_grad_of(x), fac_tensor_from(cases[i].want, FAC_F32, FAC_INTS(4))));
    }
}

static void foreach_promotes_each_entry_by_itself(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensors r;
    assert_ok(CALL(&r, "_foreach_add.Scalar",
                   LIST(fac_arange(3), numbers(0, 2), fac_ones(FAC_SHAPE(2), .dtype = FAC_BF16)),
                   fac_value_float(0.5)));
    assert_int_equal(fac_tensor_dtype(r.v[0]), FAC_F32);
    assert_int_equal(fac_tensor_dtype(r.v[2]), FAC_BF16);
}

/* ---- in place ------------------------------------------------------------------------------------------------------------------- */

static void foreach_writes_in_place(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = numbers(1, 3), *b = numbers(2, 2), *m = fac_t(fac_reshape(numbers(0, 6), FAC_INTS(2, 3)));
    const int64_t before = fac_tensor_version(a);
    assert_ok(CALL(NULL, "_foreach_add_.List", LIST(a, b), LIST(a, b), fac_value_int(2)));
    assert_values(a, 3, 6, 9);
    assert_values(b, 6, 9);
    assert_int_equal(fac_tensor_version(a), before + 1);
    assert_ok(CALL(NULL, "_foreach_mul_.ScalarList", LIST(a, b), NUMBERS(fac_scalar_f_(0.5), fac_scalar_f_(2))));
    assert_values(a, 1.5, 3, 4.5);
    assert_values(b, 12, 18);
    assert_ok(CALL(NULL, "_foreach_minimum_.Scalar", LIST(a, m), fac_value_int(2)));
    assert_values(a, 1.5, 2, 2);
    assert_true(fac_item(fac_max(m)) == 2);
    assert_ok(CALL(NULL, "_foreach_frac_", LIST(a, b)));
    assert_values(a, 0.5, 0, 0);
    assert_ok(CALL(NULL, "_foreach_zero_", LIST(a, m)));
    assert_values(a, 0, 0, 0);
    /* a column of a matrix, an entry of another dtype, and what broadcasts */
    fac_tensor *gaps = fac_select(fac_reshape(numbers(0, 6), FAC_INTS(3, 2)), 1, 0),
               *f64 = fac_to_dtype(numbers(1, 3), FAC_F64);
    assert_ok(CALL(NULL, "_foreach_add_.List", LIST(gaps, f64), LIST(f64, fac_tensor_of(10))));
    assert_values(gaps, 1, 4, 7);
    assert_values(f64, 11, 12, 13);
    assert_ok(CALL(NULL, "_foreach_copy_", LIST(gaps, f64), LIST(f64, fac_tensor_of(3))));
    assert_values(gaps, 11, 12, 13);
    assert_values(f64, 3, 3, 3);
}

static void foreach_that_fails_changes_no_entry(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = numbers(1, 3), *i = fac_arange(3);
    assert_int_equal(CALL(NULL, "_foreach_add_.List", LIST(a, a), LIST(a, numbers(0, 4))), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "");
    assert_int_equal(CALL(NULL, "_foreach_add_.Scalar", LIST(a, i), fac_value_float(0.5)), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "can't be cast");
    fac_tensor *leaf = fac_set_requires_grad(numbers(1, 3), true);
    assert_int_equal(CALL(NULL, "_foreach_zero_", LIST(a, leaf)), FAC_ERR_AUTOGRAD);
    fac_error_clear();
    assert_int_equal(CALL(NULL, "_foreach_exp_", LIST(a, fac_expand(fac_tensor_of(1), FAC_INTS(3)))), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_values(a, 1, 2, 3);
    assert_int_equal(fac_tensor_version(a), 0);
}

static void foreach_abs_does_not_write_over_complex_entries(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *z = fac_complex_from_parts(numbers(-3, 2), numbers(4, 2)),
               *gaps = fac_narrow(fac_complex_from_parts(fac_ones(FAC_INTS(3, 2)), fac_ones(FAC_INTS(3, 2))), 1, 0, 1);
    assert_int_equal(CALL(NULL, "_foreach_abs_", LIST(z)), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "In-place abs is not supported for complex tensors.");
    assert_int_equal(CALL(NULL, "_foreach_abs_", LIST(z, gaps)), FAC_ERR_DTYPE);
    assert_error(FAC_ERR_DTYPE, "complex");
    (void)!fac_abs_(gaps);
    assert_error(FAC_ERR_DTYPE, "In-place abs is not supported for complex tensors.");
    assert_values(fac_real(z), -3, -2);
    assert_values(fac_imag(z), 4, 5);
    fac_tensors r;
    assert_ok(CALL(&r, "_foreach_abs", LIST(z)));
    assert_values(r.v[0], 5, sqrtf(29));
}

static void foreach_of_truth_values_takes_numbers(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_tensor_from((bool[]){0, 1, 0, 1}, FAC_BOOL, FAC_INTS(4)),
               *b = fac_tensor_from((bool[]){0, 0, 1, 1}, FAC_BOOL, FAC_INTS(4));
    fac_tensors r;
    assert_ok(CALL(&r, "_foreach_add.List", LIST(a), LIST(b), fac_value_int(3)));
    assert_int_equal(fac_tensor_dtype(r.v[0]), FAC_BOOL);
    assert_values(r.v[0], 0, 1, 1, 1);
    assert_ok(CALL(&r, "_foreach_pow.Scalar", LIST(a), fac_value_bool(true)));
    assert_int_equal(fac_tensor_dtype(r.v[0]), FAC_BOOL);
    assert_values(r.v[0], 0, 1, 0, 1);
    assert_ok(CALL(&r, "_foreach_pow.Scalar", LIST(a), fac_value_bool(false)));
    assert_values(r.v[0], 1, 1, 1, 1);
}

static void foreach_refuses_lists_that_do_not_match(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = numbers(1, 3);
    assert_int_equal(call("aten::_foreach_abs", (fac_value[]){fac_value_tensors(NULL, 0)}, 1, NULL), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Tensor list must have at least one tensor.");
    assert_int_equal(CALL(NULL, "_foreach_mul.List", LIST(a), LIST(a, a)), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Tensor lists must have the same number of tensors, got 1 and 2");
    assert_int_equal(CALL(NULL, "_foreach_mul.ScalarList", LIST(a, a), NUMBERS(fac_scalar_i_(1))), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Tensor list must have same number of elements as scalar list");
    assert_int_equal(CALL(NULL, "_foreach_addcdiv.Tensor", LIST(a), LIST(a), LIST(a), fac_value_tensor(a)),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "Expected length of scalars to match input of length 1 but got 3 instead.");
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------------ */

static fac_status lerp_of_lists(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensors r;
    FAC_TRY(CALL(&r, "_foreach_lerp.Scalar", LIST(in.v[0], in.v[1]), LIST(in.v[1], in.v[0]), fac_value_float(0.3)));
    out[0] = fac_mul(r.v[0], r.v[0]);
    out[1] = r.v[1];
    return fac_error();
}

/* In place, of results, so that what the graph kept of them is not overwritten. */
static fac_status changed_in_place(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(in.v[0], 2);
    out[1] = fac_mul(in.v[1], 3);
    FAC_TRY(CALL(NULL, "_foreach_mul_.List", LIST(out[0], out[1]), LIST(in.v[1], in.v[0])));
    FAC_TRY(CALL(NULL, "_foreach_exp_", LIST(out[0], out[1])));
    return fac_error();
}

static void foreach_gradients_are_those_of_entries(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_tensor_from((double[]){0.3, -0.7, 1.1}, FAC_F64, FAC_INTS(3)), true),
               *y = fac_set_requires_grad(fac_tensor_from((double[]){0.9, 0.2, -0.4}, FAC_F64, FAC_INTS(3)), true);
    assert_ok(fac_gradcheck(lerp_of_lists, NULL, FAC_TENSORS(x, y), 2));
    assert_ok(fac_gradgradcheck(lerp_of_lists, NULL, FAC_TENSORS(x, y), 2));
    assert_ok(fac_gradcheck(changed_in_place, NULL, FAC_TENSORS(x, y), 2));
    assert_ok(fac_gradgradcheck(changed_in_place, NULL, FAC_TENSORS(x, y), 2));
    fac_tensors r; /* an entry that is not asked for has none */
    assert_ok(CALL(&r, "_foreach_exp", LIST(x, y)));
    assert_ok(fac_backward(fac_sum(r.v[0])));
    assert_non_null(fac_grad_of(x));
    assert_null(fac_grad_of(y));
}

FAC_TEST_MAIN(FAC_TEST(foreach_gives_each_entry_its_own_result), FAC_TEST(foreach_maximum_halves_the_gradient_of_a_tie),
              FAC_TEST(foreach_takes_numbers_in_each_way), FAC_TEST(foreach_promotes_each_entry_by_itself),
              FAC_TEST(foreach_writes_in_place), FAC_TEST(foreach_that_fails_changes_no_entry),
              FAC_TEST(foreach_refuses_lists_that_do_not_match),
              FAC_TEST(foreach_abs_does_not_write_over_complex_entries),
              FAC_TEST(foreach_of_truth_values_takes_numbers), FAC_TEST(foreach_gradients_are_those_of_entries))
