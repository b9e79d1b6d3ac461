/* Two networks against each other: a generator learns to throw points onto a ring, from a critic that tells them from real ones.

   Shows two models with an optimiser each, which take turns; results cut off from the graph; a gradient in
   a loss, which is differentiated twice; and settings of Adam.

       cc gan.c $(pkg-config --cflags --libs facula) -o gan && ./gan [steps]

   Prints both losses every 500 steps and a picture of 2000 points that the generator threw: the more in a place, the darker.
   Returns 1 if fewer than 85 % of them are near the ring, or a part of the ring stays empty. */
#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

static const double PENALTY = 0.5;
enum { NOISE = 8, BATCH = 256, SHOWN = 2000, ROWS = 23, COLUMNS = 46 };

/* n real points, float32[n, 2]: on a circle of radius 1, not quite exactly. */
static fac_tensor *ring(int64_t n) {
    fac_tensor *angle = fac_mul(fac_rand(n), 6.2831853);
    fac_tensor *radius = fac_add(fac_mul(fac_randn(n), 0.05), 1);
    return fac_mul(fac_stack(FAC_TENSORS(fac_cos(angle), fac_sin(angle)), 1), fac_unsqueeze(radius, 1));
}

/* n points of the generator's. */
static fac_tensor *forged(fac_module *generator, int64_t n) {
    return fac_forward(generator, fac_randn(FAC_SHAPE(n, NOISE)));
}

/* One step of the critic, whose output is the logit of "real"; returns its loss. It may not be steep where real points are:
   without that penalty, on a gradient that is differentiated again, the generator runs from it in circles. */
static double teach_critic(fac_module *critic, fac_optimizer *adam, fac_module *generator) {
    FAC_SCOPE(s);
    fac_tensor *real = fac_set_requires_grad(ring(BATCH), true), *slope;
    fac_tensor *fake = fac_detach(forged(generator, BATCH)); /* nothing flows back into the generator */
    fac_tensor *says = fac_forward(critic, real), *says_fake = fac_forward(critic, fake);
    if (fac_grad(FAC_TENSORS(fac_sum(says)), FAC_TENSORS(real), &slope, .create_graph = true)) return 0;
    fac_tensor *loss = fac_add(fac_mean(fac_softplus(fac_neg(says))), fac_mean(fac_softplus(says_fake)));
    fac_tensor *penalty = fac_mean(fac_square(slope));
    fac_optimizer_zero_grad(adam);
    return fac_backward(fac_add(loss, penalty, .alpha = PENALTY)) || fac_optimizer_step(adam) ? 0 : fac_item(loss);
}

/* One step of the generator, which wants the critic to say "real"; returns its loss. */
static double teach_generator(fac_module *generator, fac_optimizer *adam, fac_module *critic) {
    FAC_SCOPE(s);
    fac_tensor *loss = fac_mean(fac_softplus(fac_neg(fac_forward(critic, forged(generator, BATCH)))));
    fac_optimizer_zero_grad(adam); /* the critic's gradients, which this adds to, are dropped before its own step */
    return fac_backward(loss) || fac_optimizer_step(adam) ? 0 : fac_item(loss);
}

static void draw(float (*point)[2]) {
    int count[ROWS][COLUMNS] = {{0}};
    for (int i = 0; i < SHOWN; i++) {
        const int row = (int)((1.5F - point[i][1]) / 3 * ROWS), column = (int)((1.5F + point[i][0]) / 3 * COLUMNS);
        if (row >= 0 && row < ROWS && column >= 0 && column < COLUMNS) count[row][column]++;
    }
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            const int n = count[row][column];
            putchar(n == 0 ? ' ' : n < 3 ? '.' : n < 6 ? ':' : n < 12 ? 'o' : '#');
        }
        putchar('\n');
    }
}

/* What there is to say against the points; NULL: nothing. */
static const char *judge(float (*point)[2]) {
    int near = 0, eighth[8] = {0};
    for (int i = 0; i < SHOWN; i++) {
        near += fabsf(hypotf(point[i][0], point[i][1]) - 1) < 0.2F;
        eighth[(int)((atan2f(point[i][1], point[i][0]) + 3.1415927F) * 1.2732F) & 7]++;
    }
    printf("%.1f %% of the points are near the ring\n", 100.0 * near / SHOWN);
    for (int i = 0; i < 8; i++)
        if (eighth[i] < SHOWN / 50) return "a part of the ring is empty";
    return near < 0.85 * SHOWN ? "too many points are off the ring" : NULL;
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 2000;
    static float point[SHOWN][2];
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *generator = fac_sequential(fac_linear_new(NOISE, 64), fac_relu_new(), fac_linear_new(64, 64),
                                           fac_relu_new(), fac_linear_new(64, 2));
    fac_module *critic = fac_sequential(fac_linear_new(2, 64), fac_silu_new(), fac_linear_new(64, 64), fac_silu_new(),
                                        fac_linear_new(64, 1));
    fac_optimizer *adam_g = fac_adam_new(generator, 1e-3, .beta1 = 0.5),
                  *adam_c = fac_adam_new(critic, 1e-3, .beta1 = 0.5);
    for (int step = 1; step <= steps && !fac_error(); step++) {
        const double loss_c = teach_critic(critic, adam_c, generator),
                     loss_g = teach_generator(generator, adam_g, critic);
        if (step % 500 == 0) printf("step %4d   critic %.3f   generator %.3f\n", step, loss_c, loss_g);
    }
    if (fac_tensor_read(forged(generator, SHOWN), FAC_F32, point, 2 * SHOWN) == FAC_OK) {
        draw(point);
        const char *reason = judge(point);
        if (reason) fac_error_set(FAC_ERR_STATE, "%s", reason);
    }
    fac_optimizer_release(adam_c);
    fac_optimizer_release(adam_g);
    fac_module_release(critic);
    fac_module_release(generator);
    return fac_report(stderr);
}
