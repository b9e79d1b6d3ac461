/* ResNet-18 on small coloured images: stochastic gradient descent in one cycle of rate and momentum, with smoothed labels. */
#include "networks.h"
#include "training.h"

static fac_status begin(training *t) {
    t->model = resnet18_new(10);
    t->optimizer[0] = fac_sgd_new(t->model, 0.001, .momentum = 0.9, .weight_decay = 5e-4);
    t->schedule[0] = fac_one_cycle_lr_new(t->optimizer[0], 0.004, .total_steps = t->steps + 1);
    return fac_error();
}

static fac_status step(training *t, double *losses) {
    fac_tensor *logits = fac_forward(t->model, given_now(t, "images"));
    fac_tensor *loss = fac_cross_entropy(logits, given_now(t, "labels"), .label_smoothing = 0.1);
    losses[0] = fac_item(loss);
    return learn(t, loss);
}

const training_kind resnet18 = {"resnet18", 1, begin, step};
