/* Translation between made-up languages, by a Transformer of encoder and decoder with masks of padding and of what is to come:
   AdamW, whose rate rises and then falls with the root of the step.
   source: Vaswani et al. 2017 */
#include "training.h"
#include <math.h>

enum { TOKENS = 16, LONGEST = 12, WIDTH = 32, WARMUP = 30, PADDING = 0 };

typedef struct {
    fac_module *source, *target, *places, *transformer, *head;
} translator;

/* Tokens [N, T] as vectors [N, T, WIDTH], each with its place. */
static fac_tensor *embed(fac_module *embedding, fac_module *places, fac_tensor *tokens) {
    fac_tensor *place = fac_arange(fac_tensor_size(tokens, 1), .dtype = FAC_I64);
    return fac_add(fac_mul(fac_forward(embedding, tokens), sqrt(WIDTH)), fac_forward(places, place));
}

/* Source tokens [N, S], and target tokens [N, T] so far -> logits of each next target token [N, T, TOKENS]. */
static fac_tensor *translator_forward(fac_module *self, fac_tensors in) {
    translator *l = fac_module_state(self);
    fac_tensor *source = in.v[0], *target = in.v[1];
    fac_tensor *no_source = fac_eq(source, PADDING), *no_target = fac_eq(target, PADDING);
    fac_tensor *to_come = fac_transformer_generate_square_subsequent_mask(fac_tensor_size(target, 1));
    fac_tensor *h = fac_forward_many(l->transformer, FAC_TENSORS(embed(l->source, l->places, source),
                                                                 embed(l->target, l->places, target), NULL, to_come,
                                                                 NULL, no_source, no_target, no_source));
    return fac_forward(l->head, h);
}

static const fac_module_class translator_class = {
    .name = "Translator", .version = 1, .state_size = sizeof(translator), .forward_many = translator_forward};

static fac_module *translator_new(void) {
    fac_module *m = fac_module_new(&translator_class);
    if (!m) return NULL;
    translator *l = fac_module_state(m);
    l->source = fac_module_add(m, "source", fac_embedding_new(TOKENS, WIDTH, .padding_idx = PADDING));
    l->target = fac_module_add(m, "target", fac_embedding_new(TOKENS, WIDTH, .padding_idx = PADDING));
    l->places = fac_module_add(m, "places", fac_embedding_new(LONGEST, WIDTH));
    l->transformer = fac_module_add(m, "transformer",
                                    fac_transformer_new(.d_model = WIDTH, .nhead = 4, .num_encoder_layers = 2,
                                                        .num_decoder_layers = 2, .dim_feedforward = 64, .dropout = 0,
                                                        .activation = "gelu", .batch_first = true));
    l->head = fac_module_add(m, "head", fac_linear_new(WIDTH, TOKENS));
    return m;
}

/* The factor of a group's rate at a step, from 0. */
static double rise_and_fall(void *context, size_t group, int64_t step) {
    (void)context, (void)group;
    const double n = (double)step + 1;
    return fmin(n / WARMUP, sqrt(WARMUP / n));
}

static fac_status begin(training *t) {
    t->model = translator_new();
    t->optimizer[0] = fac_adamw_new(t->model, 3e-3, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.01);
    t->schedule[0] = fac_lambda_lr_new(t->optimizer[0], rise_and_fall, NULL);
    return fac_error();
}

static fac_status step(training *t, double *losses) {
    fac_tensor *source = given_now(t, "source"), *target = given_now(t, "target");
    fac_tensor *logits = fac_forward_many(t->model, FAC_TENSORS(source, fac_at(target, ":, :-1")));
    fac_tensor *loss = fac_cross_entropy(fac_flatten(logits, 0, 1), fac_flatten(fac_at(target, ":, 1:")),
                                         .ignore_index = PADDING, .label_smoothing = 0.05);
    losses[0] = fac_item(loss);
    return learn(t, loss);
}

const training_kind transformer = {"transformer", 1, begin, step};
