/* LeNet-5, ResNet-18 and the two networks of DCGAN. */
#include "networks.h"
#include <stdio.h>

fac_module *lenet_new(void) {
    return fac_sequential(fac_conv2d_new(1, 6, 5, .padding = 2), fac_tanh_new(), fac_avg_pool2d_new(2),
                          fac_conv2d_new(6, 16, 5), fac_tanh_new(), fac_avg_pool2d_new(2), fac_flatten_new(),
                          fac_linear_new(400, 120), fac_tanh_new(), fac_linear_new(120, 84), fac_tanh_new(),
                          fac_linear_new(84, 10));
}

/* What m makes of the temporary x, which goes: as soon as it does, its memory serves others. */
static fac_tensor *then(fac_module *m, fac_tensor *x) {
    fac_tensor *y = fac_forward(m, x);
    if (y && y != x) fac_drop(x);
    return y;
}

/* ---- a block of ResNet: relu(norm(conv(relu(norm(conv(x))))) + x), x made smaller where the block makes smaller ---- */

typedef struct {
    fac_module *conv1, *bn1, *conv2, *bn2, *downsample;
} block;

static fac_tensor *block_forward(fac_module *self, fac_tensor *x) {
    block *b = fac_module_state(self);
    fac_tensor *h = fac_relu_(then(b->bn1, fac_forward(b->conv1, x)));
    h = then(b->bn2, then(b->conv2, h));
    return fac_relu_(fac_add_(h, b->downsample ? fac_forward(b->downsample, x) : x));
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

/* ---- ResNet ---- */

typedef struct {
    fac_module *conv1, *bn1, *maxpool, *layer[4], *avgpool, *fc;
} resnet;

static fac_tensor *resnet_forward(fac_module *self, fac_tensor *x) {
    resnet *r = fac_module_state(self);
    x = then(r->maxpool, fac_relu_(then(r->bn1, fac_forward(r->conv1, x))));
    for (int i = 0; i < 4; i++) x = then(r->layer[i], x);
    return fac_forward(r->fc, fac_flatten(then(r->avgpool, x), 1));
}

static const fac_module_class resnet_class = {
    .name = "ResNet", .version = 1, .state_size = sizeof(resnet), .forward = resnet_forward};

fac_module *resnet18_new(int64_t classes) {
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

/* ---- DCGAN ---- */

/* Puts a layer behind the others, whose names are their numbers. */
static void append(fac_module *layers, int *n, fac_module *layer) {
    char name[16];
    snprintf(name, sizeof name, "%d", (*n)++);
    fac_module_add(layers, name, layer);
}

fac_module *dcgan_generator_new(int64_t noise, int64_t wide, int doublings) {
    fac_module *m = fac_sequential_new(NULL, 0);
    int n = 0;
    for (int i = doublings; m && i > 0; i--) { /* the first makes 4 x 4 of a point, each other twice as much */
        const bool first = i == doublings;
        const int64_t to = wide << (i - 1), from = first ? noise : 2 * to;
        append(m, &n, fac_conv_transpose2d_new(from, to, 4, .stride = first ? 1 : 2, .padding = !first, .bias = false));
        append(m, &n, fac_batch_norm2d_new(to));
        append(m, &n, fac_relu_new(.inplace = true));
    }
    if (!m) return NULL;
    append(m, &n, fac_conv_transpose2d_new(wide, 3, 4, .stride = 2, .padding = 1, .bias = false));
    append(m, &n, fac_tanh_new());
    return m;
}

fac_module *dcgan_discriminator_new(int64_t wide, int doublings) {
    fac_module *m = fac_sequential_new(NULL, 0);
    int n = 0;
    for (int i = 0; m && i < doublings; i++) {
        const int64_t to = wide << i, from = i ? to / 2 : 3;
        append(m, &n, fac_conv2d_new(from, to, 4, .stride = 2, .padding = 1, .bias = false));
        if (i) append(m, &n, fac_batch_norm2d_new(to));
        append(m, &n, fac_leaky_relu_new(0.2, .inplace = true));
    }
    if (m) append(m, &n, fac_conv2d_new(wide << (doublings - 1), 1, 4, .bias = false));
    return m;
}
