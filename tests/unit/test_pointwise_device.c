/* Pointwise operators on a kind of device that runs them by a table of its own (fac_register_pointwise), support/npu.c's; nothing
   but public headers. */
#include "support/npu.h"
#include "support/support.h"
#include <facula/facula.h>
#include <math.h>

static struct seen {
    int calls, ndim, n_in, n_numbers;
    char op[32], loop[32];
    fac_dtype dtype, out_dtype;
} last;

static double read_at(const char *p, fac_dtype d) {
    if (d == FAC_F32) return *(const float *)(const void *)p;
    if (d == FAC_I64) return (double)*(const int64_t *)(const void *)p;
    return *(const uint8_t *)p;
}

static void write_at(char *p, fac_dtype d, double v) {
    if (d == FAC_F32) *(float *)(void *)p = (float)v;
    if (d == FAC_I64) *(int64_t *)(void *)p = (int64_t)v;
    if (d == FAC_BOOL) *(uint8_t *)p = v != 0;
}

static bool compute(const fac_pointwise_call *c, const double *x, double *out) {
    if (strcmp(c->loop, "add") == 0) return *out = x[0] + x[1], true;
    if (strcmp(c->loop, "add_alpha") == 0) return *out = x[0] + c->numbers[0].real * x[1], true;
    if (strcmp(c->loop, "mul") == 0) return *out = x[0] * x[1], true;
    if (strcmp(c->loop, "lt") == 0) return *out = x[0] < x[1], true;
    if (strcmp(c->loop, "where") == 0) return *out = x[0] != 0 ? x[1] : x[2], true;
    if (strcmp(c->loop, "exp") == 0) return *out = exp(x[0]), true;
    return false;
}

/* Element i of every operand; the device's memory is the host's. */
static fac_status run_element(const fac_pointwise_call *c, int64_t i) {
    int64_t at[4] = {0};
    double x[3] = {0}, out = 0;
    for (int d = 0; d < c->ndim; i /= c->shape[d++])
        for (int k = 0; k < c->n_out + c->n_in; k++)
            if (c->operands[k].data) at[k] += i % c->shape[d] * c->operands[k].strides[d];
    for (int k = 0; k < c->n_in; k++) {
        const fac_pointwise_operand *o = &c->operands[c->n_out + k];
        x[k] = o->data ? read_at((const char *)o->data + at[c->n_out + k], o->dtype) : o->number.real;
    }
    if (!compute(c, x, &out)) return fac_error_set(FAC_ERR_UNSUPPORTED, "an npu has no loop '%s'", c->loop);
    write_at((char *)c->operands[0].data + at[0], c->operands[0].dtype, out);
    return FAC_OK;
}

static fac_status run(const fac_pointwise_table *table, const fac_pointwise_call *c) {
    int64_t n = 1;
    ++*(int *)table->context;
    last = (struct seen){last.calls + 1, c->ndim, c->n_in, c->n_numbers, "", "", c->dtype, c->out_dtype};
    snprintf(last.op, sizeof last.op, "%s", c->op);
    snprintf(last.loop, sizeof last.loop, "%s", c->loop);
    for (int d = 0; d < c->ndim; d++) n *= c->shape[d];
    for (int64_t i = 0; i < n; i++)
        if (run_element(c, i) != FAC_OK) return fac_error();
    return FAC_OK;
}

static int calls;
static const fac_pointwise_table table = {sizeof table, FAC_PRIVATE1, &calls, run};

static int table_setup(void **state) {
    int failed = support_setup(state);
    memset(&last, 0, sizeof last);
    return failed ? failed : npu_register() != FAC_OK || fac_register_pointwise(&table) != FAC_OK;
}

static int table_teardown(void **state) {
    fac_shutdown();
    return support_teardown(state);
}
#define TABLE_TEST(name) cmocka_unit_test_setup_teardown(name, table_setup, table_teardown)

static fac_tensor *there(fac_tensor *t) { return fac_to(t, .device = npu(0)); }

static void expect(fac_tensor *t, const char *loop, int n, const double *want) {
    double got[16];
    assert_no_error();
    assert_true(fac_device_equal(fac_tensor_device(t), npu(0)));
    assert_string_equal(last.loop, loop);
    assert_ok(fac_tensor_read(fac_to(t, .device = fac_device_make(FAC_CPU, -1)), FAC_F64, got, (size_t)n));
    for (int i = 0; i < n; i++) assert_float_equal(got[i], want[i], 1e-6);
}

static void pointwise_operators_run_through_the_table(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = there(fac_tensor_of(1.f, 2.f, 3.f)), *b = there(fac_tensor_of(10.f, 20.f, 30.f));
    const int before = last.calls;
    expect(fac_add(a, b), "add", 3, (double[]){11, 22, 33});
    assert_int_equal(last.calls, before + 1);
    expect(fac_add(a, b, .alpha = -2), "add_alpha", 3, (double[]){-19, -38, -57});
    assert_int_equal(last.n_numbers, 1);
    expect(fac_mul(a, 3), "mul", 3, (double[]){3, 6, 9});
    expect(fac_exp(a), "exp", 3, (double[]){exp(1), exp(2), exp(3)});
    expect(fac_lt(a, 2), "lt", 3, (double[]){1, 0, 0});
    assert_true(last.dtype == FAC_F32 && last.out_dtype == FAC_BOOL && last.n_in == 2);
    assert_non_null(fac_mul_(a, b));
    assert_string_equal(last.op, "mul_");
}

static void the_table_sees_broadcasting_dtypes_and_selection(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *rows = there(fac_view(fac_tensor_of(1.f, 2.f, 3.f, 4.f), FAC_INTS(2, 2))),
               *n = there(fac_tensor_of(10, 20));
    expect(fac_add(fac_transpose(rows, 0, 1), n), "add", 4, (double[]){11, 23, 12, 24});
    assert_true(last.dtype == FAC_F32);
    expect(fac_where(fac_lt(n, 15), n, 0), "where", 2, (double[]){10, 0});
}

static void numbers_beside_integers_wrap_as_on_the_cpu(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_to(fac_tensor_of(10, 100), .dtype = FAC_U8);
    assert_true(fac_equal(fac_lt(x, 300), fac_tensor_of(true, false)));
    expect(fac_lt(there(x), 300), "lt", 2, (double[]){1, 0});
}

static void gradients_run_through_the_table(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_set_requires_grad(there(fac_tensor_of(1.f, 2.f)), true);
    assert_ok(fac_backward(fac_sum(fac_mul(x, x))));
    assert_no_error();
    double got[2];
    assert_ok(fac_tensor_read(fac_to(fac_grad_of(x), .device = fac_device_make(FAC_CPU, -1)), FAC_F64, got, 2));
    assert_true(got[0] == 2 && got[1] == 4);
}

static void a_loop_that_the_table_lacks_is_its_error(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_sin(there(fac_tensor_of(1.f))));
    assert_string_equal(fac_error_message(), "sin: an npu has no loop 'sin'");
    assert_error(FAC_ERR_UNSUPPORTED, "sin");
}

static fac_status nothing(const fac_call_info *c, fac_value *stack) {
    (void)c, (void)stack;
    return fac_error_set(FAC_ERR_STATE, "its own kernel");
}

static void a_kernel_of_the_kind_goes_before_the_table(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *a = there(fac_tensor_of(1.f));
    fac_registration *r = fac_register_boxed("aten::exp", "PrivateUse1", nothing, NULL, FAC_HERE);
    assert_null(fac_exp(a));
    assert_error(FAC_ERR_STATE, "its own kernel");
    fac_registration_release(r);
    expect(fac_exp(a), "exp", 1, (double[]){exp(1)});
}

static void wrong_tables_are_refused(void **state) {
    (void)state;
    fac_pointwise_table wrong = table;
    assert_ok(fac_register_pointwise(&table)); /* again */
    assert_int_equal(fac_register_pointwise(&wrong), FAC_ERR_STATE);
    fac_error_clear();
    wrong.size = 8;
    assert_int_equal(fac_register_pointwise(&wrong), FAC_ERR_ARGUMENT);
    fac_error_clear();
    wrong = (fac_pointwise_table){sizeof wrong, FAC_CPU, NULL, run};
    assert_int_equal(fac_register_pointwise(&wrong), FAC_ERR_ARGUMENT);
    fac_error_clear();
    wrong = (fac_pointwise_table){sizeof wrong, FAC_PRIVATE2, NULL, NULL};
    assert_int_equal(fac_register_pointwise(&wrong), FAC_ERR_ARGUMENT);
    fac_error_clear();
    assert_int_equal(fac_register_pointwise(NULL), FAC_ERR_ARGUMENT);
    fac_error_clear();
}

static void shutdown_forgets_the_table(void **state) {
    (void)state;
    fac_shutdown();
    assert_ok(npu_register());
    FAC_SCOPE(s);
    const int before = last.calls;
    assert_non_null(fac_exp(there(fac_tensor_of(1.f)))); /* by the kind's fallback */
    assert_int_equal(last.calls, before);
    assert_ok(fac_register_pointwise(&table));
}

FAC_TEST_MAIN(TABLE_TEST(pointwise_operators_run_through_the_table),
              TABLE_TEST(the_table_sees_broadcasting_dtypes_and_selection), TABLE_TEST(gradients_run_through_the_table),
              TABLE_TEST(numbers_beside_integers_wrap_as_on_the_cpu),
              TABLE_TEST(a_loop_that_the_table_lacks_is_its_error),
              TABLE_TEST(a_kernel_of_the_kind_goes_before_the_table), TABLE_TEST(wrong_tables_are_refused),
              TABLE_TEST(shutdown_forgets_the_table))
