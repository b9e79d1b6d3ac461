/* ResNet-18, with the parts and names that it has in torchvision, on small coloured images: stochastic gradient descent in one
   cycle of rate and momentum, with smoothed labels.
   source: He et al. 2016 */
#include "training.h"
#include <stdio.h>

/* ---- a block: relu(norm(conv(relu(norm(conv(x))))) + x), x made smaller where the block makes smaller ---- */

typedef struct {
    fac_module *conv1, *bn1, *conv2, *bn2, *downsample;
} block;

static fac_tensor *block_forward(fac_module *self, fac_tensor *x) {
    block *b = fac_module_state(self);
    fac_tensor *h = fac_relu(fac_forward(b->bn1, fac_forward(b->conv1, x)));
    h = fac_forward(b->bn2, fac_forward(b->conv2, h));
    return fac_relu(fac_add(h, b->downsample ? fac_forward(b->downsample, x) : x));
}

static const fac_module_class block_class = {
    .name = "BasicBlock", .version = 1, .state_size = sizeof(block), .forward = block_forward};

static fac_module *block_new(int64_t from, int64_t to, int64_t stride) {
    fac_module *m = fac_module_new(&block_class);
    if (!m) return NULL;
    block *b = fac_module_state(m);
    b->conv1 = fac_module_add(m, "conv1", fac_conv2d_new(from, to, 3, .stride = stride, .padding = 1, .bias = false));
    b->bn1 = fac_module_add(m, "bn1", fac_batch_norm2d_new(to));
    b->conv2 = fac_module_add(m, "conv2", fac_conv2d_new(to, to, 3, .padding = 1, .bias = false));
    b->bn2 = fac_module_add(m, "bn2", fac_batch_norm2d_new(to));
    if (stride != 1)
        b->downsample = fac_module_add(
            m, "downsample",
            fac_sequential(fac_conv2d_new(from, to, 1, .stride = stride, .bias = false), fac_batch_norm2d_new(to)));
    return m;
}

/* ---- the network: images [N, 3, H, W] -> logits [N, classes] ---- */

typedef struct {
    fac_module *conv1, *bn1, *maxpool, *layer[4], *avgpool, *fc;
} resnet;

static fac_tensor *resnet_forward(fac_module *self, fac_tensor *x) {
    resnet *r = fac_module_state(self);
    x = fac_forward(r->maxpool, fac_relu(fac_forward(r->bn1, fac_forward(r->conv1, x))));
    for (int i = 0; i < 4; i++) x = fac_forward(r->layer[i], x);
    return fac_forward(r->fc, fac_flatten(fac_forward(r->avgpool, x), 1));
}

static const fac_module_class resnet_class = {
    .name = "ResNet", .version = 1, .state_size = sizeof(resnet), .forward = resnet_forward};

static fac_module *resnet18_new(int64_t classes) {
    fac_module *m = fac_module_new(&resnet_class);
    if (!m) return NULL;
    resnet *r = fac_module_state(m);
    r->conv1 = fac_module_add(m, "conv1", fac_conv2d_new(3, 64, 7, .stride = 2, .padding = 3, .bias = false));
    r->bn1 = fac_module_add(m, "bn1", fac_batch_norm2d_new(64));
    r->maxpool = fac_module_add(m, "maxpool", fac_max_pool2d_new(3, .stride = 2, .padding = 1));
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%d", i + 1);
        const int64_t to = 64 << i, from = i ? to / 2 : to;
        r->layer[i] = fac_module_add(m, name, fac_sequential(block_new(from, to, i ? 2 : 1), block_new(to, to, 1)));
    }
    r->avgpool = fac_module_add(m, "avgpool", fac_adaptive_avg_pool2d_new(FAC_INTS(1)));
    r->fc = fac_module_add(m, "fc", fac_linear_new(512, classes));
    return m;
}

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
