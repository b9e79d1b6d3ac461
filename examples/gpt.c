/* A GPT from its parts: embeddings, causal attention and residual blocks learn a sonnet by heart and recite it.

   Shows nested modules of one's own, attention, text as tokens, a scheduled learning rate, clipped gradients, and writing
   token by token.

       cc gpt.c $(pkg-config --cflags --libs facula) -o gpt && ./gpt [steps]

   Prints the loss every 50 steps, in nats per character, and what the model writes after the sonnet's first words. Returns 1
   if it does not know the sonnet. */
#include <facula/facula.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 32, DIM = 64, HEADS = 4, BATCH = 12 };

static const char SONNET[] = "Shall I compare thee to a summer's day?\n"
                             "Thou art more lovely and more temperate:\n"
                             "Rough winds do shake the darling buds of May,\n"
                             "And summer's lease hath all too short a date:\n"
                             "Sometime too hot the eye of heaven shines,\n"
                             "And often is his gold complexion dimm'd;\n"
                             "And every fair from fair sometime declines,\n"
                             "By chance or nature's changing course untrimm'd.\n";

/* ---- one block: x + attention(norm(x)), then x + mlp(norm(x)) ---- */

typedef struct {
    fac_module *norm1, *attention, *norm2, *mlp;
} block;

static fac_tensor *block_forward(fac_module *self, fac_tensor *x) {
    block *b = fac_module_state(self);
    x = fac_add(x, fac_forward(b->attention, fac_forward(b->norm1, x)));
    return fac_add(x, fac_forward(b->mlp, fac_forward(b->norm2, x)));
}

/* For fac_module_copy: the copy has its children, and points to its own. */
static fac_status block_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(block *)fac_module_state(copy) = (block){fac_module_child(copy, "norm1"), fac_module_child(copy, "attention"),
                                               fac_module_child(copy, "norm2"), fac_module_child(copy, "mlp")};
    return fac_error();
}

static const fac_module_class block_class = {
    .name = "Block", .version = 1, .state_size = sizeof(block), .forward = block_forward, .copy = block_copy};

static fac_module *block_new(void) {
    fac_module *m = fac_module_new(&block_class);
    if (!m) return NULL;
    block *b = fac_module_state(m);
    b->norm1 = fac_module_add(m, "norm1", fac_layer_norm_new(DIM));
    b->attention =
        fac_module_add(m, "attention", fac_multihead_attention_new(DIM, HEADS, .batch_first = true, .causal = true));
    b->norm2 = fac_module_add(m, "norm2", fac_layer_norm_new(DIM));
    b->mlp = fac_module_add(m, "mlp",
                            fac_sequential(fac_linear_new(DIM, 4 * DIM), fac_gelu_new(), fac_linear_new(4 * DIM, DIM)));
    return m;
}

/* ---- the model: tokens [N, T] -> logits of each next token [N, T, vocabulary] ---- */

typedef struct {
    fac_module *tokens, *places, *blocks, *norm, *head;
} gpt;

static fac_tensor *gpt_forward(fac_module *self, fac_tensor *tokens) {
    gpt *g = fac_module_state(self);
    fac_tensor *places = fac_arange(fac_tensor_size(tokens, 1), .dtype = FAC_I64);
    fac_tensor *h = fac_add(fac_forward(g->tokens, tokens), fac_forward(g->places, places));
    return fac_forward(g->head, fac_forward(g->norm, fac_forward(g->blocks, h)));
}

static fac_status gpt_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(gpt *)fac_module_state(copy) =
        (gpt){fac_module_child(copy, "tokens"), fac_module_child(copy, "places"), fac_module_child(copy, "blocks"),
              fac_module_child(copy, "norm"), fac_module_child(copy, "head")};
    return fac_error();
}

static const fac_module_class gpt_class = {
    .name = "GPT", .version = 1, .state_size = sizeof(gpt), .forward = gpt_forward, .copy = gpt_copy};

static fac_module *gpt_new(int64_t vocabulary) {
    fac_module *m = fac_module_new(&gpt_class);
    if (!m) return NULL;
    gpt *g = fac_module_state(m);
    g->tokens = fac_module_add(m, "tokens", fac_embedding_new(vocabulary, DIM));
    g->places = fac_module_add(m, "places", fac_embedding_new(CONTEXT, DIM));
    g->blocks = fac_module_add(m, "blocks", fac_sequential(block_new(), block_new()));
    g->norm = fac_module_add(m, "norm", fac_layer_norm_new(DIM));
    g->head = fac_module_add(m, "head", fac_linear_new(DIM, vocabulary, .bias = false));
    return m;
}

/* ---- learning and reciting ---- */

static double train(fac_module *model, fac_optimizer *adam, fac_tensor *text, int steps) {
    const fac_cosine_schedule rate = {.peak = 3e-3, .floor = 3e-4, .warmup = 20, .total = steps};
    fac_tensor *windows =
        fac_unfold(text, 0, CONTEXT + 1, 1); /* every CONTEXT + 1 characters in a row: a view, no copy */
    double last = 0;
    for (int step = 1; step <= steps; step++) {
        FAC_SCOPE(s);
        fac_tensor *batch = fac_index_select(windows, 0, fac_randint(fac_tensor_size(windows, 0), BATCH));
        fac_tensor *logits = fac_forward(model, fac_at(batch, ":, :-1")), *next = fac_at(batch, ":, 1:");
        fac_tensor *loss = fac_cross_entropy(fac_flatten(logits, 0, 1), fac_flatten(next));
        fac_optimizer_zero_grad(adam);
        if (fac_backward(loss)) break;
        fac_optimizer_set_lr(adam, fac_cosine_lr(&rate, step));
        if (fac_clip_grad_norm(fac_optimizer_parameters(adam), 1.0, .error_if_nonfinite = true) ||
            fac_optimizer_step(adam))
            break;
        last = fac_item(loss);
        if (step % 50 == 0) printf("step %4d   loss %.3f\n", step, last);
    }
    return last;
}

/* Writes n characters after the first `given` of the text, each the likeliest one. */
static void recite(fac_module *model, const fac_vocab *vocabulary, fac_tensor *text, int64_t given, int64_t n) {
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    printf("\n%.*s|", (int)given, SONNET);
    fac_tensor *tokens = fac_narrow(text, 0, 0, given);
    for (int64_t i = 0; i < n; i++) {
        fac_tensor *seen = fac_at(tokens, "None, #:", .ints = FAC_INTS(-CONTEXT));
        fac_tensor *next = fac_argmax(fac_at(fac_forward(model, seen), "0, -1"));
        char utf8[4];
        size_t bytes;
        if (fac_vocab_decode(vocabulary, fac_item_int(next), utf8, &bytes)) return;
        printf("%.*s", (int)bytes, utf8);
        tokens = fac_cat(FAC_TENSORS(tokens, fac_unsqueeze(next, 0)));
    }
    puts("...");
}

int main(int argc, char **argv) {
    FAC_SCOPE(s);
    fac_manual_seed(1);
    fac_vocab *vocabulary = fac_vocab_characters(SONNET, strlen(SONNET));
    fac_tensor *text = fac_vocab_encode(vocabulary, SONNET, strlen(SONNET));
    fac_module *model = gpt_new(fac_vocab_size(vocabulary));
    fac_optimizer *adam = fac_adamw_new(model, 3e-3);
    printf("%lld parameters\n", (long long)fac_module_parameter_count(model));
    const double loss = train(model, adam, text, argc > 1 ? atoi(argv[1]) : 400);
    recite(model, vocabulary, text, 16, 200);
    if (loss > 0.3) fac_error_set(FAC_ERR_STATE, "the sonnet is not known: the loss is still %.2f", loss);
    fac_optimizer_release(adam);
    fac_module_release(model);
    fac_vocab_release(vocabulary);
    return fac_report(stderr);
}
