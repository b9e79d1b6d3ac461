/* Transforms of functions within each other, against loops and against going backward twice; and pairs of what a tensor can be
   besides plain: batched, dual, named, sparse, quantized, with a conjugation pending, in the vendor layout. */
#include "ops/names.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>

static fac_tensor *numbers(fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    return fac_reshape(fac_sub(fac_div(fac_arange((double)n, .dtype = FAC_F64), 7.0), 0.4), sizes);
}

static void assert_close(fac_tensor *a, fac_tensor *b) {
    assert_no_error();
    assert_non_null(a);
    assert_non_null(b);
    const fac_ints x = fac_tensor_sizes(a), y = fac_tensor_sizes(b);
    assert_int_equal(x.n, y.n);
    for (size_t i = 0; i < x.n; i++) assert_int_equal(x.v[i], y.v[i]);
    assert_true(fac_allclose(fac_detach(a), fac_detach(b), .rtol = 1e-9, .atol = 1e-9));
}

/* ---- functions of one sample ------------------------------------------------------------------------------------ */

static fac_status waves(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *x = in.v[0];
    out[0] = fac_add(fac_mul(fac_sin(x), fac_cumsum(x, 0)), fac_softmax(x, 0));
    return fac_error();
}

/* Of one element. */
static fac_status energy(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_TRY(waves(context, in, out, n));
    out[0] = fac_sum(fac_mul(fac_mul(out[0], out[0]), fac_exp(in.v[0])));
    return fac_error();
}

/* In.v[0] along in.v[1]: outputs and tangents. */
static fac_status pushed(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    assert_int_equal(n, 2);
    return fac_func_jvp(waves, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &out[0], &out[1], 1);
}

static fac_status gradient(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(energy, context, FAC_TENSORS(in.v[0]), out);
}

/* The sum of the tangent: a function of one element. */
static fac_status slope(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y, *t;
    (void)n;
    FAC_TRY(fac_func_jvp(waves, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &y, &t, 1));
    out[0] = fac_sum(fac_mul(t, y));
    return fac_error();
}

static fac_status gradient_of_slope(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(slope, context, in, out, .argnums = FAC_INTS(0, 1));
}

/* The gradient along in.v[1]: a Hessian's product. */
static fac_status pushed_gradient(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_jvp(gradient, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &out[0], &out[1], 1);
}

/* The tangent's tangent. */
static fac_status pushed_twice(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *y[2], *t[2];
    (void)n;
    FAC_TRY(fac_func_jvp(pushed, context, in, FAC_TENSORS(in.v[1], in.v[0]), y, t, 2));
    out[0] = t[0];
    out[1] = t[1];
    return fac_error();
}

/* With levels opened by hand. */
static fac_status by_hand(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    FAC_DUAL_LEVEL(level);
    fac_tensor *x = fac_make_dual(in.v[0], in.v[1]), *y;
    (void)n;
    assert_true(fac_is_dual(x) && !fac_is_dual(in.v[0]));
    FAC_TRY(waves(context, FAC_TENSORS(x), &y, 1));
    const fac_dual d = fac_unpack_dual(y);
    out[0] = d.primal;
    out[1] = d.tangent;
    return fac_error();
}

static fac_status in_place(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *buffer = fac_zeros_like(fac_detach(in.v[0]));
    fac_add_(fac_select(buffer, 0, 1), fac_sum(fac_sin(in.v[0])));
    fac_mul_(buffer, in.v[0]);
    fac_copy_(fac_narrow(buffer, 0, 0, 1), fac_narrow(in.v[0], 0, 1, 1));
    out[0] = buffer;
    return fac_error();
}

static fac_status pushed_in_place(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_jvp(in_place, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &out[0], &out[1], 1);
}

/* Composites that choose their way by who wants a derivative. */
static fac_status choosing(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    fac_tensor *m = fac_outer(in.v[0], fac_cos(in.v[0]));
    out[0] = fac_matmul(fac_matrix_power(m, 2), fac_linalg_svdvals(m));
    return fac_error();
}
static fac_status pushed_choosing(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_jvp(choosing, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &out[0], &out[1], 1);
}

/* ---- vmap around them ------------------------------------------------------------------------------------------- */

/* fn, of in.v[0] and in.v[1] to two outputs, under vmap, against a loop; then the direction shared; then the point. */
static void compare(fac_func fn, int64_t n_outputs) {
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 4)), *v = fac_cos(numbers(FAC_INTS(4, 3))), *got[2], *want[2];
    const fac_ints dims[] = {FAC_INTS(0, 1), FAC_INTS(0, FAC_UNSET), FAC_INTS(FAC_UNSET, 1)};
    for (size_t k = 0; k < FAC_COUNT(dims); k++) {
        const bool own_x = dims[k].v[0] == 0, own_v = dims[k].v[1] == 1;
        fac_tensor *in[] = {own_x ? x : fac_select(x, 0, 1), own_v ? v : fac_select(v, 1, 2)};
        const fac_tensors given = {in, 2};
        assert_ok(fac_vmap(fn, NULL, given, got, (size_t)n_outputs, .in_dims = dims[k]));
        for (int64_t i = 0; i < 3; i++) {
            fac_tensor *one[] = {own_x ? fac_select(x, 0, i) : in[0], own_v ? fac_select(v, 1, i) : in[1]};
            assert_ok(fn(NULL, (fac_tensors){one, 2}, want, (size_t)n_outputs));
            for (int64_t o = 0; o < n_outputs; o++) assert_close(fac_select(got[o], 0, i), want[o]);
        }
        assert_false(fac_is_dual(got[0]) || fac_requires_grad(got[0]));
    }
}

static void vmap_over_jvp_equals_a_loop_S091(void **state) {
    (void)state;
    compare(pushed, 2);
    compare(pushed_twice, 2);
    compare(by_hand, 2);
    compare(pushed_in_place, 2);
    compare(pushed_choosing, 2);
}

static void vmap_over_reverse_over_forward_equals_a_loop_S091(void **state) {
    (void)state;
    compare(gradient_of_slope, 2);
}

static void vmap_over_forward_over_reverse_equals_a_loop_S091(void **state) {
    (void)state;
    compare(pushed_gradient, 2);
}

/* A vmap whose samples go through a jvp whose function is a vmap. */
static fac_status rows_mapped(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    return fac_vmap(waves, context, in, out, n, .in_dim = 1, .out_dim = 1);
}
static fac_status pushed_rows(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_jvp(rows_mapped, context, FAC_TENSORS(in.v[0]), FAC_TENSORS(in.v[1]), &out[0], &out[1], 1);
}

static void jvp_over_vmap_equals_a_loop_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(2, 4, 3)), *v = fac_cos(x), *got[2], *deep[2], *want[2];
    assert_ok(fac_vmap(pushed_rows, NULL, FAC_TENSORS(x, v), deep, 2));
    for (int64_t i = 0; i < 2; i++) {
        fac_tensor *xi = fac_select(x, 0, i), *vi = fac_select(v, 0, i);
        assert_ok(pushed_rows(NULL, FAC_TENSORS(xi, vi), got, 2));
        for (int64_t k = 0; k < 3; k++) {
            fac_tensor *one[] = {fac_select(xi, 1, k), fac_select(vi, 1, k)};
            assert_ok(pushed(NULL, (fac_tensors){one, 2}, want, 2));
            for (int o = 0; o < 2; o++) assert_close(fac_select(got[o], 1, k), want[o]);
        }
        for (int o = 0; o < 2; o++) assert_close(fac_select(deep[o], 0, i), got[o]);
    }
}

/* The level is outside the vmap; within, a sample is unpacked. */
static fac_status unpacked_within(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    assert_true(fac_is_dual(in.v[0]));
    const fac_dual d = fac_unpack_dual(in.v[0]);
    assert_non_null(d.tangent);
    out[1] = fac_mul(d.tangent, d.primal);
    return waves(context, in, out, 1);
}

static void dual_tensors_of_a_level_around_vmap_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    FAC_DUAL_LEVEL(level);
    fac_tensor *x = numbers(FAC_INTS(3, 4)), *v = fac_cos(x), *got[2], *want[2];
    fac_tensor *dual = fac_make_dual(x, v);
    assert_ok(fac_vmap(unpacked_within, NULL, FAC_TENSORS(dual), got, 2, .chunk_size = 2));
    assert_close(got[1], fac_mul(x, v));
    const fac_dual d = fac_unpack_dual(got[0]);
    for (int64_t i = 0; i < 3; i++) {
        assert_ok(pushed(NULL, FAC_TENSORS(fac_select(x, 0, i), fac_select(v, 0, i)), want, 2));
        assert_close(fac_select(d.primal, 0, i), want[0]);
        assert_close(fac_select(d.tangent, 0, i), want[1]);
    }
}

/* ---- forward and reverse ---------------------------------------------------------------------------------------- */

static fac_tensor *hessian_by_rows(fac_func fn, fac_tensor *at) {
    fac_tensor *leaf = fac_set_requires_grad(fac_clone(fac_detach(at)), true), *y, *g, *rows[16];
    assert_ok(fn(NULL, FAC_TENSORS(leaf), &y, 1));
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(leaf), &g, .create_graph = true));
    const int64_t n = fac_tensor_sizes(at).v[0];
    for (int64_t i = 0; i < n; i++) {
        fac_tensor *gi = fac_select(g, 0, i);
        assert_ok(fac_grad(FAC_TENSORS(gi), FAC_TENSORS(leaf), &rows[i], .retain_graph = true));
    }
    const fac_tensors all = {rows, (size_t)n};
    return fac_stack(all);
}

static fac_status hessian_of_sample(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_func_hessian(energy, context, in);
    return fac_error();
}

static void hessians_equal_going_backward_twice_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 4)), *h, *v = fac_cos(x), *got, *both[2];
    assert_ok(fac_vmap(hessian_of_sample, NULL, FAC_TENSORS(x), &h, 1));
    for (int64_t i = 0; i < 3; i++) {
        fac_tensor *xi = fac_select(x, 0, i), *vi = fac_select(v, 0, i), *want = hessian_by_rows(energy, xi);
        assert_close(fac_func_hessian(energy, NULL, FAC_TENSORS(xi)), want);
        assert_close(fac_func_hessian(energy, NULL, FAC_TENSORS(xi), .chunk_size = 3), want);
        assert_close(fac_select(h, 0, i), want);
        assert_ok(fac_func_hvp(energy, NULL, FAC_TENSORS(xi), FAC_TENSORS(vi), &got));
        assert_close(got, fac_mv(want, vi));
        assert_ok(pushed_gradient(NULL, FAC_TENSORS(xi, vi), both, 2));
        assert_close(both[1], fac_mv(want, vi));
    }
}

/* jvp(grad), in a function that somebody goes backward through: third derivatives. */
static void backward_through_pushed_gradients_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(numbers(FAC_INTS(4)), true), *v = fac_cos(numbers(FAC_INTS(4)));
    fac_tensor *both[2], *third, *plus[2], *minus[2];
    assert_ok(pushed_gradient(NULL, FAC_TENSORS(x, v), both, 2));
    assert_true(fac_requires_grad(both[1]));
    fac_tensor *sum = fac_sum(both[1]);
    assert_ok(fac_grad(FAC_TENSORS(sum), FAC_TENSORS(x), &third));
    for (int64_t i = 0; i < 4; i++) {
        fac_tensor *step = fac_zeros(FAC_INTS(4), .dtype = FAC_F64);
        fac_fill_(fac_select(step, 0, i), 1e-4);
        fac_tensor *at = fac_detach(x);
        assert_ok(pushed_gradient(NULL, FAC_TENSORS(fac_add(at, step), v), plus, 2));
        assert_ok(pushed_gradient(NULL, FAC_TENSORS(fac_sub(at, step), v), minus, 2));
        const double want = fac_item(fac_div(fac_sub(fac_sum(plus[1]), fac_sum(minus[1])), 2e-4));
        const double got = fac_item(fac_select(third, 0, i));
        assert_true(fabs(got - want) < 1e-4 * (1 + fabs(want)));
    }
}

/* The value of a gradient, and outputs of a vjp, keep their tangents within a jvp. */
static fac_status values(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    fac_tensor *g, *grads[1], *ones = fac_ones(FAC_INTS(4), .dtype = FAC_F64);
    (void)n;
    FAC_TRY(fac_func_grad(energy, context, in, &g, .value = &out[0]));
    return fac_func_vjp(waves, context, in, FAC_TENSORS(ones), &out[1], grads);
}
static void values_of_transforms_keep_tangents_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(4)), *v = fac_cos(x), *y[2], *t[2], *want[2], *wanted[2];
    assert_ok(fac_func_jvp(values, NULL, FAC_TENSORS(x), FAC_TENSORS(v), y, t, 2));
    assert_ok(fac_func_jvp(energy, NULL, FAC_TENSORS(x), FAC_TENSORS(v), want, wanted, 1));
    assert_ok(fac_func_jvp(waves, NULL, FAC_TENSORS(x), FAC_TENSORS(v), want + 1, wanted + 1, 1));
    for (int o = 0; o < 2; o++) assert_close(y[o], want[o]), assert_close(t[o], wanted[o]);
}

/* ---- Jacobians by columns --------------------------------------------------------------------------------------- */

/* What a function may do that a batch refuses: branch by an element. */
static fac_status branching(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    ++*(int *)context;
    const double first = fac_item(fac_select(in.v[0], 0, 0));
    out[0] = first > 10 ? in.v[0] : fac_mul(in.v[0], fac_flip(in.v[0], FAC_INTS(0)));
    return fac_error();
}

static fac_status noisy(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_mul(fac_dropout(in.v[0], 0.5, true), fac_rand(FAC_INTS(4), .dtype = FAC_F64));
    return fac_error();
}
static fac_status noisy_and_branching(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    int calls = 0;
    FAC_TRY(noisy(context, in, out, n));
    return branching(&calls, FAC_TENSORS(out[0]), out, n);
}

static fac_status failing(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)in, (void)out, (void)n;
    return fac_error_set(FAC_ERR_NOT_FOUND, "nothing here");
}
static fac_status whole_numbers(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_argsort(in.v[0]);
    return fac_error();
}

static fac_status of_two(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = fac_matmul(in.v[0], fac_sin(in.v[1]));
    return fac_error();
}
static fac_status columns_of_sample(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    out[0] = fac_func_jacfwd(of_two, context, in, .argnum = 1);
    return fac_error();
}

static void jacfwd_equals_jacrev_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *m = numbers(FAC_INTS(2, 3, 4)), *x = numbers(FAC_INTS(4, 2)), *j;
    fac_tensor *m0 = fac_select(m, 0, 1);
    for (int64_t arg = -2; arg < 2; arg++) {
        fac_tensor *want = fac_func_jacrev(of_two, NULL, FAC_TENSORS(m0, x), .argnum = arg);
        assert_int_equal(fac_tensor_sizes(want).n, 4);
        assert_close(fac_func_jacfwd(of_two, NULL, FAC_TENSORS(m0, x), .argnum = arg), want);
        assert_close(fac_func_jacfwd(of_two, NULL, FAC_TENSORS(m0, x), .argnum = arg, .chunk_size = 3), want);
    }
    assert_ok(fac_vmap(columns_of_sample, NULL, FAC_TENSORS(m, x), &j, 1, .in_dims = FAC_INTS(0, FAC_UNSET)));
    assert_close(fac_select(j, 0, 1), fac_func_jacrev(of_two, NULL, FAC_TENSORS(m0, x), .argnum = 1));
    fac_tensor *none = fac_zeros(FAC_INTS(4, 0), .dtype = FAC_F64);
    j = fac_func_jacfwd(of_two, NULL, FAC_TENSORS(m0, none), .argnum = 1);
    assert_non_null(j);
    assert_int_equal(fac_tensor_numel(j), 0);
    assert_int_equal(fac_tensor_sizes(j).n, 4);
}

static void jacfwd_goes_one_by_one_where_batches_are_refused_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int calls = 0;
    fac_tensor *x = numbers(FAC_INTS(4)), *want = fac_func_jacrev(branching, &calls, FAC_TENSORS(x));
    calls = 0;
    assert_close(fac_func_jacfwd(branching, &calls, FAC_TENSORS(x)), want);
    assert_int_equal(calls, 5); /* one for all, refused; and one for each */
    fac_func fns[] = {noisy, noisy_and_branching};
    for (int k = 0; k < 2; k++) {
        fac_manual_seed(5);
        want = fac_func_jacrev(fns[k], NULL, FAC_TENSORS(x));
        fac_manual_seed(5);
        assert_close(fac_func_jacfwd(fns[k], NULL, FAC_TENSORS(x)), want); /* one function, whatever it draws */
    }
    assert_null(fac_func_jacfwd(failing, NULL, FAC_TENSORS(x)));
    assert_error(FAC_ERR_NOT_FOUND, "nothing here");
    assert_null(fac_func_jacfwd(whole_numbers, NULL, FAC_TENSORS(x)));
    assert_error(FAC_ERR_DTYPE, "has no derivative");
    assert_null(fac_func_jacfwd(waves, NULL, FAC_TENSORS(fac_arange(3, .dtype = FAC_I64))));
    assert_error(FAC_ERR_DTYPE, "has no derivative");
    assert_null(fac_func_jacfwd(waves, NULL, FAC_TENSORS(x), .argnum = 1));
    assert_error(FAC_ERR_INDEX, "no input 1");
    assert_null(fac_func_jacfwd(waves, NULL, FAC_TENSORS(x), .chunk_size = 0));
    assert_error(FAC_ERR_ARGUMENT, "chunk_size");
}

/* ---- pairs of what tensors can be ------------------------------------------------------------------------------- */

typedef enum kind { PLAIN, BATCHED, DUAL, NAMED, SPARSE, QUANTIZED, CONJUGATE, VENDOR, N_KINDS } kind;
static const char *const kind_names[] = {"plain",  "batched",   "dual",      "named",
                                         "sparse", "quantized", "conjugate", "vendor"};

/* What stands for the same elements: `one` kind of it, and the ones that are not compared with themselves made plain. */
static fac_tensor *made(kind k, fac_tensor *t, bool plain) {
    switch (k) {
    case DUAL: return fac_make_dual(t, fac_mul(fac_detach(t), 0.5));
    case NAMED: return fac_rename(t, FAC_NAMES("R", "C"));
    case SPARSE: return plain ? t : fac_to_sparse(t);
    case QUANTIZED:
        return plain ? fac_detach(t) /* codes have no derivative */ : fac_quantize_per_tensor(t, 1, 0, FAC_QINT8);
    case CONJUGATE: return plain ? fac_conj_physical(t) : fac_conj(t);
    case VENDOR: return plain ? t : fac_to_mkldnn(t);
    default: return t;
    }
}

typedef struct pair {
    kind a, b;
    bool apart, plain; /* the two are two tensors, or one is both; a loop over plain ones, to compare with */
    int op;
    char names[64];
} pair;

static fac_tensor *printed(fac_tensor *t) {
    FILE *f = tmpfile();
    assert_non_null(f);
    const fac_status st = fac_print(t, f);
    fclose(f);
    return st == FAC_OK ? fac_clone(t) : NULL;
}

enum { N_OPS = 11 };
static fac_tensor *call_op(int op, fac_tensor *x, fac_tensor *y) {
    switch (op) {
    case 0: return fac_add(x, y);
    case 1: return fac_mul(x, y);
    case 2: return fac_sum(fac_add(x, y));
    case 3: return fac_mm(x, y);
    case 4: return fac_relu(x);
    case 5: return fac_clone(x);
    case 6: return fac_transpose(x, 0, 1);
    case 7: return fac_add_(fac_clone(x), y);
    case 8: return fac_index_select(x, 0, fac_tensor_from(((const int64_t[]){2, 0}), FAC_I64, FAC_INTS(2)));
    case 9: return fac_detach(x);
    default: return printed(x);
    }
}

/* The elements of t and of its tangent, without anything that t is besides. */
static fac_status take_elements(pair *p, fac_tensor *t, fac_tensor **out) {
    p->names[0] = 0;
    if (!t) return fac_error();
    const int64_t n = fac_tensor_ndim(t);
    for (int64_t d = 0; d < n && fac_has_names(t); d++) {
        const char *name = fac_tensor_name(t, d);
        strcat(strcat(p->names, name ? name : "*"), " ");
    }
    if (fac_has_names(t)) t = fac_rename(t, FAC_NAMES());
    const fac_dual parts = fac_unpack_dual(t);
    out[0] = parts.primal;
    if (fac_tensor_layout(out[0]) != FAC_STRIDED) out[0] = fac_to_dense(out[0]);
    if (fac_tensor_dtype(out[0]) == FAC_QINT8) out[0] = fac_dequantize(out[0]);
    out[0] = fac_resolve_conj(out[0]);
    out[1] = parts.tangent ? fac_to_dense(parts.tangent) : fac_zeros_like(out[0]);
    out[1] = fac_resolve_conj(out[1]);
    return fac_error();
}

static fac_status call_pair(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    pair *p = context;
    FAC_DUAL_LEVEL(level);
    fac_tensor *x = made(p->a, in.v[0], p->plain), *y = in.v[1];
    (void)n;
    if (p->apart)
        y = made(p->b, y, p->plain);
    else
        x = made(p->b, x, p->plain);
    return take_elements(p, call_op(p->op, x, y), out);
}

/* The same, sample by sample where one of the two is batched. */
static fac_status call_plain(pair *p, fac_tensors in, fac_ints dims, fac_tensor **out) {
    fac_tensor *each[2][2];
    const bool mapped = p->a == BATCHED || p->b == BATCHED;
    p->plain = true;
    for (int64_t i = 0; i < 1 + mapped; i++) {
        fac_tensor *one[2];
        for (int k = 0; k < 2; k++) one[k] = mapped && dims.v[k] == 0 ? fac_select(in.v[k], 0, i) : in.v[k];
        FAC_TRY(call_pair(p, (fac_tensors){one, 2}, each[i], 2));
    }
    for (int o = 0; o < 2; o++) out[o] = mapped ? fac_stack(FAC_TENSORS(each[0][o], each[1][o])) : each[0][o];
    return fac_error();
}

static fac_tensor *elements(const pair *p, bool batched, double shift) {
    fac_tensor *t = fac_sub(fac_arange(batched ? 18 : 9), 4 + shift);
    t = fac_reshape(t, batched ? FAC_INTS(2, 3, 3) : FAC_INTS(3, 3));
    return p->a == CONJUGATE || p->b == CONJUGATE
               ? fac_view_as_complex(fac_stack(FAC_TENSORS(t, fac_add(t, 2)), .dim = -1))
               : t;
}

/* What could be done: 1, or 0 with an error that says why it could not. */
static int try_pair(pair *p) {
    FAC_SCOPE(s);
    const bool x_batched = p->a == BATCHED || (!p->apart && p->b == BATCHED), y_batched = p->apart && p->b == BATCHED;
    fac_tensor *in[] = {elements(p, x_batched, 0), elements(p, y_batched, 1)}, *got[2], *want[2];
    const fac_ints dims = FAC_INTS(x_batched ? 0 : FAC_UNSET, y_batched ? 0 : FAC_UNSET);
    const fac_tensors given = {in, 2};
    char names[64];
    p->plain = false;
    const fac_status st =
        x_batched || y_batched ? fac_vmap(call_pair, p, given, got, 2, .in_dims = dims) : call_pair(p, given, got, 2);
    assert_int_equal(st, fac_error());
    if (st != FAC_OK) {
        if (st == FAC_ERR_INTERNAL || st == FAC_ERR_MEMORY || !*fac_error_message())
            fail_msg("%s, %s, operator %d: %s", kind_names[p->a], kind_names[p->b], p->op, fac_error_message());
        fac_error_clear();
        return 0;
    }
    memcpy(names, p->names, sizeof names);
    assert_ok(call_plain(p, given, dims, want));
    if (strcmp(names, p->names) != 0 || !fac_allclose(got[0], want[0]) || !fac_allclose(got[1], want[1]))
        fail_msg("%s, %s, operator %d%s: another result (names %s, %s)", kind_names[p->a], kind_names[p->b], p->op,
                 p->apart ? " of two" : "", names, p->names);
    return 1;
}

/* Of how many operators: of a tensor that is both, and of two tensors. What one side alone cannot do, the pair cannot: names have no
   rule for indices, codes are not computed with, relu is of real numbers, samples are not written to what they share. */
static const uint8_t expected[N_KINDS][N_KINDS][2] = {
    [BATCHED] = {[BATCHED] = {11, 11},
                 [DUAL] = {11, 11},
                 [NAMED] = {10, 11},
                 [SPARSE] = {0, 10},
                 [QUANTIZED] = {0, 6},
                 [CONJUGATE] = {10, 10},
                 [VENDOR] = {0, 6}},
    [DUAL] = {[BATCHED] = {11, 10},
              [DUAL] = {0, 11},
              [NAMED] = {10, 11},
              [SPARSE] = {0, 10},
              [QUANTIZED] = {0, 6},
              [CONJUGATE] = {10, 10},
              [VENDOR] = {0, 6}},
    [NAMED] = {[BATCHED] = {10, 9},
               [DUAL] = {10, 10},
               [NAMED] = {10, 10},
               [SPARSE] = {0, 10},
               [QUANTIZED] = {0, 5},
               [CONJUGATE] = {9, 9},
               [VENDOR] = {0, 5}},
    [SPARSE] = {[BATCHED] = {0, 9},
                [DUAL] = {0, 9},
                [NAMED] = {9, 10},
                [SPARSE] = {10, 11},
                [QUANTIZED] = {0, 6},
                [CONJUGATE] = {9, 9},
                [VENDOR] = {0, 6}},
    [QUANTIZED] = {[BATCHED] = {0, 6},
                   [DUAL] = {0, 6},
                   [NAMED] = {5, 6},
                   [SPARSE] = {0, 6},
                   [QUANTIZED] = {0, 6},
                   [VENDOR] = {0, 6}},
    [CONJUGATE] =
        {[BATCHED] = {10, 9}, [DUAL] = {10, 10}, [NAMED] = {9, 10}, [SPARSE] = {9, 10}, [CONJUGATE] = {10, 10}},
    [VENDOR] = {[BATCHED] = {0, 5},
                [DUAL] = {0, 5},
                [NAMED] = {5, 5},
                [SPARSE] = {0, 5},
                [QUANTIZED] = {0, 5},
                [VENDOR] = {0, 9}},
};

static void pairs_of_kinds_work_or_say_why_not_S091(void **state) {
    (void)state;
    int works = 0;
    for (kind a = BATCHED; a < N_KINDS; a++)
        for (kind b = BATCHED; b < N_KINDS; b++)
            for (int apart = 0; apart < 2; apart++) {
                int n = 0;
                for (int op = 0; op < N_OPS; op++) n += try_pair(&(pair){.a = a, .b = b, .apart = apart, .op = op});
                if (n < expected[a][b][apart])
                    fail_msg("%s and %s%s: %d operators work, expected %d", kind_names[a], kind_names[b],
                             apart ? ", two tensors" : "", n, expected[a][b][apart]);
                works += n;
            }
    print_message("of %d calls %d work, the others say why not\n", 2 * (N_KINDS - 1) * (N_KINDS - 1) * N_OPS, works);
}

/* ---- names, and what has no samples ------------------------------------------------------------------------------ */

static fac_status scaled(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    assert_string_equal(fac_tensor_name(in.v[0], 0), "R");
    assert_string_equal(fac_tensor_name(in.v[0], 1), "C");
    out[0] = fac_transpose(fac_mul(in.v[0], 2), 0, 1);
    return fac_error();
}
static fac_status energy_of_named(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    assert_true(fac_has_names(in.v[0]));
    out[0] = fac_sum(fac_mul(in.v[0], in.v[0]));
    return fac_error();
}
static fac_status gradient_of_named(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)n;
    return fac_func_grad(energy_of_named, context, in, out);
}

static void names_of_samples_go_in_and_out_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = numbers(FAC_INTS(3, 2, 4)), *named = fac_rename(x, FAC_NAMES("R", "N", "C")), *y, *g;
    const int64_t chunks[] = {FAC_UNSET, 1};
    for (size_t k = 0; k < FAC_COUNT(chunks); k++) {
        assert_ok(
            fac_vmap(scaled, NULL, FAC_TENSORS(named), &y, 1, .in_dim = 1, .out_dim = -1, .chunk_size = chunks[k]));
        assert_string_equal(fac_tensor_name(y, 0), "C");
        assert_string_equal(fac_tensor_name(y, 1), "R");
        assert_null(fac_tensor_name(y, 2));
        assert_close(fac_rename(y, FAC_NAMES()), fac_mul(fac_permute(x, FAC_INTS(2, 0, 1)), 2));
    }
    assert_ok(fac_vmap(gradient_of_named, NULL, FAC_TENSORS(named), &g, 1, .in_dim = 1));
    assert_close(fac_rename(g, FAC_NAMES()), fac_mul(fac_permute(x, FAC_INTS(1, 0, 2)), 2));
    assert_string_equal(fac_tensor_name(named, 1), "N");
    assert_false(fac_has_names(x));
}

static void tensors_of_other_layouts_are_no_samples_S091(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_ones(FAC_INTS(3, 2)), *y;
    FAC_DUAL_LEVEL(level);
    fac_tensor *others[] = {fac_to_sparse(x), fac_quantize_per_tensor(x, 1, 0, FAC_QINT8), fac_to_mkldnn(x)};
    for (size_t k = 0; k < FAC_COUNT(others); k++) {
        assert_int_equal(fac_vmap(waves, NULL, FAC_TENSORS(others[k]), &y, 1), FAC_ERR_UNSUPPORTED);
        assert_error(FAC_ERR_UNSUPPORTED, "cannot be mapped over");
        assert_null(y);
        assert_null(fac_make_dual(others[k], others[k]));
        assert_error(FAC_ERR_UNSUPPORTED, "cannot carry a tangent");
    }
}

/* Names live until the end of the library; here, until that of a test. */
static int forget_names(void **state) {
    fac__names_forget();
    return support_teardown(state);
}
#define NAMES_TEST(f) cmocka_unit_test_setup_teardown(f, support_setup, forget_names)

/* What names need of the dispatcher is made once. */
static int begin(void **state) {
    (void)state;
    return fac_init() || fac__names_begin() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(vmap_over_jvp_equals_a_loop_S091),
        FAC_TEST(vmap_over_reverse_over_forward_equals_a_loop_S091),
        FAC_TEST(vmap_over_forward_over_reverse_equals_a_loop_S091),
        FAC_TEST(jvp_over_vmap_equals_a_loop_S091),
        FAC_TEST(dual_tensors_of_a_level_around_vmap_S091),
        FAC_TEST(hessians_equal_going_backward_twice_S091),
        FAC_TEST(backward_through_pushed_gradients_S091),
        FAC_TEST(values_of_transforms_keep_tangents_S091),
        FAC_TEST(jacfwd_equals_jacrev_S091),
        FAC_TEST(jacfwd_goes_one_by_one_where_batches_are_refused_S091),
        NAMES_TEST(pairs_of_kinds_work_or_say_why_not_S091),
        NAMES_TEST(names_of_samples_go_in_and_out_S091),
        FAC_TEST(tensors_of_other_layouts_are_no_samples_S091),
    };
    return support_run(tests, FAC_COUNT(tests), begin);
}
