/* A data set of one's own: numbers as bits and what a child says to them, from which a network learns to play fizz buzz.

   Shows samples that are made when they are wanted, in an order that a sampler draws for each epoch, batches of them from plain
   arrays, and what is kept apart to see whether the rest was understood.

       cc dataset.c $(pkg-config --cflags --libs facula) -o dataset && ./dataset [epochs]

   Prints the loss every 50 epochs, and how the network counts to 30: it learns from 101 to 1023. Returns 1 if it errs more than
   ten times below 101. */
#include <facula/facula.h>
#include <stdlib.h>

enum { BITS = 10, SAYS = 4, FIRST = 101, END = 1 << BITS, BATCH = 64 };

/* ---- the data set: sample i is the number FIRST + i; it could as well be a file of a folder ---- */

/* What is right to say: 0 the number itself, 1 fizz if 3 divides it, 2 buzz if 5 does, 3 fizz buzz. */
static int64_t answer(int64_t number) { return (number % 3 == 0) + 2 * (number % 5 == 0); }

/* Writes the bits of a number as 1 and -1. */
static void encode(int64_t number, float *bits) {
    for (int b = 0; b < BITS; b++) bits[b] = number >> b & 1 ? 1 : -1;
}

/* The next batch of the epoch; false at its end, and after an error. */
static bool next_batch(fac_sampler *sampler, fac_tensor **out_x, fac_tensor **out_y) {
    int64_t sample[BATCH], said[BATCH];
    float bits[BATCH][BITS];
    const int64_t n = fac_sampler_next(sampler, sample, BATCH);
    for (int64_t i = 0; i < n; i++) {
        encode(FIRST + sample[i], bits[i]);
        said[i] = answer(FIRST + sample[i]);
    }
    *out_x = fac_tensor_from(bits, FAC_F32, FAC_SHAPE(n, BITS));
    *out_y = fac_tensor_from(said, FAC_I64, FAC_SHAPE(n));
    return n && !fac_error();
}

/* ---- learning and counting ---- */

static void train(fac_module *model, fac_optimizer *adam, fac_sampler *sampler, int epochs) {
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double sum = 0;
        int batches = 0;
        fac_sampler_start(sampler, epoch); /* another order, the same in every run */
        for (;;) {
            FAC_SCOPE(s);
            fac_tensor *x, *y;
            if (!next_batch(sampler, &x, &y)) break;
            fac_tensor *loss = fac_cross_entropy(fac_forward(model, x), y);
            fac_optimizer_zero_grad(adam);
            if (fac_backward(loss) || fac_optimizer_step(adam)) return;
            sum += fac_item(loss);
            batches++;
        }
        if (epoch % 50 == 0) printf("epoch %3d   loss %.4f\n", epoch, sum / batches);
    }
}

/* What the model says to a number. */
static int64_t says(fac_module *model, int64_t number) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    float bits[BITS];
    encode(number, bits);
    return fac_item_int(fac_argmax(fac_forward(model, fac_tensor_from(bits, FAC_F32, FAC_SHAPE(BITS)))));
}

int main(int argc, char **argv) {
    static const char *const WORD[SAYS] = {NULL, "fizz", "buzz", "fizz buzz"};
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_module *model = fac_sequential(fac_linear_new(BITS, 128), fac_gelu_new(), fac_linear_new(128, SAYS));
    fac_optimizer *adam = fac_adamw_new(model, 3e-3);
    fac_sampler *sampler = fac_sampler_new(END - FIRST, .shuffle = true, .seed = 1);
    train(model, adam, sampler, argc > 1 ? atoi(argv[1]) : 300);

    int wrong = 0;
    for (int number = 1; number < FIRST && !fac_error(); number++) {
        const int64_t word = says(model, number);
        wrong += word != answer(number);
        if (number > 30) continue;
        if (word)
            printf("%s", WORD[word]);
        else
            printf("%d", number);
        fputs(number % 15 ? ", " : "\n", stdout);
    }
    printf("%d of the numbers below %d are wrong\n", wrong, FIRST);
    if (wrong > 10) fac_error_set(FAC_ERR_STATE, "the network does not know how to play");
    fac_sampler_release(sampler);
    fac_optimizer_release(adam);
    fac_module_release(model);
    return fac_report(stderr);
}
