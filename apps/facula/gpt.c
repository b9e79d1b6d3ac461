/* The GPT's block and the model, their first weights and the loss. */
#include "gpt.h"
#include <math.h>
#include <string.h>

/* ---- one block: x + attention(norm(x)), then x + mlp(norm(x)) ---- */

typedef struct block {
    fac_module *norm1, *attention, *norm2, *up, *down, *dropout;
} block;

static fac_tensor *block_forward(fac_module *self, fac_tensor *x) {
    block *b = fac_module_state(self);
    x = fac_add(x, fac_forward(b->dropout, fac_forward(b->attention, fac_forward(b->norm1, x))));
    fac_tensor *up = fac_forward(b->up, fac_forward(b->norm2, x)), *h = fac_gelu(up);
    if (h) fac_drop(up); /* the widest, which makes room */
    return fac_add(x, fac_forward(b->dropout, fac_forward(b->down, h)));
}

static fac_status block_copy(fac_module *copy, fac_module *self) {
    (void)self;
    *(block *)fac_module_state(copy) = (block){fac_module_child(copy, "norm1"), fac_module_child(copy, "attention"),
                                               fac_module_child(copy, "norm2"), fac_module_child(copy, "up"),
                                               fac_module_child(copy, "down"),  fac_module_child(copy, "dropout")};
    return fac_error();
}

static const fac_module_class block_class = {
    .name = "Block", .version = 1, .state_size = sizeof(block), .forward = block_forward, .copy = block_copy};

static fac_module *block_new(const gpt_config *c) {
    fac_module *m = fac_module_new(&block_class);
    if (!m) return NULL;
    block *b = fac_module_state(m);
    b->norm1 = fac_module_add(m, "norm1", fac_layer_norm_new(FAC_INTS(c->dim)));
    b->attention = fac_module_add(
        m, "attention",
        fac_multihead_attention_new(c->dim, c->heads, .dropout = c->dropout, .batch_first = true, .causal = true));
    b->norm2 = fac_module_add(m, "norm2", fac_layer_norm_new(FAC_INTS(c->dim)));
    b->up = fac_module_add(m, "up", fac_linear_new(c->dim, 4 * c->dim));
    b->down = fac_module_add(m, "down", fac_linear_new(4 * c->dim, c->dim));
    b->dropout = fac_module_add(m, "dropout", fac_dropout_new(c->dropout));
    if (!fac_error()) return m;
    fac_module_release(m);
    return NULL;
}

/* ---- the model ---- */

typedef struct gpt {
    gpt_config config;
    fac_module *tokens, *positions, *blocks, *norm, *head;
} gpt;

static fac_tensor *gpt_forward(fac_module *self, fac_tensor *x) {
    gpt *g = fac_module_state(self);
    const int64_t length = fac_tensor_size(x, 1);
    if (!fac_error() && length > g->config.context)
        fac_error_set(FAC_ERR_SHAPE, "a text of length %lld is longer than the model's context of %lld",
                      (long long)length, (long long)g->config.context);
    fac_tensor *places = fac_arange(length, .dtype = FAC_I64, .device = fac_tensor_device(x));
    fac_tensor *h = fac_add(fac_forward(g->tokens, x), fac_forward(g->positions, places));
    return fac_forward(g->head, fac_forward(g->norm, fac_forward(g->blocks, h)));
}

static fac_status gpt_copy(fac_module *copy, fac_module *self) {
    *(gpt *)fac_module_state(copy) = (gpt){.config = gpt_config_of(self),
                                           .tokens = fac_module_child(copy, "tokens"),
                                           .positions = fac_module_child(copy, "positions"),
                                           .blocks = fac_module_child(copy, "blocks"),
                                           .norm = fac_module_child(copy, "norm"),
                                           .head = fac_module_child(copy, "head")};
    return fac_error();
}

static const fac_module_class gpt_class = {
    .name = "GPT", .version = 1, .state_size = sizeof(gpt), .forward = gpt_forward, .copy = gpt_copy};

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

/* Matrices are drawn anew, vectors stay as the layers made them. */
static void init_weights(fac_module *m, const gpt_config *c) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_state *all = fac_module_parameters(m);
    for (size_t i = 0; all && i < all->n; i++) {
        const char *name = all->v[i].name;
        if (fac_tensor_ndim(all->v[i].tensor) < 2) continue;
        const bool ends_branch = ends_with(name, "out_proj.weight") || ends_with(name, "down.weight");
        fac_normal_(all->v[i].tensor, .std = ends_branch ? 0.02 / sqrt(2 * (double)c->layers) : 0.02);
    }
    fac_state_free(all);
}

static fac_module *blocks_new(const gpt_config *c) {
    fac_module *blocks = fac_sequential_new(NULL, 0);
    for (int64_t i = 0; blocks && i < c->layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        fac_module_add(blocks, name, block_new(c));
    }
    return blocks;
}

fac_module *gpt_new(const gpt_config *c) {
    fac_module *m = fac_module_new(&gpt_class);
    if (!m) return NULL;
    gpt *g = fac_module_state(m);
    g->config = *c;
    g->tokens = fac_module_add(m, "tokens", fac_embedding_new(c->vocab, c->dim));
    g->positions = fac_module_add(m, "positions", fac_embedding_new(c->context, c->dim));
    g->blocks = fac_module_add(m, "blocks", blocks_new(c));
    g->norm = fac_module_add(m, "norm", fac_layer_norm_new(FAC_INTS(c->dim)));
    g->head = fac_module_add(m, "head", fac_linear_new(c->dim, c->vocab, .bias = false));
    if (!fac_error()) init_weights(m, c);
    if (!fac_error()) return m;
    fac_module_release(m);
    return NULL;
}

fac_tensor *gpt_loss(fac_module *m, fac_tensor *tokens, fac_tensor *targets, fac_loss_reduction reduction) {
    FAC_SCOPE(s);
    fac_tensor *logits = fac_forward(m, tokens);
    const int64_t vocab = gpt_config_of(m).vocab;
    return fac_yield(s, fac_cross_entropy(fac_view(logits, FAC_INTS(-1, vocab)), fac_view(targets, FAC_INTS(-1)),
                                          .reduction = reduction));
}

gpt_config gpt_config_of(fac_module *m) { return ((gpt *)fac_module_state(m))->config; }
