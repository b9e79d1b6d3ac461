/* A module of one's own, trained: two linear layers with a ReLU between them learn to fit random data.

   cc toy_module.c $(pkg-config --cflags --libs facula) -o toy_module && ./toy_module */
#include <facula/facula.h>

typedef struct {
    fac_module *net1, *net2;
} toy;

static fac_tensor *toy_forward(fac_module *self, fac_tensor *x) {
    toy *t = fac_module_state(self);
    return fac_forward(t->net2, fac_relu(fac_forward(t->net1, x)));
}

static const fac_module_class toy_class = {
    .name = "ToyModel", .version = 1, .state_size = sizeof(toy), .forward = toy_forward};

static fac_module *toy_new(void) {
    fac_module *m = fac_module_new(&toy_class);
    if (!m) return NULL;
    toy *t = fac_module_state(m);
    t->net1 = fac_module_add(m, "net1", fac_linear_new(10, 10));
    t->net2 = fac_module_add(m, "net2", fac_linear_new(10, 5));
    return m; /* an error, if there was one, is pending: the next call reports it */
}

static fac_status train(fac_module *model, fac_optimizer *sgd) {
    FAC_SCOPE(data);
    fac_tensor *x = fac_randn(FAC_SHAPE(20, 10)), *labels = fac_randn(FAC_SHAPE(20, 5));
    for (int step = 0; step <= 200; step++) {
        FAC_SCOPE(s); /* frees every temporary of the step */
        fac_optimizer_zero_grad(sgd);
        fac_tensor *loss = fac_mse_loss(fac_forward(model, x), labels);
        if (fac_backward(loss) || fac_optimizer_step(sgd)) return fac_error();
        if (step % 50 == 0) printf("step %3d  loss %.4f\n", step, fac_item(loss));
    }
    return fac_error();
}

int main(void) {
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model = toy_new();
    fac_optimizer *sgd = fac_sgd_new(model, 0.05, .momentum = 0.9);
    if (sgd && fac_module_print(model, stdout)) return fac_report(stderr);
    if (sgd) (void)train(model, sgd);
    fac_optimizer_release(sgd);
    fac_module_release(model);
    return fac_report(stderr); /* 1, and says why, if anything went wrong */
}
