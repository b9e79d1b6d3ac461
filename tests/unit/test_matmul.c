/* Products of tensors against sums of products, and their gradients against differences. */
#include "linalg_test.h"

/* self @ other by the definition: batches broadcast, sums over the inner dimension, in f64. */
static fac_tensor *expected_product(fac_tensor *a, fac_tensor *b) {
    fac_tensor *x = fac_tensor_ndim(a) == 1 ? fac_unsqueeze(a, 0) : a,
               *y = fac_tensor_ndim(b) == 1 ? fac_unsqueeze(b, 1) : b;
    /* [*, n, m, 1] * [*, 1, m, p] summed over m */
    fac_tensor *z = fac_sum(fac_mul(fac_unsqueeze(x, -1), fac_unsqueeze(y, -3)), .dim = -2);
    if (fac_tensor_ndim(b) == 1) z = fac_squeeze_dim(z, -1);
    return fac_tensor_ndim(a) == 1 ? fac_squeeze_dim(z, fac_tensor_ndim(b) == 1 ? -1 : -2) : z;
}

static const int64_t left_sizes[] = {2, 1, 3, 4, 5}, right_sizes[] = {2, 4, 1, 5, 6};
/* A tensor of `rank` dimensions: of the left sizes ending in [4, 5], or of the right ending in [5, 6]; a vector has 5. */
static fac_tensor *operand(bool left, int rank) {
    if (rank == 1) return RANDOM(5);
    return random_of(FAC_F64, (fac_ints){(left ? left_sizes : right_sizes) + 5 - rank, (size_t)rank});
}

static void S172_matmul_every_pair_of_ranks(void **state) {
    (void)state;
    for (int i = 1; i <= 5; i++)
        for (int j = 1; j <= 5; j++) {
            FAC_SCOPE(s);
            fac_tensor *a = operand(true, i), *b = operand(false, j);
            assert_close(fac_matmul(a, b), expected_product(a, b));
        }
}

static void S173_matmul_batches_broadcast(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(3, 1, 2, 4), *b = RANDOM(5, 4, 2), *y = fac_matmul(a, b);
    assert_sizes(y, 3, 5, 2, 2);
    assert_close(y, expected_product(a, b));
    fac_tensor *turned = fac_transpose(a, 0, 1), *one = fac_transpose(RANDOM(1, 2, 4), 1, 2);
    assert_close(fac_matmul(turned, one), expected_product(turned, one));
}

static void S174_matmul_folds_a_batch_of_one_that_needs_grad(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = LEAF(1, 4, 3), *x = RANDOM(6, 2, 4), *y = fac_matmul(x, w);
    assert_close(y, expected_product(x, w));
    assert_ok(fac_backward(fac_sum(y)));
    assert_sizes(fac_grad_of(w), 1, 4, 3);
    fac_tensor *ones = fac_ones(FAC_INTS(12, 3), .dtype = FAC_F64);
    assert_close(fac_grad_of(w), fac_unsqueeze(fac_mm(fac_t(fac_reshape(x, FAC_INTS(12, 4))), ones), 0));
    fac_tensor *v = LEAF(1, 2, 4);
    fac_tensor *z = RANDOM(5, 4, 3);
    assert_close(fac_matmul(v, z), expected_product(v, z));
}

static void S175_matmul_vector_on_the_right(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_transpose(RANDOM(2, 4, 3, 5), 1, 2), *v = RANDOM(5), *y = fac_matmul(a, v);
    assert_sizes(y, 2, 3, 4);
    assert_close(y, expected_product(a, v));
}

static void S176_matmul_mismatch_names_both_shapes(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_matmul(RANDOM(2, 3), RANDOM(4, 5)));
    assert_error(FAC_ERR_SHAPE, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
    assert_null(fac_matmul(RANDOM(2, 2, 3), RANDOM(2, 4, 5)));
    assert_error(FAC_ERR_SHAPE, "[2, 3] but got: [2, 4]");
    assert_null(fac_matmul(fac_sum(RANDOM(2)), RANDOM(2)));
    assert_error(FAC_ERR_SHAPE, "both arguments to matmul need to be at least 1D, but they are 0D and 1D");
    assert_null(fac_matmul(RANDOM(3, 2, 2), RANDOM(4, 2, 2)));
    assert_error(FAC_ERR_SHAPE, "");
    assert_null(fac_mm(RANDOM(2, 2), random_of(FAC_F32, FAC_INTS(2, 2))));
    assert_error(FAC_ERR_DTYPE, "same dtype");
}

static void S177_matmul_into_an_output(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(3, 2, 4), *b = RANDOM(3, 4, 5), *out = fac_zeros(FAC_INTS(3, 2, 5), .dtype = FAC_F64);
    assert_ptr_equal(fac_matmul_out(out, a, b), out);
    assert_close(out, expected_product(a, b));
    fac_tensor *turned = fac_transpose(fac_zeros(FAC_INTS(3, 5, 2), .dtype = FAC_F64), 1, 2);
    assert_ptr_equal(fac_bmm_out(turned, a, b), turned);
    assert_close(turned, expected_product(a, b));
    fac_tensor *square = RANDOM(3, 3);
    assert_null(fac_mm_out(square, square, square));
    assert_error(FAC_ERR_ARGUMENT, "");
}

static void S171_linear_equals_product_and_bias(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *w = RANDOM(3, 4), *bias = RANDOM(3);
    fac_tensor *inputs[] = {RANDOM(4), RANDOM(2, 4), RANDOM(5, 2, 4), fac_transpose(RANDOM(2, 5, 4), 0, 1),
                            RANDOM(2, 3, 2, 4)};
    for (size_t i = 0; i < FAC_COUNT(inputs); i++) {
        fac_tensor *plain = expected_product(inputs[i], fac_t(w));
        assert_close(fac_linear(inputs[i], w, NULL), plain);
        assert_close(fac_linear(inputs[i], w, bias), fac_add(plain, bias));
    }
    fac_tensor *row = fac_select(w, 0, 1);
    assert_close(fac_linear(inputs[1], row, NULL), fac_mv(inputs[1], row));
    assert_null(fac_linear(inputs[1], RANDOM(3, 5), bias));
    assert_error(FAC_ERR_SHAPE, "input [2, 4] and weight [3, 5]");
}

static void S179_beta_zero_does_not_read_self(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *nan = fac_full(FAC_INTS(2, 3), NAN, .dtype = FAC_F64), *a = RANDOM(2, 4), *b = RANDOM(4, 3);
    assert_close(fac_addmm(nan, a, b, .beta = 0), fac_mm(a, b));
    fac_tensor *self = RANDOM(3);
    assert_close(fac_addmm(self, a, b, .beta = 2, .alpha = -0.5),
                 fac_add(fac_mul(fac_mm(a, b), -0.5), fac_mul(self, 2.0)));
    fac_tensor *into = fac_clone(nan);
    assert_ptr_equal(fac_addmm_(into, a, b, .beta = 0), into);
    assert_close(into, fac_mm(a, b));
}

static void S180_empty_depth_gives_zeros_or_beta_self(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(2, 0), *b = RANDOM(0, 3), *self = RANDOM(2, 3);
    assert_close(fac_mm(a, b), fac_zeros(FAC_INTS(2, 3), .dtype = FAC_F64));
    assert_close(fac_addmm(self, a, b, .beta = 2), fac_mul(self, 2.0));
    assert_sizes(fac_matmul(RANDOM(0, 2, 3), RANDOM(3, 4)), 0, 2, 4);
}

static void products_of_vectors_and_batches(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = RANDOM(5), *y = RANDOM(5), *m = RANDOM(3, 5), *b1 = RANDOM(4, 2, 3), *b2 = RANDOM(4, 3, 5),
               *self = RANDOM(2, 5);
    assert_close(fac_dot(x, y), fac_sum(fac_mul(x, y)));
    assert_close(fac_outer(x, y), fac_mul(fac_unsqueeze(x, 1), y));
    assert_close(fac_addmv(RANDOM(1), m, x, .beta = 0), fac_mv(m, x));
    assert_close(fac_addr(self, RANDOM(2), x, .alpha = 0), self);
    fac_tensor *sum = fac_sum(fac_bmm(b1, b2), .dim = 0);
    assert_near(fac_addbmm(self, b1, b2), fac_add(self, sum), 1e-12);
    assert_close(fac_baddbmm(self, b1, b2), fac_add(self, fac_bmm(b1, b2)));
    assert_close(fac_kron(x, y), fac_reshape(fac_outer(x, y), FAC_INTS(25)));
    assert_near(fac_chain_matmul(FAC_TENSORS(fac_t(m), m, fac_t(m), m)),
                fac_mm(fac_mm(fac_mm(fac_t(m), m), fac_t(m)), m), 1e-12);
    assert_close(fac_tensordot(b1, b2, FAC_INTS(0, 2), FAC_INTS(0, 1)), sum);
}

/* ---- einsum --------------------------------------------------------------------------------------------------------------- */

static void einsum_grammar(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(3, 4), *b = RANDOM(4, 5), *q = RANDOM(4, 4), *c = RANDOM(2, 3, 4), *x = RANDOM(4);
    assert_close(fac_einsum("ij,jk->ik", FAC_TENSORS(a, b)), fac_mm(a, b));
    assert_close(fac_einsum(" i j , j k ", FAC_TENSORS(a, b)), fac_mm(a, b));
    assert_close(fac_einsum("ij->ji", FAC_TENSORS(a)), fac_t(a));
    assert_close(fac_einsum("ba", FAC_TENSORS(a)), fac_t(a));
    assert_close(fac_einsum("ii", FAC_TENSORS(q)), fac_trace(q));
    assert_close(fac_einsum("ii->i", FAC_TENSORS(q)), fac_diagonal(q));
    assert_close(fac_einsum("...ij,jk->...ik", FAC_TENSORS(c, b)), fac_matmul(c, b));
    assert_close(fac_einsum("...j,j->...", FAC_TENSORS(c, x)), fac_matmul(c, x));
    assert_close(fac_einsum("bij->", FAC_TENSORS(c)), fac_sum(c));
    assert_close(fac_einsum("i,j->ij", FAC_TENSORS(x, x)), fac_outer(x, x));
    fac_tensor *z = RANDOM(5);
    assert_close(fac_einsum("bij,jk,k->bi", FAC_TENSORS(c, b, z)), fac_matmul(c, fac_mv(b, z)));
    assert_close(fac_einsum("ij,jk,kl->il", FAC_TENSORS(a, b, fac_t(b)), .path = FAC_INTS(1, 2, 0, 1)),
                 fac_mm(fac_mm(a, b), fac_t(b)));
}

static void einsum_says_what_is_wrong(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(3, 4);
    const struct {
        const char *equation, *text;
        fac_status code;
    } cases[] = {
        {"i1->i", "invalid subscript given at index 1", FAC_ERR_ARGUMENT},
        {"i.j", "that is not part of any ellipsis", FAC_ERR_ARGUMENT},
        {"...i...", "for which an ellipsis was already found", FAC_ERR_ARGUMENT},
        {"ij,jk", "fewer operands were provided", FAC_ERR_ARGUMENT},
        {"ijk", "does not match the number of dimensions (2) for operand 0", FAC_ERR_SHAPE},
        {"i...jk", "is more than the number of dimensions (2)", FAC_ERR_SHAPE},
        {"ij->ii", "output subscript i appears more than once", FAC_ERR_ARGUMENT},
        {"ij->k", "output subscript k does not appear", FAC_ERR_ARGUMENT},
        {"ii", "subscript i is repeated for operand 0 but the sizes don't match, 4 != 3", FAC_ERR_SHAPE},
        {"ij->i,j", "the output has a ','", FAC_ERR_ARGUMENT},
    };
    for (size_t i = 0; i < FAC_COUNT(cases); i++) {
        assert_null(fac_einsum(cases[i].equation, FAC_TENSORS(a)));
        assert_error(cases[i].code, cases[i].text);
    }
    assert_null(fac_einsum("ij,ij", FAC_TENSORS(a, fac_t(a))));
    assert_error(FAC_ERR_SHAPE, "does not broadcast with previously seen size");
    assert_null(fac_einsum("i", FAC_TENSORS(a, a)));
    assert_error(FAC_ERR_ARGUMENT, "more operands were provided");
    assert_null(fac_einsum("", FAC_TENSORS()));
    assert_error(FAC_ERR_ARGUMENT, "at least one operand");
}

/* ---- gradients --------------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*product_fn)(fac_tensors in);
static fac_status call_product(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = (*(product_fn *)context)(in);
    return fac_error();
}
static fac_tensor *do_matmul(fac_tensors in) { return fac_matmul(in.v[0], in.v[1]); }
static fac_tensor *do_bmm(fac_tensors in) { return fac_bmm(in.v[0], in.v[1]); }
static fac_tensor *do_linear(fac_tensors in) { return fac_linear(in.v[0], in.v[1], in.v[2]); }
static fac_tensor *do_addmm(fac_tensors in) { return fac_addmm(in.v[0], in.v[1], in.v[2], .beta = 0.5, .alpha = 2); }
static fac_tensor *do_baddbmm(fac_tensors in) { return fac_baddbmm(in.v[0], in.v[1], in.v[2], .beta = 2); }
static fac_tensor *do_addmv(fac_tensors in) { return fac_addmv(in.v[0], in.v[1], in.v[2]); }
static fac_tensor *do_dot(fac_tensors in) { return fac_dot(in.v[0], in.v[1]); }
static fac_tensor *do_einsum(fac_tensors in) { return fac_einsum("bij,jk,ii->bk", in); }
static fac_tensor *do_bilinear(fac_tensors in) { return fac_bilinear(in.v[0], in.v[1], in.v[2], NULL); }

static void check_gradients(product_fn fn, fac_tensors in) {
    assert_no_error();
    assert_ok(fac_gradcheck(call_product, &fn, in, 1));
    assert_ok(fac_gradgradcheck(call_product, &fn, in, 1));
}

static void S191_products_have_gradients_to_second_order(void **state) {
    (void)state;
    FAC_SCOPE(s);
    check_gradients(do_matmul, FAC_TENSORS(LEAF(3), LEAF(3)));
    check_gradients(do_matmul, FAC_TENSORS(LEAF(2, 3), LEAF(3)));
    check_gradients(do_matmul, FAC_TENSORS(LEAF(2, 1, 2, 3), LEAF(4, 3, 2)));
    check_gradients(do_matmul, FAC_TENSORS(LEAF(2, 2, 3), LEAF(3, 2)));
    check_gradients(do_matmul, FAC_TENSORS(LEAF(2, 3), LEAF(2, 3, 2)));
    check_gradients(do_bmm, FAC_TENSORS(LEAF(2, 2, 3), LEAF(2, 3, 2)));
    check_gradients(do_linear, FAC_TENSORS(LEAF(2, 3), LEAF(4, 3), LEAF(4)));
    check_gradients(do_linear, FAC_TENSORS(LEAF(2, 2, 3), LEAF(4, 3), LEAF(4)));
    check_gradients(do_addmm, FAC_TENSORS(LEAF(3), LEAF(2, 4), LEAF(4, 3)));
    check_gradients(do_baddbmm, FAC_TENSORS(LEAF(2, 1, 3), LEAF(2, 2, 4), LEAF(2, 4, 3)));
    check_gradients(do_addmv, FAC_TENSORS(LEAF(2), LEAF(2, 3), LEAF(3)));
    check_gradients(do_dot, FAC_TENSORS(LEAF(4), LEAF(4)));
    check_gradients(do_einsum, FAC_TENSORS(LEAF(2, 3, 2), LEAF(2, 4), LEAF(3, 3)));
    check_gradients(do_bilinear, FAC_TENSORS(LEAF(2, 3), LEAF(2, 2), LEAF(4, 3, 2)));
}

static fac_status multiply(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_tensor *a = fac_ones(FAC_INTS(40, 300)), *b = fac_ones(FAC_INTS(300, 70));
    fac_tensor *y = fac_einsum("ij,jk->ki", FAC_TENSORS(a, b));
    y = fac_matmul(fac_unsqueeze(a, 0), fac_unsqueeze(y ? b : NULL, 0));
    return fac_error();
}

static void products_survive_every_failed_allocation(void **state) {
    (void)state;
    support_fail_each_allocation(multiply, NULL);
}

/* What is added may lie in the result's own memory, as a row of it or the other way round: it is read before it is
   overwritten. */
static void sums_that_lie_in_the_result(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = random_of(FAC_F64, FAC_SHAPE(64, 32)), *b = random_of(FAC_F64, FAC_SHAPE(32, 64));
    for (int i = 0; i < 3; i++) {
        fac_tensor *memory = random_of(FAC_F64, FAC_SHAPE(64, 100));
        fac_tensor *out = fac_narrow(memory, 1, 0, 64);
        fac_tensor *self =
            i == 2 ? fac_as_strided(memory, FAC_SHAPE(64, 64), FAC_INTS(1, 100)) : fac_select(out, 0, i ? 63 : 0);
        fac_tensor *expected = fac_add(fac_mm(a, b), fac_clone(self));
        assert_close(fac_addmm_out(out, self, a, b), expected);
    }
}

/* ---- declaration and dtypes ------------------------------------------------------------------------------------------------- */

static fac_tensor *on_meta(fac_tensor *t) {
    return fac_empty(fac_tensor_sizes(t), .dtype = FAC_F64, .device = fac_device_make(FAC_META, -1));
}

/* One shape rule serves the plain form, the one into an output and the meta device. */
static void S178_bmm_is_structured_and_core(void **state) {
    (void)state;
    const fac_operator *bmm = fac_operator_find("aten::bmm"), *out_form = fac_operator_find("aten::bmm.out");
    assert_true(fac_operator_has_tag(bmm, "core") && fac_operator_has_tag(out_form, "core"));
    assert_true(fac_operator_has_kernel(bmm, "CPU") && fac_operator_has_kernel(bmm, "Meta"));
    assert_true(fac_operator_has_kernel(out_form, "CPU") && fac_operator_has_kernel(out_form, "Meta"));
    FAC_SCOPE(s);
    fac_tensor *a = RANDOM(2, 3, 4), *b = RANDOM(2, 4, 5), *out = fac_empty(FAC_SHAPE(0), .dtype = FAC_F64);
    assert_ptr_equal(fac_bmm_out(out, a, b), out);
    assert_sizes(out, 2, 3, 5);
    assert_close(out, expected_product(a, b));
    fac_tensor *shape = fac_bmm(on_meta(a), on_meta(b));
    assert_sizes(shape, 2, 3, 5);
    assert_int_equal(fac_tensor_device(shape).type, FAC_META);
    for (int k = 0; k < 2; k++) {
        fac_tensor *x = k ? on_meta(a) : a, *wrong = k ? on_meta(RANDOM(2, 3, 5)) : RANDOM(2, 3, 5);
        assert_null(fac_bmm(x, wrong));
        assert_error(FAC_ERR_SHAPE, "");
    }
}

/* 256 alpha - 256, where alpha is lost if it is rounded to 16 bits first: only the sum is rounded. */
static void S184_products_in_every_dtype_hold_scalars_in_their_compute_type(void **state) {
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_C64, FAC_C128, FAC_F16, FAC_BF16};
    (void)state;
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        const double alpha = 1 + 0x1p-12, most = dtypes[k] == FAC_F64 || dtypes[k] == FAC_C128 ? 1e-12 : 1e-5;
        fac_tensor *a = fac_full(FAC_SHAPE(2, 64), 2, .dtype = dtypes[k]),
                   *b = fac_full(FAC_SHAPE(64, 3), 2, .dtype = dtypes[k]),
                   *self = fac_full(FAC_SHAPE(2, 3), -256, .dtype = dtypes[k]);
        fac_tensor *y = fac_addmm(self, a, b, .alpha = alpha);
        assert_int_equal(fac_tensor_dtype(y), dtypes[k]);
        fac_tensor *off =
            fac_sub(fac_abs(fac_to_dtype(y, dtypes[k] == FAC_C64 || dtypes[k] == FAC_C128 ? dtypes[k] : FAC_F64)),
                    256 * 0x1p-12);
        assert_no_error();
        assert_true(fac_item(fac_max(fac_abs(off))) <= most);
    }
}

/* Counts, which halves hold: of many rows by few columns, whose factors are widened first. */
static void products_of_narrow_halves_are_exact(void **state) {
    (void)state;
    static const fac_dtype halves[] = {FAC_F16, FAC_BF16};
    static const int64_t sides[][2] = {{8, 8}, {64, 16}, {3, 5}, {1, 2}};
    for (size_t t = 0; t < FAC_COUNT(halves); t++)
        for (size_t i = 0; i < FAC_COUNT(sides); i++) {
            FAC_SCOPE(s);
            const int64_t k = sides[i][0], n = sides[i][1];
            fac_tensor *a = fac_to_dtype(fac_ones(FAC_INTS(1000, k)), halves[t]);
            fac_tensor *b = fac_to_dtype(fac_ones(FAC_INTS(k, n)), halves[t]);
            fac_tensor *want = fac_full_like(fac_mm(a, b), (double)k);
            assert_no_error();
            assert_true(fac_equal(fac_mm(a, b), want));
        }
}

/* Of halves, what is added may be one row, rows with gaps between them, or columns: as if it lay in the result beforehand. */
static void halves_are_added_where_they_lie(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{3, 5, 7}, {2, 700, 9}, {300, 530, 40}, {260, 33, 600}};
    static const fac_dtype dtypes[] = {FAC_F16, FAC_BF16};
    for (size_t i = 0; i < FAC_COUNT(sizes) * 2; i++) {
        FAC_SCOPE(s);
        const int64_t m = sizes[i / 2][0], n = sizes[i / 2][1], k = sizes[i / 2][2];
        const fac_dtype dtype = dtypes[i % 2];
        fac_tensor *a = fac_to_dtype(RANDOM(m, k), dtype), *b = fac_to_dtype(RANDOM(k, n), dtype);
        fac_tensor *added[] = {
            random_of(dtype, FAC_INTS(n)),           random_of(dtype, FAC_INTS(1, n)),
            random_of(dtype, FAC_INTS(m, n)),        fac_narrow(random_of(dtype, FAC_INTS(m, n + 3)), 1, 2, n),
            fac_t(random_of(dtype, FAC_INTS(n, m))), random_of(dtype, FAC_INTS(m, 1))};
        for (size_t j = 0; j < FAC_COUNT(added); j++)
            for (int beta = 1; beta <= 2; beta++) {
                fac_tensor *y = fac_addmm(added[j], a, b, .beta = beta);
                fac_tensor *there = fac_contiguous(fac_expand(added[j], FAC_INTS(m, n)));
                if (there == added[j]) there = fac_clone(there);
                assert_true(fac_equal(y, fac_addmm_(there, a, b, .beta = beta)));
            }
        fac_tensor *wide =
            fac_addmm(fac_to_dtype(added[0], FAC_F64), fac_to_dtype(a, FAC_F64), fac_to_dtype(b, FAC_F64));
        fac_tensor *error = fac_abs(fac_sub(fac_to_dtype(fac_addmm(added[0], a, b), FAC_F64), wide));
        assert_true(fac_item_int(fac_all(fac_le(error, fac_add(fac_mul(fac_abs(wide), 1.0 / 128), 0.01)))));
    }
}

FAC_TEST_MAIN(FAC_TEST(products_of_narrow_halves_are_exact), FAC_TEST(halves_are_added_where_they_lie),
              FAC_TEST(S178_bmm_is_structured_and_core),
              FAC_TEST(S184_products_in_every_dtype_hold_scalars_in_their_compute_type),
              FAC_TEST(S171_linear_equals_product_and_bias), FAC_TEST(S172_matmul_every_pair_of_ranks),
              FAC_TEST(S173_matmul_batches_broadcast), FAC_TEST(S174_matmul_folds_a_batch_of_one_that_needs_grad),
              FAC_TEST(S175_matmul_vector_on_the_right), FAC_TEST(S176_matmul_mismatch_names_both_shapes),
              FAC_TEST(S177_matmul_into_an_output), FAC_TEST(S179_beta_zero_does_not_read_self),
              FAC_TEST(S180_empty_depth_gives_zeros_or_beta_self), FAC_TEST(products_of_vectors_and_batches),
              FAC_TEST(sums_that_lie_in_the_result), FAC_TEST(einsum_grammar), FAC_TEST(einsum_says_what_is_wrong),
              FAC_TEST(S191_products_have_gradients_to_second_order),
              FAC_TEST(products_survive_every_failed_allocation))
