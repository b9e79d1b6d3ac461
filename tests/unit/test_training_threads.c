/* Training gives the same bits for any number of threads: attention, norms, dropout, convolutions, products, losses,
   AdamW. */
#include "support/support.h"
#include <facula/facula.h>

enum { STEPS = 4, TEXTS = 16, LENGTH = 64, VOCAB = 50, DIM = 128 };

static fac_module *make_text_model(void) {
    return fac_sequential(fac_embedding_new(VOCAB, DIM), fac_layer_norm_new(FAC_INTS(DIM)),
                          fac_multihead_attention_new(DIM, 4, .dropout = 0.1, .batch_first = true, .causal = true),
                          fac_linear_new(DIM, 4 * DIM), fac_gelu_new(), fac_dropout_new(0.1),
                          fac_linear_new(4 * DIM, VOCAB));
}

static fac_tensor *text_loss(fac_module *m, int step) {
    fac_generator_set_state(NULL, 11, (uint64_t)step << 20);
    fac_tensor *x = fac_randint(VOCAB, FAC_INTS(TEXTS, LENGTH)), *y = fac_randint(VOCAB, FAC_INTS(TEXTS * LENGTH));
    return fac_cross_entropy(fac_view(fac_forward(m, x), FAC_INTS(-1, VOCAB)), y);
}

static fac_module *make_image_model(void) {
    return fac_sequential(fac_conv2d_new(3, 32, FAC_INTS(3), .padding = 1), fac_batch_norm2d_new(32), fac_relu_new(),
                          fac_conv2d_new(32, 32, FAC_INTS(3), .stride = 2), fac_relu_new(), fac_flatten_new(),
                          fac_linear_new(32 * 15 * 15, 10));
}

static fac_tensor *image_loss(fac_module *m, int step) {
    fac_generator_set_state(NULL, 12, (uint64_t)step << 20);
    fac_tensor *x = fac_randn(FAC_INTS(16, 3, 32, 32)), *y = fac_randint(10, FAC_INTS(16));
    return fac_cross_entropy(fac_forward(m, x), y);
}

typedef struct task {
    fac_module *(*make)(void);
    fac_tensor *(*loss)(fac_module *m, int step);
} task;

/* Trains from the same start and writes the loss before each step. */
static void train(const task *t, int threads, double *losses) {
    FAC_SCOPE(s);
    assert_ok(fac_set_num_threads(threads));
    fac_manual_seed(5);
    fac_module *m = t->make();
    fac_optimizer *o = fac_adamw_new(m, 1e-3);
    for (int i = 0; i < STEPS; i++) {
        FAC_SCOPE(inner);
        fac_tensor *loss = t->loss(m, i);
        assert_ok(fac_backward(loss));
        assert_ok(fac_optimizer_step(o));
        fac_optimizer_zero_grad(o);
        losses[i] = fac_item(loss);
    }
    fac_optimizer_release(o);
    fac_module_release(m);
    assert_no_error();
}

static void expect_equal_bits(const task *t) {
    const int before = fac_num_threads();
    double one[STEPS], many[STEPS];
    train(t, 1, one);
    assert_true(one[0] != one[STEPS - 1]);
    for (int threads = 2; threads <= 3; threads++) {
        train(t, threads, many);
        assert_memory_equal(one, many, sizeof one);
    }
    assert_ok(fac_set_num_threads(before));
}

static void training_text_model_same_bits_for_any_thread_count(void **state) {
    (void)state;
    expect_equal_bits(&(task){make_text_model, text_loss});
}

static void training_image_model_same_bits_for_any_thread_count(void **state) {
    (void)state;
    expect_equal_bits(&(task){make_image_model, image_loss});
}

FAC_TEST_MAIN(FAC_TEST(training_text_model_same_bits_for_any_thread_count),
              FAC_TEST(training_image_model_same_bits_for_any_thread_count))
