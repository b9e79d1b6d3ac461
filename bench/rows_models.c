/* Training steps (zero the gradients, forward, loss, backward, update) and inference. Whole models have both, in f32 and, by
   autocast, in bf16; the backward pass and the update lie outside the region, as in PyTorch's examples. */
#include "../apps/facula/gpt.h"
#include "../tests/models/networks.h"
#include "networks.h"
#include "rows.h"

/* What a whole model does with the inputs x[0] and targets x[1]; prepare says which it is. */
struct whole_model {
    fac_tensor *(*loss)(fixture *f);
    fac_tensor *(*infer)(fixture *f); /* NULL: of x[0] */
};

/* ---- the runs ---- */

static fac_autocast_guard autocast_of(const fixture *f) {
    return f->bf16 ? fac_autocast_begin(.dtype = FAC_BF16) : (fac_autocast_guard){0};
}

static fac_tensor *cast_loss(fixture *f, fac_tensor *(*loss)(fixture *f)) {
    fac_autocast_guard g = autocast_of(f);
    fac_tensor *y = loss(f);
    fac_autocast_end(&g);
    return y;
}

static fac_tensor *step(fac_optimizer *optimizer, fac_tensor *loss) {
    if (fac_backward(loss) || fac_optimizer_step(optimizer)) return NULL;
    fac_optimizer_zero_grad(optimizer);
    return loss;
}

static fac_tensor *run_train(fixture *f) { return step(f->optimizer[0], cast_loss(f, f->of->loss)); }

static fac_tensor *run_infer(fixture *f) {
    FAC_INFERENCE(inference);
    if (fac_module_is_training(f->model)) fac_module_train(f->model, false);
    fac_autocast_guard g = autocast_of(f);
    fac_tensor *y = f->of->infer ? f->of->infer(f) : fac_forward(f->model, f->x[0]);
    fac_autocast_end(&g);
    return fac_error() ? NULL : y;
}

/* Puts the channels of weights and images last, where a model is faster so. */
static void put_channels_last(fixture *f) {
    if (fac_error() || fac_module_to(f->model, .memory_format = FAC_CHANNELS_LAST)) return;
    for (int i = 0; i < ROW_TENSORS; i++)
        if (f->x[i] && fac_tensor_ndim(f->x[i]) == 4)
            f->x[i] = fac_contiguous(f->x[i], .memory_format = FAC_CHANNELS_LAST);
}

/* ---- losses ---- */

static fac_tensor *classifier_loss(fixture *f) { return fac_cross_entropy(fac_forward(f->model, f->x[0]), f->x[1]); }
static fac_tensor *square_loss(fixture *f) { return fac_mse_loss(fac_forward(f->model, f->x[0]), f->x[1]); }
static fac_tensor *mask_loss(fixture *f) {
    return fac_binary_cross_entropy_with_logits(fac_forward(f->model, f->x[0]), f->x[1]);
}
static fac_tensor *text_loss(fixture *f) { return gpt_loss(f->model, f->x[0], f->x[1], FAC_REDUCTION_MEAN); }

static const struct whole_model classifier = {classifier_loss, NULL}, image_to_image = {square_loss, NULL},
                                masks = {mask_loss, NULL}, text = {text_loss, NULL};

static fac_tensor *run_classifier(fixture *f) { return step(f->optimizer[0], classifier_loss(f)); }
static fac_tensor *run_gpt(fixture *f) { return step(f->optimizer[0], text_loss(f)); }

/* ---- a graph ---- */

enum { NODES = 10000, EDGES = 100000, FEATURES = 128, GRAPH_CLASSES = 16 };

static fac_tensor *graph_forward(fixture *f) {
    return fac_forward_many(f->model, FAC_TENSORS(f->x[0], f->x[2], f->x[3], f->weights));
}
static fac_tensor *graph_loss(fixture *f) { return fac_cross_entropy(graph_forward(f), f->x[1]); }
static const struct whole_model graph = {graph_loss, graph_forward};

static void prepare_gcn(fixture *f) {
    f->of = &graph;
    f->x[1] = fac_randint(GRAPH_CLASSES, FAC_INTS(NODES));
    f->x[2] = fac_randint(NODES, FAC_INTS(EDGES));
    f->x[3] = fac_randint(NODES, FAC_INTS(EDGES));
    f->weights = fac_rand(FAC_INTS(EDGES, 1));
    f->model = gcn_new(FEATURES, FEATURES, GRAPH_CLASSES);
    f->optimizer[0] = fac_adam_new(f->model, 1e-2);
}

/* ---- adversaries ---- */

enum { NOISE = 100, WIDE = 64, DOUBLINGS = 4, MADE = 16 };

/* The loss of a discriminator that is to say `answer`, 1 or 0, to the images x. */
static fac_tensor *judged(fixture *f, fac_tensor *x, double answer) {
    fac_tensor *says = fac_flatten(fac_forward(fac_module_child(f->model, "1"), x));
    return fac_binary_cross_entropy_with_logits(says, fac_full_like(says, answer));
}
static fac_tensor *generate(fixture *f) { return fac_forward(fac_module_child(f->model, "0"), f->x[1]); }
static fac_tensor *loss_of_real(fixture *f) { return judged(f, f->x[0], 1); }
static fac_tensor *loss_of_made(fixture *f) { return judged(f, fac_detach(f->x[2]), 0); }
static fac_tensor *loss_of_fooled(fixture *f) { return judged(f, f->x[2], 1); }

static fac_tensor *run_gan(fixture *f) {
    if (fac_backward(cast_loss(f, loss_of_real))) return NULL;
    f->x[2] = cast_loss(f, generate);
    if (!step(f->optimizer[1], cast_loss(f, loss_of_made))) return NULL;
    fac_tensor *loss = step(f->optimizer[0], cast_loss(f, loss_of_fooled));
    fac_optimizer_zero_grad(f->optimizer[1]);
    return loss;
}
static const struct whole_model adversaries = {NULL, generate};

static void prepare_gan(fixture *f) {
    f->of = &adversaries;
    f->x[1] = fac_randn(FAC_INTS(MADE, NOISE, 1, 1));
    f->model = fac_sequential(dcgan_generator_new(NOISE, WIDE, DOUBLINGS), dcgan_discriminator_new(WIDE, DOUBLINGS));
    put_channels_last(f);
    for (int i = 0; i < ROW_OPTIMIZERS; i++)
        f->optimizer[i] = fac_adam_new(fac_module_child(f->model, i ? "1" : "0"), 2e-4, .beta1 = 0.5);
}

/* ---- the others ---- */

static void prepare_tiny(fixture *f) {
    f->x[1] = fac_randint(2, FAC_INTS(8));
    f->model = fac_sequential(fac_linear_new(2, 16), fac_tanh_new(), fac_linear_new(16, 16), fac_tanh_new(),
                              fac_linear_new(16, 2));
    f->optimizer[0] = fac_sgd_new(f->model, 0.01);
}

static void prepare_mlp(fixture *f) {
    f->of = &classifier;
    f->x[1] = fac_randint(10, FAC_INTS(64));
    f->model = fac_sequential(fac_linear_new(784, 512), fac_relu_new(), fac_linear_new(512, 256), fac_relu_new(),
                              fac_linear_new(256, 10));
    f->optimizer[0] = fac_sgd_new(f->model, 0.01);
}

static void prepare_lenet(fixture *f) {
    f->of = &classifier;
    f->x[1] = fac_randint(10, FAC_INTS(64));
    f->model = lenet_new();
    put_channels_last(f);
    f->optimizer[0] = fac_sgd_new(f->model, 0.01, .momentum = 0.9);
}

static void prepare_resnet(fixture *f) {
    f->of = &classifier;
    f->x[1] = fac_randint(10, FAC_INTS(fac_tensor_size(f->x[0], 0)));
    f->model = resnet18_new(10);
    put_channels_last(f);
    f->optimizer[0] = fac_sgd_new(f->model, 0.01, .momentum = 0.9);
}

static void prepare_large_resnet(fixture *f) {
    f->of = &classifier;
    f->model = resnet18_new(10);
    put_channels_last(f);
}

static void prepare_convnext(fixture *f) {
    f->of = &image_to_image;
    f->x[1] = fac_randn_like(f->x[0]);
    f->model = convnext_new(96, 3);
    put_channels_last(f);
    f->optimizer[0] = fac_adamw_new(f->model, 1e-3);
}

static void prepare_lstm(fixture *f) {
    f->of = &classifier;
    f->x[1] = fac_randint(10, FAC_INTS(32));
    f->model = lstm_classifier_new(128, 256, 10);
    f->optimizer[0] = fac_adam_new(f->model, 1e-3);
}

static void prepare_unet(fixture *f) {
    f->of = &masks;
    f->x[1] = fac_to_dtype(fac_gt(fac_randn_like(f->x[0]), 0), FAC_F32);
    f->model = unet_new(32);
    put_channels_last(f);
    f->optimizer[0] = fac_adam_new(f->model, 1e-3);
}

static void prepare_texts(fixture *f, int64_t batch, const gpt_config *config) {
    f->of = &text;
    f->x[0] = fac_randint(config->vocab, FAC_INTS(batch, config->context));
    f->x[1] = fac_randint(config->vocab, FAC_INTS(batch, config->context));
    f->model = gpt_new(config);
    f->optimizer[0] = fac_adamw_new(f->model, 1e-3);
}

static void prepare_gpt(fixture *f) {
    prepare_texts(f, 16, &(gpt_config){.vocab = 96, .context = 64, .dim = 128, .heads = 4, .layers = 4});
}

static void prepare_gpt_medium(fixture *f) {
    prepare_texts(f, 4, &(gpt_config){.vocab = 4096, .context = 256, .dim = 512, .heads = 8, .layers = 6});
}

/* ---- the rows ---- */

#define IN_BF16(PREPARE)                     \
    static void PREPARE##_bf16(fixture *f) { \
        f->bf16 = true;                      \
        PREPARE(f);                          \
    }
IN_BF16(prepare_mlp)
IN_BF16(prepare_lenet)
IN_BF16(prepare_resnet)
IN_BF16(prepare_large_resnet)
IN_BF16(prepare_convnext)
IN_BF16(prepare_lstm)
IN_BF16(prepare_gpt)
IN_BF16(prepare_gpt_medium)
IN_BF16(prepare_unet)
IN_BF16(prepare_gan)
IN_BF16(prepare_gcn)

#define INFERENCE(NAME, PREPARE, ...)                                                 \
    {"models", NAME " infer f32", run_infer, PREPARE, {__VA_ARGS__}, false}, {        \
        "models", NAME " infer bf16", run_infer, PREPARE##_bf16, {__VA_ARGS__}, false \
    }
#define WHOLE(NAME, RUN, PREPARE, ...)                                             \
    {"models", NAME " train f32", RUN, PREPARE, {__VA_ARGS__}, false},             \
        {"models", NAME " train bf16", RUN, PREPARE##_bf16, {__VA_ARGS__}, false}, \
        INFERENCE(NAME, PREPARE, __VA_ARGS__)

const row model_rows[] = {
    {"step", "MLP 2-16-16-2 b8 SGD", run_classifier, prepare_tiny, {{8, 2}}, false},
    {"step", "MLP 784-512-256-10 b64 SGD", run_classifier, prepare_mlp, {{64, 784}}, false},
    {"step", "GPT d128 h4 T64 b16 L4 AdamW", run_gpt, prepare_gpt, {{0}}, false},
    WHOLE("MLP 784-512-256-10 b64", run_train, prepare_mlp, {64, 784}),
    WHOLE("LeNet b64 1x28x28", run_train, prepare_lenet, {64, 1, 28, 28}),
    WHOLE("ResNet-18 b16 3x32x32", run_train, prepare_resnet, {16, 3, 32, 32}),
    INFERENCE("ResNet-18 b4 3x224x224", prepare_large_resnet, {4, 3, 224, 224}),
    WHOLE("ConvNeXt 3 blocks b8 96x56x56", run_train, prepare_convnext, {8, 96, 56, 56}),
    WHOLE("LSTM 2x256 T64 b32", run_train, prepare_lstm, {32, 64, 128}),
    WHOLE("GPT d128 h4 T64 b16 L4", run_train, prepare_gpt, {0}),
    WHOLE("GPT d512 h8 T256 b4 L6", run_train, prepare_gpt_medium, {0}),
    WHOLE("U-Net 3 levels b2 1x128x128", run_train, prepare_unet, {2, 1, 128, 128}),
    WHOLE("DCGAN b16 3x64x64", run_gan, prepare_gan, {MADE, 3, 64, 64}),
    WHOLE("GCN 10k nodes 100k edges", run_train, prepare_gcn, {NODES, FEATURES}),
};
const size_t n_model_rows = sizeof model_rows / sizeof *model_rows;
