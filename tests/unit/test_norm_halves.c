/* Mean and reciprocal deviation of halves: the dtype in which each kind of device saves them, that backward operators take that
   dtype and no other, and that nothing is computed from what was rounded where it need not be. Values that PyTorch gives are in
   data/reference_cases.json. */
#include "support/refused.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

enum { LAYER, GROUP, BATCH, NORMS };

/* 24 elements as each operator takes them; four channels, or rows of four. */
static const char *const names[NORMS] = {"aten::native_layer_norm", "aten::native_group_norm",
                                         "aten::native_batch_norm"};
static fac_ints sizes_of(int norm) {
    static const int64_t rows[] = {6, 4}, groups[] = {2, 4, 3};
    return norm == GROUP ? (fac_ints){groups, 3} : (fac_ints){rows, 2};
}

/* What one call is given; NULL where nothing. */
typedef struct operands {
    fac_tensor *x, *w, *b, *running_mean, *running_var;
} operands;

static fac_value value_of(fac_tensor *t) { return t ? fac_value_tensor(t) : fac_value_none(); }

static void call(int norm, const operands *o, double eps, fac_value out[3]) {
    fac_value a[8] = {value_of(o->x)};
    size_t n = 1;
    if (norm == LAYER) a[n++] = fac_value_ints((const int64_t[]){4}, 1);
    a[n++] = value_of(o->w);
    a[n++] = value_of(o->b);
    if (norm == GROUP) {
        const int64_t numbers[] = {2, 4, 3, 2};
        for (size_t i = 0; i < FAC_COUNT(numbers); i++) a[n++] = fac_value_int(numbers[i]);
    }
    if (norm == BATCH) {
        a[n++] = value_of(o->running_mean);
        a[n++] = value_of(o->running_var);
        a[n++] = fac_value_bool(true);
        a[n++] = fac_value_float(0.25);
    }
    a[n++] = fac_value_float(eps);
    assert_ok(fac_call(names[norm], a, n, out));
    for (size_t i = 0; i < n; i++) fac_value_release(&a[i]);
}

static void drop(fac_value out[3]) {
    for (size_t i = 0; i < 3; i++) fac_value_release(&out[i]);
}

/* ---- dtypes ---------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    bool weight, bias, floats; /* floats: float32, else as the input */
} parameters[] = {{"none", false, false, false},
                  {"halves", true, true, false},
                  {"a half for a bias", false, true, false},
                  {"floats", true, true, true},
                  {"a float for a bias", false, true, true}};

static fac_tensor *leaf(fac_ints sizes, fac_dtype d, fac_device_type device) {
    fac_tensor *t = fac_ones(sizes, .dtype = d, .device = fac_device_make(device, -1));
    return fac_set_requires_grad(t, true);
}

/* The call's gradients exist, which they do if the backward operator took the statistics, and have their inputs' dtypes. */
static void expect_gradients(const operands *o, fac_value *out) {
    fac_tensor *all[] = {o->x, o->w, o->b}, *inputs[3], *grads[3];
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        if (all[i]) inputs[n++] = all[i];
    assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_value_as_tensor(out[0]))), fac_tensors_of(inputs, n), grads));
    for (size_t i = 0; i < n; i++) assert_int_equal(fac_tensor_dtype(grads[i]), fac_tensor_dtype(inputs[i]));
}

static void expect_dtype(int norm, fac_device_type device, fac_dtype d, size_t p) {
    FAC_SCOPE(s);
    fac_value out[3];
    fac_dtype of_parameters = parameters[p].floats ? FAC_F32 : d;
    fac_dtype wanted = device == FAC_CPU || norm == GROUP ? of_parameters : FAC_F32;
    const operands o = {.x = leaf(sizes_of(norm), d, device),
                        .w = parameters[p].weight ? leaf(FAC_INTS(4), of_parameters, device) : NULL,
                        .b = parameters[p].bias ? leaf(FAC_INTS(4), of_parameters, device) : NULL};
    call(norm, &o, 1e-5, out);
    for (size_t i = 1; i < 3; i++) {
        fac_dtype got = fac_tensor_dtype(fac_value_as_tensor(out[i]));
        if (got != wanted)
            fail_msg("%s of %s with %s: result %zu is %s, not %s", names[norm], fac_dtype_name(d), parameters[p].what,
                     i, fac_dtype_name(got), fac_dtype_name(wanted));
    }
    expect_gradients(&o, out);
    drop(out);
}

static void statistics_have_the_dtype_that_the_backward_operator_takes(void **state) {
    (void)state;
    static const fac_device_type devices[] = {FAC_CPU, FAC_META};
    static const fac_dtype halves[] = {FAC_F16, FAC_BF16};
    for (int norm = 0; norm < NORMS; norm++)
        for (size_t p = 0; p < FAC_COUNT(parameters); p++)
            for (size_t i = 0; i < 4; i++) expect_dtype(norm, devices[i / 2], halves[i % 2], p);
}

#define MASK "[True,True,True]"
static const refused_call refused[] = {
    {"native_layer_norm_backward(f16[4,3], f16[4,3], [3], f32[4,1], f32[4,1], f16[3], None, " MASK ")", FAC_ERR_DTYPE,
     "mean must be float16, got float32"},
    {"native_layer_norm_backward(bf16[4,3], bf16[4,3], [3], bf16[4,1], f32[4,1], None, None, " MASK ")", FAC_ERR_DTYPE,
     "rstd must be bfloat16, got float32"},
    {"native_layer_norm_backward(f16[4,3], f16[4,3], [3], f16[4,1], f16[4,1], None, f32[3], " MASK ")", FAC_ERR_DTYPE,
     "mean must be float32, got float16"},
    {"native_group_norm_backward(f16[2,6,5], f16[2,6,5], f16[2,3], f32[2,3], None, 2, 6, 5, 3, " MASK ")",
     FAC_ERR_DTYPE, "rstd must be float16, got float32"},
    {"native_group_norm_backward(f16[2,6,5], f16[2,6,5], f16[2,3], f16[2,3], f32[6], 2, 6, 5, 3, " MASK ")",
     FAC_ERR_DTYPE, "mean must be float32, got float16"},
    {"native_batch_norm_backward(f16[4,3], f16[4,3], None, f32[3], f32[3], f16[3], f16[3], True, 1e-05, " MASK ")",
     FAC_ERR_DTYPE, "save_mean must be float32, got float16"},
    {"native_batch_norm_backward(bf16[4,3], bf16[4,3], None, None, None, bf16[3], f32[3], True, 1e-05, " MASK ")",
     FAC_ERR_DTYPE, "save_invstd must be bfloat16, got float32"},
};
static const refused_call refused_without_data[] = {
    {"native_layer_norm_backward(f16[4,3], f16[4,3], [3], f16[4,1], f16[4,1], f16[3], None, " MASK ")", FAC_ERR_DTYPE,
     "mean must be float32, got float16"},
    {"native_batch_norm_backward(f16[4,3], f16[4,3], None, None, None, f16[3], f16[3], True, 1e-05, " MASK ")",
     FAC_ERR_DTYPE, "save_mean must be float32, got float16"},
};

static void statistics_of_another_dtype_are_refused(void **state) {
    (void)state;
    refused_run(refused, FAC_COUNT(refused), fac_device_make(FAC_CPU, -1));
    refused_run(refused_without_data, FAC_COUNT(refused_without_data), fac_device_make(FAC_META, -1));
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

/* Numbers whose mean and deviation no half holds. */
static fac_tensor *numbers(fac_ints sizes, fac_dtype d) {
    float v[24];
    for (int i = 0; i < 24; i++) v[i] = (float)(7 + sin(1.7 * i) + (double)(i % 5) / 3);
    return fac_to(fac_tensor_from(v, FAC_F32, sizes), .dtype = d);
}

static void expect_rounded(fac_tensor *half, fac_tensor *single, const char *what) {
    float a[24], b[24];
    size_t n = (size_t)fac_tensor_numel(half);
    fac_dtype d = fac_tensor_dtype(half);
    assert_in_range(d, FAC_F16, FAC_BF16);
    assert_ok(fac_tensor_read(half, FAC_F32, a, n));
    assert_ok(fac_tensor_read(fac_to(single, .dtype = d), FAC_F32, b, n));
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) fail_msg("%s of %s, element %zu: %g, not %g", what, fac_dtype_name(d), i, a[i], b[i]);
}

static void expect_results_rounded_once(int norm, fac_dtype d) {
    FAC_SCOPE(s);
    fac_value of_half[3], of_single[3];
    operands half = {.x = numbers(sizes_of(norm), d)}, single = {.x = fac_to(half.x, .dtype = FAC_F32)};
    if (norm == BATCH) {
        half.running_mean = fac_ones(FAC_SHAPE(4), .dtype = d), half.running_var = fac_ones(FAC_SHAPE(4), .dtype = d);
        single.running_mean = fac_ones(FAC_SHAPE(4)), single.running_var = fac_ones(FAC_SHAPE(4));
    }
    call(norm, &half, 1e-5, of_half);
    call(norm, &single, 1e-5, of_single);
    for (size_t i = 0; i < 3; i++)
        expect_rounded(fac_value_as_tensor(of_half[i]), fac_value_as_tensor(of_single[i]), names[norm]);
    if (norm == BATCH) {
        expect_rounded(half.running_mean, single.running_mean, "running_mean");
        expect_rounded(half.running_var, single.running_var, "running_var");
    }
    drop(of_half);
    drop(of_single);
}

static void results_of_halves_are_those_of_float32_rounded_once(void **state) {
    (void)state;
    for (int norm = 0; norm < NORMS; norm++) {
        expect_results_rounded_once(norm, FAC_F16);
        expect_results_rounded_once(norm, FAC_BF16);
    }
}

/* The gradient of rstd is -rstd^3 (x - mean) / n: the cube of 998, which no float16 holds, times 6e-5. */
static void gradients_through_statistics_of_halves_do_not_overflow_on_the_way(void **state) {
    (void)state;
    for (int norm = 0; norm < NORMS; norm++) {
        FAC_SCOPE(s);
        fac_value out[3];
        float v[24], got[24];
        fac_tensor *grad;
        for (int i = 0; i < 24; i++) v[i] = i % 3 == 1 || i % 5 == 2 ? 6e-5f : -6e-5f;
        const operands o = {
            .x = fac_set_requires_grad(fac_to(fac_tensor_from(v, FAC_F32, sizes_of(norm)), .dtype = FAC_F16), true)};
        call(norm, &o, 1e-6, out);
        assert_ok(fac_grad(FAC_TENSORS(fac_sum(fac_value_as_tensor(out[2]))), FAC_TENSORS(o.x), &grad));
        assert_ok(fac_tensor_read(grad, FAC_F32, got, 24));
        double largest = 0;
        for (int i = 0; i < 24; i++) largest = fmax(largest, isfinite(got[i]) ? fabs((double)got[i]) : INFINITY);
        assert_true(largest > 1000 && isfinite(largest));
        drop(out);
    }
}

FAC_TEST_MAIN(FAC_TEST(statistics_have_the_dtype_that_the_backward_operator_takes),
              FAC_TEST(statistics_of_another_dtype_are_refused),
              FAC_TEST(results_of_halves_are_those_of_float32_rounded_once),
              FAC_TEST(gradients_through_statistics_of_halves_do_not_overflow_on_the_way))
