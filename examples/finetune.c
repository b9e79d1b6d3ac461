/* Fine-tuning: layers that have learnt to hear single tones are frozen, then thawed, to learn chords from very few examples.

   Shows modules that share layers, frozen parameters, groups of parameters with rates of their own, a schedule over all groups,
   and dropout that is off when results count.

       cc finetune.c $(pkg-config --cflags --libs facula) -o finetune && ./finetune [steps]

   Prints which part of new signals is recognised: tones; chords by a network that starts from nothing; chords by the layers
   that know tones, under a new last layer that learns alone, then with all layers tuned. Returns 1 if knowing tones does
   not help. */
#include <facula/facula.h>
#include <stdlib.h>

enum { LENGTH = 32, HIDDEN = 64, TONES = 6, CHORDS = 5, FEW = 40 };

/* Sines of these frequencies, float32[n], at random phases: [n, LENGTH]. */
static fac_tensor *sines(fac_tensor *frequency) {
    fac_tensor *time = fac_mul(fac_arange(LENGTH), 6.2831853 / LENGTH), *f = fac_unsqueeze(frequency, 1);
    return fac_sin(fac_add(fac_mul(f, time), fac_mul(fac_rand_like(f), 6.2831853)));
}

/* n noisy tones, and which of the frequencies 1, 2, ..., TONES each has. */
static fac_tensor *tones(int64_t n, fac_tensor **out_label) {
    *out_label = fac_randint(TONES, n);
    return fac_add(sines(fac_add(*out_label, 1.0)), fac_randn(FAC_SHAPE(n, LENGTH)), .alpha = 0.4);
}

/* n noisy chords of two tones, of the frequencies label + 1 and label + 2. */
static fac_tensor *chords(int64_t n, fac_tensor **out_label) {
    *out_label = fac_randint(CHORDS, n);
    fac_tensor *both = fac_add(sines(fac_add(*out_label, 1.0)), sines(fac_add(*out_label, 2.0)));
    return fac_add(both, fac_randn(FAC_SHAPE(n, LENGTH)), .alpha = 0.4);
}

static fac_module *layers_new(void) {
    return fac_sequential(fac_linear_new(LENGTH, HIDDEN), fac_relu_new(), fac_linear_new(HIDDEN, HIDDEN),
                          fac_relu_new(), fac_dropout_new(0.1));
}

/* Takes steps on all of x at once, while the rates of all groups fall to zero. */
static void fit(fac_module *model, fac_optimizer *adam, fac_tensor *x, fac_tensor *label, int steps) {
    const fac_cosine_schedule fall = {.peak = 1, .total = steps};
    fac_module_train(model, true);
    for (int step = 0; step < steps; step++) {
        FAC_SCOPE(s);
        fac_tensor *loss = fac_cross_entropy(fac_forward(model, x), label);
        fac_optimizer_zero_grad(adam);
        if (fac_backward(loss) || fac_optimizer_scale_lr(adam, fac_cosine_lr(&fall, step))) return;
        if (fac_optimizer_step(adam)) return;
    }
}

/* Prints and returns the part of the signals x that the model recognises. */
static double score(const char *what, fac_module *model, fac_tensor *x, fac_tensor *label) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    fac_module_train(model, false); /* no dropout */
    const double right = fac_item(fac_mean(fac_eq(fac_argmax(fac_forward(model, x), 1), label), .dtype = FAC_F32));
    printf("%-46s %5.1f %%\n", what, 100 * right);
    return right;
}

/* The layers are frozen: no gradients are computed for them. */
static void learn_last(fac_module *model, fac_optimizer *adam, fac_module *layers, fac_tensor *x, fac_tensor *label,
                       int steps) {
    if (fac_module_set_requires_grad(layers, false) == FAC_OK) fit(model, adam, x, label, steps);
}

/* They learn, too, at a tenth of the rate. */
static void learn_all(fac_module *model, fac_optimizer *adam, fac_module *layers, fac_tensor *x, fac_tensor *label,
                      int steps) {
    if (fac_module_set_requires_grad(layers, true)) return;
    if (fac_optimizer_add_module(adam, layers, FAC_OPTIONS({"lr", 3e-4}))) return;
    fit(model, adam, x, label, steps);
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 300;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_tensor *label, *few_label, *test_label;
    fac_tensor *x = tones(3000, &label), *few = chords(FEW, &few_label), *test = chords(2000, &test_label);

    /* Many tones teach the layers, under a last layer for tones. */
    fac_module *layers = layers_new();
    fac_module *of_tones = fac_sequential(fac_module_keep(layers), fac_linear_new(HIDDEN, TONES));
    fac_optimizer *adam = fac_adam_new(of_tones, 3e-3);
    fit(of_tones, adam, x, label, steps);
    x = tones(1000, &label);
    score("tones", of_tones, x, label);
    fac_optimizer_release(adam);

    /* A few chords alone teach little. */
    fac_module *fresh = fac_sequential(layers_new(), fac_linear_new(HIDDEN, CHORDS));
    adam = fac_adam_new(fresh, 3e-3);
    fit(fresh, adam, few, few_label, steps);
    const double alone = score("chords, from nothing", fresh, test, test_label);
    fac_optimizer_release(adam);

    /* Under a new last layer the known layers make more of them. */
    fac_module *last = fac_linear_new(HIDDEN, CHORDS);
    fac_module *of_chords = fac_sequential(fac_module_keep(layers), fac_module_keep(last));
    adam = fac_adam_new(last, 3e-3);
    learn_last(of_chords, adam, layers, few, few_label, steps);
    score("chords, known layers frozen", of_chords, test, test_label);
    learn_all(of_chords, adam, layers, few, few_label, steps);
    const double tuned = score("chords, known layers tuned", of_chords, test, test_label);
    fac_optimizer_release(adam);

    if (tuned < 0.85 || tuned < alone + 0.1) fac_error_set(FAC_ERR_STATE, "what was known of tones does not help");
    fac_module_release(of_chords);
    fac_module_release(fresh);
    fac_module_release(of_tones);
    fac_module_release(last);
    fac_module_release(layers);
    return fac_report(stderr);
}
