/* A variational autoencoder of pictures of spots, whose noise the test gives: Adam, with a rate that first rises and then falls.
   source: Kingma, Welling 2014; the example of PyTorch's */
#include "training.h"

enum { PIXELS = 144, HIDDEN = 64, LATENT = 4 };

typedef struct {
    fac_module *fc1, *fc21, *fc22, *fc3, *fc4;
} vae_parts;

/* Pictures [N, PIXELS] and noise [N, LATENT] -> pictures as they are restored, and means and logarithms of variances. */
static fac_status vae_forward(fac_module *self, fac_tensors in, fac_tensor **out) {
    vae_parts *v = fac_module_state(self);
    fac_tensor *h = fac_relu(fac_forward(v->fc1, in.v[0]));
    fac_tensor *mean = fac_forward(v->fc21, h), *logvar = fac_forward(v->fc22, h);
    fac_tensor *z = fac_add(mean, fac_mul(in.v[1], fac_exp(fac_mul(logvar, 0.5))));
    out[0] = fac_sigmoid(fac_forward(v->fc4, fac_relu(fac_forward(v->fc3, z))));
    out[1] = mean;
    out[2] = logvar;
    return fac_error();
}

static const fac_module_class vae_class = {
    .name = "VAE", .version = 1, .state_size = sizeof(vae_parts), .forward_all = vae_forward, .n_outputs = 3};

static fac_module *vae_new(void) {
    fac_module *m = fac_module_new(&vae_class);
    if (!m) return NULL;
    vae_parts *v = fac_module_state(m);
    v->fc1 = fac_module_add(m, "fc1", fac_linear_new(PIXELS, HIDDEN));
    v->fc21 = fac_module_add(m, "fc21", fac_linear_new(HIDDEN, LATENT));
    v->fc22 = fac_module_add(m, "fc22", fac_linear_new(HIDDEN, LATENT));
    v->fc3 = fac_module_add(m, "fc3", fac_linear_new(LATENT, HIDDEN));
    v->fc4 = fac_module_add(m, "fc4", fac_linear_new(HIDDEN, PIXELS));
    return m;
}

static fac_status begin(training *t) {
    t->model = vae_new();
    t->optimizer[0] = fac_adam_new(t->model, 3e-3, .weight_decay = 1e-5, .amsgrad = true);
    t->schedule[0] =
        fac_sequential_lr_new(t->optimizer[0],
                              FAC_SCHEDULERS(fac_linear_lr_new(t->optimizer[0], .start_factor = 0.1, .total_iters = 10),
                                             fac_exponential_lr_new(t->optimizer[0], 0.97)),
                              FAC_INTS(10));
    return fac_error();
}

/* Losses: of a picture in the mean the whole, its cross entropy, its divergence. */
static fac_status step(training *t, double *losses) {
    fac_tensor *x = given_now(t, "pictures"), *out[3];
    if (fac_forward_all(t->model, FAC_TENSORS(x, given_now(t, "noise")), out, 3)) return fac_error();
    const int64_t n = fac_tensor_size(x, 0);
    fac_tensor *entropy = fac_div(fac_binary_cross_entropy(out[0], x, .reduction = FAC_REDUCTION_SUM), n);
    fac_tensor *inner = fac_sub(fac_sub(fac_add(out[2], 1), fac_square(out[1])), fac_exp(out[2]));
    fac_tensor *divergence = fac_div(fac_mul(fac_sum(inner), -0.5), n);
    fac_tensor *loss = fac_add(entropy, divergence);
    losses[0] = fac_item(loss);
    losses[1] = fac_item(entropy);
    losses[2] = fac_item(divergence);
    return learn(t, loss);
}

const training_kind vae = {"vae", 3, begin, step};
