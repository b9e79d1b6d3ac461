/* A generator of transposed convolutions against a discriminator of convolutions, with an optimiser each, on small coloured
   images, from noise that the test gives. */
#include "networks.h"
#include "training.h"

enum { NOISE = 16, WIDE = 8, DOUBLINGS = 3 };

static fac_status begin(training *t) {
    t->model = fac_module_dict_new();
    fac_module *generator = fac_module_dict_set(t->model, "generator", dcgan_generator_new(NOISE, WIDE, DOUBLINGS));
    fac_module *discriminator =
        fac_module_dict_set(t->model, "discriminator", dcgan_discriminator_new(WIDE, DOUBLINGS));
    t->optimizer[0] = fac_adam_new(generator, 1e-3, .beta1 = 0.5);
    t->optimizer[1] = fac_adam_new(discriminator, 5e-4, .beta1 = 0.5);
    for (int i = 0; i < 2; i++) t->schedule[i] = fac_multi_step_lr_new(t->optimizer[i], FAC_INTS(8, 16), .gamma = 0.5);
    return fac_error();
}

/* The loss of a discriminator that is to say `answer`, 1 or 0, to the images x. */
static fac_tensor *judged(fac_module *discriminator, fac_tensor *x, double answer) {
    fac_tensor *says = fac_sigmoid(fac_flatten(fac_forward(discriminator, x)));
    return fac_binary_cross_entropy(says, fac_full_like(says, answer));
}

/* Losses: of the discriminator on what is real and on what is not, and of the generator. */
static fac_status step(training *t, double *losses) {
    fac_module *generator = fac_module_dict_get(t->model, "generator"),
               *discriminator = fac_module_dict_get(t->model, "discriminator");
    fac_optimizer_zero_grad(t->optimizer[1]);
    fac_tensor *real = judged(discriminator, given_now(t, "images"), 1);
    if (fac_backward(real)) return fac_error();
    fac_tensor *made = fac_forward(generator, given_now(t, "noise"));
    fac_tensor *false_ = judged(discriminator, fac_detach(made), 0);
    if (fac_backward(false_) || fac_optimizer_step(t->optimizer[1])) return fac_error(); /* of both sums of gradients */

    fac_optimizer_zero_grad(t->optimizer[0]);
    fac_tensor *fooled = judged(discriminator, made, 1);
    if (fac_backward(fooled) || fac_optimizer_step(t->optimizer[0])) return fac_error();
    losses[0] = fac_item(real);
    losses[1] = fac_item(false_);
    losses[2] = fac_item(fooled);
    return fac_lr_scheduler_step(t->schedule[0]) || fac_lr_scheduler_step(t->schedule[1]) ? fac_error() : FAC_OK;
}

const training_kind dcgan = {"dcgan", 3, begin, step};
