/* Sparse tensors against strided ones and closed forms. */
#include "linalg_test.h"

#include <facula/facula.h>
#include <string.h>

/* ---- matrices to look at ---------------------------------------------------------------------------------------------- */

static const double cells[] = {0, 1.5, 0, 0, -2, 0, 0, 3, 0, 0, 0, 0.5};
static fac_tensor *matrix(void) { return fac_to_dtype(fac_tensor_from(cells, FAC_F64, FAC_INTS(3, 4)), FAC_F64); }
static fac_tensor *other(void) {
    static const double v[] = {1, 0, 0, 0, 4, 0, 2, 0, 0, 0, 0, -1};
    return fac_tensor_from(v, FAC_F64, FAC_INTS(3, 4));
}
static fac_tensor *indices_of(const int64_t *v, int64_t rows, int64_t n) {
    return fac_tensor_from(v, FAC_I64, FAC_INTS(rows, n));
}
static fac_tensor *reals(const double *v, int64_t n) { return fac_tensor_from(v, FAC_F64, FAC_INTS(n)); }
static fac_tensor *dense(fac_tensor *t) { return fac_to_dense(t); }
static void assert_same(fac_tensor *a, fac_tensor *b) {
    assert_no_error();
    assert_int_equal(fac_tensor_layout(a), FAC_STRIDED);
    assert_true(fac_equal(a, b));
    assert_no_error();
}
static fac_tensor *in_layout(fac_tensor *t, fac_layout l) {
    const bool blocks = l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC;
    fac_tensor *sparse =
        blocks ? fac_to_sparse(t, .layout = l, .blocksizes = FAC_INTS(1, 2)) : fac_to_sparse(t, .layout = l);
    assert_no_error();
    return sparse;
}
static const fac_layout layouts[] = {FAC_SPARSE_COO, FAC_SPARSE_CSR, FAC_SPARSE_CSC, FAC_SPARSE_BSR, FAC_SPARSE_BSC};

/* Coordinates out of order, one of them twice. */
static fac_tensor *uncoalesced(void) {
    static const int64_t at[] = {1, 0, 1, 2, 0, 1, 0, 3};
    static const double v[] = {1, 2, 10, 4};
    return fac_sparse_coo_tensor_indices_size(indices_of(at, 2, 4), reals(v, 4), FAC_INTS(3, 4));
}

/* ---- layouts -------------------------------------------------------------------------------------------------------------- */

static void S011_every_layout_gives_its_elements_back(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(layouts); i++)
        for (size_t k = 0; k < FAC_COUNT(layouts); k++) {
            FAC_SCOPE(s);
            fac_tensor *t = in_layout(matrix(), layouts[i]);
            assert_int_equal(fac_tensor_layout(t), layouts[i]);
            assert_same(dense(t), matrix());
            fac_tensor *turned = in_layout(t, layouts[k]);
            assert_int_equal(fac_tensor_layout(turned), layouts[k]);
            assert_same(dense(turned), matrix());
            if (layouts[i] < FAC_SPARSE_BSR) /* blocks hold zeros too */
                assert_true(fac_equal(turned, in_layout(matrix(), layouts[k])));
        }
}

static void S011_layout_takes_part_in_dispatch(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *coo = fac_to_sparse(matrix()), *csr = fac_to_sparse_csr(matrix());
    assert_true(fac_tensor_keys(coo) & fac_keyset_of(FAC_KEY_SPARSE));
    assert_true(fac_tensor_keys(csr) & fac_keyset_of(FAC_KEY_SPARSE_CSR));
    assert_false((fac_tensor_keys(coo) | fac_tensor_keys(csr)) & fac_keyset_of(FAC_KEY_DENSE));
    assert_null(fac_tensor_data(coo));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a sparse tensor");
    assert_null(fac_tensor_storage(coo));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a sparse tensor");
    assert_int_equal(fac_tensor_stride(coo, 0), 0);
    assert_error(FAC_ERR_UNSUPPORTED, "do not have strides");
    assert_null(fac_cos(coo));
    assert_error(FAC_ERR_UNSUPPORTED, "to_dense");
}

static void coalescing_sorts_and_adds(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {0, 1, 2, 1, 0, 3};
    static const double v[] = {2, 11, 4};
    fac_tensor *t = uncoalesced(), *c = fac_coalesce(t);
    assert_false(fac_is_coalesced(t));
    assert_true(fac_is_coalesced(c));
    assert_null(fac_values(t));
    assert_error(FAC_ERR_STATE, "uncoalesced");
    assert_same(fac_indices(c), indices_of(at, 2, 3));
    assert_same(fac_values(c), reals(v, 3));
    assert_ptr_equal(fac_coalesce(c), c);
    assert_same(dense(t), dense(c));
    assert_int_equal(fac_sparse_dim(c), 2);
    assert_int_equal(fac_dense_dim(c), 0);
}

static void S025_E14_zero_empties_and_marks_as_coalesced(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = uncoalesced();
    const int64_t version = fac_tensor_version(t);
    assert_ptr_equal(fac_zero_(t), t);
    assert_true(fac_is_coalesced(t));
    assert_int_equal(fac_tensor_size(fac_values(t), 0), 0);
    assert_int_equal(fac_tensor_size(fac_indices(t), 1), 0);
    assert_same(dense(t), fac_zeros(FAC_INTS(3, 4), .dtype = FAC_F64));
    assert_true(fac_tensor_version(t) > version);
    fac_tensor *csr = fac_to_sparse_csr(matrix());
    fac_zero_(csr);
    assert_same(dense(csr), fac_zeros(FAC_INTS(3, 4), .dtype = FAC_F64));
}

static void indices_are_looked_at(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t out[] = {0, 3, 0, 1}, below[] = {0, -1, 0, 1};
    static const double v[] = {1, 2};
    assert_null(fac_sparse_coo_tensor_indices_size(indices_of(out, 2, 2), reals(v, 2), FAC_INTS(3, 4)));
    assert_error(FAC_ERR_INDEX, "size is inconsistent with indices: for dim 0, size is 3 but found index 3");
    assert_null(fac_sparse_coo_tensor_indices_size(indices_of(below, 2, 2), reals(v, 2), FAC_INTS(3, 4)));
    assert_error(FAC_ERR_INDEX, "found negative index -1 for dim 0");
    assert_null(fac_sparse_coo_tensor_indices_size(indices_of(below, 2, 2), reals(v, 2), FAC_INTS(3, 4, 5)));
    assert_error(FAC_ERR_SHAPE, "number of dimensions must be sparse_dim (2) + dense_dim (0), but got 3");
    static const int64_t rows[] = {0, 1, 2}, columns[] = {1, 0}, twice[] = {0, 2, 2}, one[] = {1, 1};
    fac_tensor *a = fac_tensor_from(rows, FAC_I64, FAC_INTS(3)), *b = fac_tensor_from(columns, FAC_I64, FAC_INTS(2));
    assert_non_null(fac_sparse_csr_tensor_crow_col_value_size(a, b, reals(v, 2), FAC_INTS(2, 2)));
    assert_null(fac_sparse_csr_tensor_crow_col_value_size(a, b, reals(v, 2), FAC_INTS(2, 1)));
    assert_error(FAC_ERR_INDEX, "`0 <= col_indices < ncols` is not satisfied.");
    fac_tensor *d = fac_tensor_from(twice, FAC_I64, FAC_INTS(3)), *e = fac_tensor_from(one, FAC_I64, FAC_INTS(2));
    assert_null(fac_sparse_csr_tensor_crow_col_value_size(d, b, reals(v, 2), FAC_INTS(2, 2)));
    assert_error(FAC_ERR_ARGUMENT, "are sorted and distinct");
    assert_null(fac_sparse_csr_tensor_crow_col_value_size(d, e, reals(v, 2), FAC_INTS(2, 2)));
    assert_error(FAC_ERR_ARGUMENT, "are sorted and distinct");
    assert_null(fac_sparse_csr_tensor_crow_col_value_size(b, b, reals(v, 2), FAC_INTS(1, 2)));
    assert_error(FAC_ERR_ARGUMENT, "`crow_indices[..., 0] == 0` is not satisfied.");
}

/* ---- arithmetic ----------------------------------------------------------------------------------------------------------- */

static void S108_sub_and_add_agree_with_strided(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(layouts); i++) {
        FAC_SCOPE(s);
        fac_tensor *a = in_layout(matrix(), layouts[i]), *b = in_layout(other(), layouts[i]);
        assert_same(dense(fac_sub(a, b, .alpha = 2)), fac_sub(matrix(), other(), .alpha = 2));
        assert_same(dense(fac_add(a, b, .alpha = -3)), fac_add(matrix(), other(), .alpha = -3));
        assert_same(fac_sub(matrix(), b, .alpha = 0.5), fac_sub(matrix(), other(), .alpha = 0.5));
        assert_same(fac_add(a, other()), fac_add(matrix(), other()));
        assert_same(dense(fac_mul(a, b)), fac_mul(matrix(), other()));
        assert_same(dense(fac_mul(a, other())), fac_mul(matrix(), other()));
        assert_same(dense(fac_mul(a, 2.5)), fac_mul(matrix(), 2.5));
        assert_same(dense(fac_div(a, 4)), fac_div(matrix(), 4));
        assert_int_equal(fac_tensor_layout(fac_add(a, b)), layouts[i]);
    }
}

static void S108_forms_in_place_and_out_change_what_is_given(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_to_sparse(matrix()), *b = fac_to_sparse(other()),
               *out = fac_sparse_coo_tensor_size(FAC_INTS(3, 4), .dtype = FAC_F64);
    assert_ptr_equal(fac_sub_out(out, a, b, .alpha = 2), out);
    assert_same(dense(out), fac_sub(matrix(), other(), .alpha = 2));
    assert_ptr_equal(fac_sub_(a, b), a);
    assert_same(dense(a), fac_sub(matrix(), other()));
    assert_ptr_equal(fac_mul_(a, -2), a);
    assert_same(dense(a), fac_mul(fac_sub(matrix(), other()), -2));
    fac_tensor *strided = matrix();
    assert_ptr_equal(fac_add_(strided, b, .alpha = 3), strided);
    assert_same(strided, fac_add(matrix(), other(), .alpha = 3));
    assert_null(fac_copy_(strided, b));
    assert_error(FAC_ERR_UNSUPPORTED, "to_dense");
}

static void functions_that_keep_zeros_change_values_alone(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = uncoalesced(), *d = dense(t);
    assert_same(dense(fac_abs(t)), fac_abs(d));
    assert_same(dense(fac_sqrt(t)), fac_sqrt(d));
    assert_same(dense(fac_neg(t)), fac_neg(d));
    assert_same(dense(fac_sin(t)), fac_sin(d));
    assert_same(dense(fac_relu(fac_neg(t))), fac_relu(fac_neg(d)));
    assert_same(dense(fac_pow(t, 2)), fac_pow(d, 2));
    assert_same(dense(fac_clamp(t, .min = -1, .max = 3)), fac_clamp(d, .min = -1, .max = 3));
    assert_same(dense(fac_isnan(t)), fac_isnan(d));
    assert_null(fac_clamp(t, .min = 1, .max = 3));
    assert_error(FAC_ERR_UNSUPPORTED, "zero");
    assert_null(fac_pow(t, -1));
    assert_error(FAC_ERR_UNSUPPORTED, "zero");
    assert_null(fac_exp(t));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::exp' does not take tensors of the layout sparse_coo");
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

static void products_agree_with_strided(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *right = fac_t(other()), *v = fac_select(fac_t(matrix()), 1, 1);
    for (size_t i = 0; i < FAC_COUNT(layouts); i++) {
        FAC_SCOPE(s);
        fac_tensor *a = in_layout(matrix(), layouts[i]), *b = fac_t(in_layout(other(), layouts[i]));
        fac_tensor *want = fac_mm(matrix(), right);
        assert_same(fac_mm(a, right), want);
        assert_same(fac_mm(matrix(), b), want);
        assert_same(dense(fac_mm(a, b)), want);
        assert_same(fac_matmul(a, right), want);
        assert_same(fac_mv(a, v), fac_mv(matrix(), v));
        assert_same(fac_addmm(want, a, right, .beta = 2, .alpha = 0.5),
                    fac_addmm(want, matrix(), right, .beta = 2, .alpha = 0.5));
    }
}

static fac_status reduced_product_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_sparse_mm_reduce(in.v[0], in.v[1], context);
    return fac_error();
}

/* The terms of each row by a loop; the second row has none. */
static void products_are_reduced_by_sum_mean_or_extreme(void **state) {
    (void)state;
    static const char *const how[] = {"sum", "mean", "amax", "amin"};
    static const double a[] = {1, 0, 2, 0, 0, 0, 3, -4, 0, 0, 0, -1};
    enum { N = 4, M = 3, P = 2 };
    for (size_t r = 0; r < FAC_COUNT(how); r++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_tensor_from(a, FAC_F64, FAC_INTS(N, M)), *y = RANDOM(M, P);
        double *b = numbers(y), want[N * P] = {0};
        for (int i = 0; i < N; i++)
            for (int j = 0; j < P; j++) {
                double sum = 0, most = -INFINITY, least = INFINITY;
                int terms = 0;
                for (int k = 0; k < M; k++) {
                    if (a[i * M + k] == 0) continue;
                    const double term = a[i * M + k] * b[k * P + j];
                    terms++, sum += term, most = fmax(most, term), least = fmin(least, term);
                }
                const double results[] = {sum, sum / (terms ? terms : 1), most, least};
                if (terms) want[i * P + j] = results[r];
            }
        free(b);
        assert_close(fac_sparse_mm_reduce(fac_to_sparse_csr(x), y, how[r]),
                     fac_tensor_from(want, FAC_F64, FAC_INTS(N, P)));
        fac_tensor *leaf = fac_set_requires_grad(fac_to_sparse_csr(x), true);
        fac_set_requires_grad(y, true);
        assert_ok(fac_gradcheck(reduced_product_of, (void *)(uintptr_t)how[r], FAC_TENSORS(leaf, y), 1));
        fac_tensor *halves = fac_sparse_mm_reduce(fac_to_sparse_csr(fac_to_dtype(x, FAC_F16)),
                                                  fac_to_dtype(fac_detach(y), FAC_F16), how[r]);
        assert_near(fac_to_dtype(halves, FAC_F64), fac_tensor_from(want, FAC_F64, FAC_INTS(N, P)), 2e-3);
        fac_tensor *none = fac_to_sparse_csr(fac_zeros(FAC_INTS(2, M), .dtype = FAC_F64));
        assert_close(fac_sparse_mm_reduce(none, y, how[r]), fac_zeros(FAC_INTS(2, P), .dtype = FAC_F64));
    }
    FAC_SCOPE(s);
    fac_tensor *x = fac_to_sparse_csr(matrix()), *y = RANDOM(4, 2), *grad;
    assert_null(fac_sparse_mm_reduce(x, y, "prod"));
    assert_error(FAC_ERR_ARGUMENT, "one of sum, mean, amax or amin but got prod");
    assert_null(fac_sparse_mm_reduce(fac_to_sparse(matrix()), y, "sum"));
    assert_error(FAC_ERR_UNSUPPORTED, "CSR");
    assert_null(fac_sparse_mm_reduce(x, RANDOM(3, 2), "sum"));
    assert_error(FAC_ERR_SHAPE, "cannot be multiplied");
    /* The first of equal terms has the gradient. */
    static const double ones[] = {1, 1, 1};
    y = fac_set_requires_grad(fac_ones(FAC_INTS(3, 1), .dtype = FAC_F64), true);
    x = fac_sparse_mm_reduce(fac_to_sparse_csr(fac_tensor_from(ones, FAC_F64, FAC_INTS(1, 3))), y, "amax");
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(x)), FAC_TENSORS(y), &grad));
    static const double first[] = {1, 0, 0};
    assert_close(grad, fac_tensor_from(first, FAC_F64, FAC_INTS(3, 1)));
}

static void S178_bmm_takes_sparse_batches(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_stack(FAC_TENSORS(matrix(), other())),
               *b = fac_transpose(fac_stack(FAC_TENSORS(other(), matrix())), 1, 2);
    fac_tensor *want = fac_bmm(a, b);
    assert_same(fac_bmm(fac_to_sparse(a), b), want);
    assert_same(fac_bmm(a, fac_to_sparse(b)), want);
}

static void sampled_products_keep_the_pattern(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *m = fac_to_sparse_csr(matrix()), *a = fac_mm(matrix(), fac_t(other())), *b = other();
    fac_tensor *want = fac_mul(fac_add(fac_mul(matrix(), 2), fac_mul(fac_mm(a, b), 3)), fac_ne(matrix(), 0));
    fac_tensor *got = fac_sparse_sampled_addmm(m, a, b, .beta = 2, .alpha = 3);
    assert_int_equal(fac_tensor_layout(got), FAC_SPARSE_CSR);
    assert_same(dense(got), want);
    fac_tensor *into = fac_zeros_like(m); /* a CSR tensor takes the result */
    assert_non_null(fac_sparse_sampled_addmm_out(into, m, a, b, .beta = 2, .alpha = 3));
    assert_same(dense(into), want);
    for (int sides = 2; sides <= 3; sides++) { /* products of no terms are zero */
        fac_tensor *t = sides == 2 ? matrix() : fac_unsqueeze(matrix(), 0), *csr = fac_to_sparse_csr(t);
        fac_tensor *p = fac_sparse_sampled_addmm(csr, fac_narrow(t, -1, 0, 0), fac_narrow(t, -2, 0, 0), .beta = 2);
        assert_same(dense(p), fac_mul(t, 2));
    }
    fac_tensor *c = fac_to_sparse(a);
    assert_same(dense(fac_sspaddmm(c, fac_to_sparse(matrix()), fac_t(other()), .beta = 2, .alpha = 3)),
                fac_addmm(a, matrix(), fac_t(other()), .beta = 2, .alpha = 3));
    assert_same(dense(fac_hspmm(fac_to_sparse(matrix()), fac_t(other()))), fac_mm(matrix(), fac_t(other())));
}

static fac_status product_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mm(fac_mul(in.v[0], 2), in.v[1]);
    return fac_error();
}

static fac_status chain_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(fac_add(in.v[0], in.v[1]), in.v[1]);
    return fac_error();
}

static fac_status softmax_of(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    fac_value args[] = {fac_value_tensor(in.v[0]), fac_value_int(*(int *)context)}, result = fac_value_none();
    (void)!fac_call("aten::_sparse_softmax.int", args, 2, &result);
    fac_value_release(&args[0]);
    if (fac_error() == FAC_OK) out[0] = fac_alias(fac_value_as_tensor(result));
    fac_value_release(&result);
    return fac_error();
}

static void gradients_of_sparse_inputs_are_those_of_their_values(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(layouts); i++) {
        FAC_SCOPE(s);
        fac_tensor *a = fac_set_requires_grad(in_layout(matrix(), layouts[i]), true),
                   *b = fac_set_requires_grad(fac_t(other()), true);
        assert_ok(fac_gradcheck(product_of, NULL, FAC_TENSORS(a, b), 1));
        fac_tensor *c = fac_set_requires_grad(in_layout(fac_add(matrix(), other()), layouts[i]), true);
        fac_tensor *d = fac_set_requires_grad(fac_clone(fac_detach(c)), true);
        assert_ok(fac_gradcheck(chain_of, NULL, FAC_TENSORS(c, d), 1));
    }
    for (int dim = 0; dim < 2; dim++) {
        FAC_SCOPE(s);
        fac_tensor *a = fac_set_requires_grad(fac_to_sparse(matrix()), true);
        assert_ok(fac_gradcheck(softmax_of, &dim, FAC_TENSORS(a), 1));
    }
}

/* ---- reductions and shapes ---------------------------------------------------------------------------------------------------- */

static void sums_agree_with_strided(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = uncoalesced(), *d = dense(t);
    assert_same(fac_sum(t), fac_sum(d));
    assert_same(dense(fac_sum(t, 0)), fac_sum(d, 0));
    assert_same(dense(fac_sum(t, 1, true)), fac_sum(d, 1, true));
    assert_same(fac_sum(t, .dims = FAC_INTS(0, 1)), fac_sum(d));
    fac_tensor *rows = fac_to_sparse_sparse_dim(d, 1);
    assert_int_equal(fac_dense_dim(rows), 1);
    assert_same(fac_sum(rows, 0), fac_sum(d, 0));
    assert_same(dense(fac_sum(rows, 1)), fac_sum(d, 1));
    assert_near(fac_norm(t), fac_norm(d), 1e-15);
}

static void shapes_agree_with_strided(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = uncoalesced(), *d = dense(t);
    static const int64_t at[] = {2, 0, 2};
    fac_tensor *index = fac_tensor_from(at, FAC_I64, FAC_INTS(3));
    assert_same(dense(fac_t(t)), fac_t(d));
    assert_same(dense(fac_unsqueeze(t, 1)), fac_unsqueeze(d, 1));
    assert_same(dense(fac_permute(fac_unsqueeze(t, 0), FAC_INTS(2, 0, 1))),
                fac_permute(fac_unsqueeze(d, 0), FAC_INTS(2, 0, 1)));
    assert_same(dense(fac_select(t, 0, 1)), fac_select(d, 0, 1));
    assert_same(dense(fac_narrow(t, 1, 1, 3)), fac_narrow(d, 1, 1, 3));
    assert_same(dense(fac_index_select(t, 0, index)), fac_index_select(d, 0, index));
    assert_same(dense(fac_index_select(t, 1, index)), fac_index_select(d, 1, index));
    assert_same(dense(fac_cat(FAC_TENSORS(t, fac_to_sparse(d)))), fac_cat(FAC_TENSORS(d, d)));
    assert_same(dense(fac_cat(FAC_TENSORS(t, t), .dim = 1)), fac_cat(FAC_TENSORS(d, d), .dim = 1));
    fac_tensor *rows = fac_to_sparse_sparse_dim(d, 1);
    assert_same(dense(fac_cat(FAC_TENSORS(rows, rows), .dim = 1)), fac_cat(FAC_TENSORS(d, d), .dim = 1));
    assert_same(dense(fac_select(rows, 1, 3)), fac_select(d, 1, 3));
    assert_same(fac_select(rows, 0, 1), fac_select(d, 0, 1));
    assert_null(fac_transpose(rows, 0, 1));
    assert_error(FAC_ERR_UNSUPPORTED, "to_dense");
}

/* ---- gradients --------------------------------------------------------------------------------------------------------------------- */

static void gradients_of_sparse_leaves_have_their_pattern(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = fac_set_requires_grad(fac_to_sparse(matrix()), true),
               *b = fac_set_requires_grad(fac_t(other()), true);
    fac_tensor *y = fac_mm(a, b);
    assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
    fac_tensor *d = fac_set_requires_grad(matrix(), true), *e = fac_set_requires_grad(fac_t(other()), true),
               *z = fac_mm(d, e);
    assert_ok(fac_backward(fac_sum(fac_mul(z, z))));
    assert_int_equal(fac_tensor_layout(fac_grad_of(a)), FAC_SPARSE_COO);
    assert_near(dense(fac_grad_of(a)), fac_mul(fac_grad_of(d), fac_ne(matrix(), 0)), 1e-14);
    assert_near(fac_grad_of(b), fac_grad_of(e), 1e-14);
}

static void gradients_pass_through_layouts(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (size_t i = 0; i < FAC_COUNT(layouts); i++) {
        FAC_SCOPE(s);
        fac_tensor *d = fac_set_requires_grad(matrix(), true);
        fac_tensor *back = dense(fac_mul(in_layout(d, layouts[i]), 3));
        assert_ok(fac_backward(fac_sum(fac_mul(back, back))));
        assert_near(fac_grad_of(d), fac_mul(matrix(), 18), 1e-14);
    }
}

static void values_have_a_gradient(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {1, 0, 1, 2, 0, 1, 0, 3};
    static const double v[] = {1, 2, 10, 4}, want[] = {22, 4, 22, 8};
    fac_tensor *values = fac_set_requires_grad(reals(v, 4), true);
    fac_tensor *t = fac_sparse_coo_tensor_indices_size(indices_of(at, 2, 4), values, FAC_INTS(3, 4));
    fac_tensor *c = fac_values(fac_coalesce(t));
    assert_ok(fac_backward(fac_sum(fac_mul(c, c))));
    assert_same(fac_grad_of(values), reals(want, 4));
}

static void embedding_gives_sparse_gradients_that_accumulate(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {2, 0, 2};
    fac_tensor *weight = fac_set_requires_grad(fac_ones(FAC_INTS(4, 3), .dtype = FAC_F64), true);
    fac_tensor *index = fac_tensor_from(at, FAC_I64, FAC_INTS(3));
    for (int i = 0; i < 2; i++)
        assert_ok(fac_backward(fac_sum(fac_mul(fac_embedding(weight, index, .sparse = true), 2))));
    fac_tensor *grad = fac_grad_of(weight),
               *plain = fac_set_requires_grad(fac_ones(FAC_INTS(4, 3), .dtype = FAC_F64), true);
    assert_int_equal(fac_tensor_layout(grad), FAC_SPARSE_COO);
    for (int i = 0; i < 2; i++) assert_ok(fac_backward(fac_sum(fac_mul(fac_embedding(plain, index), 2))));
    assert_same(dense(grad), fac_grad_of(plain));
    assert_ok(fac_backward(fac_sum(weight)));
    assert_same(fac_grad_of(weight), fac_add(fac_grad_of(plain), 1));
}

static void sgd_takes_sparse_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {2, 0, 2};
    fac_tensor *start = fac_to_dtype(fac_reshape(fac_arange(12), FAC_INTS(4, 3)), FAC_F64);
    fac_tensor *weight = fac_set_requires_grad(fac_clone(start), true),
               *plain = fac_set_requires_grad(fac_clone(start), true);
    fac_tensor *index = fac_tensor_from(at, FAC_I64, FAC_INTS(3));
    fac_optimizer *a = fac_sgd_of(FAC_TENSORS(weight), 0.5), *b = fac_sgd_of(FAC_TENSORS(plain), 0.5);
    for (int i = 0; i < 3; i++) {
        fac_optimizer_zero_grad(a), fac_optimizer_zero_grad(b);
        fac_tensor *x = fac_embedding(weight, index, .sparse = true), *y = fac_embedding(plain, index);
        assert_ok(fac_backward(fac_sum(fac_mul(x, x))));
        assert_ok(fac_backward(fac_sum(fac_mul(y, y))));
        assert_ok(fac_optimizer_step(a));
        assert_ok(fac_optimizer_step(b));
    }
    assert_near(fac_detach(weight), fac_detach(plain), 1e-14);
    fac_optimizer_release(a), fac_optimizer_release(b);
}

/* A parameter, one with a sparse gradient and another: none may change. */
static void steps_that_refuse_sparse_gradients_change_nothing(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {1, 1, 3};
    fac_tensor *index = fac_tensor_from(at, FAC_I64, FAC_INTS(3));
    for (int k = 0; k < 4; k++) {
        fac_tensor *a = fac_set_requires_grad(fac_ones(FAC_INTS(2)), true),
                   *w = fac_set_requires_grad(fac_ones(FAC_INTS(4, 2)), true);
        const fac_tensors both = FAC_TENSORS(a, w);
        fac_optimizer *o = k == 0   ? fac_adam_of(both, 0.1)
                           : k == 1 ? fac_adamw_of(both, 0.1)
                           : k == 2 ? fac_sgd_of(both, 0.1, .momentum = 0.9)
                                    : fac_sgd_of(both, 0.1, .weight_decay = 0.1);
        assert_ok(fac_backward(fac_add(fac_sum(fac_embedding(w, index, .sparse = true)), fac_sum(a))));
        assert_int_equal(fac_optimizer_step(o), FAC_ERR_UNSUPPORTED);
        assert_error(FAC_ERR_UNSUPPORTED, "sparse gradients");
        assert_same(fac_detach(a), fac_ones(FAC_INTS(2)));
        assert_same(fac_detach(w), fac_ones(FAC_INTS(4, 2)));
        fac_optimizer_release(o);
    }
}

static void products_without_elements_have_the_common_dtype(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *none = fac_to_sparse(fac_zeros(FAC_INTS(2, 3)));
    fac_tensor *wide = fac_ones(FAC_INTS(2, 3), .dtype = FAC_F64);
    assert_int_equal(fac_tensor_dtype(fac_mul(none, wide)), FAC_F64);
    assert_int_equal(fac_tensor_dtype(fac_mul(wide, none)), FAC_F64);
    assert_int_equal(fac_tensor_dtype(fac_mul(none, fac_ones(FAC_INTS(2, 3), .dtype = FAC_I64))), FAC_F32);
}

static void handles_take_other_data_and_files_refuse(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = uncoalesced(), *d = dense(t), *single = fac_to_dtype(t, FAC_F32);
    assert_int_equal(fac_tensor_layout(single), FAC_SPARSE_COO);
    assert_ok(fac_set_data(t, single));
    assert_int_equal(fac_tensor_dtype(t), FAC_F32);
    assert_same(dense(t), fac_to_dtype(d, FAC_F32));
    assert_int_equal(fac_set_data(t, d), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "one layout");
    const fac_named_tensor named = {"w", t};
    assert_int_equal(fac_safetensors_save("sparse.safetensors", &named, 1, NULL, 0), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "to_dense");
    double v[12];
    assert_int_equal(fac_tensor_read(t, FAC_F64, v, 12), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "make it dense first");
}

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *big = random_of(FAC_F32, FAC_INTS(300, 400)), *right = random_of(FAC_F32, FAC_INTS(400, 70));
    fac_tensor *t = fac_to_sparse_csr(fac_mul(big, fac_gt(big, 0.7))), *want = fac_mm(dense(t), right), *one = NULL;
    const int threads = fac_num_threads();
    for (int n = 1; n <= 4; n++) {
        assert_ok(fac_set_num_threads(n));
        fac_tensor *got = fac_mm(t, right);
        assert_near(got, want, 1e-5);
        if (one) assert_same(got, one);
        one = got;
    }
    assert_ok(fac_set_num_threads(threads));
}

/* Blocks as tall as the loops' four rows, taller, lower and of no round size, by rows and by columns, on either side. */
static void products_of_blocks_agree_with_strided(void **state) {
    (void)state;
    static const int64_t blocks[][2] = {{1, 1}, {1, 3}, {2, 1}, {4, 4}, {5, 2}, {8, 3}, {12, 12}, {40, 24}};
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I32, FAC_C64};
    static const int64_t columns[] = {1, 3, 16, 70};
    for (size_t i = 0; i < FAC_COUNT(blocks) * FAC_COUNT(dtypes) * FAC_COUNT(columns); i++) {
        FAC_SCOPE(s);
        const int64_t *block = blocks[i / FAC_COUNT(columns) % FAC_COUNT(blocks)], n = columns[i % FAC_COUNT(columns)];
        const fac_dtype d = dtypes[i / FAC_COUNT(columns) / FAC_COUNT(blocks)];
        fac_tensor *a = fac_to_dtype(fac_round(fac_mul(random_of(FAC_F32, FAC_INTS(120, 72)), 3)), d);
        fac_tensor *few = fac_mul(a, fac_gt(random_of(FAC_F32, FAC_INTS(120, 72)), 0.8));
        fac_tensor *b = fac_to_dtype(fac_round(fac_mul(random_of(FAC_F32, FAC_INTS(72, n)), 3)), d);
        fac_tensor *rows = fac_to_sparse(few, .layout = FAC_SPARSE_BSR, .blocksizes = FAC_INTS(block[0], block[1])),
                   *lines = fac_to_sparse(few, .layout = FAC_SPARSE_BSC, .blocksizes = FAC_INTS(block[0], block[1])),
                   *want = fac_mm(few, b);
        assert_same(fac_mm(rows, b), want);
        assert_same(fac_mm(lines, b), want);
        assert_same(fac_mm(fac_t(b), fac_t(rows)), fac_t(want));
    }
}

/* ---- text ---------------------------------------------------------------------------------------------------------------------- */

static void text_is_that_of_pytorch(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    char *text = fac_tensor_string(fac_to_dtype(fac_to_sparse(matrix()), FAC_F32));
    assert_no_error();
    assert_string_equal(text, "tensor(indices=tensor([[0, 1, 1, 2],\n"
                              "                       [1, 0, 3, 3]]),\n"
                              "       values=tensor([ 1.5000, -2.0000,  3.0000,  0.5000]),\n"
                              "       size=(3, 4), nnz=4, layout=torch.sparse_coo)");
    fac_string_free(text);
    text = fac_tensor_string(fac_to_sparse_csr(matrix()));
    assert_string_equal(text, "tensor(crow_indices=tensor([0, 1, 3, 4]),\n"
                              "       col_indices=tensor([1, 0, 3, 3]),\n"
                              "       values=tensor([ 1.5000, -2.0000,  3.0000,  0.5000]), size=(3, 4), nnz=4,\n"
                              "       dtype=torch.float64, layout=torch.sparse_csr)");
    fac_string_free(text);
}

FAC_TEST_MAIN(FAC_TEST(S011_every_layout_gives_its_elements_back), FAC_TEST(S011_layout_takes_part_in_dispatch),
              FAC_TEST(coalescing_sorts_and_adds), FAC_TEST(S025_E14_zero_empties_and_marks_as_coalesced),
              FAC_TEST(indices_are_looked_at), FAC_TEST(S108_sub_and_add_agree_with_strided),
              FAC_TEST(S108_forms_in_place_and_out_change_what_is_given),
              FAC_TEST(functions_that_keep_zeros_change_values_alone), FAC_TEST(products_agree_with_strided),
              FAC_TEST(products_are_reduced_by_sum_mean_or_extreme), FAC_TEST(S178_bmm_takes_sparse_batches),
              FAC_TEST(sampled_products_keep_the_pattern),
              FAC_TEST(gradients_of_sparse_inputs_are_those_of_their_values), FAC_TEST(sums_agree_with_strided),
              FAC_TEST(shapes_agree_with_strided), FAC_TEST(gradients_of_sparse_leaves_have_their_pattern),
              FAC_TEST(gradients_pass_through_layouts), FAC_TEST(values_have_a_gradient),
              FAC_TEST(embedding_gives_sparse_gradients_that_accumulate), FAC_TEST(sgd_takes_sparse_gradients),
              FAC_TEST(steps_that_refuse_sparse_gradients_change_nothing),
              FAC_TEST(products_without_elements_have_the_common_dtype),
              FAC_TEST(handles_take_other_data_and_files_refuse), FAC_TEST(bits_do_not_depend_on_threads),
              FAC_TEST(products_of_blocks_agree_with_strided), FAC_TEST(text_is_that_of_pytorch))
