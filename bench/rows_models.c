/* Whole training steps: zero the gradients, forward, loss, backward, update. */
#include "../apps/facula/gpt.h"
#include "rows.h"

static fac_tensor *step(fixture *f, fac_tensor *loss) {
    if (fac_backward(loss) || fac_optimizer_step(f->optimizer)) return NULL;
    fac_optimizer_zero_grad(f->optimizer);
    return loss;
}
static fac_tensor *run_classifier(fixture *f) {
    return step(f, fac_cross_entropy(fac_forward(f->model, f->x[0]), f->x[1]));
}
static fac_tensor *run_gpt(fixture *f) { return step(f, gpt_loss(f->model, f->x[0], f->x[1], FAC_REDUCTION_MEAN)); }

static void prepare_tiny(fixture *f) {
    f->x[1] = fac_randint(2, FAC_INTS(8));
    f->model = fac_sequential(fac_linear_new(2, 16), fac_tanh_new(), fac_linear_new(16, 16), fac_tanh_new(),
                              fac_linear_new(16, 2));
    f->optimizer = fac_sgd_new(f->model, 0.01);
}

static void prepare_mlp(fixture *f) {
    f->x[1] = fac_randint(10, FAC_INTS(64));
    f->model = fac_sequential(fac_linear_new(784, 512), fac_relu_new(), fac_linear_new(512, 256), fac_relu_new(),
                              fac_linear_new(256, 10));
    f->optimizer = fac_sgd_new(f->model, 0.01);
}

static void prepare_gpt(fixture *f) {
    const gpt_config config = {.vocab = 96, .context = 64, .dim = 128, .heads = 4, .layers = 4};
    f->x[0] = fac_randint(config.vocab, FAC_INTS(16, config.context));
    f->x[1] = fac_randint(config.vocab, FAC_INTS(16, config.context));
    f->model = gpt_new(&config);
    f->optimizer = fac_adamw_new(f->model, 1e-3);
}

const row model_rows[] = {
    {"step", "MLP 2-16-16-2 b8 SGD", run_classifier, prepare_tiny, {{8, 2}}, false},
    {"step", "MLP 784-512-256-10 b64 SGD", run_classifier, prepare_mlp, {{64, 784}}, false},
    {"step", "GPT d128 h4 T64 b16 L4 AdamW", run_gpt, prepare_gpt, {{0}}, false},
};
const size_t n_model_rows = sizeof model_rows / sizeof *model_rows;
