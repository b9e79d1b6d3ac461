/* A variational autoencoder whose divergence is a custom function: it learns that pictures of a spot have two coordinates.

   Shows a function with a forward and a backward of one's own, its gradient checked against differences, random numbers
   in a model, and two modules under one optimiser.

       cc vae.c $(pkg-config --cflags --libs facula) -o vae && ./vae [steps]

   Prints both parts of the loss every 500 steps, in nats, and pictures that the decoder draws for points on a grid of its two
   latent coordinates. Returns 1 if pictures that it has not seen are not restored well. */
#include <facula/facula.h>
#include <stdlib.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, LATENT = 2, ACROSS = 7, DOWN = 3 };

/* ---- the function: how far N(mean, exp(logvar)) is from N(0, 1), summed over all elements ---- */

static fac_status divergence_forward(fac_function_ctx *c, fac_tensors in, fac_tensor **out) {
    fac_tensor *mean = in.v[0], *logvar = in.v[1];
    /* (exp(logvar) + mean^2 - 1 - logvar) / 2 */
    out[0] = fac_mul(fac_sum(fac_sub(fac_add(fac_expm1(logvar), fac_square(mean)), logvar)), 0.5);
    return fac_function_save(c, in); /* for backward; nothing else is recorded in here */
}

static fac_status divergence_backward(fac_function_ctx *c, fac_tensors grad, fac_tensor **out) {
    const fac_tensors saved = fac_function_saved(c);
    out[0] = fac_mul(grad.v[0], saved.v[0]);                          /* d/dmean   = mean */
    out[1] = fac_mul(grad.v[0], fac_mul(fac_expm1(saved.v[1]), 0.5)); /* d/dlogvar = (exp(logvar) - 1) / 2 */
    return fac_error();
}

static const fac_function divergence = {
    .name = "Divergence", .n_outputs = 1, .forward = divergence_forward, .backward = divergence_backward};

/* The same as gradcheck wants it: out[0] of inputs mean and logvar. */
static fac_status apply_divergence(void *context, fac_tensors in, fac_tensor **out, size_t n) {
    (void)context, (void)n;
    return fac_function_apply(&divergence, NULL, in, out);
}

/* Compares the backward above with differences, in double precision, at some random point. */
static fac_status check_divergence(void) {
    FAC_SCOPE(s);
    fac_tensor *mean = fac_randn(FAC_SHAPE(3, 2), .dtype = FAC_F64, .requires_grad = true);
    fac_tensor *logvar = fac_randn(FAC_SHAPE(3, 2), .dtype = FAC_F64, .requires_grad = true);
    return fac_gradcheck(apply_divergence, NULL, FAC_TENSORS(mean, logvar), 1);
}

/* ---- the model ---- */

/* n pictures of a spot at a random place, float32[n, PIXELS] from 0 to 1. */
static fac_tensor *pictures(int64_t n) {
    fac_tensor *place = fac_arange(SIDE), *centre = fac_mul(fac_rand(FAC_SHAPE(2, n, 1)), SIDE - 1);
    fac_tensor *profile =
        fac_exp(fac_mul(fac_square(fac_sub(place, centre)), -0.5)); /* [2, n, SIDE]: down and across */
    return fac_flatten(fac_mul(fac_at(profile, "0, :, :, None"), fac_at(profile, "1, :, None, :")), 1);
}

/* Mean and logarithm of the variance of the latent coordinates of pictures x. */
static fac_tensors encode(fac_module *encoder, fac_tensor *x) { return fac_chunk(fac_forward(encoder, x), 2, 1); }

static void train(fac_module *encoder, fac_module *decoder, fac_optimizer *adam, int steps) {
    if (fac_optimizer_add_module(adam, decoder, FAC_OPTIONS())) return; /* learns with the settings of the encoder */
    for (int step = 1; step <= steps; step++) {
        FAC_SCOPE(s);
        const int n = 64;
        fac_tensor *x = pictures(n), *far;
        const fac_tensors q = encode(encoder, x);
        fac_tensor *noise = fac_randn(FAC_SHAPE(n, LATENT));
        fac_tensor *z = fac_add(q.v[0], fac_mul(noise, fac_exp(fac_mul(q.v[1], 0.5))));
        if (fac_function_apply(&divergence, NULL, q, &far)) return;
        /* Pixels are seen with a noise of 0.1: their squared error counts 1 / (2 * 0.1^2). */
        fac_tensor *error = fac_mul(fac_mse_loss(fac_forward(decoder, z), x, .reduction = FAC_REDUCTION_SUM), 50);
        fac_optimizer_zero_grad(adam);
        if (fac_backward(fac_div(fac_add(error, far), n)) || fac_optimizer_step(adam)) return;
        if (step % 500 == 0)
            printf("step %4d   error %6.2f   divergence %5.2f\n", step, fac_item(error) / n, fac_item(far) / n);
    }
}

/* Draws what the decoder makes of a grid of latent coordinates. */
static void draw(fac_module *decoder) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    float pixel[DOWN][ACROSS][SIDE][SIDE];
    fac_tensors z =
        fac_meshgrid_indexing(FAC_TENSORS(fac_linspace(-1.2, 1.2, DOWN), fac_linspace(-1.2, 1.2, ACROSS)), "ij");
    fac_tensor *images = fac_forward(decoder, fac_reshape(fac_stack(z, -1), FAC_SHAPE(-1, LATENT)));
    if (fac_tensor_read(images, FAC_F32, pixel, DOWN * ACROSS * PIXELS)) return;
    for (int row = 0; row < DOWN * SIDE; row++)
        for (int column = 0; column < ACROSS * SIDE; column++) {
            const float p = pixel[row / SIDE][column / SIDE][row % SIDE][column % SIDE];
            putchar(" .:-=+*#%@"[p < 0 ? 0 : p >= 1 ? 9 : (int)(10 * p)]);
            if (column == ACROSS * SIDE - 1) putchar('\n');
        }
}

int main(int argc, char **argv) {
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *encoder = fac_sequential(fac_linear_new(PIXELS, 128), fac_relu_new(), fac_linear_new(128, 2 * LATENT));
    fac_module *decoder = fac_sequential(fac_linear_new(LATENT, 128), fac_relu_new(), fac_linear_new(128, PIXELS));
    fac_optimizer *adam = fac_adam_new(encoder, 2e-3);
    if (!fac_error() && check_divergence() == FAC_OK) puts("the custom function's gradient is right");
    train(encoder, decoder, adam, argc > 1 ? atoi(argv[1]) : 3000);
    draw(decoder);

    fac_tensor *x = pictures(500);
    const double error = fac_item(fac_mse_loss(fac_forward(decoder, encode(encoder, x).v[0]), x));
    printf("mean squared error of 500 new pictures: %.4f\n", error);
    if (error > 0.005) fac_error_set(FAC_ERR_STATE, "pictures are not restored well");
    fac_optimizer_release(adam);
    fac_module_release(decoder);
    fac_module_release(encoder);
    return fac_report(stderr);
}
