/* vmap: how it is called, what is refused, and what is left behind. test_vmap_samples.c has the operators. */
#include "support/support.h"
#include "support/values.h"

#include <facula/facula.h>
#include <string.h>

static char warning[600];
static int warnings;
static void note(void *context, const char *message) {
    (void)context;
    snprintf(warning, sizeof warning, "%s", message);
    warnings++;
}

/* ---- functions that are mapped ---------------------------------------------------------------------------------- */

static fac_status add(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_add(in.v[0], in.v[1]);
    return fac_error();
}

/* Two outputs: x @ w, and the sum of x. */
static fac_status affine(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_matmul(in.v[0], in.v[1]);
    out[1] = fac_sum(in.v[0]);
    return fac_error();
}

static void vmap_of_add_equals_a_loop_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 4)), *y = numbers(FAC_INTS(3, 4)), *out;
    assert_ok(fac_vmap(add, NULL, FAC_TENSORS(x, y), &out, 1));
    assert_close(out, fac_add(x, y));
}

static void vmap_takes_the_dimensions_that_are_named_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(4, 3)), *w = numbers(FAC_INTS(4, 2)), *out[2];
    assert_ok(fac_vmap(affine, NULL, FAC_TENSORS(x, w), out, 2, .in_dims = FAC_INTS(-1, FAC_UNSET),
                       .out_dims = FAC_INTS(1, 0)));
    assert_close(out[0], fac_t(fac_matmul(fac_t(x), w)));
    assert_close(out[1], fac_sum(x, .dim = 0));
    assert_ok(
        fac_vmap(affine, NULL, FAC_TENSORS(fac_t(x), w), out, 2, .in_dims = FAC_INTS(0, FAC_UNSET), .out_dim = -1));
    assert_close(out[0], fac_t(fac_matmul(fac_t(x), w)));
}

/* The output depends on no sample, and is expanded; or said to be the same. */
static fac_status constant(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)n;
    out[0] = fac_full(FAC_INTS(2), 3);
    return fac_error();
}

static void vmap_expands_an_output_that_samples_share_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *out;
    assert_ok(fac_vmap(constant, NULL, FAC_TENSORS(x), &out, 1));
    assert_int_equal(fac_tensor_size(out, 0), 3);
    assert_ok(fac_vmap(constant, NULL, FAC_TENSORS(x), &out, 1, .out_dim = 1));
    assert_int_equal(fac_tensor_size(out, 1), 3);
    assert_ok(fac_vmap(constant, NULL, FAC_TENSORS(x), &out, 1, .out_dims = FAC_INTS(FAC_UNSET)));
    assert_int_equal(fac_tensor_ndim(out), 1);
    fac_tensor *both[] = {x, x};
    const fac_tensors in = {both, 2};
    assert_int_equal(fac_vmap(add, NULL, in, &out, 1, .out_dims = FAC_INTS(FAC_UNSET)), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "differs between samples");
    assert_null(out);
}

/* ---- levels ----------------------------------------------------------------------------------------------------- */

/* Maps over the second input's rows for one row of the first: all pairs. */
static fac_status each_with_all(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context;
    return fac_vmap(add, NULL, in, out, n, .in_dims = FAC_INTS(FAC_UNSET, 0));
}

static void vmap_in_vmap_gives_all_pairs_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *y = numbers(FAC_INTS(4, 2)), *out;
    assert_ok(fac_vmap(each_with_all, NULL, FAC_TENSORS(x, y), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    assert_close(out, fac_add(fac_unsqueeze(x, 1), fac_unsqueeze(y, 0)));
}

static fac_status fails(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_matmul(in.v[0], fac_zeros(FAC_INTS(17, 2), .dtype = FAC_F64));
    return fac_error();
}

static fac_status fails_within(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_scope s = fac_scope_begin(); /* left open */
    (void)s;
    return fac_vmap(fails, context, in, out, n);
}

static void vmap_that_fails_leaves_no_level_open_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2, 2)), *out = x;
    const fac_keyset before = fac_thread_included();
    assert_int_equal(fac_vmap(fails_within, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(out);
    assert_int_equal(fac_thread_included(), before);
    assert_close(fac_rand(FAC_INTS(0), .dtype = FAC_F64),
                 fac_zeros(FAC_INTS(0), .dtype = FAC_F64)); /* no level refuses it */
    assert_ok(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1));
    assert_close(out, fac_add(x, x));
}

static fac_status nothing(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)out, (void)n;
    return FAC_OK;
}

static fac_status no_reason(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)out, (void)n;
    return FAC_ERR_STATE;
}

static void vmap_of_what_is_wrong_is_refused_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *y = numbers(FAC_INTS(4, 2)), *out;
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, y), &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "input 1 has 4 samples in dimension 0, but others have 3");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .in_dims = FAC_INTS(FAC_UNSET, FAC_UNSET)),
                     FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "nothing to map over");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .in_dims = FAC_INTS(0, 0, 0)), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "in_dims names 3 dimensions for 2 tensors");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .in_dim = 2), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .out_dim = 3), FAC_ERR_INDEX);
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(fac_sum(x)), &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "no dimension to map over");
    fac_tensor *empty = fac_zeros(FAC_INTS(0, 2));
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(empty, empty), &out, 1), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "no sample to call with");
    assert_int_equal(fac_vmap(nothing, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "left output 0 unset");
    assert_int_equal(fac_vmap(no_reason, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "the function that vmap called returned an error");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .randomness = "some"), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "not \"some\"");
    assert_int_equal(fac_vmap(add, NULL, FAC_TENSORS(x, x), &out, 1, .chunk_size = 0), FAC_ERR_ARGUMENT);
    assert_error(FAC_ERR_ARGUMENT, "chunk_size should be at least 1");
}

/* ---- tensors that leave ----------------------------------------------------------------------------------------- */

static fac_tensor *kept;
static fac_status keeps(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    kept = fac_keep(in.v[0]);
    out[0] = in.v[0];
    return fac_error();
}

static fac_status gives_kept(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)n;
    out[0] = kept;
    return fac_error();
}

static void batched_tensor_that_outlives_its_vmap_is_an_error_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *out;
    assert_ok(fac_vmap(keeps, NULL, FAC_TENSORS(x), &out, 1));
    assert_close(out, x);
    assert_null(fac_add(kept, 1.0));
    assert_error(FAC_ERR_STATE, "after its vmap has ended");
    assert_null(fac_linear(kept, x, NULL));
    assert_error(FAC_ERR_STATE, "after its vmap has ended");
    assert_int_equal(fac_vmap(gives_kept, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "after its vmap has ended");
    fac_release(kept);
}

/* ---- what samples do not show ----------------------------------------------------------------------------------- */

static fac_status reads(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    double both[2];
    (void)context, (void)n;
    fac_tensor *x = in.v[0];
    out[0] = x;
    assert_int_equal(fac_tensor_ndim(x), 1);
    assert_int_equal(fac_tensor_size(x, 0), 2);
    char *text = fac_tensor_string(x);
    assert_string_equal(text, "tensor(..., size=(2,), dtype=torch.float64, batched)");
    fac_string_free(text);
    assert_true(fac_item(fac_sum(x)) == 0);
    assert_error(FAC_ERR_UNSUPPORTED, "the elements of a batched tensor cannot be read");
    assert_int_equal(fac_tensor_read(x, FAC_F64, both, 2), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "the elements of a batched tensor cannot be read");
    assert_null(fac_tensor_data(x));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a batched tensor");
    assert_null(fac_tensor_storage(x));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a batched tensor");
    assert_null(fac_nonzero(x));
    assert_error(FAC_ERR_UNSUPPORTED, "would differ between samples");
    assert_int_equal(fac_backward(fac_sum(x)), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "not on a batched tensor");
    assert_null(fac_set_requires_grad(x, true));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a batched tensor");
    assert_int_equal(fac_set_data(x, fac_zeros(FAC_INTS(2))), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "not on a batched tensor");
    assert_null(fac_resize_(x, FAC_INTS(4)));
    assert_error(FAC_ERR_UNSUPPORTED, "vmap cannot run aten::resize_");
    return fac_error();
}

static void elements_of_samples_cannot_be_read_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *out;
    assert_ok(fac_vmap(reads, NULL, FAC_TENSORS(x), &out, 1));
    assert_close(out, x);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static fac_status writes(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *own = fac_zeros_like(in.v[0]), *shared = fac_zeros(FAC_INTS(2), .dtype = FAC_F64);
    assert_non_null(fac_add_(own, in.v[0]));
    assert_non_null(fac_mul_(fac_select(own, 0, 1), 10.0)); /* a view of a sample reaches it */
    assert_null(fac_add_(shared, in.v[0]));
    assert_error(FAC_ERR_UNSUPPORTED, "which all samples share");
    assert_non_null(fac_fill_(shared, 2.0)); /* for all alike */
    out[0] = fac_add(own, shared);
    return fac_error();
}

static void samples_write_to_what_is_theirs_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 3)), *out;
    assert_ok(fac_vmap(writes, NULL, FAC_TENSORS(x), &out, 1, .in_dim = 1));
    fac_tensor *scaled =
        fac_mul(x, fac_reshape(fac_tensor_from((double[]){1, 10}, FAC_F64, FAC_INTS(2)), FAC_INTS(2, 1)));
    assert_close(out, fac_add(fac_t(scaled), 2.0));
}

/* What a sample writes to its input is written to the tensor that was given. */
static fac_status doubles(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul_(in.v[0], 2.0);
    return fac_error();
}

static void writes_of_samples_reach_the_input_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 3)), *before = fac_clone(x), *out;
    assert_ok(fac_vmap(doubles, NULL, FAC_TENSORS(x), &out, 1, .in_dim = 1));
    assert_close(x, fac_mul(before, 2.0));
    assert_close(out, fac_t(x));
}

/* ---- samples without dimensions --------------------------------------------------------------------------------- */

static fac_status low_ranks(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = in.v[0]; /* without dimensions */
    out[0] = fac_expand(x, FAC_INTS(2, 2));
    out[1] = fac_add(x, fac_ones(FAC_INTS(3), .dtype = FAC_F64));
    out[2] = fac_sum(x, .dim = 0, .keepdim = true);
    out[3] = fac_cumsum(x, 0);
    out[4] = fac_stack(FAC_TENSORS(x, x));
    out[5] = fac_unsqueeze(x, -1);
    out[6] =
        fac_add(fac_to(x, .dtype = FAC_F64), fac_ones(FAC_INTS(2), .dtype = FAC_F32)); /* ranks below it: float32 */
    assert_null(fac_select(x, 0, 0));
    fac_error_clear();
    return fac_error();
}

static void samples_without_dimensions_behave_as_such_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3)), *out[7];
    assert_ok(fac_vmap(low_ranks, NULL, FAC_TENSORS(x), out, 7));
    assert_close(out[0], fac_expand(fac_reshape(x, FAC_INTS(3, 1, 1)), FAC_INTS(3, 2, 2)));
    assert_close(out[1], fac_expand(fac_unsqueeze(fac_add(x, 1.0), 1), FAC_INTS(3, 3)));
    assert_close(out[2], x);
    assert_close(out[3], x);
    assert_close(out[4], fac_stack(FAC_TENSORS(x, x), .dim = 1));
    assert_close(out[5], fac_unsqueeze(x, 1));
    assert_int_equal(fac_tensor_dtype(out[6]), FAC_F32);
}

static fac_status solves(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_linalg_solve(in.v[0], in.v[1]);
    return fac_error();
}

/* A vector of right-hand sides for each sample must not be taken for a matrix of all, nor one matrix for a list of
   vectors. */
static void solve_of_samples_knows_vectors_from_matrices_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_add(numbers(FAC_INTS(2, 2, 2)), fac_mul(fac_eye(2, .dtype = FAC_F64), 3.0)), *out;
    fac_tensor *vectors = numbers(FAC_INTS(2, 2)), *matrices = numbers(FAC_INTS(2, 2, 2));
    assert_ok(fac_vmap(solves, NULL, FAC_TENSORS(a, vectors), &out, 1));
    for (int i = 0; i < 2; i++)
        assert_close(fac_select(out, 0, i), fac_linalg_solve(fac_select(a, 0, i), fac_select(vectors, 0, i)));
    assert_ok(fac_vmap(solves, NULL, FAC_TENSORS(a, matrices), &out, 1));
    for (int i = 0; i < 2; i++)
        assert_close(fac_select(out, 0, i), fac_linalg_solve(fac_select(a, 0, i), fac_select(matrices, 0, i)));
    assert_ok(
        fac_vmap(solves, NULL, FAC_TENSORS(fac_select(a, 0, 0), vectors), &out, 1, .in_dims = FAC_INTS(FAC_UNSET, 0)));
    for (int i = 0; i < 2; i++)
        assert_close(fac_select(out, 0, i), fac_linalg_solve(fac_select(a, 0, 0), fac_select(vectors, 0, i)));
    assert_ok(
        fac_vmap(solves, NULL, FAC_TENSORS(a, fac_select(vectors, 0, 0)), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    for (int i = 0; i < 2; i++)
        assert_close(fac_select(out, 0, i), fac_linalg_solve(fac_select(a, 0, i), fac_select(vectors, 0, 0)));
}

/* ---- random numbers --------------------------------------------------------------------------------------------- */

static fac_status noise(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_rand(FAC_INTS(4), .dtype = FAC_F64);
    out[1] = fac_rand_like(in.v[0]);
    out[2] = fac_dropout(in.v[0], 0.5, true);
    return fac_error();
}

static bool rows_differ(fac_tensor *t) { return !fac_equal(fac_select(t, 0, 0), fac_select(t, 0, 1)); }

static void random_numbers_of_samples_are_as_asked_for_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(2, 50), .dtype = FAC_F64), *out[3];
    assert_int_equal(fac_vmap(noise, NULL, FAC_TENSORS(x), out, 3), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "randomness is \"error\"");
    assert_ok(fac_vmap(noise, NULL, FAC_TENSORS(x), out, 3, .randomness = "different"));
    for (int i = 0; i < 3; i++) assert_true(rows_differ(out[i]));
    assert_ok(fac_vmap(noise, NULL, FAC_TENSORS(x), out, 3, .randomness = "same"));
    for (int i = 0; i < 3; i++) assert_false(rows_differ(out[i]));
    assert_ok(fac_vmap(noise, NULL, FAC_TENSORS(x), out, 3, .randomness = "same", .chunk_size = 1));
    for (int i = 0; i < 3; i++) assert_false(rows_differ(out[i]));
    assert_ok(fac_vmap(noise, NULL, FAC_TENSORS(x), out, 3, .randomness = "different", .chunk_size = 1));
    for (int i = 0; i < 3; i++) assert_true(rows_differ(out[i]));
}

static fac_status random_in_place(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_normal_(fac_zeros_like(in.v[0]));
    if (!fac_normal_(fac_zeros(FAC_INTS(2)))) return fac_error();
    return fac_error();
}

static void random_numbers_that_differ_do_not_fit_a_shared_tensor_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 4)), *out;
    assert_int_equal(fac_vmap(random_in_place, NULL, FAC_TENSORS(x), &out, 1, .randomness = "different"),
                     FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "cannot be written to a tensor that all samples share");
    assert_ok(fac_vmap(random_in_place, NULL, FAC_TENSORS(x), &out, 1, .randomness = "same"));
    assert_false(rows_differ(out));
}

static fac_status draws(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)n;
    out[0] = fac_rand(FAC_INTS(3), .dtype = FAC_F64);
    return fac_error();
}

static fac_status draws_within(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    return fac_vmap(draws, NULL, in, out, n, .randomness = (const char *)context);
}

/* Each level decides for its own samples. */
static void levels_decide_on_random_numbers_for_themselves_S091(void **state) {
    (void)state;
    static char *const words[] = {"different", "same"}, error[] = "error";
    for (int outer = 0; outer < 2; outer++)
        for (int inner = 0; inner < 2; inner++) {
            FAC_SCOPE(s);
            fac_tensor *x = numbers(FAC_INTS(2, 2)), *out;
            assert_ok(fac_vmap(draws_within, words[inner], FAC_TENSORS(x), &out, 1, .randomness = words[outer]));
            assert_int_equal(fac_tensor_ndim(out), 3);
            assert_int_equal(rows_differ(out), outer == 0);
            assert_int_equal(rows_differ(fac_select(out, 0, 0)), inner == 0);
        }
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 2)), *out;
    assert_int_equal(fac_vmap(draws_within, error, FAC_TENSORS(x), &out, 1, .randomness = "same"), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "randomness is \"error\"");
}

/* ---- chunks ----------------------------------------------------------------------------------------------------- */

static int calls;
static int64_t live_at_call[8];
static fac_status counts_calls(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    live_at_call[calls++] = fac_live();
    out[0] = fac_sin(fac_mul(fac_add(in.v[0], 1.0), 2.0));
    return fac_error();
}

/* Of each chunk only the result is left when the next begins. */
static void vmap_in_chunks_frees_each_before_the_next_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(7, 2)), *out, *want;
    calls = 0;
    assert_ok(fac_vmap(counts_calls, NULL, FAC_TENSORS(x), &want, 1));
    assert_int_equal(calls, 1);
    calls = 0;
    assert_ok(fac_vmap(counts_calls, NULL, FAC_TENSORS(x), &out, 1, .chunk_size = 2));
    assert_int_equal(calls, 4);
    assert_close(out, want);
    const int64_t each = live_at_call[2] - live_at_call[1];
    assert_in_range(each, 1, 4); /* the output: a tensor, its storage, its version */
    assert_int_equal(live_at_call[3] - live_at_call[2], each);
    calls = 0;
    assert_ok(fac_vmap(counts_calls, NULL, FAC_TENSORS(x), &out, 1, .chunk_size = 100));
    assert_int_equal(calls, 1);
}

/* ---- sample by sample ------------------------------------------------------------------------------------------- */

static fac_status counts_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_histc(in.v[0], .bins = 4);
    return fac_error();
}

/* By its rule: the operator does not run sample by sample, of which a warning would tell. */
static void gradients_of_cross_entropy_run_for_all_samples_at_once_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    static const int64_t classes[] = {0, 2, -100, 2};
    static const enum fac_loss_reduction reductions[] = {FAC_REDUCTION_MEAN, FAC_REDUCTION_SUM};
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(4, 3)), true),
               *target = fac_tensor_from(classes, FAC_I64, FAC_INTS(4)), *weights = numbers(FAC_INTS(5)), *got, *want;
    for (size_t k = 0; k < FAC_COUNT(reductions); k++) {
        fac_tensor *loss = fac_cross_entropy(x, target, .reduction = reductions[k]);
        warnings = 0;
        fac_set_warning_handler(note, NULL);
        const fac_status st = fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x), &got, .grad_outputs = FAC_TENSORS(weights),
                                       .retain_graph = true, .is_grads_batched = true);
        fac_set_warning_handler(NULL, NULL);
        assert_ok(st);
        if (warnings) fail_msg("%s", warning);
        assert_ok(fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x), &want));
        for (int i = 0; i < 5; i++)
            assert_true(fac_allclose(fac_select(got, 0, i), fac_mul(want, fac_select(weights, 0, i)), .rtol = 1e-12,
                                     .atol = 1e-12));
    }
}

static void operator_without_a_rule_warns_once_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 5)), *out;
    assert_string_equal(fac_operator_batch_rule(fac_operator_find("aten::histc")), "loop");
    assert_string_equal(fac_operator_batch_rule(fac_operator_find("aten::add.Tensor")), "pointwise");
    assert_string_equal(fac_operator_batch_rule(fac_operator_find("aten::linear")), "parts");
    assert_string_equal(fac_operator_batch_rule(fac_operator_find("aten::nonzero")), "refused");
    warnings = 0;
    fac_set_warning_handler(note, NULL);
    for (int i = 0; i < 2; i++) {
        const fac_status st = fac_vmap(counts_of, NULL, FAC_TENSORS(x), &out, 1);
        if (st) fac_set_warning_handler(NULL, NULL);
        assert_ok(st);
        for (int k = 0; k < 3; k++) assert_close(fac_select(out, 0, k), fac_histc(fac_select(x, 0, k), .bins = 4));
    }
    fac_set_warning_handler(NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "vmap: aten::histc is called sample by sample"));
}

/* ---- what records ----------------------------------------------------------------------------------------------- */

static fac_status squares(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_sum(fac_mul(in.v[0], in.v[0]));
    return fac_error();
}

static void gradients_flow_through_vmap_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true), *out;
    assert_ok(fac_vmap(squares, NULL, FAC_TENSORS(x), &out, 1, .chunk_size = 2));
    assert_ok(fac_backward(fac_sum(out)));
    assert_close(fac_grad_of(x), fac_mul(x, 2.0));
}

static fac_status identity_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(in.v[0], 1.0);
    return fac_error();
}
static fac_status identity_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c;
    out[0] = grads.v[0];
    return FAC_OK;
}
static const fac_function identity = {
    .name = "Identity", .n_outputs = 1, .forward = identity_forward, .backward = identity_backward};

static fac_status custom(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    return fac_function_apply(&identity, NULL, FAC_TENSORS(in.v[0]), out);
}

static fac_status doubled_other(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    (void)in;
    out[0] = fac_mul((fac_tensor *)fac_function_user(c), 2.0);
    return fac_error();
}
static const fac_function hidden = {
    .name = "Hidden", .n_outputs = 1, .forward = doubled_other, .backward = identity_backward};

static fac_status custom_of_captured(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_function_apply(&hidden, in.v[0], FAC_TENSORS(context), out);
}

static void custom_function_in_vmap_is_refused_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true), *out;
    assert_int_equal(fac_vmap(custom, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "the custom function Identity cannot take part in a vmap: input 0");
    assert_int_equal(fac_vmap(custom_of_captured, fac_ones(FAC_INTS(2)), FAC_TENSORS(x), &out, 1), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "the custom function Hidden cannot take part in a vmap: output 0");
}

/* ---- custom functions with a rule --------------------------------------------------------------------------------- */

/* x^2 w, whose backward is made of operators, so that it has a second derivative. */
static fac_status weigh_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    out[0] = fac_mul(fac_mul(in.v[0], in.v[0]), in.v[1]);
    return fac_function_save(c, in);
}
static fac_status weigh_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    fac_tensors saved = fac_function_saved(c);
    if (!saved.n) return fac_error();
    fac_tensor *x = saved.v[0], *w = saved.v[1], *g = grads.v[0];
    if (fac_function_needs_input_grad(c, 0)) out[0] = fac_mul(fac_mul(fac_mul(x, w), g), 2.0);
    if (fac_function_needs_input_grad(c, 1)) out[1] = fac_mul(fac_mul(x, x), g);
    return fac_error();
}
static fac_status weigh_jvp(fac_function_ctx *c, fac_tensors tangents, fac_tensor **out) {
    fac_tensors saved = fac_function_saved(c);
    fac_tensor *x = saved.v[0], *w = saved.v[1], *t = tangents.v[0], *u = tangents.v[1];
    fac_tensor *first = t ? fac_mul(fac_mul(fac_mul(x, w), t), 2.0) : NULL,
               *second = u ? fac_mul(fac_mul(x, x), u) : NULL;
    out[0] = first && second ? fac_add(first, second) : first ? first : second;
    return fac_error();
}
static const fac_function weigh = {.name = "Weigh",
                                   .n_outputs = 1,
                                   .forward = weigh_forward,
                                   .backward = weigh_backward,
                                   .jvp = weigh_jvp,
                                   .generate_vmap_rule = true};
static const fac_function plain_weigh = {
    .name = "Weigh", .n_outputs = 1, .forward = weigh_forward, .backward = weigh_backward, .jvp = weigh_jvp};

static fac_status weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_function_apply(context, NULL, in, out);
}
static fac_status weighed_sum(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(weighed(context, in, out, n));
    out[0] = fac_sum(out[0]);
    return fac_error();
}
static fac_status grad_of_weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(weighed_sum, context, in, out, .argnums = FAC_INTS(0, 1));
}
static fac_status hessian_of_weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_func_hessian(weighed_sum, context, in);
    return fac_error();
}
static fac_status jacrev_of_weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_func_jacrev(weighed, context, in);
    return fac_error();
}
static fac_status jvp_of_weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y, *tangents[] = {fac_cos(in.v[0]), fac_sin(in.v[1])};
    (void)n;
    return fac_func_jvp(weighed, context, in, (fac_tensors){tangents, 2}, &y, out, 1);
}
static fac_status pairs_of_weighed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    return fac_vmap(weighed, context, in, out, n, .in_dims = FAC_INTS(FAC_UNSET, 0));
}
static fac_status sum_of_pairs(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(pairs_of_weighed(context, in, out, n));
    out[0] = fac_sum(out[0]);
    return fac_error();
}
static fac_status grad_of_pairs(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(sum_of_pairs, context, in, out, .argnums = FAC_INTS(0, 1));
}

/* What the mapped function gives with `fn`, against a loop with the function that knows of no vmap. */
static void assert_mapped(fac_func f, const fac_function *fn, size_t n_out) {
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 3)), *w = fac_sin(numbers(FAC_INTS(2))), *out[2];
    assert_ok(fac_vmap(f, (void *)(uintptr_t)fn, FAC_TENSORS(x, w), out, n_out, .in_dims = FAC_INTS(1, FAC_UNSET)));
    for (int64_t i = 0; i < 3; i++) {
        fac_tensor *one[2];
        assert_ok(f((void *)(uintptr_t)&plain_weigh, FAC_TENSORS(fac_select(x, 1, i), w), one, n_out));
        for (size_t k = 0; k < n_out; k++) assert_close(fac_select(out[k], 0, i), one[k]);
    }
}

static void custom_function_sees_samples_where_it_says_so_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_mapped(weighed, &weigh, 1);
    assert_mapped(grad_of_weighed, &weigh, 2);
    assert_mapped(jacrev_of_weighed, &weigh, 1);
    assert_mapped(jvp_of_weighed, &weigh, 1);
    assert_mapped(hessian_of_weighed, &weigh, 1);
}

static void custom_function_of_samples_is_recorded_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    void *context = (void *)(uintptr_t)&weigh;
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true);
    fac_tensor *w = fac_set_requires_grad(fac_sin(numbers(FAC_INTS(2))), true), *out, *grads[2], *second[2], *both[2];
    assert_ok(fac_vmap(weighed, context, FAC_TENSORS(x, w), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    fac_tensor *loss = fac_sum(fac_sin(out)), *want = fac_sum(fac_sin(fac_mul(fac_mul(x, x), w)));
    assert_ok(fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x, w), grads, .create_graph = true)); /* the vmap has ended */
    assert_ok(fac_grad(FAC_TENSORS(want), FAC_TENSORS(x, w), both, .create_graph = true));
    for (int k = 0; k < 2; k++) assert_close(grads[k], both[k]);
    loss = fac_sum(fac_cos(grads[0])), want = fac_sum(fac_cos(both[0]));
    assert_ok(fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x, w), second));
    assert_ok(fac_grad(FAC_TENSORS(want), FAC_TENSORS(x, w), both));
    for (int k = 0; k < 2; k++) assert_close(second[k], both[k]);
}

static void custom_function_of_samples_of_samples_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    void *context = (void *)(uintptr_t)&weigh;
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *w = fac_sin(numbers(FAC_INTS(4, 2))), *out, *grads[2];
    assert_ok(fac_vmap(pairs_of_weighed, context, FAC_TENSORS(x, w), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    fac_tensor *squares_of = fac_unsqueeze(fac_mul(x, x), 1);
    assert_close(out, fac_mul(squares_of, w));
    assert_ok(fac_vmap(grad_of_pairs, context, FAC_TENSORS(x, w), grads, 2, .in_dims = FAC_INTS(0, FAC_UNSET)));
    assert_close(grads[0], fac_mul(fac_mul(x, fac_sum(w, .dim = 0)), 2.0));
    assert_close(grads[1], fac_expand(squares_of, FAC_INTS(3, 4, 2)));
}

/* exp, which saves what it gives, and doubles its input in place. */
static fac_status exp_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    out[0] = fac_exp(in.v[0]);
    return fac_function_save(c, (fac_tensors){out, 1});
}
static fac_status exp_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    out[0] = fac_mul(fac_function_saved(c).v[0], grads.v[0]);
    return fac_error();
}
static const fac_function exponential = {
    .name = "Exp", .n_outputs = 1, .forward = exp_forward, .backward = exp_backward, .generate_vmap_rule = true};
static fac_status twice_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    fac_function_mark_dirty(c, in.v[0]);
    out[0] = fac_mul_(in.v[0], 2.0);
    out[1] = fac_gt(in.v[0], 1.0);
    fac_function_mark_non_differentiable(c, out[1]);
    return fac_error();
}
static fac_status twice_backward(fac_function_ctx *c, fac_tensors grads, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(grads.v[0], 2.0);
    return fac_error();
}
static const fac_function twice = {
    .name = "Twice", .n_outputs = 2, .forward = twice_forward, .backward = twice_backward, .generate_vmap_rule = true};
static fac_status exp_of_twice(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *x = fac_mul(in.v[0], 1.0), *both[2];
    (void)context, (void)n;
    FAC_TRY(fac_function_apply(&twice, NULL, FAC_TENSORS(x), both));
    return fac_function_apply(&exponential, NULL, FAC_TENSORS(both[0]), out);
}

static void custom_function_of_samples_keeps_outputs_and_marks_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true), *out, *g, *second;
    assert_ok(fac_vmap(exp_of_twice, NULL, FAC_TENSORS(x), &out, 1));
    fac_tensor *want = fac_exp(fac_mul(x, 2.0)), *sum = fac_sum(out);
    assert_close(out, want);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g, .create_graph = true));
    assert_close(g, fac_mul(want, 2.0));
    sum = fac_sum(g);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &second)); /* through the output that was saved */
    assert_close(second, fac_mul(want, 4.0));
}

/* A rule of the user's: the same function of all samples; w gets dimensions between. */
static int rule_calls;
static fac_status weigh_vmap(void *user, int64_t batch_size, fac_ints in_dims, fac_tensors in, fac_tensor **out,
                             int64_t *out_dims) {
    fac_tensor *x = fac_movedim(in.v[0], in_dims.v[0], 0);
    if (!x) return fac_error();
    assert_int_equal(fac_tensor_size(x, 0), batch_size);
    fac_tensor *w = in_dims.v[1] == FAC_UNSET ? fac_expand_as(in.v[1], x) : fac_movedim(in.v[1], in_dims.v[1], 0);
    assert_true(out_dims[0] == 0 && !user);
    rule_calls++;
    FAC_TRY(fac_function_apply(&plain_weigh, user, FAC_TENSORS(x, w), out));
    out[0] = fac_movedim(out[0], 0, -1);
    out_dims[0] = -1;
    return fac_error();
}
static const fac_function ruled = {.name = "Ruled", .n_outputs = 1, .forward = weigh_forward, .vmap = weigh_vmap};

static fac_status wrong_vmap(void *user, int64_t batch_size, fac_ints in_dims, fac_tensors in, fac_tensor **out,
                             int64_t *out_dims) {
    (void)user, (void)batch_size, (void)in_dims, (void)out_dims;
    out[0] = fac_unsqueeze(fac_sum(in.v[0]), 0);
    return fac_error();
}
static fac_status failing_vmap(void *user, int64_t batch_size, fac_ints in_dims, fac_tensors in, fac_tensor **out,
                               int64_t *out_dims) {
    (void)user, (void)batch_size, (void)in_dims, (void)out_dims, (void)in, (void)out;
    return FAC_ERR_IO;
}
static fac_status empty_vmap(void *user, int64_t batch_size, fac_ints in_dims, fac_tensors in, fac_tensor **out,
                             int64_t *out_dims) {
    (void)user, (void)batch_size, (void)in_dims, (void)out_dims, (void)in, (void)out;
    return FAC_OK;
}

static void custom_function_brings_a_rule_of_its_own_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    rule_calls = 0;
    assert_mapped(weighed, &ruled, 1);
    assert_mapped(grad_of_weighed, &ruled, 2);
    assert_mapped(jvp_of_weighed, &ruled, 1);
    assert_int_equal(rule_calls, 3);
    const struct {
        fac_function fn;
        fac_status code;
        const char *text;
    } wrong[] = {
        {{.name = "Wrong", .n_outputs = 1, .forward = weigh_forward, .vmap = wrong_vmap},
         FAC_ERR_SHAPE,
         "gave output 0 of [1]"},
        {{.name = "Wrong", .n_outputs = 1, .forward = weigh_forward, .vmap = failing_vmap}, FAC_ERR_IO, "the vmap of"},
        {{.name = "Wrong", .n_outputs = 1, .forward = weigh_forward, .vmap = empty_vmap},
         FAC_ERR_ARGUMENT,
         "left output 0 unset"},
        {{.name = "Wrong", .n_outputs = 1, .forward = weigh_forward, .vmap = weigh_vmap, .generate_vmap_rule = true},
         FAC_ERR_ARGUMENT,
         "only one of them"},
    };
    fac_tensor *x = numbers(FAC_INTS(3, 2)), *w = numbers(FAC_INTS(2)), *out;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        void *fn = (void *)(uintptr_t)&wrong[i].fn;
        assert_int_equal(fac_vmap(weighed, fn, FAC_TENSORS(x, w), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)),
                         wrong[i].code);
        assert_error(wrong[i].code, wrong[i].text);
        assert_null(out);
    }
}

static fac_status weigh_all(void *context) {
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true), *w = numbers(FAC_INTS(2)), *out, *g;
    FAC_TRY(fac_vmap(weighed, context, FAC_TENSORS(x, w), &out, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    fac_tensor *loss = fac_sum(out);
    return fac_grad(FAC_TENSORS(loss), FAC_TENSORS(x), &g);
}

static void custom_function_of_samples_without_memory_leaves_nothing_S091(void **state) {
    (void)state;
    support_fail_each_allocation(weigh_all, (void *)(uintptr_t)&weigh);
    support_fail_each_allocation(weigh_all, (void *)(uintptr_t)&ruled);
}

/* ---- checkpoints -------------------------------------------------------------------------------------------------- */

static int runs;
static fac_tensor *sine(void *context, fac_tensors in) {
    (void)context;
    runs++;
    fac_tensor *y = fac_sin(fac_sin(in.v[0]));
    return in.n > 1 ? fac_mul(y, in.v[1]) : y;
}

static fac_status checkpointed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_checkpoint(sine, context, in);
    return fac_error();
}
static fac_status sum_of_checkpointed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(checkpointed(context, in, out, n));
    out[0] = fac_sum(out[0]);
    return fac_error();
}
static fac_status grad_of_checkpointed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(sum_of_checkpointed, context, in, out, .argnums = FAC_INTS(0, 1));
}
static fac_status pairs_of_checkpointed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    return fac_vmap(checkpointed, context, in, out, n, .in_dims = FAC_INTS(FAC_UNSET, 0));
}

static void checkpoint_in_vmap_runs_again_with_samples_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(2, 3)), true),
               *w = fac_set_requires_grad(numbers(FAC_INTS(2)), true);
    fac_tensor *out, *grads[2], *want[2];
    runs = 0;
    assert_ok(fac_vmap(checkpointed, NULL, FAC_TENSORS(x, w), &out, 1, .in_dims = FAC_INTS(1, FAC_UNSET)));
    fac_tensor *plain = fac_mul(fac_sin(fac_sin(fac_t(x))), w), *a = fac_sum(fac_mul(out, out)),
               *b = fac_sum(fac_mul(plain, plain));
    assert_close(out, plain);
    assert_ok(fac_grad(FAC_TENSORS(a), FAC_TENSORS(x, w), grads)); /* the vmap has ended */
    assert_int_equal(runs, 2);
    assert_ok(fac_grad(FAC_TENSORS(b), FAC_TENSORS(x, w), want));
    for (int k = 0; k < 2; k++) assert_close(grads[k], want[k]);
    fac_tensor *y = fac_detach(fac_t(x)), *u = fac_detach(w), *inner = fac_sin(y);
    assert_ok(fac_vmap(grad_of_checkpointed, NULL, FAC_TENSORS(y, u), grads, 2, .in_dims = FAC_INTS(0, FAC_UNSET)));
    assert_close(grads[0], fac_mul(fac_mul(fac_cos(inner), fac_cos(y)), u));
    assert_close(grads[1], fac_sin(inner));
    fac_tensor *us = numbers(FAC_INTS(4, 2));
    assert_ok(fac_vmap(pairs_of_checkpointed, NULL, FAC_TENSORS(x, us), &out, 1, .in_dims = FAC_INTS(1, FAC_UNSET)));
    assert_close(out, fac_mul(fac_unsqueeze(fac_sin(fac_sin(fac_t(x))), 1), us));
    a = fac_sum(out);
    assert_ok(fac_grad(FAC_TENSORS(a), FAC_TENSORS(x), grads));
    assert_close(fac_t(grads[0]), fac_mul(fac_mul(fac_cos(inner), fac_cos(y)), fac_sum(us, .dim = 0)));
    FAC_NO_GRAD(g);
    assert_ok(fac_vmap(checkpointed, NULL, FAC_TENSORS(fac_t(x)), &out, 1));
    assert_close(out, fac_sin(fac_sin(fac_t(x))));
}

/* The same numbers both times, for each sample its own. */
static fac_tensor *dropped(void *context, fac_tensors in) {
    (void)context;
    return fac_mul(fac_dropout(in.v[0], 0.5, true), in.v[0]);
}
static fac_status checkpoint_of_dropped(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_checkpoint(dropped, context, in);
    return fac_error();
}
static fac_tensor *of_captured(void *context, fac_tensors in) {
    return fac_sin(fac_mul(in.v[0], (fac_tensor *)context));
}
static fac_status checkpoint_of_captured(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_checkpoint(of_captured, in.v[0], in);
    return fac_error();
}

static void checkpoint_in_vmap_draws_the_same_and_captures_no_sample_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(fac_ones(FAC_INTS(8, 16), .dtype = FAC_F64), true), *out, *g;
    assert_ok(fac_vmap(checkpoint_of_dropped, NULL, FAC_TENSORS(x), &out, 1, .randomness = "different"));
    fac_tensor *sum = fac_sum(out);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &g));
    assert_close(g, fac_mul(out, 2.0)); /* of m x^2 at ones */
    assert_false(fac_equal(fac_select(fac_detach(out), 0, 0), fac_select(fac_detach(out), 0, 1)));
    assert_int_equal(fac_vmap(checkpoint_of_captured, NULL, FAC_TENSORS(x), &out, 1), FAC_ERR_STATE);
    assert_error(FAC_ERR_STATE, "out of sight");
}

static int packed;
static void *pack(void *context, fac_tensor *t) {
    (void)context;
    packed++;
    return fac_keep(t);
}
static fac_tensor *unpack(void *context, void *handle) {
    (void)context;
    return handle;
}
static void destroy(void *context, void *handle) {
    (void)context;
    fac_release(handle);
}

/* They see the values of all samples. */
static void saved_tensor_hooks_work_in_vmap_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const fac_saved_tensor_hooks hooks = {pack, unpack, destroy, NULL};
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(3, 2)), true), *out;
    packed = 0;
    fac_set_saved_tensor_hooks(&hooks);
    const fac_status st = fac_vmap(squares, NULL, FAC_TENSORS(x), &out, 1);
    fac_set_saved_tensor_hooks(NULL);
    assert_ok(st);
    assert_true(packed > 0);
    assert_ok(fac_backward(fac_sum(out)));
    assert_close(fac_grad_of(x), fac_mul(x, 2.0));
}

FAC_TEST_MAIN(FAC_TEST(vmap_of_add_equals_a_loop_S091), FAC_TEST(vmap_takes_the_dimensions_that_are_named_S091),
              FAC_TEST(vmap_expands_an_output_that_samples_share_S091), FAC_TEST(vmap_in_vmap_gives_all_pairs_S091),
              FAC_TEST(vmap_that_fails_leaves_no_level_open_S091), FAC_TEST(vmap_of_what_is_wrong_is_refused_S091),
              FAC_TEST(batched_tensor_that_outlives_its_vmap_is_an_error_S091),
              FAC_TEST(elements_of_samples_cannot_be_read_S091), FAC_TEST(samples_write_to_what_is_theirs_S091),
              FAC_TEST(writes_of_samples_reach_the_input_S091),
              FAC_TEST(samples_without_dimensions_behave_as_such_S091),
              FAC_TEST(solve_of_samples_knows_vectors_from_matrices_S091),
              FAC_TEST(random_numbers_of_samples_are_as_asked_for_S091),
              FAC_TEST(random_numbers_that_differ_do_not_fit_a_shared_tensor_S091),
              FAC_TEST(levels_decide_on_random_numbers_for_themselves_S091),
              FAC_TEST(vmap_in_chunks_frees_each_before_the_next_S091),
              FAC_TEST(gradients_of_cross_entropy_run_for_all_samples_at_once_S091),
              FAC_TEST(operator_without_a_rule_warns_once_S091), FAC_TEST(gradients_flow_through_vmap_S091),
              FAC_TEST(custom_function_in_vmap_is_refused_S091),
              FAC_TEST(custom_function_sees_samples_where_it_says_so_S091),
              FAC_TEST(custom_function_of_samples_is_recorded_S091),
              FAC_TEST(custom_function_of_samples_of_samples_S091),
              FAC_TEST(custom_function_of_samples_keeps_outputs_and_marks_S091),
              FAC_TEST(custom_function_brings_a_rule_of_its_own_S091),
              FAC_TEST(custom_function_of_samples_without_memory_leaves_nothing_S091),
              FAC_TEST(checkpoint_in_vmap_runs_again_with_samples_S091),
              FAC_TEST(checkpoint_in_vmap_draws_the_same_and_captures_no_sample_S091),
              FAC_TEST(saved_tensor_hooks_work_in_vmap_S091))
