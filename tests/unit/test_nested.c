/* Nested tensors against a loop over their components. */
#include "linalg_test.h"

#include <facula/facula.h>
#include <math.h>
#include <string.h>

/* ---- lists to look at ---------------------------------------------------------------------------------------------------- */

enum { N = 5 };
static const int64_t rows[N] = {3, 1, 4, 0, 4}; /* one without elements, and two of one size */

/* n matrices [rows, columns], leaves or not. */
static void matrices(fac_tensor **out, int64_t columns, bool leaves) {
    for (int i = 0; i < N; i++) {
        out[i] = RANDOM(rows[i], columns);
        if (leaves) out[i] = fac_set_requires_grad(out[i], true);
    }
}
static void copies(fac_tensor **out, fac_tensor *const *from) {
    for (int i = 0; i < N; i++) out[i] = fac_set_requires_grad(fac_clone(fac_detach(from[i])), true);
}
static fac_tensors some(fac_tensor *const *v, size_t n) { return (fac_tensors){v, n}; }
static fac_tensors list(fac_tensor *const *v) { return some(v, N); }
static const fac_tensors none;

static void assert_components_(fac_tensor *t, fac_tensor *const *want, const char *file, int line) {
    support_no_error(file, line);
    if (!fac_is_nested(t)) _fail(file, line);
    const fac_tensors got = fac_unbind(t);
    support_no_error(file, line);
    if (got.n != N) _fail(file, line);
    for (int i = 0; i < N; i++) close_to_(got.v[i], want[i], 1e-12, file, line);
}
#define assert_components(t, want) assert_components_((t), (want), __FILE__, __LINE__)

/* A number that depends on every element of each tensor, and on its place. */
static fac_tensor *weighed(fac_tensors l) {
    fac_tensor *sum = NULL;
    for (size_t i = 0; i < l.n; i++) {
        const int64_t n = fac_tensor_numel(l.v[i]);
        fac_tensor *weights = fac_add(fac_mul(fac_arange(fac_scalar_i_(n), .dtype = FAC_F64), 0.37), 1.0 + (double)i);
        fac_tensor *part = fac_sum_all(fac_mul(fac_reshape(l.v[i], FAC_INTS(n)), fac_cos(weights)));
        sum = sum ? fac_add(sum, part) : part;
    }
    return sum;
}

/* Gradients of the components of `a` are those of `b`. */
static void assert_same_gradients_(fac_tensor *const *a, fac_tensor *const *b, const char *file, int line) {
    for (int i = 0; i < N; i++) {
        fac_tensor *x = fac_grad_of(a[i]), *y = fac_grad_of(b[i]);
        if (!x && !y) continue;
        if (!y) y = fac_zeros_like(b[i]); /* the loop did not reach it */
        close_to_(x, y, 1e-12, file, line);
    }
}
#define assert_same_gradients(a, b) assert_same_gradients_((a), (b), __FILE__, __LINE__)

/* ---- making them ----------------------------------------------------------------------------------------------------------- */

static void nested_gives_its_components_back(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N];
    matrices(v, 6, false);
    fac_tensor *t = fac_nested_tensor(list(v));
    assert_components(t, v);
    assert_int_equal(fac_tensor_ndim(t), 3);
    assert_int_equal(fac_tensor_numel(t), 72);
    assert_int_equal(fac_tensor_size(t, 0), N);
    assert_int_equal(fac_tensor_size(t, -1), 6);
    assert_int_equal(fac_tensor_size(t, 1), 0);
    assert_error(FAC_ERR_SHAPE, "Given dimension 1 is irregular and does not have a size.");
    assert_null(fac_tensor_sizes(t).v);
    assert_error(FAC_ERR_SHAPE, "dimension 1 of the nested tensor is irregular");
    assert_int_equal(fac_tensor_dtype(t), FAC_F64);
    assert_int_equal(fac_tensor_layout(t), FAC_STRIDED);
    assert_true(fac_tensor_is_contiguous(t));
    assert_false(fac_is_nested(v[0]));
    assert_null(fac_tensor_data(t));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a nested tensor");
    assert_int_equal(fac_tensor_stride(t, 0), 0);
    assert_error(FAC_ERR_UNSUPPORTED, "nested tensors do not have strides");
    int64_t sizes[2 * N];
    assert_ok(fac_tensor_read(fac_nested_tensor_size(t), FAC_I64, sizes, 2 * N));
    for (int i = 0; i < N; i++) assert_true(sizes[2 * i] == rows[i] && sizes[2 * i + 1] == 6);
}

static void nested_lists_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a = RANDOM(2, 3), *b = RANDOM(4);
    assert_null(fac_nested_tensor(FAC_TENSORS(a, b)));
    assert_error(FAC_ERR_SHAPE, "tensor 0 has 2 and tensor 1 has 1");
    assert_null(fac_nested_tensor(FAC_TENSORS(a, fac_to_dtype(a, FAC_F32))));
    assert_error(FAC_ERR_DTYPE, "tensor 0 is float64 and tensor 1 is float32");
    assert_null(fac_nested_tensor(FAC_TENSORS(fac_to_sparse(a))));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a sparse tensor");
    assert_null(fac_nested_tensor(FAC_TENSORS(a, fac_nested_tensor(FAC_TENSORS(a)))));
    assert_error(FAC_ERR_UNSUPPORTED, "nested");
    fac_tensor *empty = fac_nested_tensor(none, .dtype = FAC_F64);
    assert_no_error();
    assert_int_equal(fac_tensor_size(empty, 0), 0);
    assert_int_equal(fac_unbind(empty).n, 0);
    assert_no_error();
}

static void nested_is_a_leaf_or_keeps_the_history(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = LEAF(2, 3), *y = LEAF(4, 3);
    fac_tensor *leaf = fac_nested_tensor(FAC_TENSORS(x, y), .requires_grad = true);
    assert_true(fac_requires_grad(leaf) && fac_is_leaf(leaf));
    fac_tensor *kept = fac_as_nested_tensor(FAC_TENSORS(x, y));
    assert_true(fac_requires_grad(kept) && !fac_is_leaf(kept));
    assert_false(fac_requires_grad(fac_detach(kept)));
    assert_ok(fac_backward(fac_sum_all(fac_mul(leaf, 3.0))));
    fac_tensor *grad = fac_grad_of(leaf);
    assert_true(fac_is_nested(grad));
    assert_close(fac_unbind(grad).v[1], fac_full(FAC_INTS(4, 3), 3, .dtype = FAC_F64));
    assert_null(fac_grad_of(x)); /* its elements were copied */
    assert_ok(fac_backward(fac_mul(kept, kept), .gradient = fac_ones_like(kept)));
    assert_close(fac_grad_of(y), fac_mul(fac_detach(y), 2.0));
    assert_ok(fac_set_grad(leaf, NULL));
    assert_null(fac_grad_of(leaf));
    assert_no_error();
}

/* ---- products -------------------------------------------------------------------------------------------------------------- */

/* Products of components, and of plain tensors in a loop, and all gradients. `at` and `bt`: factors that are shown transposed. */
static void compare_bmm(bool at, bool bt) {
    FAC_SCOPE(scope);
    fac_tensor *a[N], *b[N], *c[N], *d[N], *want[N];
    for (int i = 0; i < N; i++) {
        const int64_t n = rows[i], m = i + 2, p = 7 - i;
        a[i] = at ? RANDOM(m, n) : RANDOM(n, m);
        b[i] = bt ? RANDOM(p, m) : RANDOM(m, p);
        a[i] = fac_set_requires_grad(a[i], true), b[i] = fac_set_requires_grad(b[i], true);
    }
    copies(c, a), copies(d, b);
    fac_tensor *x = fac_as_nested_tensor(list(a)), *y = fac_as_nested_tensor(list(b));
    fac_tensor *t = fac_bmm(at ? fac_transpose(x, 1, 2) : x, bt ? fac_transpose(y, -1, -2) : y);
    for (int i = 0; i < N; i++) want[i] = fac_mm(at ? fac_t(c[i]) : c[i], bt ? fac_t(d[i]) : d[i]);
    assert_components(t, want);
    assert_ok(fac_backward(weighed(fac_unbind(t))));
    assert_ok(fac_backward(weighed(list(want))));
    assert_same_gradients(a, c);
    assert_same_gradients(b, d);
}

static void S178_nested_bmm_and_gradients_are_those_of_the_components(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) compare_bmm(k & 1, k & 2);
}

static fac_status bmm_of_parts(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *a = fac_as_nested_tensor(FAC_TENSORS(in.v[0], in.v[1])),
               *b = fac_as_nested_tensor(FAC_TENSORS(in.v[2], in.v[3]));
    out[0] = fac_to_padded_tensor(fac_bmm(a, fac_transpose(b, 1, 2)), 0.5);
    return fac_error();
}

static void S178_nested_bmm_has_derivatives_of_any_order(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const fac_tensors in = FAC_TENSORS(LEAF(2, 3), LEAF(3, 2), LEAF(1, 3), LEAF(2, 2));
    assert_ok(fac_gradcheck(bmm_of_parts, NULL, in, 1, .check_forward_ad = true));
    assert_ok(fac_gradgradcheck(bmm_of_parts, NULL, in, 1));
}

static void S178_nested_bmm_takes_every_dtype_and_strided_batches(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16, FAC_I64,
                                       FAC_I32, FAC_U8,  FAC_C64, FAC_C128};
    for (size_t k = 0; k < FAC_COUNT(dtypes); k++) {
        FAC_SCOPE(s);
        const fac_dtype d = dtypes[k];
        fac_tensor *a = fac_to_dtype(fac_mul(RANDOM(2, 3), 9.0), d), *b = fac_to_dtype(fac_mul(RANDOM(4, 3), 9.0), d),
                   *w = fac_to_dtype(fac_mul(RANDOM(2, 3, 5), 9.0), d);
        const fac_tensors got = fac_unbind(fac_bmm(fac_nested_tensor(FAC_TENSORS(a, b)), w));
        assert_no_error();
        assert_true(fac_equal(got.v[0], fac_mm(a, fac_select(w, 0, 0))));
        assert_true(fac_equal(got.v[1], fac_mm(b, fac_select(w, 0, 1))));
        assert_no_error();
    }
    fac_tensor *a = fac_nested_tensor(FAC_TENSORS(RANDOM(2, 3), RANDOM(4, 3)));
    assert_null(fac_bmm(a, RANDOM(3, 3, 5)));
    assert_error(FAC_ERR_SHAPE, "to be: 2 but got: 3");
    assert_null(fac_bmm(a, RANDOM(2, 4, 5)));
    assert_error(FAC_ERR_SHAPE, "component 0: matrices of sizes 2x3 and 4x5 cannot be multiplied");
    assert_null(fac_bmm(a, fac_to_dtype(RANDOM(2, 3, 5), FAC_F32)));
    assert_error(FAC_ERR_DTYPE, "same dtype");
    assert_null(fac_bmm(a, RANDOM(3, 5)));
    assert_error(FAC_ERR_SHAPE, "batch2 must be a 3D tensor");
}

/* Many small ones, shared out; a few large ones, one after the other; of one shape, as a batch. Same bits for any number of threads. */
static void S178_nested_bmm_does_not_depend_on_threads(void **state) {
    (void)state;
    static const struct { int n, rows, step, inner; } cases[] = {{40, 3, 5, 24}, {3, 200, 31, 300}, {20, 16, 0, 32}};
    const int threads = fac_num_threads();
    for (size_t k = 0; k < FAC_COUNT(cases); k++) {
        FAC_SCOPE(s);
        fac_tensor *a[40], *b[40], *want[40];
        const size_t n = (size_t)cases[k].n;
        for (size_t i = 0; i < n; i++) {
            const int64_t r = cases[k].rows + (int64_t)i * cases[k].step;
            a[i] = fac_to_dtype(RANDOM(r, cases[k].inner), FAC_F32);
            b[i] = fac_to_dtype(RANDOM(cases[k].inner, r + 1), FAC_F32);
            want[i] = fac_mm(a[i], b[i]);
        }
        fac_tensor *x = fac_nested_tensor(some(a, n)), *y = fac_nested_tensor(some(b, n)), *one = NULL;
        for (int t = 1; t <= 4; t += 3) {
            assert_ok(fac_set_num_threads(t));
            fac_tensor *got = fac_bmm(x, y);
            assert_no_error();
            if (one) assert_true(fac_equal(got, one));
            one = got;
        }
        for (size_t i = 0; i < n; i++) assert_near(fac_select(one, 0, (int64_t)i), want[i], 1e-5);
    }
    assert_ok(fac_set_num_threads(threads));
}

static void S178_bmm_is_one_schema_with_a_kernel_for_each_kind(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const fac_operator *op = fac_operator_find("aten::bmm");
    static const char *const keys[] = {"CPU", "CUDA", "Meta", "SparseCPU", "SparseCsrCPU", "Nested"};
    for (size_t i = 0; i < FAC_COUNT(keys); i++)
        if (!fac_operator_has_kernel(op, keys[i])) fail_msg("bmm has no kernel for %s", keys[i]);
    assert_false(fac_operator_has_kernel(op, "Metal")); /* MPS: there is no such back end */
    assert_true(fac_operator_has_tag(op, "core"));
    fac_tensor *t = fac_nested_tensor(FAC_TENSORS(RANDOM(2, 3), RANDOM(4, 3)));
    assert_true(fac_tensor_keys(t) & fac_keyset_of(FAC_KEY_NESTED));
    assert_false(fac_tensor_keys(t) & (fac_keyset_of(FAC_KEY_DENSE) | fac_keyset_of(FAC_KEY_AUTOGRAD)));
    fac_tensor *meta = fac_to_device(t, fac_device_make(FAC_META, -1), FAC_F64);
    fac_tensor *shape = fac_nested_tensor_size(fac_bmm(meta, fac_transpose(meta, 1, 2)));
    assert_no_error();
    int64_t sizes[4];
    assert_ok(fac_tensor_read(shape, FAC_I64, sizes, 4));
    assert_true(sizes[0] == 2 && sizes[1] == 2 && sizes[2] == 4 && sizes[3] == 4);
}

static void nested_matmul_takes_heads_and_one_matrix(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *q[N], *k[N], *c[N], *d[N], *want[N];
    for (int i = 0; i < N; i++) {
        q[i] = LEAF(rows[i], 2, 3);
        k[i] = LEAF(rows[i], 2, 3);
    }
    copies(c, q), copies(d, k);
    /* [heads, length, 3] times [heads, 3, length] */
    fac_tensor *scores = fac_matmul(fac_transpose(fac_as_nested_tensor(list(q)), 1, 2),
                                    fac_transpose(fac_transpose(fac_as_nested_tensor(list(k)), 1, 2), -2, -1));
    for (int i = 0; i < N; i++)
        want[i] = fac_matmul(fac_transpose(c[i], 0, 1), fac_transpose(fac_transpose(d[i], 0, 1), -2, -1));
    assert_components(scores, want);
    fac_tensor *weights = fac_softmax(scores, -1);
    for (int i = 0; i < N; i++) want[i] = fac_softmax(want[i], -1);
    assert_components(weights, want);
    assert_ok(fac_backward(weighed(fac_unbind(weights))));
    assert_ok(fac_backward(weighed(list(want))));
    assert_same_gradients(q, c);
    assert_same_gradients(k, d);
    fac_tensor *v[N], *m = RANDOM(6, 4);
    matrices(v, 6, false);
    for (int i = 0; i < N; i++) want[i] = fac_mm(v[i], m);
    assert_components(fac_matmul(fac_nested_tensor(list(v)), m), want);
    assert_null(fac_matmul(m, fac_nested_tensor(list(v))));
    assert_error(FAC_ERR_UNSUPPORTED, "a nested tensor is multiplied by");
}

static void nested_linear_is_that_of_the_components(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *a[N], *b[N], *want[N], *w = LEAF(4, 6), *bias = LEAF(4);
    matrices(a, 6, true);
    copies(b, a);
    fac_tensor *w2 = fac_set_requires_grad(fac_clone(fac_detach(w)), true),
               *bias2 = fac_set_requires_grad(fac_clone(fac_detach(bias)), true);
    fac_tensor *t = fac_linear(fac_as_nested_tensor(list(a)), w, bias);
    for (int i = 0; i < N; i++) want[i] = fac_linear(b[i], w2, bias2);
    assert_components(t, want);
    assert_ok(fac_backward(weighed(fac_unbind(t))));
    assert_ok(fac_backward(weighed(list(want))));
    assert_same_gradients(a, b);
    assert_close(fac_grad_of(w), fac_grad_of(w2));
    assert_close(fac_grad_of(bias), fac_grad_of(bias2));
    assert_null(fac_linear(t, w, bias));
    assert_error(FAC_ERR_SHAPE, "must have 6 elements");
    assert_null(fac_linear(RANDOM(2, 6), fac_nested_tensor(list(b)), NULL));
    assert_error(FAC_ERR_UNSUPPORTED, "linear: expected a nested tensor as input");
}

/* ---- element by element -------------------------------------------------------------------------------------------------------- */

typedef fac_tensor *(*function)(fac_tensor *);
static fac_tensor *gelu(fac_tensor *t) { return fac_gelu(t); }
static fac_tensor *relu(fac_tensor *t) { return fac_relu(t); }
static fac_tensor *neg(fac_tensor *t) { return fac_neg(t); }
static fac_tensor *tanh_of(fac_tensor *t) { return fac_tanh(t); }
static fac_tensor *sigmoid(fac_tensor *t) { return fac_sigmoid(t); }
static fac_tensor *silu(fac_tensor *t) { return fac_silu(t); }
static fac_tensor *product_with_itself(fac_tensor *t) { return fac_mul(t, t); }
static fac_tensor *shifted(fac_tensor *t) { return fac_add(t, 2.5); }
static fac_tensor *number(double v) { return fac_tensor_from(&v, FAC_F64, (fac_ints){0}); }
static fac_tensor *scaled(fac_tensor *t) { return fac_mul(t, number(3)); }
static fac_tensor *sum_with_itself(fac_tensor *t) { return fac_add(t, fac_exp(t)); }
static fac_tensor *softmax_of(fac_tensor *t) { return fac_softmax(t, -1); }
static fac_tensor *log_softmax_of(fac_tensor *t) { return fac_log_softmax(t, -1); }
static fac_tensor *normalized(fac_tensor *t) { return fac_layer_norm(t, FAC_INTS(6)); }
static fac_tensor *sums(fac_tensor *t) { return fac_sum(t, .dim = -1); }
static fac_tensor *kept_sums(fac_tensor *t) { return fac_sum(t, .dim = -1, .keepdim = true); }
static fac_tensor *means(fac_tensor *t) { return fac_mean(t, .dim = -1); }
static fac_tensor *kept(fac_tensor *t) { return fac_dropout(t, 0.5, false); }
static fac_tensor *turned(fac_tensor *t) { return fac_contiguous(fac_transpose(t, -2, -1)); }
static fac_tensor *down(fac_tensor *t) { return fac_softmax(t, -2); }

static void nested_functions_and_gradients_are_those_of_the_components(void **state) {
    (void)state;
    static const function functions[] = {gelu,
                                         relu,
                                         neg,
                                         tanh_of,
                                         sigmoid,
                                         silu,
                                         product_with_itself,
                                         shifted,
                                         scaled,
                                         sum_with_itself,
                                         softmax_of,
                                         log_softmax_of,
                                         normalized,
                                         sums,
                                         kept_sums,
                                         means,
                                         kept,
                                         turned,
                                         down};
    for (size_t k = 0; k < FAC_COUNT(functions); k++) {
        FAC_SCOPE(s);
        fac_tensor *a[N], *b[N], *want[N];
        matrices(a, 6, true);
        copies(b, a);
        fac_tensor *t = functions[k](fac_as_nested_tensor(list(a)));
        for (int i = 0; i < N; i++) want[i] = functions[k](b[i]);
        assert_components(t, want);
        assert_ok(fac_backward(weighed(fac_unbind(t))));
        assert_ok(fac_backward(weighed(list(want))));
        assert_same_gradients(a, b);
    }
}

static void nested_operands_have_the_same_sizes(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N], *want[N];
    matrices(v, 6, false);
    fac_tensor *t = fac_nested_tensor(list(v));
    for (int i = 0; i < N; i++) want[i] = fac_mul(v[i], 2.0);
    /* stored otherwise, shown alike */
    fac_tensor *other = fac_transpose(fac_contiguous(fac_transpose(t, 1, 2)), 1, 2);
    assert_false(fac_tensor_is_contiguous(other));
    assert_components(fac_add(t, other), want);
    assert_components(fac_add(other, t), want);
    assert_true(fac_equal(t, other));
    assert_true(fac_is_same_size(t, other));
    assert_null(fac_add(t, fac_transpose(t, 1, 2)));
    assert_error(FAC_ERR_SHAPE, "nested tensors must have the same sizes, but their components have [[3, 6], [1, 6]");
    /* both as they are given, whatever the order that they are compared in */
    fac_tensor *one = fac_nested_tensor(FAC_TENSORS(RANDOM(2, 3), RANDOM(4, 3))),
               *turned_view = fac_transpose(fac_nested_tensor(FAC_TENSORS(RANDOM(5, 7), RANDOM(5, 8))), 1, 2);
    assert_null(fac_add(turned_view, one));
    assert_error(FAC_ERR_SHAPE, "their components have [[7, 5], [8, 5]] and [[2, 3], [4, 3]]");
    assert_null(fac_add(t, v[0]));
    assert_error(FAC_ERR_UNSUPPORTED,
                 "'aten::add.Tensor' takes nested tensors together with nested ones of the same sizes");
    assert_null(fac_add_(v[0], t));
    assert_error(FAC_ERR_UNSUPPORTED, "to write to");
    assert_components(t, v);
}

/* An out form writes into the tensor that is given, however it is stored, or fails. */
static void nested_out_forms_write_what_is_given(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N], *want[N], *outs[N];
    matrices(v, 6, false);
    matrices(outs, 6, false);
    fac_tensor *t = fac_nested_tensor(list(v)), *out = fac_nested_tensor(list(outs));
    for (int i = 0; i < N; i++) want[i] = fac_mul(v[i], 2.0);
    fac_add_out(out, t, t);
    assert_components(out, want);
    fac_tensor *other = fac_transpose(fac_contiguous(fac_transpose(fac_nested_tensor(list(outs)), 1, 2)), 1, 2);
    assert_components(other, outs);
    fac_add_out(other, t, t);
    assert_components(other, want);
    fac_add_(other, t);
    for (int i = 0; i < N; i++) want[i] = fac_mul(v[i], 3.0);
    assert_components(other, want);
    assert_null(fac_add_out(fac_transpose(other, 1, 2), t, t));
    assert_error(FAC_ERR_SHAPE, "nested tensors must have the same sizes");
    assert_components(other, want);
    assert_null(fac_add_out(v[0], t, t));
    assert_error(FAC_ERR_UNSUPPORTED, "to write to");
    /* two results, stored in different orders */
    fac_tensor *mantissa = fac_clone(t), *exponent = fac_to_dtype(other, FAC_I32);
    fac_frexp_out(mantissa, exponent, t);
    assert_error(FAC_ERR_UNSUPPORTED,
                 "'aten::frexp.Tensor_out' writes nested tensors whose dimensions are stored in one");
}

/* A copy is one also where there is one component, and nothing to be joined. */
static void nested_copies_of_one_component_are_copies(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    for (int64_t columns = 1; columns <= 3; columns += 2) { /* also where transposing moves nothing */
        fac_tensor *t = fac_nested_tensor(FAC_TENSORS(RANDOM(2, columns))), *turned_view = fac_transpose(t, 1, 2);
        fac_tensor *a = fac_contiguous(turned_view), *b = fac_clone(turned_view, .memory_format = FAC_CONTIGUOUS);
        fac_tensor *want = fac_clone(fac_select(turned_view, 0, 0)), *one = fac_nested_tensor(FAC_TENSORS(want));
        assert_no_error();
        fac_zero_(t);
        fac_zero_(one);
        assert_close(fac_select(a, 0, 0), fac_select(b, 0, 0));
        assert_true(fac_item(fac_sum_all(fac_abs(want))) > 0);
        assert_close(fac_select(a, 0, 0), want);
        assert_close(fac_select(b, 0, 0), want);
    }
}

static void nested_changes_in_place_are_seen_by_all(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N], *want[N];
    matrices(v, 6, false);
    fac_tensor *t = fac_nested_tensor(list(v)), *turned_view = fac_transpose(t, 1, 2), *part = fac_select(t, 0, 2);
    const int64_t version = fac_tensor_version(t);
    assert_ptr_equal(fac_add_(t, 1.0), t);
    assert_true(fac_tensor_version(t) > version);
    assert_true(fac_tensor_version(turned_view) > version);
    for (int i = 0; i < N; i++) want[i] = fac_add(v[i], 1.0);
    assert_components(t, want);
    assert_close(part, want[2]);
    fac_zero_(fac_select(t, 0, -1));
    want[N - 1] = fac_zeros_like(v[N - 1]);
    assert_components(t, want);
    fac_fill_(t, 7.0);
    for (int i = 0; i < N; i++) want[i] = fac_full_like(v[i], 7.0);
    assert_components(t, want);
    assert_close(fac_transpose(fac_unbind(turned_view).v[0], 0, 1), want[0]);
    fac_zero_(t);
    for (int i = 0; i < N; i++) want[i] = fac_zeros_like(v[i]);
    assert_components(t, want);
    /* recorded */
    fac_tensor *x = LEAF(2, 2), *y = LEAF(3, 2), *z = fac_as_nested_tensor(FAC_TENSORS(x, y));
    fac_mul_(z, 4.0);
    assert_ok(fac_backward(fac_sum_all(z)));
    assert_close(fac_grad_of(y), fac_full(FAC_INTS(3, 2), 4, .dtype = FAC_F64));
}

static void nested_copies_and_conversions(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N];
    matrices(v, 6, false);
    fac_tensor *t = fac_nested_tensor(list(v)), *copy = fac_clone(t);
    fac_zero_(t);
    assert_components(copy, v);
    fac_tensor *single = fac_to_dtype(copy, FAC_F32);
    assert_no_error();
    assert_int_equal(fac_tensor_dtype(single), FAC_F32);
    assert_near(fac_unbind(single).v[2], fac_to_dtype(v[2], FAC_F32), 0);
    assert_int_equal(fac_tensor_dtype(fac_nested_tensor(list(v), .dtype = FAC_F32)), FAC_F32);
    fac_manual_seed(3);
    fac_tensor *dropped = fac_dropout(fac_ones_like(copy), 0.5, true);
    assert_no_error();
    const double sum = fac_item(fac_sum_all(dropped));
    assert_true(sum > 0 && sum < 144 && fmod(sum, 2) == 0); /* zeros and twos */
    assert_close(fac_sum_all(copy), fac_sum_all(fac_cat(list(v))));
    assert_close(fac_mean_all(copy), fac_mean_all(fac_cat(list(v))));
    assert_close(fac_sum(copy), fac_sum_all(copy));
    assert_close(fac_mean(copy), fac_mean_all(copy));
    assert_int_equal(fac_tensor_dtype(fac_sum(copy, .dtype = FAC_F32)), FAC_F32);
}

/* ---- padding -------------------------------------------------------------------------------------------------------------------- */

static void nested_to_padded_and_back(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N], *b[N], *slices[N];
    matrices(v, 6, true);
    copies(b, v);
    fac_tensor *t = fac_as_nested_tensor(list(v)), *p = fac_to_padded_tensor(t, -2.0);
    fac_tensor *want = fac_full(FAC_INTS(N, 4, 6), -2, .dtype = FAC_F64);
    for (int i = 0; i < N; i++) fac_copy_(fac_narrow(fac_select(want, 0, i), 0, 0, rows[i]), fac_detach(b[i]));
    assert_close(p, want);
    for (int i = 0; i < N; i++) slices[i] = fac_narrow(fac_select(p, 0, i), 0, 0, rows[i]);
    assert_ok(fac_backward(weighed(list(slices))));
    assert_ok(fac_backward(weighed(list(b))));
    assert_same_gradients(v, b);
    assert_components(fac_nested_from_padded(p, fac_nested_tensor_size(t)), b);
    static const uint8_t bits[] = {1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1};
    fac_tensor *mask = fac_tensor_from(bits, FAC_BOOL, FAC_INTS(N, 4));
    assert_components(fac_nested_tensor_from_mask(p, mask), b);
    assert_null(fac_nested_tensor_from_mask(p, fac_logical_not(mask)));
    assert_error(FAC_ERR_ARGUMENT, "without gaps");
    /* room for more, and sizes that are ragged in two dimensions */
    sizes_are_(fac_to_padded_tensor(t, 0, .output_size = FAC_INTS(6, 5, 7)), FAC_INTS(6, 5, 7), __FILE__, __LINE__);
    assert_null(fac_to_padded_tensor(t, 0, .output_size = FAC_INTS(5, 3, 6)));
    assert_error(FAC_ERR_SHAPE, "output_size 3 in dimension 1 is smaller than the largest size, 4");
    fac_tensor *x = RANDOM(2, 3), *y = RANDOM(3, 1), *q = fac_to_padded_tensor(fac_nested_tensor(FAC_TENSORS(x, y)), 9);
    want = fac_full(FAC_INTS(2, 3, 3), 9, .dtype = FAC_F64);
    fac_copy_(fac_narrow(fac_select(want, 0, 0), 0, 0, 2), x);
    fac_copy_(fac_narrow(fac_select(want, 0, 1), 1, 0, 1), y);
    assert_close(q, want);
    assert_null(fac_to_padded_tensor(x, 0));
    assert_error(FAC_ERR_UNSUPPORTED, "to_padded_tensor: expected a nested tensor as self");
}

static void nested_sizes_that_overflow_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    const int64_t large = INT64_C(1) << 40;
    fac_tensor *sizes = fac_zeros(FAC_INTS(0, 2), .dtype = FAC_I64),
               *t = fac_nested_from_padded(RANDOM(0, 3, 2), sizes);
    assert_no_error();
    sizes_are_(fac_to_padded_tensor(t, 0, .output_size = FAC_INTS(0, 4, 5)), FAC_INTS(0, 4, 5), __FILE__, __LINE__);
    assert_null(fac_to_padded_tensor(t, 0, .output_size = FAC_INTS(0, large, large)));
    assert_error(FAC_ERR_OVERFLOW, "more elements than 64 bits can count");
    /* matrices without elements are counted all the same */
    fac_tensor *a = fac_nested_tensor(FAC_TENSORS(fac_expand(RANDOM(1, 1, 0, 3), FAC_INTS(large, large, 0, 3)))),
               *b = fac_nested_tensor(FAC_TENSORS(fac_expand(RANDOM(1, 1, 3, 0), FAC_INTS(large, large, 3, 0))));
    assert_no_error();
    assert_null(fac_matmul(a, b));
    assert_error(FAC_ERR_OVERFLOW, "more matrices than 64 bits can count");
    fac_tensor *rows_of_none = fac_nested_tensor(FAC_TENSORS(fac_expand(RANDOM(0, 1, 1), FAC_INTS(0, large, large))));
    assert_null(fac_layer_norm(rows_of_none, FAC_INTS(large, large)));
    assert_error(FAC_ERR_OVERFLOW, "more elements than 64 bits can count");
}

static void nested_layer_norm_of_no_components(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = fac_nested_from_padded(RANDOM(0, 3, 2), fac_zeros(FAC_INTS(0, 2), .dtype = FAC_I64));
    fac_tensor *y = fac_layer_norm(t, FAC_INTS(6));
    assert_no_error();
    assert_true(fac_is_nested(y));
    assert_int_equal(fac_tensor_size(y, 0), 0);
    y = fac_layer_norm(fac_nested_tensor(none, .dtype = FAC_F64), FAC_INTS(6));
    assert_no_error();
    assert_int_equal(fac_tensor_size(y, 0), 0);
    int64_t many[200];
    for (size_t i = 0; i < FAC_COUNT(many); i++) many[i] = 1;
    const fac_ints too_many = {many, FAC_COUNT(many)}, no_sizes = {0};
    assert_null(fac_layer_norm(t, too_many));
    assert_error(FAC_ERR_SHAPE, "normalized_shape");
    assert_null(fac_layer_norm(t, no_sizes));
    assert_error(FAC_ERR_SHAPE, "normalized_shape");
}

/* ---- transforms of functions ------------------------------------------------------------------------------------------------------ */

static fac_status nested_square(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *t = fac_as_nested_tensor(in);
    out[0] = fac_mul(t, t);
    return fac_error();
}
static fac_status component_of_square(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    if (nested_square(context, in, out, n)) return fac_error();
    out[0] = fac_select(out[0], 0, 0);
    return fac_error();
}

/* What the result of the same call on rows has. */
static void nested_results_without_components_have_the_dtype_of_the_operation(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = fac_nested_from_padded(fac_zeros(FAC_INTS(0, 3, 2), .dtype = FAC_I32),
                                           fac_zeros(FAC_INTS(0, 2), .dtype = FAC_I64));
    fac_tensor *results[] = {fac_sum(t, .dim = -1), fac_mean(t, .dim = -1, .dtype = FAC_F32),
                             fac_softmax(t, -1, .dtype = FAC_F64), fac_log_softmax(t, -1, .dtype = FAC_F32)};
    static const fac_dtype dtypes[] = {FAC_I64, FAC_F32, FAC_F64, FAC_F32};
    for (size_t i = 0; i < FAC_COUNT(results); i++) {
        assert_no_error();
        assert_true(fac_is_nested(results[i]));
        assert_int_equal(fac_tensor_dtype(results[i]), dtypes[i]);
        assert_int_equal(fac_tensor_size(results[i], 0), 0);
    }
}

static void nested_outputs_of_differentiated_functions_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = RANDOM(2, 3), *y = RANDOM(4, 3), *ones = fac_ones_like(x), *out, *tangent, *grads[2];
    static const char backward[] = "output 0 of the function to be differentiated is a nested tensor",
                      forward[] = "a nested tensor has no tangent of its own";
    const fac_tensors in = FAC_TENSORS(x, y);
    assert_int_equal(fac_func_vjp(nested_square, NULL, in, FAC_TENSORS(fac_nested_tensor(in)), &out, grads),
                     FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, backward);
    assert_null(fac_func_jacrev(nested_square, NULL, in));
    assert_error(FAC_ERR_UNSUPPORTED, backward);
    assert_int_equal(fac_func_jvp(nested_square, NULL, in, FAC_TENSORS(ones, NULL), &out, &tangent, 1),
                     FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, forward);
    /* its components have them */
    assert_ok(fac_func_vjp(component_of_square, NULL, in, FAC_TENSORS(ones), &out, grads));
    assert_close(grads[0], fac_mul(x, 2.0));
    assert_ok(fac_func_jvp(component_of_square, NULL, in, FAC_TENSORS(ones, NULL), &out, &tangent, 1));
    assert_close(tangent, fac_mul(x, 2.0));
    FAC_DUAL_LEVEL(level);
    fac_tensor *t = fac_as_nested_tensor(FAC_TENSORS(fac_make_dual(x, ones), y));
    assert_true(fac_is_dual(t));
    assert_false(fac_is_dual(fac_as_nested_tensor(in)));
    assert_null(fac_unpack_dual(t).primal);
    assert_error(FAC_ERR_UNSUPPORTED, forward);
    assert_close(fac_unpack_dual(fac_unbind(t).v[0]).tangent, ones);
}

/* ---- what is refused -------------------------------------------------------------------------------------------------------------- */

static fac_status forward_of_it(fac_function_ctx *c, fac_tensors inputs, fac_tensor **out) {
    (void)c;
    out[0] = fac_mul(inputs.v[0], 2.0);
    return fac_error();
}

static void nested_arguments_are_refused_by_name(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = fac_nested_tensor(FAC_TENSORS(RANDOM(2, 3), RANDOM(4, 3)));
    assert_null(fac_cumsum(t, 1));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::cumsum' does not take nested tensors; to_padded_tensor makes");
    assert_null(fac_cat(FAC_TENSORS(t, t)));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::cat' does not take nested tensors");
    assert_null(fac_reshape(t, FAC_INTS(6, 3)));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::reshape' does not take nested tensors");
    assert_null(fac_mse_loss(t, t));
    assert_error(FAC_ERR_UNSUPPORTED, "'aten::mse_loss' does not take nested tensors");
    assert_null(fac_to_sparse(t));
    assert_error(FAC_ERR_UNSUPPORTED, "does not take nested tensors");
    assert_null(fac_select(t, 1, 0));
    assert_error(FAC_ERR_UNSUPPORTED, "select: nested tensors are taken apart in dimension 0 only");
    assert_int_equal(fac_unbind(t, 1).n, 0);
    assert_error(FAC_ERR_UNSUPPORTED, "nested tensors are taken apart in dimension 0 only");
    assert_null(fac_transpose(t, 0, 1));
    assert_error(FAC_ERR_UNSUPPORTED, "dimension 0 of a nested tensor counts its components");
    assert_null(fac_sum(t, .dim = 1));
    assert_error(FAC_ERR_UNSUPPORTED, "is over its last dimension");
    assert_int_equal(fac_item(t), 0);
    assert_error(FAC_ERR_SHAPE, "18 elements");
    double out[18];
    assert_int_equal(fac_tensor_read(t, FAC_F64, out, 18), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "the elements of a nested tensor cannot be read; to_padded_tensor makes");
    assert_null(fac_set_requires_grad(fac_nested_tensor(FAC_TENSORS(RANDOM(2)), .dtype = FAC_I64), true));
    assert_error(FAC_ERR_DTYPE, "only Tensors of floating point");
    static const fac_function fn = {.name = "Twice", .n_outputs = 1, .forward = forward_of_it};
    fac_tensor *made;
    assert_int_equal(fac_function_apply(&fn, NULL, FAC_TENSORS(t), &made), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "cannot take part in a computation on nested tensors");
    assert_int_equal(fac_set_data(t, fac_clone(t)), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "not on a nested tensor");
    fac_tensor *leaf = fac_set_requires_grad(fac_clone(t), true);
    assert_int_equal(fac_backward(fac_mul(leaf, 2.0), .gradient = RANDOM(2, 3)), FAC_ERR_UNSUPPORTED);
    assert_error(FAC_ERR_UNSUPPORTED, "the gradient of a nested tensor is a nested one");
    assert_int_equal(fac_backward(fac_mul(leaf, 2.0)), FAC_ERR_SHAPE);
    assert_error(FAC_ERR_SHAPE, "scalar outputs");
}

static fac_tensor *doubled(void *context, fac_tensors in) {
    (void)context;
    return fac_mul(fac_relu(in.v[0]), 2.0);
}

static void nested_tensors_in_layers_and_checkpoints(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *v[N], *b[N], *want[N];
    for (int i = 0; i < N; i++) v[i] = fac_set_requires_grad(fac_to_dtype(RANDOM(rows[i], 6), FAC_F32), true);
    copies(b, v);
    fac_module *linear = fac_linear_new(6, 4), *norm = fac_layer_norm_new(FAC_INTS(4));
    fac_tensor *t = fac_checkpoint(doubled, NULL, FAC_TENSORS(fac_as_nested_tensor(list(v))));
    t = fac_forward(norm, fac_forward(linear, t));
    for (int i = 0; i < N; i++) want[i] = fac_forward(norm, fac_forward(linear, doubled(NULL, FAC_TENSORS(b[i]))));
    for (int i = 0; i < N; i++) assert_near(fac_select(t, 0, i), want[i], 1e-5);
    assert_ok(fac_backward(weighed(fac_unbind(t))));
    assert_ok(fac_backward(weighed(list(want))));
    for (int i = 0; i < N; i++)
        if (fac_grad_of(b[i])) assert_near(fac_grad_of(v[i]), fac_grad_of(b[i]), 1e-4);
    assert_null(fac_module_add_parameter(norm, "nested", fac_nested_tensor(list(v))));
    assert_error(FAC_ERR_UNSUPPORTED, "'nested' is a nested tensor, which cannot be a parameter");
    assert_null(fac_register_hook(t, NULL, NULL));
    assert_error(FAC_ERR_ARGUMENT, "a hook needs a function");
    fac_module_release(linear);
    fac_module_release(norm);
}

static void nested_tensors_are_not_of_coded_dtypes(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = RANDOM(2, 3), *codes = fac_quantize_per_tensor(fac_to_dtype(t, FAC_F32), 0.1, 0, FAC_QINT8);
    assert_null(fac_nested_tensor(FAC_TENSORS(codes)));
    assert_error(FAC_ERR_UNSUPPORTED, "not on a quantized tensor");
    assert_null(fac_nested_tensor(FAC_TENSORS(fac_to_dtype(t, FAC_F8_E5M2))));
    assert_error(FAC_ERR_DTYPE, "not float8_e5m2");
    assert_null(fac_to_dtype(fac_nested_tensor(FAC_TENSORS(t)), FAC_F8_E5M2));
    assert_error(FAC_ERR_DTYPE, "not float8_e5m2");
}

static void nested_embedding_gives_rows_of_the_table(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    static const int64_t words[] = {2, 0, 1, 2};
    fac_tensor *table = LEAF(3, 4), *a = fac_tensor_from(words, FAC_I64, FAC_INTS(3)),
               *b = fac_tensor_from(words + 3, FAC_I64, FAC_INTS(1));
    fac_tensor *t = fac_embedding(table, fac_nested_tensor(FAC_TENSORS(a, b)));
    assert_close(fac_unbind(t).v[0], fac_embedding(table, a));
    assert_close(fac_unbind(t).v[1], fac_embedding(table, b));
    assert_ok(fac_backward(fac_sum_all(t)));
    assert_near(fac_select(fac_select(fac_grad_of(table), 0, 2), 0, 0), number(2), 0);
}

static void nested_grad_gives_nested_gradients(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = fac_nested_tensor(FAC_TENSORS(RANDOM(2, 3), RANDOM(4, 3)), .requires_grad = true), *grad, *second;
    fac_tensor *cubes = fac_mul(fac_mul(t, t), t);
    assert_ok(fac_grad(FAC_TENSORS(cubes), FAC_TENSORS(t), &grad, .grad_outputs = FAC_TENSORS(fac_ones_like(t)),
                       .create_graph = true));
    assert_true(fac_is_nested(grad));
    assert_close(fac_unbind(grad).v[1], fac_mul(fac_square(fac_detach(fac_unbind(t).v[1])), 3.0));
    assert_ok(fac_grad(FAC_TENSORS(fac_sum_all(grad)), FAC_TENSORS(t), &second));
    assert_close(fac_unbind(second).v[0], fac_mul(fac_detach(fac_unbind(t).v[0]), 6.0));
}

#define TEXT_OF_TWO "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"

static void nested_text_is_that_of_pytorch(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *t = fac_nested_tensor(FAC_TENSORS(fac_tensor_of(1, 2), fac_tensor_of(3)));
    char *text = fac_tensor_string(t);
    assert_no_error();
    assert_string_equal(text, TEXT_OF_TWO);
    fac_string_free(text);
    text = fac_tensor_string(fac_set_requires_grad(t, true));
    assert_no_error();
    assert_non_null(strstr(text, "], requires_grad=True)"));
    fac_string_free(text);
}

static void nested_text_with_a_tangent_is_that_without(void **state) {
    (void)state;
    FAC_SCOPE(scope);
    fac_tensor *x = fac_tensor_of(1, 2), *y = fac_tensor_of(3);
    FAC_DUAL_LEVEL(level);
    fac_tensor *t = fac_as_nested_tensor(FAC_TENSORS(fac_make_dual(x, fac_ones_like(x)), y));
    assert_true(fac_is_dual(t));
    char *text = fac_tensor_string(t);
    assert_no_error();
    assert_string_equal(text, TEXT_OF_TWO);
    fac_string_free(text);
}

FAC_TEST_MAIN(FAC_TEST(nested_gives_its_components_back), FAC_TEST(nested_lists_that_do_not_fit_are_refused),
              FAC_TEST(nested_is_a_leaf_or_keeps_the_history),
              FAC_TEST(S178_nested_bmm_and_gradients_are_those_of_the_components),
              FAC_TEST(S178_nested_bmm_has_derivatives_of_any_order),
              FAC_TEST(S178_nested_bmm_takes_every_dtype_and_strided_batches),
              FAC_TEST(S178_nested_bmm_does_not_depend_on_threads),
              FAC_TEST(S178_bmm_is_one_schema_with_a_kernel_for_each_kind),
              FAC_TEST(nested_matmul_takes_heads_and_one_matrix), FAC_TEST(nested_linear_is_that_of_the_components),
              FAC_TEST(nested_functions_and_gradients_are_those_of_the_components),
              FAC_TEST(nested_operands_have_the_same_sizes), FAC_TEST(nested_changes_in_place_are_seen_by_all),
              FAC_TEST(nested_out_forms_write_what_is_given), FAC_TEST(nested_copies_of_one_component_are_copies),
              FAC_TEST(nested_sizes_that_overflow_are_refused), FAC_TEST(nested_layer_norm_of_no_components),
              FAC_TEST(nested_results_without_components_have_the_dtype_of_the_operation),
              FAC_TEST(nested_outputs_of_differentiated_functions_are_refused), FAC_TEST(nested_copies_and_conversions),
              FAC_TEST(nested_to_padded_and_back), FAC_TEST(nested_arguments_are_refused_by_name),
              FAC_TEST(nested_tensors_in_layers_and_checkpoints), FAC_TEST(nested_tensors_are_not_of_coded_dtypes),
              FAC_TEST(nested_embedding_gives_rows_of_the_table), FAC_TEST(nested_grad_gives_nested_gradients),
              FAC_TEST(nested_text_is_that_of_pytorch), FAC_TEST(nested_text_with_a_tangent_is_that_without))
