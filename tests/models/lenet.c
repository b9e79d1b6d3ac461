/* LeNet-5 on images of IDX files, by stochastic gradient descent with momentum; the rate falls step by step. The images come
   from a loader, in an order that the test gives for each epoch. */
#include "networks.h"
#include "training.h"
#include <stdio.h>

static fac_tensor *idx(const training *t, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", t->folder, name);
    return fac_idx_read(path);
}

/* The order of an epoch: a row of the test's "order". */
static fac_status order(void *context, int64_t epoch, int64_t *out, int64_t n) {
    FAC_SCOPE(s);
    return fac_tensor_read(fac_select(context, 0, epoch), FAC_I64, out, (size_t)n);
}

static fac_loader *digits(const training *t) {
    FAC_SCOPE(s);
    fac_tensor *pixels = idx(t, "images.idx"), *labels = fac_to_dtype(idx(t, "labels.idx"), FAC_I64);
    fac_tensor *images = fac_unsqueeze(fac_div(fac_to_dtype(pixels, fac_default_dtype()), 255), 1);
    fac_dataset *set = fac_dataset_of_tensors(FAC_TENSORS(images, labels));
    fac_sampler *sampler = fac_sampler_of(order, fac_state_get(t->given, "order"), fac_dataset_length(set));
    fac_loader *loader = fac_loader_of(set, .batch_size = 32, .sampler = sampler);
    fac_sampler_release(sampler);
    fac_dataset_release(set);
    return loader;
}

static fac_status begin(training *t) {
    t->model = lenet_new();
    t->loader = digits(t);
    t->optimizer[0] = fac_sgd_new(t->model, 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4);
    t->schedule[0] = fac_step_lr_new(t->optimizer[0], 20, .gamma = 0.5);
    return fac_error();
}

static fac_status step(training *t, double *losses) {
    fac_tensor *batch[2];
    while (!fac_loader_next(t->loader, batch)) /* an epoch has ended */
        if (fac_error()) return fac_error();
    fac_tensor *loss = fac_cross_entropy(fac_forward(t->model, batch[0]), batch[1]);
    losses[0] = fac_item(loss);
    return learn(t, loss);
}

const training_kind lenet = {"lenet", 1, begin, step};
