/* Rules of vmap where a sample is not simply one dimension less: results and errors are those of a loop. */
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>
#include <string.h>

enum { SAMPLES = 3, MOST = 4 };

static void quiet(void *context, const char *message) { (void)context, (void)message; }

static fac_tensor *places(fac_ints sizes, double below) {
    return fac_to(fac_remainder(fac_mul(numbers(sizes), 7.0), below), .dtype = FAC_I64);
}

/* What f gives for sample i: the inputs' rows, and the last `shared` inputs as they are. */
static fac_status sample(fac_func f, fac_tensors in, size_t shared, int64_t i, fac_tensor **out, size_t n) {
    fac_tensor *own[MOST];
    for (size_t j = 0; j < in.n; j++) own[j] = j + shared < in.n ? fac_select(in.v[j], 0, i) : in.v[j];
    return f(NULL, (fac_tensors){own, in.n}, out, n);
}

static fac_status mapped(fac_func f, fac_tensors in, size_t shared, fac_tensor **out, size_t n) {
    int64_t dims[MOST];
    for (size_t j = 0; j < in.n; j++) dims[j] = j + shared < in.n ? 0 : FAC_UNSET;
    const fac_ints in_dims = {dims, in.n};
    fac_set_warning_handler(quiet, NULL);
    const fac_status st = fac_vmap(f, NULL, in, out, n, .in_dims = in_dims);
    fac_set_warning_handler(NULL, NULL);
    return st;
}

static void assert_like_a_loop(fac_func f, fac_tensors in, size_t shared, size_t n) {
    fac_tensor *all[MOST], *one[MOST];
    assert_ok(mapped(f, in, shared, all, n));
    for (int64_t i = 0; i < SAMPLES; i++) {
        assert_ok(sample(f, in, shared, i, one, n));
        for (size_t r = 0; r < n; r++) {
            fac_tensor *mine = fac_select(all[r], 0, i);
            const fac_ints x = fac_tensor_sizes(mine), y = fac_tensor_sizes(one[r]);
            assert_int_equal(fac_tensor_dtype(mine), fac_tensor_dtype(one[r]));
            assert_int_equal(x.n, y.n);
            for (size_t d = 0; d < x.n; d++) assert_int_equal(x.v[d], y.v[d]);
            assert_true(fac_allclose(mine, one[r], .rtol = 1e-9, .atol = 1e-9));
        }
    }
}

/* Both are errors, of one kind. */
static void assert_refused_as_in_a_loop(fac_func f, fac_tensors in, size_t shared) {
    fac_tensor *out;
    const fac_status st = sample(f, in, shared, 0, &out, 1);
    assert_int_not_equal(st, FAC_OK);
    fac_error_clear();
    assert_int_equal(mapped(f, in, shared, &out, 1), st);
    assert_error(st, "");
}

/* One operator as a function of one output. */
#define FUNCTION(name, call)                                                                     \
    static fac_status name(void *context, fac_tensors in, fac_tensor **out, size_t n) {          \
        (void)context, (void)n;                                                                  \
        fac_tensor *a = in.v[0], *b = in.n > 1 ? in.v[1] : NULL, *c = in.n > 2 ? in.v[2] : NULL; \
        (void)b, (void)c;                                                                        \
        out[0] = (call);                                                                         \
        return fac_error();                                                                      \
    }

/* ---- gradients and medians --------------------------------------------------------------------------------------- */

static fac_tensor *embedding_gradient(fac_tensor *grad, fac_tensor *indices, int64_t padding) {
    fac_value args[] = {fac_value_tensor(grad), fac_value_tensor(indices), fac_value_int(5), fac_value_int(padding),
                        fac_value_bool(true)},
              result = fac_value_none();
    fac_tensor *t = NULL;
    if (fac_call("aten::embedding_dense_backward", args, 5, &result) == FAC_OK)
        t = fac_alias(fac_value_as_tensor(result));
    fac_value_release(&args[0]);
    fac_value_release(&args[1]);
    fac_value_release(&result);
    return t;
}

FUNCTION(rows_gradient, embedding_gradient(a, b, -1))
FUNCTION(rows_gradient_but_padding, embedding_gradient(a, b, 4))
FUNCTION(is_nan_in_the_middle, fac_isnan(fac_median(a)))
FUNCTION(middle, fac_median(a))
FUNCTION(middle_number, fac_nanmedian(a))

/* An index outside one sample's rows would be inside another's. */
static void gradient_of_rows_has_those_of_its_sample_alone(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *grad = numbers(FAC_INTS(SAMPLES, 4, 2)), *i = places(FAC_INTS(SAMPLES, 4), 5);
    assert_like_a_loop(rows_gradient, FAC_TENSORS(grad, i), 0, 1);
    assert_like_a_loop(rows_gradient_but_padding, FAC_TENSORS(grad, i), 0, 1);
    assert_like_a_loop(rows_gradient_but_padding, FAC_TENSORS(grad, fac_full(FAC_INTS(4), 4, .dtype = FAC_I64)), 1, 1);
    for (int64_t bad = 5; bad < 12; bad += 5) {
        fac_tensor *wrong = fac_full(FAC_INTS(SAMPLES, 4), (double)bad, .dtype = FAC_I64);
        assert_refused_as_in_a_loop(rows_gradient, FAC_TENSORS(grad, wrong), 0);
        assert_refused_as_in_a_loop(rows_gradient_but_padding, FAC_TENSORS(grad, fac_neg(wrong)), 0);
    }
}

static void median_of_a_sample_is_that_of_a_loop(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(SAMPLES, 2, 3));
    assert_like_a_loop(middle, FAC_TENSORS(x), 0, 1);
    assert_like_a_loop(middle_number, FAC_TENSORS(x), 0, 1);
    assert_like_a_loop(middle, FAC_TENSORS(numbers(FAC_INTS(SAMPLES))), 0, 1);
    assert_like_a_loop(is_nan_in_the_middle, FAC_TENSORS(fac_div(x, fac_remainder(x, 2.0))), 0, 1);
    assert_like_a_loop(is_nan_in_the_middle, FAC_TENSORS(fac_zeros(FAC_INTS(SAMPLES, 0))), 0, 1);
}

/* ---- indices ---------------------------------------------------------------------------------------------------- */

FUNCTION(second_dimension, fac_index(a, FAC_TENSORS(NULL, b)))
FUNCTION(third_dimension, fac_index(a, FAC_TENSORS(NULL, NULL, b)))

static void index_of_no_dimensions_further_on_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(SAMPLES, 2, 4, 5)), *i = places(FAC_INTS(SAMPLES), 4);
    assert_like_a_loop(second_dimension, FAC_TENSORS(x, i), 0, 1);
    assert_like_a_loop(third_dimension, FAC_TENSORS(x, i), 0, 1);
    assert_like_a_loop(second_dimension, FAC_TENSORS(x, places(FAC_INTS(SAMPLES, 2), 4)), 0, 1);
}

/* ---- dtypes ----------------------------------------------------------------------------------------------------- */

FUNCTION(fills_masked, fac_masked_fill(a, b, c))
FUNCTION(fills_masked_with_a_number, fac_masked_fill(a, b, 1.0))
FUNCTION(fills, fac_fill(a, b))
FUNCTION(draws, fac_bernoulli_tensor(a, b))
FUNCTION(chooses, fac_where(a, b, c))
FUNCTION(goes_over, fac_lerp(a, b, c))
FUNCTION(multiplies, fac_mul(a, b))

static void dtypes_of_samples_without_dimensions_are_those_of_a_loop_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *few = fac_to(numbers(FAC_INTS(SAMPLES)), .dtype = FAC_F32), *whole = places(FAC_INTS(SAMPLES), 3);
    fac_tensor *mask = fac_gt(few, 0.2), *bytes = fac_to(mask, .dtype = FAC_U8), *row = numbers(FAC_INTS(2)), *out;
    fac_tensor *one = fac_sum(fac_ones(FAC_INTS(1), .dtype = FAC_F64));
    assert_like_a_loop(fills_masked, FAC_TENSORS(few, mask, one), 1, 1);
    assert_like_a_loop(fills_masked, FAC_TENSORS(few, fac_ones(FAC_INTS(2), .dtype = FAC_BOOL), one), 2, 1);
    assert_like_a_loop(fills_masked_with_a_number, FAC_TENSORS(few, bytes), 0, 1);
    assert_like_a_loop(fills, FAC_TENSORS(few, one), 1, 1);
    assert_like_a_loop(chooses, FAC_TENSORS(bytes, fac_to(whole, .dtype = FAC_I8), fac_to(whole, .dtype = FAC_I8)), 0,
                       1);
    assert_like_a_loop(multiplies, FAC_TENSORS(numbers(FAC_INTS(SAMPLES)), fac_to(row, .dtype = FAC_F32)), 1, 1);
    assert_refused_as_in_a_loop(goes_over, FAC_TENSORS(few, row, row), 2);
    fac_tensor *half = fac_full(FAC_INTS(SAMPLES), 1, .dtype = FAC_F64);
    assert_ok(fac_vmap(draws, NULL, FAC_TENSORS(few, half), &out, 1, .randomness = "different"));
    assert_int_equal(fac_tensor_dtype(out), FAC_F32);
}

/* ---- dimensions that a sample does not have --------------------------------------------------------------------- */

FUNCTION(as_doubles, fac_view_dtype(a, FAC_F64))
FUNCTION(as_integers, fac_view_dtype(a, FAC_I32))
FUNCTION(as_complex, fac_view_as_complex(a))
FUNCTION(joins, fac_cat(FAC_TENSORS(a, b)))
FUNCTION(selects, fac_index_select(a, 0, b))

static void batch_is_not_the_dimension_that_a_sample_lacks_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(SAMPLES)), *four = fac_ones(FAC_INTS(4)), *out;
    assert_int_equal(mapped(as_doubles, FAC_TENSORS(four), 0, &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "");
    assert_int_equal(mapped(as_complex, FAC_TENSORS(fac_ones(FAC_INTS(2))), 0, &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "");
    assert_like_a_loop(as_integers, FAC_TENSORS(fac_ones(FAC_INTS(SAMPLES))), 0, 1);
    assert_like_a_loop(as_integers, FAC_TENSORS(fac_ones(FAC_INTS(SAMPLES, 4))), 0, 1);
    assert_refused_as_in_a_loop(joins, FAC_TENSORS(x, x), 0);
    assert_refused_as_in_a_loop(selects, FAC_TENSORS(x, fac_zeros(FAC_INTS(2), .dtype = FAC_I64)), 1);
    assert_like_a_loop(selects, FAC_TENSORS(x, fac_zeros(FAC_INTS(1), .dtype = FAC_I64)), 1, 1);
}

/* ---- what is broadcast ------------------------------------------------------------------------------------------ */

static fac_status solves(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    const fac_linalg_solve_ex_result r = fac_linalg_solve_ex(in.v[0], in.v[1]);
    out[0] = r.result;
    out[1] = r.info;
    return fac_error();
}

static void facts_of_a_matrix_that_is_broadcast_have_its_sizes_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_add(numbers(FAC_INTS(SAMPLES, 2, 2)), fac_eye(2, .dtype = FAC_F64));
    assert_like_a_loop(solves, FAC_TENSORS(a, numbers(FAC_INTS(SAMPLES, 4, 2, 5))), 0, 2);
    assert_like_a_loop(solves, FAC_TENSORS(a, numbers(FAC_INTS(SAMPLES, 2))), 0, 2);
    assert_like_a_loop(solves, FAC_TENSORS(fac_unsqueeze(a, 1), numbers(FAC_INTS(SAMPLES, 3, 4, 2, 5))), 0, 2);
}

FUNCTION(attends, fac_scaled_dot_product_attention(a, a, a, .attn_mask = b))

static void mask_of_one_image_serves_all_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *q = numbers(FAC_INTS(SAMPLES, 4, 2, 5, 8)), *flat = numbers(FAC_INTS(SAMPLES, 4, 5, 8));
    fac_tensor *mask = numbers(FAC_INTS(1, 1, 5, 5)), *own = numbers(FAC_INTS(SAMPLES, 1, 1, 5, 5));
    assert_like_a_loop(attends, FAC_TENSORS(q, mask), 1, 1);
    assert_like_a_loop(attends, FAC_TENSORS(q, own), 0, 1);
    assert_like_a_loop(attends, FAC_TENSORS(flat, fac_select(own, 1, 0)), 0, 1);
    assert_refused_as_in_a_loop(attends, FAC_TENSORS(q, numbers(FAC_INTS(SAMPLES, 3, 1, 5, 5))), 0);
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

FUNCTION(one_hot_of_four, fac_one_hot(a, 4))
FUNCTION(one_hot_of_some, fac_one_hot(a))

static void one_hot_of_samples_is_told_the_classes_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = places(FAC_INTS(SAMPLES, 5), 4), *out;
    assert_like_a_loop(one_hot_of_four, FAC_TENSORS(x), 0, 1);
    assert_like_a_loop(one_hot_of_four, FAC_TENSORS(fac_select(x, 1, 0)), 0, 1);
    assert_refused_as_in_a_loop(one_hot_of_four, FAC_TENSORS(fac_add(x, 4.0)), 0);
    assert_refused_as_in_a_loop(one_hot_of_four, FAC_TENSORS(fac_sub(x, 4.0)), 0);
    assert_int_not_equal(mapped(one_hot_of_some, FAC_TENSORS(x), 0, &out, 1), FAC_OK);
    fac_error_clear();
}

/* ---- random numbers --------------------------------------------------------------------------------------------- */

static fac_status rand_by(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] =
        fac_add(in.v[0], fac_normal_(fac_zeros(FAC_INTS(4), .dtype = FAC_F64), .generator = (fac_generator *)context));
    return fac_error();
}

static void generator_of_the_callers_is_refused_where_chunks_draw_the_same_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_INTS(4, 4), .dtype = FAC_F64), *out;
    fac_generator *g = fac_generator_new(3);
    if (!g) return;
    const fac_status st = fac_vmap(rand_by, g, FAC_TENSORS(x), &out, 1, .randomness = "same", .chunk_size = 2);
    fac_error_clear();
    const fac_status whole = fac_vmap(rand_by, g, FAC_TENSORS(x), &out, 1, .randomness = "same", .chunk_size = 4);
    fac_generator_release(g);
    assert_ok(whole);
    assert_int_equal(st, FAC_ERR_UNSUPPORTED);
    assert_ok(
        fac_vmap(rand_by, fac_default_generator(), FAC_TENSORS(x), &out, 1, .randomness = "same", .chunk_size = 2));
    for (int i = 1; i < 4; i++) assert_true(fac_equal(fac_select(out, 0, 0), fac_select(out, 0, i)));
}

/* ---- what vmap does not hold ------------------------------------------------------------------------------------ */

FUNCTION(same, a)
FUNCTION(made_coded, fac_quantize_per_tensor(a, 0.1, 0, FAC_QINT8))

static void assert_not_held(fac_func f, fac_tensor *x, const char *message) {
    fac_tensor *out;
    assert_int_equal(mapped(f, FAC_TENSORS(x), 0, &out, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, message);
}

static void sparse_and_quantized_tensors_are_refused_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(numbers(FAC_INTS(SAMPLES, 2)), .dtype = FAC_F32);
    assert_not_held(same, fac_to_sparse(x), "cannot be mapped over");
    assert_not_held(same, fac_quantize_per_tensor(x, 0.1, 0, FAC_QINT8), "cannot be mapped over");
    assert_not_held(made_coded, x, "a sample cannot be a quantized tensor");
}

FAC_TEST_MAIN(FAC_TEST(index_of_no_dimensions_further_on_S091),
              FAC_TEST(dtypes_of_samples_without_dimensions_are_those_of_a_loop_S091),
              FAC_TEST(batch_is_not_the_dimension_that_a_sample_lacks_S091),
              FAC_TEST(facts_of_a_matrix_that_is_broadcast_have_its_sizes_S091),
              FAC_TEST(mask_of_one_image_serves_all_S091), FAC_TEST(one_hot_of_samples_is_told_the_classes_S091),
              FAC_TEST(generator_of_the_callers_is_refused_where_chunks_draw_the_same_S091),
              FAC_TEST(sparse_and_quantized_tensors_are_refused_S091),
              FAC_TEST(gradient_of_rows_has_those_of_its_sample_alone), FAC_TEST(median_of_a_sample_is_that_of_a_loop))
