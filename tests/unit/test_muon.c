/* The optimiser of facula train, which is made of public operators alone, against its formulas in double. */
#include "support/support.h"

#include "../../apps/facula/muon.c"

enum { IN = 5, OUT = 3, SIZE = 3 };
static const double RATE = 0.01, WEIGHT_DECAY = 0.1;

static bool is_matrix(const fac_named *p) { return fac_tensor_ndim(p->tensor) == 2; }

/* A parameter of ones whose gradient is sin(1), sin(2), ... */
static void prepare(fac_tensor *p) {
    FAC_NO_GRAD(g);
    fac_fill_(p, 1.0);
    fac_tensor *grad = fac_sin(fac_add(fac_arange(fac_tensor_numel(p)), 1.0));
    assert_ok(fac_set_grad(p, fac_view_as(fac_to(grad, .dtype = FAC_F32), p)));
}

static double change(fac_tensor *p, int64_t i) {
    return 1 - RATE * WEIGHT_DECAY - ((const float *)fac_tensor_data(p))[i];
}

/* a = a b, matrices of SIZE. */
static void multiply(double a[SIZE][SIZE], double b[SIZE][SIZE]) {
    double c[SIZE][SIZE] = {{0}};
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            for (int k = 0; k < SIZE; k++) c[i][j] += a[i][k] * b[k][j];
    memcpy(a, c, sizeof c);
}

/* The square of the largest singular value of a [OUT, IN] change, and the trace of its square, by the powers of its Gram matrix. */
static void measure(double d[OUT][IN], double *largest, double *trace) {
    double gram[SIZE][SIZE] = {{0}}, power[SIZE][SIZE];
    *trace = 0;
    for (int i = 0; i < OUT; i++)
        for (int j = 0; j < OUT; j++)
            for (int k = 0; k < IN; k++) gram[i][j] += d[i][k] * d[j][k];
    for (int i = 0; i < SIZE; i++) *trace += gram[i][i];
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) power[i][j] = gram[i][j] / *trace;
    double sum = 1;
    for (int step = 0; step < 6; step++) { /* the 64th power's trace is about that of the largest */
        multiply(power, power);
        double next = 0;
        for (int i = 0; i < SIZE; i++) next += power[i][i];
        sum = next;
    }
    *largest = pow(sum, 1.0 / 64) * *trace;
}

/* A step of a layer whose parameters prepare() made, of which the weight may be a matrix on its side. */
static fac_module *step_once(int64_t in, int64_t out) {
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(in, out);
    fac_optimizer *o = muon_new(m, RATE, WEIGHT_DECAY, is_matrix);
    assert_non_null(o);
    prepare(fac_module_parameter(m, "weight"));
    prepare(fac_module_parameter(m, "bias"));
    assert_ok(fac_optimizer_step(o));
    fac_optimizer_release(o);
    return m;
}

/* Whether it is wide or tall, a matrix moves equally far in all directions, and as far as Adam's rule of thumb says. */
static void muon_moves_matrices_in_all_directions(void **state) {
    (void)state;
    for (int tall = 0; tall < 2; tall++) {
        fac_module *m = tall ? step_once(OUT, IN) : step_once(IN, OUT);
        fac_tensor *w = fac_module_parameter(m, "weight");
        double d[OUT][IN], largest, trace;
        for (int i = 0; i < OUT; i++)
            for (int k = 0; k < IN; k++) d[i][k] = change(w, tall ? k * OUT + i : i * IN + k) / (0.2 * sqrt(IN) * RATE);
        measure(d, &largest, &trace);
        /* The iteration leaves singular values between 0.7 and 1.2. sin(1), sin(2), ... have rank two. */
        assert_true(largest > 0.45 && largest < 1.5);
        assert_true(trace > 1.2 && trace < 3.1);
        fac_module_release(m);
    }
}

/* Adam's first step is the rate, in the gradient's direction. */
static void muon_moves_vectors_as_adamw(void **state) {
    (void)state;
    fac_module *m = step_once(IN, OUT);
    for (int64_t i = 0; i < OUT; i++) assert_true(fabs(change(fac_module_parameter(m, "bias"), i) / RATE - 1) < 1e-4);
    fac_module_release(m);
}

static fac_status make_and_step(void *context) {
    (void)context;
    FAC_SCOPE(s);
    fac_module *m = fac_linear_new(IN, OUT);
    fac_tensor *loss = m ? fac_sum(fac_forward(m, fac_ones(FAC_SHAPE(2, IN)))) : NULL;
    fac_optimizer *o = loss ? muon_new(m, RATE, WEIGHT_DECAY, is_matrix) : NULL;
    if (o && !fac_backward(loss)) (void)!fac_optimizer_step(o);
    fac_optimizer_release(o);
    fac_module_release(m);
    return fac_error();
}

static void muon_survives_failing_allocations(void **state) {
    (void)state;
    support_fail_each_allocation(make_and_step, NULL);
}

FAC_TEST_MAIN(FAC_TEST(muon_moves_matrices_in_all_directions), FAC_TEST(muon_moves_vectors_as_adamw),
              FAC_TEST(muon_survives_failing_allocations))
