/* ConvNeXt's blocks, a classifier of LSTM, a U-Net and a graph convolutional network. */
#include "networks.h"
#include <stdio.h>

/* What m makes of the temporary x, which goes: as soon as it does, its memory serves others. */
static fac_tensor *then(fac_module *m, fac_tensor *x) {
    fac_tensor *y = fac_forward(m, x);
    if (y && y != x) fac_drop(x);
    return y;
}

/* ---- ConvNeXt ---- */

typedef struct {
    fac_module *depthwise, *norm, *up, *down;
} convnext_block;

/* The norm and the MLP see channels last, as in torchvision. */
static fac_tensor *convnext_forward(fac_module *self, fac_tensor *x) {
    convnext_block *b = fac_module_state(self);
    fac_tensor *h = fac_permute(fac_forward(b->depthwise, x), FAC_INTS(0, 2, 3, 1));
    h = then(b->up, then(b->norm, h));
    fac_tensor *g = fac_gelu(h);
    if (g) fac_drop(h);
    return fac_add(x, fac_permute(then(b->down, g), FAC_INTS(0, 3, 1, 2)));
}

static const fac_module_class convnext_class = {
    .name = "ConvNeXtBlock", .version = 1, .state_size = sizeof(convnext_block), .forward = convnext_forward};

static fac_module *convnext_block_new(int64_t channels) {
    fac_module *m = fac_module_new(&convnext_class);
    if (!m) return NULL;
    convnext_block *b = fac_module_state(m);
    b->depthwise =
        fac_module_add(m, "depthwise", fac_conv2d_new(channels, channels, 7, .padding = 3, .groups = channels));
    b->norm = fac_module_add(m, "norm", fac_layer_norm_new(FAC_INTS(channels), .eps = 1e-6));
    b->up = fac_module_add(m, "up", fac_linear_new(channels, 4 * channels));
    b->down = fac_module_add(m, "down", fac_linear_new(4 * channels, channels));
    return m;
}

fac_module *convnext_new(int64_t channels, int blocks) {
    fac_module *m = fac_sequential_new(NULL, 0);
    for (int i = 0; m && i < blocks; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        fac_module_add(m, name, convnext_block_new(channels));
    }
    return m;
}

/* ---- LSTM ---- */

typedef struct {
    fac_module *lstm, *head;
} lstm_classifier;

static fac_tensor *lstm_forward(fac_module *self, fac_tensor *x) {
    lstm_classifier *c = fac_module_state(self);
    return fac_forward(c->head, fac_select(fac_forward(c->lstm, x), 1, -1));
}

static const fac_module_class lstm_class = {
    .name = "LSTMClassifier", .version = 1, .state_size = sizeof(lstm_classifier), .forward = lstm_forward};

fac_module *lstm_classifier_new(int64_t width, int64_t hidden, int64_t classes) {
    fac_module *m = fac_module_new(&lstm_class);
    if (!m) return NULL;
    lstm_classifier *c = fac_module_state(m);
    c->lstm = fac_module_add(m, "lstm", fac_lstm_new(width, hidden, .num_layers = 2, .batch_first = true));
    c->head = fac_module_add(m, "head", fac_linear_new(hidden, classes));
    return m;
}

/* ---- U-Net ---- */

enum { LEVELS = 3 };

typedef struct {
    fac_module *pool, *head;
    fac_module *down[LEVELS];                      /* two convolutions each; the last is the bottom */
    fac_module *grow[LEVELS - 1], *up[LEVELS - 1]; /* to twice the size, and two convolutions of both halves */
} unet;

static fac_tensor *unet_forward(fac_module *self, fac_tensor *x) {
    unet *u = fac_module_state(self);
    fac_tensor *kept[LEVELS];
    for (int i = 0; i < LEVELS; i++) kept[i] = fac_forward(u->down[i], i ? fac_forward(u->pool, kept[i - 1]) : x);
    fac_tensor *h = kept[LEVELS - 1];
    for (int i = LEVELS - 2; i >= 0; i--)
        h = then(u->up[i], fac_cat(FAC_TENSORS(kept[i], fac_forward(u->grow[i], h)), 1));
    return fac_forward(u->head, h);
}

static const fac_module_class unet_class = {
    .name = "UNet", .version = 1, .state_size = sizeof(unet), .forward = unet_forward};

static fac_module *twice_convolved(int64_t from, int64_t to) {
    return fac_sequential(fac_conv2d_new(from, to, 3, .padding = 1, .bias = false), fac_batch_norm2d_new(to),
                          fac_relu_new(.inplace = true), fac_conv2d_new(to, to, 3, .padding = 1, .bias = false),
                          fac_batch_norm2d_new(to), fac_relu_new(.inplace = true));
}

fac_module *unet_new(int64_t wide) {
    fac_module *m = fac_module_new(&unet_class);
    if (!m) return NULL;
    unet *u = fac_module_state(m);
    char name[16];
    u->pool = fac_module_add(m, "pool", fac_max_pool2d_new(2));
    for (int i = 0; i < LEVELS; i++) {
        snprintf(name, sizeof name, "down%d", i);
        u->down[i] = fac_module_add(m, name, twice_convolved(i ? wide << (i - 1) : 1, wide << i));
    }
    for (int i = 0; i < LEVELS - 1; i++) {
        snprintf(name, sizeof name, "grow%d", i);
        u->grow[i] = fac_module_add(m, name, fac_conv_transpose2d_new(wide << (i + 1), wide << i, 2, .stride = 2));
        snprintf(name, sizeof name, "up%d", i);
        u->up[i] = fac_module_add(m, name, twice_convolved(wide << (i + 1), wide << i));
    }
    u->head = fac_module_add(m, "head", fac_conv2d_new(wide, 1, 1));
    return m;
}

/* ---- GCN ---- */

typedef struct {
    fac_module *first, *second;
} gcn;

/* The sum over each node's edges of weight times what is at their other end. */
static fac_tensor *propagate(fac_tensor *h, fac_tensors in) {
    fac_tensor *messages = fac_mul(fac_index_select(h, 0, in.v[1]), in.v[3]);
    fac_tensor *sums = fac_zeros(FAC_INTS(fac_tensor_size(h, 0), fac_tensor_size(h, 1)));
    return fac_index_add(sums, 0, in.v[2], messages);
}

static fac_tensor *gcn_forward(fac_module *self, fac_tensors in) {
    gcn *g = fac_module_state(self);
    fac_tensor *h = fac_relu(propagate(fac_forward(g->first, in.v[0]), in));
    return propagate(fac_forward(g->second, h), in);
}

static const fac_module_class gcn_class = {
    .name = "GCN", .version = 1, .state_size = sizeof(gcn), .forward_many = gcn_forward};

fac_module *gcn_new(int64_t in, int64_t hidden, int64_t classes) {
    fac_module *m = fac_module_new(&gcn_class);
    if (!m) return NULL;
    gcn *g = fac_module_state(m);
    g->first = fac_module_add(m, "first", fac_linear_new(in, hidden));
    g->second = fac_module_add(m, "second", fac_linear_new(hidden, classes));
    return m;
}
