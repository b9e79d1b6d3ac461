/* A module of one's own, trained: two linear layers with a ReLU between them learn twenty random answers by heart.

   Shows what a class of modules is, how children are named, and the training loop at its shortest.

       cc toy_module.c $(pkg-config --cflags --libs facula) -o toy_module && ./toy_module [steps]

   Prints the model and the loss every 50 steps. Returns 1 if the loss does not fall below a third of what it was. */
#include <facula/facula.h>
#include <stdlib.h>

typedef struct {
    fac_module *net1, *net2; /* the module owns its children; this only points to them */
} toy;

static fac_tensor *toy_forward(fac_module *self, fac_tensor *x) {
    toy *t = fac_module_state(self);
    return fac_forward(t->net2, fac_relu(fac_forward(t->net1, x)));
}

/* For fac_module_copy: the copy has its children, and points to its own. */
static fac_status toy_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(toy *)fac_module_state(copy) = (toy){fac_module_child(copy, "net1"), fac_module_child(copy, "net2")};
    return fac_error();
}

static const fac_module_class toy_class = {
    .name = "ToyModel", .version = 1, .state_size = sizeof(toy), .forward = toy_forward, .copy = toy_copy};

static fac_module *toy_new(void) {
    fac_module *m = fac_module_new(&toy_class);
    if (!m) return NULL;
    toy *t = fac_module_state(m);
    t->net1 = fac_module_add(m, "net1", fac_linear_new(10, 10));
    t->net2 = fac_module_add(m, "net2", fac_linear_new(10, 5));
    return m; /* an error, if there was one, is pending: the next call reports it */
}

/* Takes the steps; returns the last loss as a part of the first. */
static double train(fac_module *model, fac_optimizer *sgd, int steps) {
    FAC_SCOPE(data);
    fac_tensor *x = fac_randn(FAC_SHAPE(20, 10)), *answers = fac_randn(FAC_SHAPE(20, 5));
    double first = 0, last = 0;
    for (int step = 0; step <= steps && !fac_error(); step++) {
        FAC_SCOPE(s); /* frees every temporary of the step */
        fac_optimizer_zero_grad(sgd);
        fac_tensor *loss = fac_mse_loss(fac_forward(model, x), answers);
        if (fac_backward(loss) || fac_optimizer_step(sgd)) break; /* the error is pending: main reports it */
        last = fac_item(loss);
        if (step == 0) first = last;
        if (step % 50 == 0) printf("step %3d   loss %.4f\n", step, last);
    }
    return last / first;
}

int main(int argc, char **argv) {
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model = toy_new();
    fac_optimizer *sgd = fac_sgd_new(model, 0.05, .momentum = 0.9);
    double rest = 1;
    if (!fac_error() && fac_module_print(model, stdout) == FAC_OK)
        rest = train(model, sgd, argc > 1 ? atoi(argv[1]) : 200);
    if (rest >= 1.0 / 3) fac_error_set(FAC_ERR_STATE, "the loss is still %.2f of what it was", rest);
    fac_optimizer_release(sgd);
    fac_module_release(model);
    return fac_report(stderr); /* 1, and says why, if anything went wrong */
}
