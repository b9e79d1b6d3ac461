/* Operators on CUDA against the same operators on the CPU: over dtypes, strides, broadcasting and sizes on both sides of every
   change of kernel. Arithmetic is the same bits; elementary functions come from another library and agree closely. */
#include "support/cuda.h"

#include <math.h>

static fac_tensor *there(fac_tensor *t) { return fac_to(t, .device = cuda_device(0)); }
static fac_tensor *back(fac_tensor *t) { return fac_to(t, .device = fac_device_make(FAC_CPU, 0)); }

/* The two agree: dtype, sizes, and elements within `tolerance`, relative or absolute; NaN with NaN. */
static void assert_same(fac_tensor *cpu, fac_tensor *cuda, double tolerance, const char *what) {
    assert_no_error();
    assert_int_equal(fac_tensor_device(cuda).type, FAC_CUDA);
    fac_tensor *got = back(cuda);
    assert_no_error();
    if (fac_tensor_dtype(cpu) != fac_tensor_dtype(got)) fail_msg("%s: another dtype", what);
    fac_dtype wide = fac_dtype_is_complex(fac_tensor_dtype(cpu)) ? FAC_C128 : FAC_F64;
    fac_tensor *a = fac_to(cpu, .dtype = wide), *b = fac_to(got, .dtype = wide);
    bool close = fac_allclose(a, b, .rtol = tolerance, .atol = tolerance, .equal_nan = true);
    assert_no_error();
    if (close) return;
    print_error("%s:\n", what);
    assert_ok(fac_print(cpu, stderr));
    assert_ok(fac_print(got, stderr));
    fail();
}

static double tolerance_of(fac_dtype d) {
    return d == FAC_F16 ? 2e-3 : d == FAC_BF16 ? 2e-2 : d == FAC_F32 ? 2e-6 : d == FAC_F64 ? 1e-13 : 0;
}

static const fac_dtype real_dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16};
static const fac_dtype integer_dtypes[] = {FAC_U8, FAC_I8, FAC_I16, FAC_I32, FAC_I64};

/* Numbers of both signs, in different layouts: 0 plain, 1 transposed, 2 every other column, 3 one row broadcast. */
static fac_tensor *numbers(fac_dtype d, int layout, double scale) {
    fac_tensor *t = fac_mul(fac_randn(FAC_SHAPE(7, 10)), scale);
    if (layout == 1) t = fac_t(fac_mul(fac_randn(FAC_SHAPE(10, 7)), scale));
    if (layout == 2) t = fac_slice(fac_mul(fac_randn(FAC_SHAPE(7, 20)), scale), 1, .step = 2);
    t = fac_dtype_is_integral(d, true) ? fac_to(fac_round(fac_mul(t, 10.0)), .dtype = d) : fac_to(t, .dtype = d);
    if (layout == 3) t = fac_expand(fac_slice(t, 0, .end = 1), FAC_SHAPE(7, 10));
    return t;
}
/* The same numbers and layout on the device: views are made there. */
static fac_tensor *numbers_there(fac_tensor *t, int layout) {
    if (layout == 1) return fac_t(there(fac_contiguous(fac_t(t))));
    if (layout == 3) return fac_expand(there(fac_contiguous(fac_slice(t, 0, .end = 1))), FAC_SHAPE(7, 10));
    if (layout == 0) return there(t);
    fac_tensor *wide = fac_stack(FAC_TENSORS(there(fac_contiguous(t)), there(fac_contiguous(t))), .dim = 2);
    return fac_slice(fac_reshape(wide, FAC_SHAPE(7, 20)), 1, .step = 2);
}

/* ---- pointwise --------------------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define UNARY(X)                                                                                                       \
    X(abs)                                                                                                             \
    X(neg) X(sign) X(ceil) X(floor) X(round) X(trunc) X(reciprocal) X(sqrt) X(rsqrt) X(square) X(exp) X(exp2) X(expm1) \
        X(log) X(log2) X(log10) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) \
            X(acosh) X(atanh) X(erf) X(erfc) X(sinc) X(sigmoid) X(relu) X(silu) X(mish) X(hardswish) X(hardsigmoid)    \
                X(log_sigmoid) X(isnan) X(isinf) X(isfinite) X(logical_not) X(gelu) X(elu) X(leaky_relu) X(hardtanh)   \
                    X(softplus)
#define UNARY_INTEGER(X) \
    X(abs) X(neg) X(sign) X(square) X(bitwise_not) X(relu) X(logical_not) X(isnan) X(isfinite) X(floor)
#define BINARY(X)                                                                                                 \
    X(add)                                                                                                        \
    X(sub) X(mul) X(div) X(maximum) X(minimum) X(pow) X(atan2) X(fmod) X(remainder) X(eq) X(ne) X(lt) X(le) X(gt) \
        X(ge) X(logical_and) X(logical_or) X(logical_xor)
#define BINARY_INTEGER(X)                                                                                       \
    X(add)                                                                                                      \
    X(sub) X(mul) X(div) X(maximum) X(minimum) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(bitwise_and) X(bitwise_or) \
        X(bitwise_xor) X(logical_and) X(logical_or) X(logical_xor)

/* clang-format on */

#define DEFINE_1(name) \
    static fac_tensor *do_##name(fac_tensor *t) { return fac_##name(t); }
#define DEFINE_2(name) \
    static fac_tensor *do2_##name(fac_tensor *a, fac_tensor *b) { return fac_##name(a, b); }
UNARY(DEFINE_1)
DEFINE_1(bitwise_not)
BINARY(DEFINE_2)
DEFINE_2(bitwise_and)
DEFINE_2(bitwise_or)
DEFINE_2(bitwise_xor)

typedef struct unary_case {
    const char *name;
    fac_tensor *(*f)(fac_tensor *);
} unary_case;
typedef struct binary_case {
    const char *name;
    fac_tensor *(*f)(fac_tensor *, fac_tensor *);
} binary_case;
#define CASE_1(name) {#name, do_##name},
#define CASE_2(name) {#name, do2_##name},
static const unary_case unary[] = {UNARY(CASE_1)}, unary_integer[] = {UNARY_INTEGER(CASE_1)};
static const binary_case binary[] = {BINARY(CASE_2)}, binary_integer[] = {BINARY_INTEGER(CASE_2)};

static void check_unary(const unary_case *c, fac_dtype d, int layout) {
    FAC_SCOPE(s);
    char what[80];
    fac_tensor *x = numbers(d, layout, 1.5);
    snprintf(what, sizeof what, "%s of %s, layout %d", c->name, fac_dtype_name(d), layout);
    assert_same(c->f(x), c->f(numbers_there(x, layout)), 4 * tolerance_of(d), what);
}

static void S105_cuda_unary_operators_agree_with_the_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(unary); i++)
        for (size_t d = 0; d < FAC_COUNT(real_dtypes); d++)
            for (int layout = 0; layout < 4; layout++) check_unary(&unary[i], real_dtypes[d], layout);
    for (size_t i = 0; i < FAC_COUNT(unary_integer); i++)
        for (size_t d = 0; d < FAC_COUNT(integer_dtypes); d++)
            check_unary(&unary_integer[i], integer_dtypes[d], (int)d % 4);
}

static void check_binary(const binary_case *c, fac_dtype da, fac_dtype db, int la, int lb) {
    FAC_SCOPE(s);
    char what[96];
    fac_tensor *a = numbers(da, la, 1), *b = numbers(db, lb, 1);
    if (fac_dtype_is_integral(da, true) && fac_dtype_is_integral(db, true)) b = fac_clamp(b, .min = 1);
    snprintf(what, sizeof what, "%s of %s and %s, layouts %d and %d", c->name, fac_dtype_name(da), fac_dtype_name(db),
             la, lb);
    fac_tensor *cpu = c->f(a, b);
    fac_dtype d = fac_promote_types(da, db);
    double tolerance = fac_dtype_is_integral(d, true) ? 1e-6 : 4 * tolerance_of(d);
    assert_same(cpu, c->f(numbers_there(a, la), lb ? there(fac_contiguous(b)) : there(b)), tolerance, what);
}

static void S105_cuda_binary_operators_agree_with_the_cpu(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(binary); i++)
        for (size_t d = 0; d < FAC_COUNT(real_dtypes); d++)
            for (int layout = 0; layout < 4; layout++)
                check_binary(&binary[i], real_dtypes[d], real_dtypes[(d + (size_t)layout) % 4], layout,
                             (layout * 3) % 4);
    for (size_t i = 0; i < FAC_COUNT(binary_integer); i++)
        for (size_t d = 0; d < FAC_COUNT(integer_dtypes); d++)
            check_binary(&binary_integer[i], integer_dtypes[d], integer_dtypes[(d + i) % 5], (int)d % 4, 0);
}

static void S105_cuda_numbers_and_cpu_scalars_are_operands(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(33)), *n = fac_to(fac_arange(20), .dtype = FAC_I32);
    assert_same(fac_add(x, 2.5, .alpha = 3), fac_add(there(x), 2.5, .alpha = 3), 0, "add with alpha");
    assert_same(fac_mul(n, 3), fac_mul(there(n), 3), 0, "integers times a number");
    assert_same(fac_mul(n, 0.5), fac_mul(there(n), 0.5), 0, "integers times a float");
    assert_same(fac_pow(x, 2), fac_pow(there(x), 2), 0, "square");
    fac_tensor *zero_dim = fac_scalar_tensor(1.25);
    assert_same(fac_mul(x, zero_dim), fac_mul(there(x), zero_dim), 0, "a 0-dim CPU tensor");
    assert_same(fac_lerp(x, fac_neg(x), 0.25), fac_lerp(there(x), fac_neg(there(x)), 0.25), 0, "lerp");
    assert_same(fac_clamp(x, .min = -0.5, .max = 1), fac_clamp(there(x), .min = -0.5, .max = 1), 0, "clamp");
    fac_tensor *mask = fac_gt(x, 0);
    assert_same(fac_where(mask, x, 0), fac_where(there(mask), there(x), 0), 0, "where");
    assert_same(fac_masked_fill(x, mask, -1), fac_masked_fill(there(x), there(mask), -1), 0, "masked_fill");
}

static void S105_cuda_broadcasting_and_many_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(5, 1, 4)), *b = fac_randn(FAC_SHAPE(3, 1));
    assert_same(fac_add(a, b), fac_add(there(a), there(b)), 0, "broadcast");
    /* Ten dimensions that cannot be merged take more than one launch. */
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 2, 2, 2, 2, 2, 2, 2, 2, 2)), *y = x, *z = there(x);
    for (int d = 0; d < 9; d += 2) y = fac_transpose(y, d, (d + 3) % 10), z = fac_transpose(z, d, (d + 3) % 10);
    assert_same(fac_mul(x, y), fac_mul(there(x), z), 0, "ten dimensions");
    fac_tensor *e = fac_empty(FAC_SHAPE(0, 3));
    assert_same(fac_exp(e), fac_exp(there(e)), 0, "empty");
}

static void S105_cuda_outputs_in_place_and_given(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(6, 5)), *y = fac_clone(x), *z = there(x);
    assert_same(fac_mul_(fac_t(y), 2), fac_mul_(fac_t(z), 2), 0, "in place, transposed");
    assert_same(y, z, 0, "its base");
    fac_tensor *out = there(fac_zeros(FAC_SHAPE(6, 5), .dtype = FAC_F64));
    assert_same(fac_to(fac_exp(x), .dtype = FAC_F64), fac_exp_out(out, there(x)), 1e-6, "into another dtype");
}

static void S106_cuda_prelu_and_its_gradients(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(4, 3, 5)), *w = fac_rand(FAC_SHAPE(3));
    fac_tensor *xc = there(x), *wc = there(w);
    fac_tensor *const leaves[] = {x, w, xc, wc};
    for (size_t i = 0; i < 4; i++) assert_non_null(fac_set_requires_grad(leaves[i], true));
    fac_tensor *cpu = fac_sum(fac_prelu(x, w)), *cuda = fac_sum(fac_prelu(xc, wc));
    assert_same(fac_detach(cpu), fac_detach(cuda), 1e-5, "prelu");
    assert_ok(fac_backward(cpu));
    assert_ok(fac_backward(cuda));
    assert_same(fac_grad_of(x), fac_grad_of(xc), 0, "prelu, input");
    assert_same(fac_grad_of(w), fac_grad_of(wc), 1e-5, "prelu, weight");
}

/* ---- copies ------------------------------------------------------------------------------------------------------------------- */

static void cuda_copies_convert_as_the_cpu_does(void **state) {
    (void)state;
    static const fac_dtype all[] = {FAC_BOOL, FAC_U8,   FAC_I8,  FAC_I16, FAC_I32, FAC_I64,
                                    FAC_F16,  FAC_BF16, FAC_F32, FAC_F64, FAC_C64, FAC_C128};
    double values[] = {0,    -0.0,  1,   -1,   0.5,  2.5,   -2.5, 100.7,    300,
                       -300, 70000, 3e9, -3e9, 1e19, -1e19, NAN,  INFINITY, -INFINITY};
    for (size_t i = 0; i < FAC_COUNT(all); i++)
        for (size_t j = 0; j < FAC_COUNT(all); j++) {
            FAC_SCOPE(s);
            char what[64];
            fac_tensor *x = fac_to(fac_tensor_from(values, FAC_F64, FAC_SHAPE(18)), .dtype = all[i]);
            snprintf(what, sizeof what, "%s to %s", fac_dtype_name(all[i]), fac_dtype_name(all[j]));
            assert_same(fac_to(x, .dtype = all[j]), fac_to(there(x), .dtype = all[j]), 0, what);
            fac_tensor *m = fac_reshape(x, FAC_SHAPE(3, 6)), *n = fac_reshape(there(x), FAC_SHAPE(3, 6));
            assert_same(fac_contiguous(fac_t(m)), fac_contiguous(fac_t(n)), 0, what);
        }
}

static void cuda_fills(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(4, 6), .dtype = FAC_BF16), *y = there(x);
    assert_same(fac_fill_(fac_t(x), 1.7), fac_fill_(fac_t(y), 1.7), 0, "fill");
    assert_same(x, y, 0, "fill");
    assert_same(fac_zero_(fac_t(x)), fac_zero_(fac_t(y)), 0, "zero");
    assert_same(fac_arange(5.0, .dtype = FAC_F32), fac_arange(5.0, .dtype = FAC_F32, .device = cuda_device(0)), 0,
                "arange");
    assert_same(fac_linspace(-1, 3, 9), fac_linspace(-1, 3, 9, .device = cuda_device(0)), 0, "linspace");
    assert_same(fac_eye(4), fac_eye(4, .device = cuda_device(0)), 0, "eye");
    assert_same(fac_full(FAC_SHAPE(3), 7), fac_full(FAC_SHAPE(3), 7, .device = cuda_device(0)), 0, "full");
    assert_float_equal(fac_item(there(fac_scalar_tensor(2.5))), 2.5, 0);
    assert_true(fac_equal(there(fac_ones(FAC_SHAPE(3))), fac_ones(FAC_SHAPE(3), .device = cuda_device(0))));
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------------ */

#define REDUCE(X) X(sum) X(mean) X(prod) X(amax) X(amin) X(argmax) X(argmin) X(any) X(all)

static void S055_cuda_reductions_agree_with_the_cpu(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_BF16, FAC_I32, FAC_BOOL};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++)
        for (int layout = 0; layout < 3; layout++) {
            FAC_SCOPE(s);
            fac_tensor *x = numbers(dtypes[d], layout, 1), *y = numbers_there(x, layout);
            double t = 8 * tolerance_of(dtypes[d]);
            assert_same(fac_sum(x), fac_sum(y), t, "sum");
            assert_same(fac_any(x), fac_any(y), 0, "any");
            assert_same(fac_all(x), fac_all(y), 0, "all");
            assert_same(fac_prod(x), fac_prod(y), t, "prod");
            for (int dim = 0; dim < 2; dim++) {
                assert_same(fac_sum(x, .dim = dim), fac_sum(y, .dim = dim), t, "sum along");
                assert_same(fac_amax(x, .dim = dim), fac_amax(y, .dim = dim), 0, "amax");
                assert_same(fac_amin(x, .dim = dim, .keepdim = true), fac_amin(y, .dim = dim, .keepdim = true), 0,
                            "amin");
                if (dtypes[d] == FAC_BOOL) continue;
                assert_same(fac_argmax(x, .dim = dim), fac_argmax(y, .dim = dim), 0, "argmax");
                assert_same(fac_argmin(x, .dim = dim), fac_argmin(y, .dim = dim), 0, "argmin");
            }
            if (!fac_dtype_is_floating(dtypes[d])) continue;
            assert_same(fac_mean(x), fac_mean(y), t, "mean");
            assert_same(fac_mean(x, .dim = 1), fac_mean(y, .dim = 1), t, "mean along");
        }
}

static void S055_cuda_reductions_over_many_blocks(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(3, 30001)), *y = there(x), *n = fac_to(fac_mul(x, 10.0), .dtype = FAC_I64);
    assert_same(fac_sum(x), fac_sum(y), 2e-4, "sum");
    assert_same(fac_sum(n), fac_sum(there(n)), 0, "sum of integers");
    assert_same(fac_sum(x, .dim = 1), fac_sum(y, .dim = 1), 2e-4, "sum of rows");
    assert_same(fac_sum(x, .dim = 0), fac_sum(y, .dim = 0), 1e-6, "sum of columns");
    assert_same(fac_mean(x), fac_mean(y), 1e-6, "mean");
    assert_same(fac_max(x), fac_max(y), 0, "max");
    assert_same(fac_min(x), fac_min(y), 0, "min");
    assert_same(fac_argmax(x), fac_argmax(y), 0, "argmax");
    assert_same(fac_argmin(x, .dim = 1), fac_argmin(y, .dim = 1), 0, "argmin of rows");
    assert_same(fac_all(fac_lt(x, 100)), fac_all(fac_lt(y, 100)), 0, "all");
    /* The first of equals, and NaN before every number. */
    fac_tensor *ties = fac_zeros(FAC_SHAPE(20000));
    assert_same(fac_argmax(ties), fac_argmax(there(ties)), 0, "argmax of equals");
    ((float *)fac_tensor_data(ties))[17000] = NAN;
    assert_same(fac_argmax(ties), fac_argmax(there(ties)), 0, "argmax with NaN");
    assert_same(fac_max(ties), fac_max(there(ties)), 0, "max with NaN");
}

/* Each element is converted first, so that halves neither overflow nor are rounded on the way. */
static void cuda_sums_are_made_in_the_dtype_of_an_out_tensor(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *half = fac_full(FAC_SHAPE(3, 10), 60000, .dtype = FAC_F16), *cpu = fac_empty(FAC_SHAPE(3)),
               *cuda = fac_empty(FAC_SHAPE(3), .device = cuda_device(0)), *exact = fac_full(FAC_SHAPE(3), 600000);
    assert_same(fac_sum_out(cpu, half, .dim = 1), fac_sum_out(cuda, there(half), .dim = 1), 0, "sum");
    assert_true(fac_equal(cpu, exact) && fac_equal(back(cuda), exact));
    fac_tensor *thirds = fac_to(fac_div(fac_arange(30), 3.0), .dtype = FAC_BF16);
    thirds = fac_view(thirds, FAC_INTS(3, 10));
    assert_same(fac_mean_out(cpu, thirds, .dim = 1), fac_mean_out(cuda, there(thirds), .dim = 1), 1e-6, "mean");
}

/* ---- products ------------------------------------------------------------------------------------------------------------------------ */

static void cuda_products_agree_with_the_cpu(void **state) {
    (void)state;
    static const fac_dtype dtypes[] = {FAC_F32, FAC_F64, FAC_F16, FAC_BF16, FAC_I32};
    for (size_t d = 0; d < FAC_COUNT(dtypes); d++) {
        FAC_SCOPE(s);
        fac_dtype t = dtypes[d];
        double tolerance = 20 * tolerance_of(t);
        fac_tensor *a = fac_to(fac_mul(fac_randn(FAC_SHAPE(19, 33)), 3.0), .dtype = t);
        fac_tensor *b = fac_to(fac_mul(fac_randn(FAC_SHAPE(40, 33)), 3.0), .dtype = t);
        fac_tensor *c = fac_to(fac_randn(FAC_SHAPE(40)), .dtype = t);
        assert_same(fac_mm(a, fac_t(b)), fac_mm(there(a), fac_t(there(b))), tolerance, "mm");
        assert_same(fac_addmm(c, a, fac_t(b)), fac_addmm(there(c), there(a), fac_t(there(b))), tolerance, "addmm");
        fac_tensor *e = fac_to(fac_randn(FAC_SHAPE(3, 4, 5)), .dtype = t),
                   *f = fac_to(fac_randn(FAC_SHAPE(3, 5, 2)), .dtype = t);
        assert_same(fac_bmm(e, f), fac_bmm(there(e), there(f)), tolerance, "bmm");
        fac_tensor *v = fac_to(fac_randn(FAC_SHAPE(33)), .dtype = t);
        assert_same(fac_mv(a, v), fac_mv(there(a), there(v)), tolerance, "mv");
    }
    FAC_SCOPE(s);
    fac_tensor *a = fac_randn(FAC_SHAPE(4, 3)), *b = fac_randn(FAC_SHAPE(3, 5)), *n = fac_full(FAC_SHAPE(4, 5), NAN);
    assert_same(fac_addmm(n, a, b, .beta = 0), fac_addmm(there(n), there(a), there(b), .beta = 0), 1e-6,
                "beta 0 reads nothing");
    assert_same(fac_mm(fac_empty(FAC_SHAPE(2, 0)), fac_empty(FAC_SHAPE(0, 3))),
                fac_mm(there(fac_empty(FAC_SHAPE(2, 0))), there(fac_empty(FAC_SHAPE(0, 3)))), 0, "nothing to sum");
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------------ */

static void check_gradient(fac_tensor *(*f)(fac_tensor *), fac_tensor *x, double tolerance, const char *what) {
    fac_tensor *y = there(x);
    assert_non_null(fac_set_requires_grad(x, true));
    assert_non_null(fac_set_requires_grad(y, true));
    fac_tensor *cpu = f(x), *cuda = f(y);
    assert_same(fac_detach(cpu), fac_detach(cuda), tolerance, what);
    fac_tensor *g = fac_randn_like(fac_detach(cpu));
    assert_ok(fac_backward(fac_sum(fac_mul(cpu, g))));
    assert_ok(fac_backward(fac_sum(fac_mul(cuda, there(g)))));
    assert_same(fac_grad_of(x), fac_grad_of(y), tolerance, what);
}
static fac_tensor *softmax_last(fac_tensor *t) { return fac_softmax(t, -1); }
static fac_tensor *softmax_first(fac_tensor *t) { return fac_softmax(t, 0); }
static fac_tensor *log_softmax_last(fac_tensor *t) { return fac_log_softmax(t, -1); }
static fac_tensor *layer_norm(fac_tensor *t) { return fac_layer_norm(t, FAC_INTS(fac_tensor_size(t, -1))); }

static void cuda_rows_agree_with_the_cpu(void **state) {
    (void)state;
    for (size_t d = 0; d < 2; d++)
        for (int64_t n = 3; n < 1200; n *= 17) {
            FAC_SCOPE(s);
            double t = real_dtypes[d] == FAC_F32 ? 2e-5 : 1e-11;
            fac_tensor *x = fac_randn(FAC_SHAPE(4, n), .dtype = real_dtypes[d]);
            check_gradient(softmax_last, fac_clone(x), t, "softmax");
            check_gradient(softmax_first, fac_clone(x), t, "softmax along the first dimension");
            check_gradient(log_softmax_last, fac_clone(x), t, "log_softmax");
            check_gradient(layer_norm, fac_clone(x), t, "layer_norm");
        }
}

static void cuda_losses_and_embeddings_agree_with_the_cpu(void **state) {
    (void)state;
    FAC_SCOPE(s);
    int64_t classes[] = {1, 0, 4, -100, 2, 4};
    fac_tensor *x = fac_randn(FAC_SHAPE(6, 5)), *target = fac_tensor_from(classes, FAC_I64, FAC_SHAPE(6)),
               *w = fac_rand(FAC_SHAPE(5));
    fac_tensor *y = there(x), *target_there = there(target), *w_there = there(w);
    for (fac_loss_reduction reduction = FAC_REDUCTION_NONE; reduction <= FAC_REDUCTION_SUM; reduction++) {
        assert_same(fac_cross_entropy(x, target, .reduction = reduction),
                    fac_cross_entropy(y, target_there, .reduction = reduction), 1e-5, "cross entropy");
        assert_same(fac_nll_loss(x, target, .weight = w, .reduction = reduction),
                    fac_nll_loss(y, target_there, .weight = w_there, .reduction = reduction), 1e-5, "nll");
    }
    assert_non_null(fac_set_requires_grad(x, true));
    assert_non_null(fac_set_requires_grad(y, true));
    assert_ok(fac_backward(fac_cross_entropy(x, target, .weight = w)));
    assert_ok(fac_backward(fac_cross_entropy(y, target_there, .weight = w_there)));
    assert_same(fac_grad_of(x), fac_grad_of(y), 1e-6, "cross entropy's gradient");

    fac_tensor *moved =
        fac_add(fac_round(fac_detach(x)), 8192.0); /* exact, so that the loss is as without the offset */
    assert_same(fac_cross_entropy(fac_round(fac_detach(x)), target), fac_cross_entropy(there(moved), target_there),
                1e-6, "cross entropy of large scores");

    int64_t rows[] = {3, 0, 3, 2};
    fac_tensor *table = fac_randn(FAC_SHAPE(5, 7)), *index = fac_tensor_from(rows, FAC_I64, FAC_SHAPE(2, 2));
    fac_tensor *table_there = there(table);
    assert_non_null(fac_set_requires_grad(table, true));
    assert_non_null(fac_set_requires_grad(table_there, true));
    fac_tensor *a = fac_embedding(table, index), *b = fac_embedding(table_there, there(index));
    assert_same(fac_detach(a), fac_detach(b), 0, "embedding");
    assert_ok(fac_backward(fac_sum(fac_square(a))));
    assert_ok(fac_backward(fac_sum(fac_square(b))));
    assert_same(fac_grad_of(table), fac_grad_of(table_there), 1e-6, "embedding's gradient");
    fac_tensor *flat = fac_reshape(index, FAC_SHAPE(4));
    assert_same(fac_index_select(fac_detach(table), 0, flat), fac_index_select(fac_detach(table_there), 0, there(flat)),
                0, "index_select");
}

/* ---- random numbers ---------------------------------------------------------------------------------------------------------------------- */

static void cuda_random_numbers_are_the_cpus_bit_for_bit(void **state) {
    (void)state;
    for (size_t d = 0; d < FAC_COUNT(real_dtypes); d++) {
        FAC_SCOPE(s);
        fac_tensor *x = fac_empty(FAC_SHAPE(9, 50), .dtype = real_dtypes[d]), *y = there(x);
        fac_manual_seed(7);
        fac_uniform_(x, .from = -1, .to = 2);
        fac_tensor *u = fac_clone(x);
        fac_normal_(fac_t(x));
        fac_manual_seed(7);
        assert_same(u, fac_uniform_(y, .from = -1, .to = 2), 0, "uniform");
        fac_normal_(fac_t(y));
        assert_same(x, y, 0, "normal, transposed");
        fac_manual_seed(8);
        fac_tensor *b = fac_bernoulli_float_(x, .p = 0.3), *keep = fac_clone(b);
        fac_manual_seed(8);
        assert_same(keep, fac_bernoulli_float_(y, .p = 0.3), 0, "bernoulli");
        fac_tensor *z = fac_randn(FAC_SHAPE(300), .dtype = real_dtypes[d]);
        fac_manual_seed(9);
        fac_tensor *dropped = fac_dropout(z, 0.4, true);
        fac_manual_seed(9);
        assert_same(dropped, fac_dropout(there(z), 0.4, true), 0, "dropout");
    }
}

/* ---- failing allocations ------------------------------------------------------------------------------------------------------------------ */

typedef struct operands {
    fac_tensor *x, *target, *table;
} operands;

/* What takes scratch memory or copies of operands. */
static fac_status with_scratch(void *context) {
    const operands *o = context;
    FAC_SCOPE(s);
    fac_tensor *transposed = fac_t(o->x), *results[] = {
                                              fac_sum(o->x),
                                              fac_argmax(o->x),
                                              fac_softmax(transposed, 0),
                                              fac_layer_norm(transposed, FAC_INTS(2)),
                                              fac_cross_entropy(transposed, o->target),
                                              fac_dropout(transposed, 0.5, true),
                                              fac_embedding(o->table, o->target),
                                              fac_index_select(o->x, 1, o->target),
                                          };
    (void)results;
    return fac_error();
}

static void cuda_operators_survive_failing_allocations(void **state) {
    (void)state;
    FAC_SCOPE(s);
    operands o = {there(fac_randn(FAC_SHAPE(2, 9000))), there(fac_zeros(FAC_SHAPE(9000), .dtype = FAC_I64)),
                  there(fac_randn(FAC_SHAPE(3, 4)))};
    assert_no_error();
    assert_ok(with_scratch(&o));
    support_fail_each_allocation(with_scratch, &o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_CUDA_TEST(S105_cuda_unary_operators_agree_with_the_cpu),
        FAC_CUDA_TEST(S105_cuda_binary_operators_agree_with_the_cpu),
        FAC_CUDA_TEST(S105_cuda_numbers_and_cpu_scalars_are_operands),
        FAC_CUDA_TEST(S105_cuda_broadcasting_and_many_dimensions),
        FAC_CUDA_TEST(S105_cuda_outputs_in_place_and_given),
        FAC_CUDA_TEST(S106_cuda_prelu_and_its_gradients),
        FAC_CUDA_TEST(cuda_copies_convert_as_the_cpu_does),
        FAC_CUDA_TEST(cuda_fills),
        FAC_CUDA_TEST(S055_cuda_reductions_agree_with_the_cpu),
        FAC_CUDA_TEST(S055_cuda_reductions_over_many_blocks),
        FAC_CUDA_TEST(cuda_sums_are_made_in_the_dtype_of_an_out_tensor),
        FAC_CUDA_TEST(cuda_products_agree_with_the_cpu),
        FAC_CUDA_TEST(cuda_rows_agree_with_the_cpu),
        FAC_CUDA_TEST(cuda_losses_and_embeddings_agree_with_the_cpu),
        FAC_CUDA_TEST(cuda_random_numbers_are_the_cpus_bit_for_bit),
        FAC_CUDA_TEST(cuda_operators_survive_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
