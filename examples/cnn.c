/* A convolutional network with a module of one's own: residual blocks learn to read digits that are shifted and noisy.

   Shows a class of modules with children, convolutions and normalisation, batches from a loader, and the difference between
   training and evaluation.

       cc cnn.c $(pkg-config --cflags --libs facula) -o cnn && ./cnn [epochs]

   Prints the model, the loss of each epoch, and some images that it has not seen with what it reads in them. Returns 1 if
   it reads fewer than 95 % of 1000 new images rightly. */
#include <facula/facula.h>
#include <stdlib.h>

enum { SIDE = 12, SAMPLES = 4000, BATCH = 50 };

static const char *const DIGITS[7] = {
    " ###    #    ###  #####    #  #####   ##  #####  ###   ###  ", /* ten digits of 5 x 7, one column apart */
    "#   #  ##   #   #    #    ##  #      #        # #   # #   # ",
    "#  ##   #       #   #    # #  ####  #        #  #   # #   # ",
    "# # #   #      #     #  #  #      # ####    #    ###   #### ",
    "##  #   #     #       # #####     # #   #  #    #   #     # ",
    "#   #   #    #    #   #    #  #   # #   #  #    #   #    #  ",
    " ###   ###  #####  ###     #   ###   ###   #     ###   ##   "};

/* n images, float32[n, 1, SIDE, SIDE], of digits in any place under noise, and the digits, int64[n]. */
static fac_tensor *images(int64_t n, fac_tensor **out_digits) {
    fac_tensor *x = fac_mul(fac_randn(FAC_SHAPE(n, 1, SIDE, SIDE)), 0.3), *digits = fac_randint(10, n);
    fac_tensor *across = fac_randint(SIDE - 4, n), *down = fac_randint(SIDE - 6, n);
    if (fac_error()) return NULL;
    float *pixel = fac_tensor_data(x);
    const int64_t *digit = fac_tensor_data(digits), *left = fac_tensor_data(across), *top = fac_tensor_data(down);
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < 7; row++)
            for (int64_t column = 0; column < 5; column++)
                if (DIGITS[row][6 * digit[i] + column] == '#')
                    pixel[(i * SIDE + top[i] + row) * SIDE + left[i] + column] += 1;
    *out_digits = digits;
    return x;
}

/* ---- the module: relu(x + norm(conv(relu(norm(conv(x)))))) ---- */

typedef struct {
    fac_module *conv1, *norm1, *conv2, *norm2; /* the module's children: it owns them, this only points to them */
} residual;

static fac_tensor *residual_forward(fac_module *self, fac_tensor *x) {
    residual *r = fac_module_state(self);
    fac_tensor *h = fac_relu(fac_forward(r->norm1, fac_forward(r->conv1, x)));
    return fac_relu(fac_add(x, fac_forward(r->norm2, fac_forward(r->conv2, h))));
}

/* For fac_module_copy: the copy has its children, and points to its own. */
static fac_status residual_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(residual *)fac_module_state(copy) = (residual){fac_module_child(copy, "conv1"), fac_module_child(copy, "norm1"),
                                                     fac_module_child(copy, "conv2"), fac_module_child(copy, "norm2")};
    return fac_error();
}

static const fac_module_class residual_class = {.name = "Residual",
                                                .version = 1,
                                                .state_size = sizeof(residual),
                                                .forward = residual_forward,
                                                .copy = residual_copy};

static fac_module *residual_new(int64_t channels) {
    fac_module *m = fac_module_new(&residual_class);
    if (!m) return NULL;
    residual *r = fac_module_state(m);
    r->conv1 = fac_module_add(m, "conv1", fac_conv2d_new(channels, channels, 3, .padding = 1, .bias = false));
    r->norm1 = fac_module_add(m, "norm1", fac_batch_norm2d_new(channels));
    r->conv2 = fac_module_add(m, "conv2", fac_conv2d_new(channels, channels, 3, .padding = 1, .bias = false));
    r->norm2 = fac_module_add(m, "norm2", fac_batch_norm2d_new(channels));
    return m; /* an error, if there was one, is pending: whatever uses the module next reports it */
}

/* ---- training and looking ---- */

static void train(fac_module *model, fac_optimizer *adam, fac_loader *loader, int epochs) {
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double sum = 0;
        for (;;) {
            FAC_SCOPE(s); /* frees the batch and all that was computed from it */
            fac_tensor *batch[2];
            if (!fac_loader_next(loader, batch)) break;
            fac_tensor *loss = fac_cross_entropy(fac_forward(model, batch[0]), batch[1]);
            fac_optimizer_zero_grad(adam);
            if (fac_backward(loss) || fac_optimizer_step(adam)) return;
            sum += fac_item(loss);
        }
        printf("epoch %d   loss %.4f\n", epoch, sum / (double)fac_loader_batches(loader));
    }
}

/* The digits that the model reads in the images x. */
static fac_tensor *read_digits(fac_module *model, fac_tensor *x) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    fac_module_train(model, false); /* normalises by the statistics of training, not by those of x */
    return fac_yield(s, fac_argmax(fac_forward(model, x), 1));
}

/* Five images side by side, and what was read in each. */
static void show(fac_tensor *x, fac_tensor *read) {
    float pixel[5][SIDE][SIDE];
    int64_t digit[5];
    if (fac_tensor_read(fac_at(x, ":5"), FAC_F32, pixel, 5 * SIDE * SIDE)) return;
    if (fac_tensor_read(fac_at(read, ":5"), FAC_I64, digit, 5)) return;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < 5 * SIDE; column++) {
            const float p = pixel[column / SIDE][row][column % SIDE];
            putchar(p < 0.3F ? ' ' : p < 0.6F ? '.' : p < 0.9F ? 'o' : '#');
            if (column == 5 * SIDE - 1) putchar('\n');
        }
    for (int i = 0; i < 5; i++) printf("%*d%*s", SIDE / 2, (int)digit[i], SIDE / 2, "");
    putchar('\n');
}

int main(int argc, char **argv) {
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model =
        fac_sequential(fac_conv2d_new(1, 16, 3, .padding = 1), fac_relu_new(), residual_new(16), fac_max_pool2d_new(2),
                       residual_new(16), fac_max_pool2d_new(2), fac_flatten_new(), fac_linear_new(16 * 3 * 3, 10));
    fac_tensor *digits = NULL, *x = images(SAMPLES, &digits);
    fac_loader *loader = fac_loader_new(FAC_TENSORS(x, digits), BATCH, .shuffle = true);
    fac_optimizer *adam = fac_adamw_new(model, 3e-3);
    if (!fac_error() && fac_module_print(model, stdout) == FAC_OK)
        train(model, adam, loader, argc > 1 ? atoi(argv[1]) : 4);

    x = images(1000, &digits);
    fac_tensor *read = read_digits(model, x);
    const double right = fac_item(fac_mean(fac_eq(read, digits), .dtype = FAC_F32));
    printf("%.1f %% of 1000 new images are read rightly\n", 100 * right);
    show(x, read);
    if (right < 0.95) fac_error_set(FAC_ERR_STATE, "too many digits are misread");

    fac_optimizer_release(adam);
    fac_loader_release(loader);
    fac_module_release(model);
    return fac_report(stderr);
}
