/* Transformers: layers of attention and a small network, stacks of them, and an encoder with a decoder. */
#include "keywords_gen.h"
#include "modules_gen.h"
#include "nn/kind.h"
#include "nn/layers.h"
#include <facula/init.h>
#include <facula/ops.h>
#include <math.h>

/* ---- layers ---- */

/* What the parts of a layer have in common. */
typedef struct parts {
    fac_module *m;
    int64_t dim, heads, feedforward;
    double dropout, eps;
    bool batch_first, bias;
    fac_dtype dtype;
    fac_device device;
} parts;

static void add_attention(const parts *p, const char *name) {
    fac_module_add(p->m, name,
                   fac_multihead_attention_new(p->dim, p->heads, .dropout = p->dropout, .bias = p->bias,
                                               .batch_first = p->batch_first, .dtype = p->dtype, .device = p->device));
}

static void add_linear(const parts *p, const char *name, int64_t in, int64_t out) {
    fac_module_add(p->m, name, fac_linear_new(in, out, .bias = p->bias, .dtype = p->dtype, .device = p->device));
}

static void add_norm(const parts *p, const char *name) {
    fac_module_add(
        p->m, name,
        fac_layer_norm_new(FAC_INTS(p->dim), .eps = p->eps, .bias = p->bias, .dtype = p->dtype, .device = p->device));
}

static void add_dropout(const parts *p, const char *name) { fac_module_add(p->m, name, fac_dropout_new(p->dropout)); }

fac_status fac__build_transformer_layer(fac_module *m, bool decoder, int64_t dim, int64_t heads, int64_t feedforward,
                                        double dropout, double eps, bool batch_first, bool bias, fac_dtype dtype,
                                        fac_device device) {
    const parts p = {m, dim, heads, feedforward, dropout, eps, batch_first, bias, dtype, device};
    add_attention(&p, "self_attn");
    if (decoder) add_attention(&p, "multihead_attn");
    add_linear(&p, "linear1", dim, feedforward);
    add_dropout(&p, "dropout");
    add_linear(&p, "linear2", feedforward, dim);
    add_norm(&p, "norm1");
    add_norm(&p, "norm2");
    if (decoder) add_norm(&p, "norm3");
    add_dropout(&p, "dropout1");
    add_dropout(&p, "dropout2");
    if (decoder) add_dropout(&p, "dropout3");
    return fac_error();
}

static fac_tensor *through(fac_module *m, const char *child, fac_tensor *x) {
    return x ? fac_forward(fac_module_child(m, child), x) : NULL;
}

/* A part of a layer: what is added to its input. */
typedef struct block {
    const char *attention; /* NULL: the network */
    fac_tensor *memory, *mask, *padding;
    const char *norm, *dropout, *activation;
} block;

static fac_tensor *computed(fac_module *m, const block *b, fac_tensor *x) {
    fac_tensor *y;
    if (b->attention) {
        fac_tensor *const in[] = {x, b->memory, b->memory, b->padding, b->mask};
        y = fac_forward_many(fac_module_child(m, b->attention), (fac_tensors){in, FAC_COUNT(in)});
    } else {
        y = through(m, "linear1", x);
        y = strcmp(b->activation, "relu") == 0 ? fac_relu(y) : fac_gelu(y);
        y = through(m, "linear2", through(m, "dropout", y));
    }
    return through(m, b->dropout, y);
}

static fac_tensor *run_blocks(fac_module *m, const block *blocks, size_t n, bool norm_first, fac_tensor *x) {
    for (size_t i = 0; i < n && x; i++) {
        const block *b = &blocks[i];
        x = norm_first ? fac_add(x, computed(m, b, through(m, b->norm, x)))
                       : through(m, b->norm, fac_add(x, computed(m, b, x)));
    }
    return x;
}

fac_tensor *fac__encoder_layer_forward(fac_module *m, fac_tensor *x, fac_tensor *mask, fac_tensor *padding,
                                       const char *activation, bool norm_first) {
    const block blocks[] = {{"self_attn", NULL, mask, padding, "norm1", "dropout1", NULL},
                            {NULL, NULL, NULL, NULL, "norm2", "dropout2", activation}};
    return run_blocks(m, blocks, FAC_COUNT(blocks), norm_first, x);
}

fac_tensor *fac__decoder_layer_forward(fac_module *m, fac_tensor *x, fac_tensor *memory, fac_tensor *mask,
                                       fac_tensor *memory_mask, fac_tensor *padding, fac_tensor *memory_padding,
                                       const char *activation, bool norm_first) {
    const block blocks[] = {{"self_attn", NULL, mask, padding, "norm1", "dropout1", NULL},
                            {"multihead_attn", memory, memory_mask, memory_padding, "norm2", "dropout2", NULL},
                            {NULL, NULL, NULL, NULL, "norm3", "dropout3", activation}};
    return run_blocks(m, blocks, FAC_COUNT(blocks), norm_first, x);
}

/* ---- stacks ---- */

/* The first input goes from layer to layer, the others are the same for all. */
static fac_tensor *stack_forward(fac_module *self, fac_tensors inputs, const char *names, size_t least, size_t most) {
    if (fac__nn_inputs(self, inputs, names, least, most)) return NULL;
    fac_tensor *in[6] = {NULL};
    memcpy(in, inputs.v, inputs.n * sizeof *in);
    const fac_module *layers = fac_module_child(self, "layers");
    for (size_t i = 0; layers && i < layers->children.n; i++)
        if (!(in[0] = fac_forward_many(layers->children.v[i].module, (fac_tensors){in, inputs.n}))) return NULL;
    const fac_child *norm = fac__module_child_of(self, "norm", 4);
    return norm ? fac_forward(norm->module, in[0]) : in[0];
}

static fac_tensor *encoder_forward(fac_module *self, fac_tensors inputs) {
    return stack_forward(self, inputs, "src, mask?, src_key_padding_mask?", 1, 3);
}
static fac_tensor *decoder_forward(fac_module *self, fac_tensors inputs) {
    return stack_forward(self, inputs,
                         "tgt, memory, tgt_mask?, memory_mask?, tgt_key_padding_mask?, memory_key_padding_mask?", 2, 6);
}

static const fac_module_class encoder_class = {
    .name = "TransformerEncoder", .version = 1, .forward_many = encoder_forward};
static const fac_module_class decoder_class = {
    .name = "TransformerDecoder", .version = 1, .forward_many = decoder_forward};

static fac_status fill_stack(fac_module *m, fac_module *layer, int64_t n) {
    FAC_CHECK(layer, FAC_ERR_ARGUMENT, "%s: the layer is NULL", m->cls->name);
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "%s: num_layers should not be negative, but is %lld", m->cls->name,
              (long long)n);
    fac_module *layers = fac_module_add(m, "layers", fac_module_list_new(NULL, 0));
    for (int64_t i = 0; layers && i < n; i++)
        if (!fac_module_list_append(layers, fac_module_copy(layer))) break;
    return fac_error();
}

/* Takes over layer and norm. */
static fac_module *make_stack(const fac_module_class *cls, fac_module *layer, int64_t n, fac_module *norm) {
    fac_module *m = fac_error() ? NULL : fac_module_new(cls);
    fac_status st = m ? fill_stack(m, layer, n) : fac_error();
    fac_module_release(layer);
    if (norm && !st)
        fac_module_add(m, "norm", norm);
    else
        fac_module_release(norm);
    return m ? fac__nn_done(m, st) : NULL;
}

fac_module *(fac_transformer_encoder_new)(fac_module *encoder_layer, int64_t num_layers,
                                          const fac_transformer_encoder_new_kw *kw) {
    fac_transformer_encoder_new_kw k = {0};
    if (fac_error())
        k.norm = kw ? kw->norm : NULL; /* which is taken over all the same */
    else
        (void)fac__open_transformer_encoder_new_kw(&k, kw);
    return make_stack(&encoder_class, encoder_layer, num_layers, k.norm);
}

fac_module *(fac_transformer_decoder_new)(fac_module *decoder_layer, int64_t num_layers,
                                          const fac_transformer_decoder_new_kw *kw) {
    fac_transformer_decoder_new_kw k = {0};
    if (fac_error())
        k.norm = kw ? kw->norm : NULL; /* which is taken over all the same */
    else
        (void)fac__open_transformer_decoder_new_kw(&k, kw);
    return make_stack(&decoder_class, decoder_layer, num_layers, k.norm);
}

/* ---- both ---- */

static fac_status draw_again(fac_module *m) {
    fac_state *all = fac_module_parameters(m);
    for (size_t i = 0; all && i < all->n; i++)
        if (fac_tensor_ndim(all->v[i].tensor) > 1 && !fac_init_xavier_uniform(all->v[i].tensor)) break;
    fac_state_free(all);
    return fac_error();
}

fac_status fac__build_transformer(fac_module *m, int64_t dim, int64_t heads, int64_t encoders, int64_t decoders,
                                  int64_t feedforward, double dropout, const char *activation, double eps,
                                  bool batch_first, bool norm_first, bool bias, fac_dtype dtype, fac_device device) {
    fac_module *layer =
        fac_transformer_encoder_layer_new(dim, heads, feedforward, dropout, activation, eps, batch_first, norm_first,
                                          bias, .device = device, .dtype = dtype);
    fac_module *norm = fac_layer_norm_new(FAC_INTS(dim), .eps = eps, .bias = bias, .dtype = dtype, .device = device);
    fac_module_add(m, "encoder", fac_transformer_encoder_new(layer, encoders, .norm = norm));
    FAC_TRY(fac_error());
    layer = fac_transformer_decoder_layer_new(dim, heads, feedforward, dropout, activation, eps, batch_first,
                                              norm_first, bias, .device = device, .dtype = dtype);
    norm = fac_layer_norm_new(FAC_INTS(dim), .eps = eps, .bias = bias, .dtype = dtype, .device = device);
    fac_module_add(m, "decoder", fac_transformer_decoder_new(layer, decoders, .norm = norm));
    FAC_TRY(fac_error());
    return draw_again(m);
}

static fac_status check_both(const fac_tensor *src, const fac_tensor *tgt, int64_t dim, bool batch_first) {
    const int n = fac_tensor_ndim(src), batch = !batch_first;
    FAC_CHECK(n == fac_tensor_ndim(tgt) && (n == 2 || n == 3), FAC_ERR_SHAPE,
              "Transformer: src %s and tgt %s should both have 2 or 3 dimensions", FAC_SHAPE_TEXT(fac__header(src)),
              FAC_SHAPE_TEXT(fac__header(tgt)));
    FAC_CHECK(n == 2 || fac_tensor_size(src, batch) == fac_tensor_size(tgt, batch), FAC_ERR_SHAPE,
              "the batch number of src and tgt must be equal");
    FAC_CHECK(fac_tensor_size(src, -1) == dim && fac_tensor_size(tgt, -1) == dim, FAC_ERR_SHAPE,
              "the feature number of src and tgt must be equal to d_model");
    return FAC_OK;
}

fac_tensor *fac__transformer_forward(fac_module *m, fac_tensor *src, fac_tensor *tgt, fac_tensor *src_mask,
                                     fac_tensor *tgt_mask, fac_tensor *memory_mask, fac_tensor *src_padding,
                                     fac_tensor *tgt_padding, fac_tensor *memory_padding, int64_t dim,
                                     bool batch_first) {
    if (check_both(src, tgt, dim, batch_first)) return NULL;
    fac_tensor *const to_encode[] = {src, src_mask, src_padding};
    fac_tensor *memory = fac_forward_many(fac_module_child(m, "encoder"), (fac_tensors){to_encode, 3});
    if (!memory) return NULL;
    fac_tensor *const to_decode[] = {tgt, memory, tgt_mask, memory_mask, tgt_padding, memory_padding};
    return fac_forward_many(fac_module_child(m, "decoder"), (fac_tensors){to_decode, 6});
}
