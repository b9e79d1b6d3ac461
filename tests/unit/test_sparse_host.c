/* Loops over the parts of sparse tensors on the host, against strided tensors and plain loops; parts that no check has seen. */
#include "linalg_test.h"

#include <facula/facula.h>
#include <string.h>

static fac_tensor *i64(const int64_t *v, int64_t n) { return fac_tensor_from(v, FAC_I64, FAC_INTS(n)); }
static fac_tensor *f64(const double *v, int64_t n) { return fac_tensor_from(v, FAC_F64, FAC_INTS(n)); }

static void same_(fac_tensor *a, fac_tensor *b, const char *file, int line) {
    support_no_error(file, line);
    const bool equal = fac_equal(a, b);
    support_no_error(file, line);
    if (!equal) _fail(file, line);
}
#define assert_same(a, b) same_((a), (b), __FILE__, __LINE__)

/* Whole numbers, so that sums are exact whatever their order; `share` of them is there. */
static fac_tensor *holes(fac_dtype dtype, double share, fac_ints sizes) {
    fac_tensor *v = fac_round(fac_mul(random_of(FAC_F64, sizes), 20)),
               *kept = fac_lt(fac_abs(random_of(FAC_F64, sizes)), share);
    return fac_to_dtype(fac_mul(v, kept), dtype);
}

static fac_tensor *called(const char *name, fac_value *args, size_t n) {
    fac_value result = fac_value_none();
    fac_tensor *t = NULL;
    (void)!fac_call(name, args, n, &result);
    for (size_t i = 0; i < n; i++) fac_value_release(&args[i]);
    if (fac_error() == FAC_OK) t = fac_alias(fac_value_as_tensor(result));
    fac_value_release(&result);
    return t;
}

/* Parts that nobody looks at. */
static fac_tensor *unchecked_csr(fac_tensor *begin, fac_tensor *columns, fac_tensor *values, fac_ints size) {
    fac_value args[] = {fac_value_tensor(begin), fac_value_tensor(columns), fac_value_tensor(values),
                        fac_value_ints(size.v, size.n)};
    return called("aten::_sparse_csr_tensor_unsafe", args, 4);
}

static fac_tensor *unchecked_coo(fac_tensor *indices, fac_tensor *values, fac_ints size, bool coalesced) {
    fac_value args[] = {fac_value_tensor(indices), fac_value_tensor(values), fac_value_ints(size.v, size.n)};
    fac_tensor *t = called("aten::_sparse_coo_tensor_unsafe", args, 3);
    if (!t || !coalesced) return t;
    fac_value mark[] = {fac_value_tensor(t), fac_value_bool(true)};
    return called("aten::_coalesced", mark, 2);
}

static fac_tensor *reduced(const char *name, fac_tensor *t, fac_ints dims) {
    fac_value args[] = {fac_value_tensor(t), fac_value_ints(dims.v, dims.n), fac_value_bool(true)};
    return called(name, args, 3);
}

static fac_tensor *softmax(const char *name, fac_tensor *t, int64_t dim) {
    fac_value args[] = {fac_value_tensor(t), fac_value_int(dim)};
    return called(name, args, 2);
}

static const fac_layout layouts[] = {FAC_SPARSE_COO, FAC_SPARSE_CSR, FAC_SPARSE_CSC, FAC_SPARSE_BSR, FAC_SPARSE_BSC};
static bool has_blocks(fac_layout l) { return l == FAC_SPARSE_BSR || l == FAC_SPARSE_BSC; }
static fac_tensor *in_layout(fac_tensor *t, fac_layout l) {
    return has_blocks(l) ? fac_to_sparse(t, .layout = l, .blocksizes = FAC_INTS(2, 3)) : fac_to_sparse(t, .layout = l);
}

/* ---- to sparse ------------------------------------------------------------------------------------------------------------ */

static void elements_are_found_in_order_whatever_the_width(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_U8,  FAC_I16, FAC_F16, FAC_F32,
                                       FAC_I64,  FAC_F64, FAC_C64, FAC_C128};
    static const int64_t widths[] = {0, 1, 7, 8, 63, 64, 65, 130, 600};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t i = 0; i < FAC_COUNT(widths); i++) {
            FAC_SCOPE(s);
            fac_tensor *t = holes(dtypes[d], i % 2 ? 0.3 : 0.9, FAC_INTS(5, widths[i])), *coo = fac_to_sparse(t);
            assert_no_error();
            assert_true(fac_is_coalesced(coo));
            fac_tensor *at = fac_nonzero(t);
            assert_same(fac_indices(coo), fac_t(at));
            assert_same(fac_values(coo), fac_masked_select(t, fac_ne(t, 0)));
            assert_same(fac_to_dense(coo), t);
            fac_tensor *cube = fac_to_sparse(fac_unsqueeze(t, 1));
            assert_same(fac_to_dense(cube), fac_unsqueeze(t, 1));
            if (!widths[i]) continue;
            fac_tensor *rows = fac_to_sparse_sparse_dim(t, 1);
            assert_int_equal(fac_dense_dim(rows), 1);
            assert_same(fac_to_dense(rows), t);
        }
}

static void minus_zero_is_no_element_and_nan_is(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const double v[] = {-0.0, NAN, 0, INFINITY, -0.0, -1};
    static const int64_t at[] = {0, 1, 1, 1, 0, 2};
    fac_tensor *coo = fac_to_sparse(fac_tensor_from(v, FAC_F64, FAC_INTS(2, 3)));
    assert_same(fac_indices(coo), fac_tensor_from(at, FAC_I64, FAC_INTS(2, 3)));
}

static void strided_tensors_become_blocks_and_lines_as_coordinates_do(void **state) {
    (void)state;
    for (size_t i = 1; i < FAC_COUNT(layouts); i++)
        for (int k = 0; k < 3; k++) {
            FAC_SCOPE(s);
            const fac_layout l = layouts[i];
            fac_tensor *t = holes(FAC_F32, 0.2, FAC_INTS(8, 9));
            if (k == 1) t = fac_t(holes(FAC_F32, 0.2, FAC_INTS(9, 8)));
            if (k == 2) t = fac_ones(FAC_INTS(2, 4, 6));
            fac_tensor *here = in_layout(t, l), *coo = in_layout(fac_to_sparse(t), l);
            assert_no_error();
            assert_same(fac_to_dense(here), t);
            assert_same(fac_values(here), fac_values(coo));
            const bool rows = l == FAC_SPARSE_CSR || l == FAC_SPARSE_BSR;
            assert_same(rows ? fac_crow_indices(here) : fac_ccol_indices(here),
                        rows ? fac_crow_indices(coo) : fac_ccol_indices(coo));
            assert_same(rows ? fac_col_indices(here) : fac_row_indices(here),
                        rows ? fac_col_indices(coo) : fac_row_indices(coo));
        }
    for (size_t i = 0; i < FAC_COUNT(layouts); i++)
        for (size_t k = 0; k < FAC_COUNT(layouts); k++) {
            FAC_SCOPE(s);
            fac_tensor *t = holes(FAC_F32, 0.2, FAC_INTS(8, 9)), *from = in_layout(t, layouts[i]),
                       *to = in_layout(from, layouts[k]);
            assert_int_equal(fac_tensor_layout(to), layouts[k]);
            assert_same(fac_to_dense(to), t);
            fac_tensor *x = holes(FAC_F32, 2, FAC_INTS(9, 5));
            assert_same(fac_mm(from, x), fac_mm(t, x));
            if (layouts[k] == FAC_SPARSE_COO) assert_same(to, fac_coalesce(to));
            fac_tensor *cube = holes(FAC_F64, 0.3, FAC_INTS(4, 6, 2));
            from = has_blocks(layouts[i])
                       ? fac_to_sparse(cube, .layout = layouts[i], .dense_dim = 1, .blocksizes = FAC_INTS(2, 3))
                       : fac_to_sparse(cube, .layout = layouts[i], .dense_dim = 1);
            assert_same(fac_to_dense(from), cube);
            assert_same(fac_to_dense(fac_to_sparse(from)), cube);
        }
    FAC_SCOPE(s);
    for (size_t i = 0; i < FAC_COUNT(layouts); i++)
        assert_same(fac_to_dense(in_layout(fac_zeros(FAC_INTS(0, 6)), layouts[i])), fac_zeros(FAC_INTS(0, 6)));
    fac_tensor *t = holes(FAC_F64, 0.5, FAC_INTS(4, 6, 2)),
               *hybrid = fac_to_sparse_bsr(t, FAC_INTS(2, 3), .dense_dim = 1);
    assert_same(fac_to_dense(hybrid), t);
    assert_int_equal(fac_dense_dim(hybrid), 1);
}

/* ---- sums and products, element by element ---------------------------------------------------------------------------------- */

static void sums_and_products_agree_with_strided(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I64, FAC_F16, FAC_C64};
    static const double shares[] = {0, 0.02, 0.5, 1};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (size_t l = 0; l < FAC_COUNT(layouts); l++)
            for (size_t i = 0; i < 16; i++) {
                FAC_SCOPE(s);
                fac_tensor *a = holes(dtypes[d], shares[i / 4], FAC_INTS(30, 42)),
                           *b = holes(dtypes[d], shares[i % 4], FAC_INTS(30, 42));
                fac_tensor *x = in_layout(a, layouts[l]), *y = in_layout(b, layouts[l]);
                fac_tensor *sum = fac_add(x, y), *product = fac_mul(x, y);
                assert_no_error();
                assert_int_equal(fac_tensor_layout(sum), layouts[l]);
                assert_same(fac_to_dense(sum), fac_add(a, b));
                assert_same(fac_to_dense(fac_sub(x, y, .alpha = 2)), fac_sub(a, b, .alpha = 2));
                assert_same(fac_to_dense(product), fac_mul(a, b));
                assert_same(fac_to_dense(fac_add(x, x)), fac_add(a, a));
                assert_same(fac_to_dense(fac_mul(x, x)), fac_mul(a, a));
                assert_same(fac_to_dense(fac_mul(x, b)), fac_mul(a, b));
                assert_same(fac_add(a, y, .alpha = 3), fac_add(a, b, .alpha = 3));
                if (has_blocks(layouts[l])) continue; /* which hold zeros */
                assert_same(fac_to_dense(fac_sparse_mask(b, x)), fac_mul(b, fac_ne(a, 0)));
                /* Both have an element, or one has: as often as there are numbers that are not zero. */
                fac_tensor *there = fac_logical_or(fac_ne(a, 0), fac_ne(b, 0));
                assert_int_equal(
                    fac_tensor_numel(layouts[l] == FAC_SPARSE_COO ? fac_values(fac_coalesce(sum)) : fac_values(sum)),
                    (int64_t)fac_item(fac_sum(there)));
            }
}

static void cubes_and_tensors_of_vectors_are_added(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = holes(FAC_F32, 0.3, FAC_INTS(4, 5, 6)), *b = holes(FAC_F32, 0.01, FAC_INTS(4, 5, 6));
    fac_tensor *x = fac_to_sparse(a), *y = fac_to_sparse(b);
    assert_same(fac_to_dense(fac_add(x, y)), fac_add(a, b));
    assert_same(fac_to_dense(fac_mul(x, y)), fac_mul(a, b));
    assert_same(fac_to_dense(fac_add(fac_to_sparse_sparse_dim(a, 2), fac_to_sparse_sparse_dim(b, 2))), fac_add(a, b));
    fac_tensor *v = holes(FAC_F32, 0.4, FAC_INTS(70)), *w = holes(FAC_F32, 0.4, FAC_INTS(70));
    assert_same(fac_to_dense(fac_add(fac_to_sparse(v), fac_to_sparse(w))), fac_add(v, w));
    assert_same(fac_to_dense(fac_mul(fac_to_sparse(v), fac_to_sparse(w))), fac_mul(v, w));
    fac_tensor *batch = fac_add(fac_abs(holes(FAC_F64, 2, FAC_INTS(3, 4, 6))), 1), *csr = fac_to_sparse_csr(batch);
    assert_same(fac_to_dense(fac_mul(csr, batch)), fac_mul(batch, batch));
    assert_same(fac_add(batch, csr), fac_mul(batch, 2));
}

static void nan_infinity_and_minus_zero_stay(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t at[] = {0, 2, 5}, other[] = {2, 3, 5}, all[] = {0, 2, 3, 5}, both[] = {2, 5};
    static const double v[] = {-0.0, INFINITY, NAN}, w[] = {-INFINITY, -0.0, 1}, sums[] = {-0.0, NAN, -0.0, NAN},
                        products[] = {-INFINITY, NAN};
    fac_tensor *i = fac_tensor_from(at, FAC_I64, FAC_INTS(1, 3)), *j = fac_tensor_from(other, FAC_I64, FAC_INTS(1, 3));
    fac_tensor *x = fac_coalesce(fac_sparse_coo_tensor_indices_size(i, f64(v, 3), FAC_INTS(6))),
               *y = fac_coalesce(fac_sparse_coo_tensor_indices_size(j, f64(w, 3), FAC_INTS(6)));
    fac_tensor *sum = fac_coalesce(fac_add(x, y)), *product = fac_mul(x, y);
    assert_same(fac_indices(sum), fac_tensor_from(all, FAC_I64, FAC_INTS(1, 4)));
    assert_near(fac_values(sum), f64(sums, 4), 0);
    assert_same(fac_signbit(fac_nan_to_num(fac_values(sum))), fac_signbit(fac_nan_to_num(f64(sums, 4))));
    assert_same(fac_indices(product), fac_tensor_from(both, FAC_I64, FAC_INTS(1, 2)));
    double *got = numbers(fac_values(product));
    for (int k = 0; k < 2; k++) assert_true(got[k] == products[k] || (isnan(got[k]) && isnan(products[k])));
    free(got);
}

/* ---- products of matrices ------------------------------------------------------------------------------------------------------ */

static void products_of_sparse_matrices_agree_with_strided(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 63, 64, 65, 4095, 4096, 9000};
    for (size_t i = 0; i < FAC_COUNT(widths); i++)
        for (size_t l = 0; l < 3; l++)
            for (int d = 0; d < 2; d++) {
                FAC_SCOPE(s);
                fac_tensor *a = holes(d ? FAC_F64 : FAC_F32, 0.2, FAC_INTS(9, 31)),
                           *b = holes(d ? FAC_F64 : FAC_F32, i < 4 ? 0.3 : 0.02, FAC_INTS(31, widths[i]));
                fac_tensor *p = fac_mm(in_layout(a, layouts[l]), in_layout(b, layouts[l]));
                assert_no_error();
                assert_int_equal(fac_tensor_layout(p), layouts[l]);
                assert_same(fac_to_dense(p), fac_mm(a, b));
                if (l) continue;
                assert_true(fac_is_coalesced(p));
            }
    FAC_SCOPE(s);
    fac_tensor *none = fac_to_sparse_csr(fac_zeros(FAC_INTS(3, 0))),
               *wide = fac_to_sparse_csr(fac_zeros(FAC_INTS(0, 4)));
    assert_same(fac_to_dense(fac_mm(none, wide)), fac_zeros(FAC_INTS(3, 4)));
    assert_same(fac_to_dense(fac_mm(wide, fac_to_sparse_csr(fac_ones(FAC_INTS(4, 2))))), fac_zeros(FAC_INTS(0, 2)));
}

static void sampled_products_agree_with_strided(void **state) {
    (void)state;
    static const int64_t inner[] = {1, 7, 8, 16, 37, 64};
    for (size_t i = 0; i < FAC_COUNT(inner); i++)
        for (int d = 0; d < 2; d++) {
            FAC_SCOPE(s);
            const fac_dtype dtype = d ? FAC_F64 : FAC_F32;
            fac_tensor *t = holes(dtype, 0.3, FAC_INTS(11, 13)), *a = holes(dtype, 2, FAC_INTS(11, inner[i])),
                       *b = holes(dtype, 2, FAC_INTS(inner[i], 13));
            fac_tensor *want = fac_mul(fac_add(fac_mul(t, 2), fac_mm(a, b)), fac_ne(t, 0));
            assert_same(fac_to_dense(fac_sparse_sampled_addmm(fac_to_sparse_csr(t), a, b, .beta = 2)), want);
            fac_tensor *c = fac_to_sparse(fac_mul(t, fac_lt(t, -12)));
            fac_tensor *m = fac_to_sparse(a);
            assert_same(fac_to_dense(fac_sspaddmm(c, m, b)), fac_add(fac_to_dense(c), fac_mm(a, b)));
        }
}

/* Where no gradient is asked for a loop takes the place of what has one. */
static void extremes_are_the_same_with_and_without_a_gradient(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 8, 15, 16, 37, 70};
    for (size_t i = 0; i < FAC_COUNT(widths); i++)
        for (int d = 0; d < 2; d++) {
            FAC_SCOPE(s);
            const fac_dtype dtype = d ? FAC_F64 : FAC_F32;
            fac_tensor *csr = fac_to_sparse_csr(holes(dtype, 0.2, FAC_INTS(3000, 9))),
                       *x = holes(dtype, 2, FAC_INTS(9, widths[i]));
            x = fac_masked_fill(fac_masked_fill(x, fac_eq(x, 3), INFINITY), fac_eq(x, 7), NAN);
            fac_tensor *leaf = fac_set_requires_grad(fac_clone(x), true);
            static const char *const how[] = {"amax", "amin"};
            for (int k = 0; k < 2; k++) {
                fac_tensor *got = fac_sparse_mm_reduce(csr, x, how[k]),
                           *want = fac_detach(fac_sparse_mm_reduce(csr, leaf, how[k]));
                assert_same(fac_isnan(got), fac_isnan(want));
                assert_same(fac_nan_to_num(got), fac_nan_to_num(want));
            }
        }
}

/* Of halves the elements that give the extremes, the first of equal ones, are found by operators, not by the kernel. */
static void extremes_have_the_gradients_that_those_of_halves_have(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 8, 15, 16, 37, 70};
    for (size_t i = 0; i < 4 * FAC_COUNT(widths); i++) {
        FAC_SCOPE(s);
        const char *how = i % 2 ? "amax" : "amin";
        fac_tensor *x = fac_clamp(holes(FAC_F32, 2, FAC_INTS(9, widths[i / 4])), -9, 9), *grads[2][2];
        fac_tensor *a = fac_clamp(holes(FAC_F32, 0.5, FAC_INTS(12, 9)), -9, 9);
        const fac_dtype dtypes[] = {i / 2 % 2 ? FAC_F64 : FAC_F32, FAC_F16};
        for (int d = 0; d < 2; d++) {
            fac_tensor *leaf = fac_set_requires_grad(fac_clone(fac_to_dtype(x, dtypes[d])), true);
            fac_tensor *csr = fac_set_requires_grad(fac_to_sparse_csr(fac_to_dtype(a, dtypes[d])), true);
            fac_tensor *y = fac_sum(fac_sparse_mm_reduce(csr, leaf, how));
            assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(leaf, csr), grads[d]));
        }
        assert_same(fac_to_dtype(grads[0][0], FAC_F32), fac_to_dtype(grads[1][0], FAC_F32));
        assert_same(fac_to_dtype(fac_to_dense(grads[0][1]), FAC_F32), fac_to_dtype(fac_to_dense(grads[1][1]), FAC_F32));
    }
}

/* ---- reductions --------------------------------------------------------------------------------------------------------------------- */

static void rows_and_columns_are_reduced(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_I32};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int k = 0; k < 3; k++) {
            FAC_SCOPE(s);
            fac_tensor *t = k == 2 ? fac_zeros(FAC_INTS(3, 4), .dtype = dtypes[d])
                                   : holes(dtypes[d], k ? 0.02 : 0.6, FAC_INTS(23, 40));
            fac_tensor *csr = fac_to_sparse_csr(t), *ones = fac_where(fac_ne(t, 0), t, fac_ones_like(t));
            const fac_ints dims[] = {FAC_INTS(0), FAC_INTS(1), FAC_INTS(0, 1)};
            for (size_t i = 0; i < FAC_COUNT(dims); i++) {
                fac_tensor *sum = reduced("aten::_sparse_csr_sum.dim_dtype", csr, dims[i]);
                assert_no_error();
                assert_same(fac_to_dense(sum), fac_sum(t, .dims = dims[i], .keepdim = true));
                fac_tensor *some = fac_gt(fac_sum(fac_ne(t, 0), .dims = dims[i], .keepdim = true), 0);
                assert_int_equal(fac_tensor_numel(fac_values(sum)), (int64_t)fac_item(fac_sum(some)));
                if (i == 2 || k == 0) continue;
                fac_tensor *prod = fac_to_dense(reduced("aten::_sparse_csr_prod.dim_dtype", csr, dims[i]));
                assert_same(prod, fac_mul(fac_prod_dim(ones, (int64_t)i, .keepdim = true), some));
            }
        }
    FAC_SCOPE(s); /* many more columns than elements */
    static const int64_t begin[] = {0, 2, 3}, columns[] = {5, 900000, 5}, places[] = {5, 900000};
    static const double v[] = {1, 2, 4}, sums[] = {5, 2};
    fac_tensor *wide =
        fac_sparse_csr_tensor_crow_col_value_size(i64(begin, 3), i64(columns, 3), f64(v, 3), FAC_INTS(2, 1000000));
    fac_tensor *sum = reduced("aten::_sparse_csr_sum.dim_dtype", wide, FAC_INTS(0));
    assert_same(fac_col_indices(sum), i64(places, 2));
    assert_same(fac_values(sum), f64(sums, 2));
}

static void softmax_is_over_what_is_there(void **state) {
    (void)state;
    for (int dim = 0; dim < 3; dim++)
        for (int d = 0; d < 2; d++) {
            FAC_SCOPE(s);
            fac_tensor *t = holes(d ? FAC_F64 : FAC_F32, 0.5, FAC_INTS(6, 7, 5));
            fac_tensor *full = fac_masked_fill(t, fac_eq(t, 0), -INFINITY);
            fac_tensor *want = fac_nan_to_num(fac_softmax(full, dim));
            fac_tensor *coo = fac_to_sparse(t);
            assert_near(fac_to_dense(softmax("aten::_sparse_softmax.int", coo, dim)), want, 1e-6);
            fac_tensor *logs = fac_to_dense(softmax("aten::_sparse_log_softmax.int", coo, dim));
            assert_near(logs, fac_masked_fill(fac_log_softmax(full, dim), fac_eq(t, 0), 0), 1e-6);
        }
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------------------- */

static void slices_are_picked_from_any_order(void **state) {
    (void)state;
    static const int64_t at[] = {3, 0, 3, 5, 2}, beyond[] = {0, 6};
    static const fac_dtype dtypes[] = {FAC_BOOL, FAC_F16, FAC_F32, FAC_C128};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        fac_tensor *t = holes(dtypes[d], 0.4, FAC_INTS(6, 6, 3)), *index = i64(at, 5);
        for (int form = 0; form < 3; form++)
            for (int dim = 0; dim < 3; dim++) {
                fac_tensor *coo = form == 1 ? fac_to_sparse_sparse_dim(t, 2) : fac_to_sparse(t);
                if (form == 2) coo = fac_transpose(fac_to_sparse(fac_transpose(t, 0, 1)), 0, 1); /* columns in order */
                fac_tensor *part = dim == 2 ? fac_narrow(index, 0, 1, 1) : index;
                assert_same(fac_to_dense(fac_index_select(coo, dim, part)), fac_index_select(t, dim, part));
            }
        assert_null(fac_index_select(fac_to_sparse(t), 1, i64(beyond, 2)));
        assert_error(FAC_ERR_INDEX, "");
        fac_tensor *x = fac_to_sparse(t), *y = fac_to_sparse(fac_narrow(t, 0, 1, 4)),
                   *none = fac_to_sparse(fac_narrow(t, 0, 0, 0));
        assert_same(fac_to_dense(fac_cat(FAC_TENSORS(none, x, y, none, x))),
                    fac_cat(FAC_TENSORS(t, fac_narrow(t, 0, 1, 4), t)));
        assert_same(fac_to_dense(fac_cat(FAC_TENSORS(x, x), .dim = 2)), fac_cat(FAC_TENSORS(t, t), .dim = 2));
        assert_same(fac_to_dense(x), t); /* cat moved a copy */
    }
}

static void copies_along_a_dimension_are_in_order(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = holes(FAC_F64, 0.5, FAC_INTS(1, 4, 1, 3)), *coo = fac_to_sparse(t);
    const int64_t sizes[] = {2, 3, 4, 5, 3};
    fac_value args[] = {fac_value_tensor(coo), fac_value_ints(sizes, 5)};
    fac_tensor *wide = called("aten::_sparse_broadcast_to", args, 2), *want = fac_expand(t, FAC_INTS(2, 3, 4, 5, 3));
    assert_no_error();
    assert_true(fac_is_coalesced(wide));
    assert_same(fac_indices(wide), fac_t(fac_nonzero(want)));
    assert_same(fac_to_dense(wide), fac_contiguous(want));
}

/* ---- parts that no check has seen ------------------------------------------------------------------------------------------------ */

static void unordered_and_repeated_columns_are_added_up(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t begin[] = {0, 3, 3, 5}, columns[] = {4, 0, 4, 3, 1};
    static const double v[] = {1, 2, 10, 4, 8}, cells[] = {2, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 8, 0, 4, 0};
    fac_tensor *t = unchecked_csr(i64(begin, 4), i64(columns, 5), f64(v, 5), FAC_INTS(3, 5));
    fac_tensor *d = fac_tensor_from(cells, FAC_F64, FAC_INTS(3, 5)), *other = holes(FAC_F64, 0.5, FAC_INTS(3, 5));
    assert_same(fac_to_dense(fac_coalesce(fac_to_sparse(fac_add(t, fac_to_sparse_csr(other))))), fac_add(d, other));
    assert_same(fac_add(other, t), fac_add(other, d));
    fac_tensor *right = holes(FAC_F64, 0.5, FAC_INTS(5, 6)), *left = holes(FAC_F64, 0.7, FAC_INTS(4, 3));
    assert_same(fac_to_dense(fac_mm(t, fac_to_sparse_csr(right))), fac_mm(d, right));
    assert_same(fac_to_dense(fac_mm(fac_to_sparse_csr(left), t)), fac_mm(left, d));
    fac_tensor *rows = reduced("aten::_sparse_csr_sum.dim_dtype", t, FAC_INTS(1));
    assert_same(fac_to_dense(rows), fac_sum(d, 1, true));
    assert_same(fac_to_dense(reduced("aten::_sparse_csr_sum.dim_dtype", t, FAC_INTS(0))), fac_sum(d, 0, true));
}

/* Either refused with an error or, where an index is not stepped by, computed; never read or written beside the operands. */
#define SAFE(...)                                    \
    do {                                             \
        fac_tensor *safe_ = __VA_ARGS__;             \
        assert_true(safe_ || fac_error() != FAC_OK); \
        if (!safe_) fac_error_clear();               \
    } while (0)

static void indices_out_of_range_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t begins[][4] = {{0, 1, 2, 3}, {0, 9, 2, 3}, {0, -5, 2, 3},
                                        {1, 1, 2, 3}, {0, 1, 2, 7}, {0, 1, 2, INT64_MAX}},
                         columns[][3] = {{0, 1, 99}, {0, -1, 2}, {INT64_MIN, 0, INT64_MAX}, {0, 1, 2}};
    static const double v[] = {1, 2, 3};
    fac_tensor *d = holes(FAC_F64, 2, FAC_INTS(3, 4)), *fine = fac_to_sparse_csr(d), *right = fac_t(d);
    static const int64_t at[] = {0, 2};
    for (size_t i = 0; i < FAC_COUNT(begins); i++)
        for (size_t k = 0; k < FAC_COUNT(columns); k++)
            for (int by_row = 0; by_row < 2; by_row++) {
                if (i == 0 && k == 3) continue; /* these are fine */
                FAC_SCOPE(s);
                fac_tensor *t = unchecked_csr(i64(begins[i], 4), i64(columns[k], 3), f64(v, 3), FAC_INTS(3, 4));
                assert_no_error();
                if (!by_row) {
                    t = fac_t(t);
                    fac_tensor *e = fac_t(d);
                    SAFE(fac_to_dense(t));
                    SAFE(fac_mul(t, e));
                    SAFE(fac_add(e, t));
                    SAFE(fac_sparse_mask(e, t));
                    SAFE(fac_to_sparse(t));
                    SAFE(fac_mm(t, d));
                    SAFE(fac_mm(t, fine));
                    SAFE(fac_to_sparse_csr(t));
                    SAFE(fac_add(t, fac_t(fine)));
                    continue;
                }
                assert_null(fac_mm(t, right));
                assert_true(fac_error() != FAC_OK), fac_error_clear();
                assert_null(fac_mm(t, fac_to_sparse_csr(right)));
                assert_true(fac_error() != FAC_OK), fac_error_clear();
                assert_null(fac_to_dense(t));
                assert_true(fac_error() != FAC_OK), fac_error_clear();
                assert_null(fac_add(d, t));
                assert_true(fac_error() != FAC_OK), fac_error_clear();
                assert_null(fac_mul(t, d));
                assert_true(fac_error() != FAC_OK), fac_error_clear();
                SAFE(fac_mm(fac_to_sparse_csr(right), t));
                SAFE(fac_add(t, fine));
                SAFE(fac_add(fine, t));
                SAFE(fac_mul(t, fine));
                SAFE(fac_to_sparse(t));
                SAFE(fac_to_sparse_csc(t));
                SAFE(fac_sparse_sampled_addmm(t, d, fac_mm(right, d)));
                SAFE(fac_to_sparse_bsr(t, FAC_INTS(1, 2)));
                SAFE(fac_index_select(t, 0, i64(at, 2)));
                SAFE(fac_index_select(t, 1, i64(at, 2)));
                SAFE(reduced("aten::_sparse_csr_sum.dim_dtype", t, FAC_INTS(0)));
                SAFE(reduced("aten::_sparse_csr_sum.dim_dtype", t, FAC_INTS(1)));
            }
    static const int64_t wrong[][6] = {{0, 1, 9, 0, 1, 2},
                                       {0, 1, 2, 0, -1, 2},
                                       {2, 1, 0, 3, 3, 3},
                                       {0, 0, 0, 1, 1, 1},
                                       {INT64_MAX, 0, 1, INT64_MIN, 1, 1}};
    for (size_t k = 0; k < FAC_COUNT(wrong); k++)
        for (int marked = 0; marked < 2; marked++) {
            FAC_SCOPE(s);
            fac_tensor *t =
                unchecked_coo(fac_tensor_from(wrong[k], FAC_I64, FAC_INTS(2, 3)), f64(v, 3), FAC_INTS(3, 4), marked);
            fac_tensor *good = fac_to_sparse(d);
            assert_no_error();
            SAFE(fac_to_dense(t));
            SAFE(fac_mul(t, d));
            SAFE(fac_add(d, t));
            SAFE(fac_add(t, good));
            SAFE(fac_mul(t, good));
            SAFE(fac_mul(good, t));
            SAFE(fac_sparse_mask(d, t));
            SAFE(fac_sparse_mask(good, t));
            SAFE(fac_sparse_mask(t, good));
            SAFE(fac_mm(t, right));
            SAFE(fac_mm(t, fac_to_sparse(right)));
            SAFE(fac_mm(fac_to_sparse(right), t));
            SAFE(fac_index_select(t, 0, i64(at, 2)));
            SAFE(fac_index_select(t, 1, i64(at, 2)));
            SAFE(fac_to_sparse_csr(t));
            SAFE(fac_to_sparse_csc(t));
            SAFE(fac_coalesce(t));
            SAFE(fac_sum(t, 0));
            SAFE(softmax("aten::_sparse_softmax.int", t, 0));
            SAFE(softmax("aten::_sparse_softmax.int", t, 1));
        }
}

/* ---- threads --------------------------------------------------------------------------------------------------------------------- */

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = random_of(FAC_F32, FAC_INTS(300, 400)), *a = fac_mul(x, fac_gt(x, 0.5)),
               *b = fac_t(fac_mul(x, fac_lt(x, -0.5)));
    fac_tensor *results[2][6];
    const int threads = fac_num_threads();
    for (int n = 0; n < 2; n++) {
        assert_ok(fac_set_num_threads(n + 1));
        fac_tensor *p = fac_to_sparse_csr(a), *q = fac_to_sparse_csr(fac_contiguous(b));
        results[n][0] = fac_values(fac_mm(p, q));
        results[n][1] = fac_values(fac_sparse_sampled_addmm(fac_mm(p, q), x, fac_t(x)));
        results[n][2] = fac_values(reduced("aten::_sparse_csr_sum.dim_dtype", p, FAC_INTS(1)));
        results[n][3] = fac_values(reduced("aten::_sparse_csr_sum.dim_dtype", p, FAC_INTS(0)));
        results[n][4] = fac_add(x, p);
        results[n][5] = fac_values(fac_coalesce(softmax("aten::_sparse_softmax.int", fac_to_sparse(a), 1)));
        assert_no_error();
    }
    for (size_t i = 0; i < 6; i++) assert_same(results[0][i], results[1][i]);
    assert_ok(fac_set_num_threads(threads));
}

FAC_TEST_MAIN(FAC_TEST(elements_are_found_in_order_whatever_the_width), FAC_TEST(minus_zero_is_no_element_and_nan_is),
              FAC_TEST(strided_tensors_become_blocks_and_lines_as_coordinates_do),
              FAC_TEST(sums_and_products_agree_with_strided), FAC_TEST(cubes_and_tensors_of_vectors_are_added),
              FAC_TEST(nan_infinity_and_minus_zero_stay), FAC_TEST(products_of_sparse_matrices_agree_with_strided),
              FAC_TEST(sampled_products_agree_with_strided),
              FAC_TEST(extremes_are_the_same_with_and_without_a_gradient),
              FAC_TEST(extremes_have_the_gradients_that_those_of_halves_have), FAC_TEST(rows_and_columns_are_reduced),
              FAC_TEST(softmax_is_over_what_is_there), FAC_TEST(slices_are_picked_from_any_order),
              FAC_TEST(copies_along_a_dimension_are_in_order), FAC_TEST(unordered_and_repeated_columns_are_added_up),
              FAC_TEST(indices_out_of_range_are_refused), FAC_TEST(bits_do_not_depend_on_threads))
