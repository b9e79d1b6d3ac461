/* Two moons: a small network learns which of two interleaved half circles a point lies on, and draws the border it found.

   Shows a model made of layers, random data, an optimiser, the training loop, and how results are read back.

       cc moons.c $(pkg-config --cflags --libs facula) -o moons && ./moons [steps]

   Prints the loss every 100 steps, how many of 1000 new points it places rightly, and a map of the plane: '.' and ' ' are
   the two sides of the border, 'o' and 'x' new points of the two moons. Returns 1 if fewer than 98 % are right. */
#include <facula/facula.h>
#include <stdlib.h>

enum { ROWS = 22, COLUMNS = 72 };
static const double LEFT = -1.5, RIGHT = 2.5, TOP = 1.4, BOTTOM = -0.9;

/* n points, float32[n, 2], and the moon of each, int64[n]: 0 is the upper half circle, 1 the lower one, half a step aside. */
static fac_tensor *points(int64_t n, fac_tensor **out_moon) {
    fac_tensor *moon = fac_randint(2, n), *lower = fac_eq(moon, 1);
    fac_tensor *angle = fac_mul(fac_rand(n), 3.14159265), *x = fac_cos(angle), *y = fac_sin(angle);
    x = fac_where(lower, fac_rsub(x, 1), x);
    y = fac_where(lower, fac_rsub(y, 0.5), y);
    *out_moon = moon;
    return fac_add(fac_stack(FAC_TENSORS(x, y), 1), fac_randn(FAC_SHAPE(n, 2)), .alpha = 0.1);
}

static void train(fac_module *model, fac_optimizer *adam, int steps) {
    for (int step = 1; step <= steps; step++) {
        FAC_SCOPE(s); /* frees all tensors of this step when the block ends */
        fac_tensor *moon, *x = points(128, &moon);
        fac_tensor *loss = fac_cross_entropy(fac_forward(model, x), moon);
        fac_optimizer_zero_grad(adam);
        if (fac_backward(loss) || fac_optimizer_step(adam)) return; /* the error is pending: main reports it */
        if (step % 100 == 0) printf("step %4d   loss %.4f\n", step, fac_item(loss));
    }
}

/* The class that the model gives to each of the points x. */
static fac_tensor *classify(fac_module *model, fac_tensor *x) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g); /* nothing is recorded for gradients */
    return fac_yield(s, fac_argmax(fac_forward(model, x), 1));
}

static void draw(fac_module *model, fac_tensor *x, fac_tensor *moon) {
    fac_tensor *across = fac_linspace(LEFT, RIGHT, COLUMNS), *down = fac_linspace(TOP, BOTTOM, ROWS);
    fac_tensors grid = fac_meshgrid_indexing(FAC_TENSORS(down, across), "ij");
    fac_tensor *places = fac_reshape(fac_stack(FAC_TENSORS(grid.v[1], grid.v[0]), -1), FAC_SHAPE(-1, 2));
    int64_t side[ROWS * COLUMNS], m[100];
    float at[100][2];
    if (fac_tensor_read(classify(model, places), FAC_I64, side, ROWS * COLUMNS)) return;
    if (fac_tensor_read(fac_at(x, ":100"), FAC_F32, at, 200)) return;
    if (fac_tensor_read(fac_at(moon, ":100"), FAC_I64, m, 100)) return;

    char map[ROWS][COLUMNS + 1] = {{0}};
    for (int i = 0; i < ROWS * COLUMNS; i++) map[i / COLUMNS][i % COLUMNS] = side[i] ? ' ' : '.';
    for (int i = 0; i < 100; i++) {
        const int column = (int)((at[i][0] - LEFT) / (RIGHT - LEFT) * COLUMNS);
        const int row = (int)((TOP - at[i][1]) / (TOP - BOTTOM) * ROWS);
        if (column >= 0 && column < COLUMNS && row >= 0 && row < ROWS) map[row][column] = m[i] ? 'x' : 'o';
    }
    for (int row = 0; row < ROWS; row++) puts(map[row]);
}

int main(int argc, char **argv) {
    const int steps = argc > 1 ? atoi(argv[1]) : 500;
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model = fac_sequential(fac_linear_new(2, 32), fac_relu_new(), fac_linear_new(32, 32), fac_relu_new(),
                                       fac_linear_new(32, 2));
    fac_optimizer *adam = fac_adam_new(model, 1e-2);
    train(model, adam, steps);

    fac_tensor *moon, *x = points(1000, &moon);
    const double right = fac_item(fac_mean(fac_eq(classify(model, x), moon), .dtype = FAC_F32));
    printf("%.1f %% of 1000 new points are placed rightly\n\n", 100 * right);
    draw(model, x, moon);
    if (right < 0.98)
        fac_error_set(FAC_ERR_STATE, "the border is not good enough"); /* unless there is an error already */

    fac_optimizer_release(adam);
    fac_module_release(model);
    return fac_report(stderr); /* 1, and says what went wrong and where, if anything did */
}
