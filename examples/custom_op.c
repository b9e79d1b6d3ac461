/* An operator of one's own, with a kernel and a gradient: the activation x + sin(a x)^2 / a lets a network go on with a wave.

   Shows how an operator is declared by its schema, a kernel that loops over the numbers of a tensor, a gradient made of other
   operators (so that it can be differentiated again), both checked against differences, and a call by name.

       cc custom_op.c $(pkg-config --cflags --libs facula) -o custom_op && ./custom_op [steps]

   Prints what is known of the operator, and how far networks with it and with ReLU are off a wave: where they saw it, and beyond.
   Returns 1 if the gradient is wrong, or the network with the operator does not know how the wave goes on. */
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

#define SNAKE "demo::snake"

/* ---- the operator ---- */

/* stack holds the arguments; the result goes to stack[0]. Runs for tensors on the CPU, below differentiation. */
static fac_status snake_cpu(const fac_call_info *call, fac_value *stack) {
    (void)call;
    FAC_SCOPE(s);
    fac_tensor *x = fac_contiguous(fac_value_as_tensor(stack[0])), *y = fac_empty_like(x);
    const double a = fac_value_as_float(stack[1]);
    const fac_dtype dtype = fac_tensor_dtype(x);
    const int64_t n = fac_tensor_numel(x);
    if (!fac_error() && dtype != FAC_F32 && dtype != FAC_F64)
        fac_error_set(FAC_ERR_DTYPE, "snake takes float32 and float64, not %s", fac_dtype_name(dtype));
    if (fac_error()) return fac_error();
    const float *x32 = fac_tensor_data(x);
    const double *x64 = fac_tensor_data(x);
    float *y32 = fac_tensor_data(y);
    double *y64 = fac_tensor_data(y);
    for (int64_t i = 0; i < n; i++) {
        const double v = dtype == FAC_F32 ? (double)x32[i] : x64[i], w = sin(a * v), r = v + w * w / a;
        if (dtype == FAC_F32)
            y32[i] = (float)r;
        else
            y64[i] = r;
    }
    stack[0] = fac_value_tensor(y); /* a reference of its own: y may go with the scope */
    return fac_error();
}

/* d/dx = 1 + sin(2 a x); one gradient for each argument that is a tensor. */
static fac_status snake_backward(void *context, const fac_value *args, const fac_value *results, fac_tensors grad,
                                 fac_tensor **out) {
    (void)context, (void)results;
    fac_tensor *x = fac_value_as_tensor(args[0]);
    const double a = fac_value_as_float(args[1]);
    out[0] = fac_mul(grad.v[0], fac_add(fac_sin(fac_mul(x, 2 * a)), 1));
    return fac_error();
}

/* For the rest of the program; fac_registration_release would take it back. */
static fac_status snake_register(void) {
    if (!fac_register_operator(SNAKE "(Tensor x, float a=1.0) -> Tensor", FAC_HERE)) return fac_error();
    if (!fac_register_boxed(SNAKE, "CPU", snake_cpu, NULL, FAC_HERE)) return fac_error();
    if (!fac_register_gradient(SNAKE, snake_backward, NULL, FAC_HERE)) return fac_error();
    return FAC_OK;
}

/* ---- its use ---- */

static fac_tensor *snake(fac_tensor *x, double a) {
    fac_value args[] = {fac_value_tensor(x), fac_value_float(a)}, result;
    if (fac_scope_take(args, 2) || fac_call(SNAKE, args, 2, &result) || fac_scope_take(&result, 1)) return NULL;
    return fac_value_as_tensor(result); /* the scope owns it, as the result of any operator */
}

static fac_status check(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    out[0] = snake(in.v[0], 0.7);
    return fac_error();
}

static fac_tensor *snake_forward(fac_module *self, fac_tensor *x) {
    (void)self;
    return snake(x, 1);
}

static const fac_module_class snake_class = {.name = "Snake", .version = 1, .forward = snake_forward};

/* Teaches a network with this activation sin(x) for x in [-8, 8]; its mean squared error there, and in [8, 12]. */
static double learn(const char *name, fac_module *activation, int steps) {
    FAC_SCOPE(s);
    fac_module *model = fac_sequential(fac_linear_new(1, 32), activation, fac_linear_new(32, 1));
    fac_optimizer *adam = fac_adam_new(model, 1e-2);
    fac_tensor *seen = fac_unsqueeze(fac_linspace(-8, 8, 200), 1), *beyond = fac_unsqueeze(fac_linspace(8, 12, 100), 1);
    double error = 0;
    for (int step = 0; step < steps; step++) {
        FAC_SCOPE(t);
        fac_tensor *loss = fac_mse_loss(fac_forward(model, seen), fac_sin(seen));
        fac_optimizer_zero_grad(adam);
        if (fac_backward(loss) || fac_optimizer_step(adam)) break;
        error = fac_item(loss);
    }
    const double error_beyond = fac_item(fac_mse_loss(fac_forward(model, beyond), fac_sin(beyond)));
    printf("%-6s error %.4f, beyond what it saw %.4f\n", name, error, error_beyond);
    fac_optimizer_release(adam);
    fac_module_release(model);
    return error_beyond;
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 2000;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    if (snake_register()) return fac_report(stderr);
    printf("%s\n", fac_operator_schema(fac_operator_find(SNAKE)));
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 5), .dtype = FAC_F64, .requires_grad = true);
    if (fac_gradcheck(check, NULL, FAC_TENSORS(x), 1) || fac_gradgradcheck(check, NULL, FAC_TENSORS(x), 1))
        return fac_report(stderr);
    puts("its first and second derivatives are right");

    learn("relu", fac_relu_new(), steps);
    const double error = learn("snake", fac_module_new(&snake_class), steps);
    if (error > 0.5) fac_error_set(FAC_ERR_STATE, "the network does not know how the wave goes on");
    return fac_report(stderr);
}
