/* Linear and Embedding. */
#include "keywords_gen.h"
#include "nn/module.h"
#include <facula/ops.h>
#include <math.h>

typedef struct linear {
    int64_t in, out;
} linear;

static fac_tensor *linear_forward(fac_module *self, fac_tensor *x) {
    return fac_linear(x, fac_module_parameter(self, "weight"), fac_module_parameter(self, "bias"));
}

static void linear_describe(fac_module *self, char *buf, size_t size) {
    const linear *l = fac_module_state(self);
    snprintf(buf, size, "in_features=%lld, out_features=%lld, bias=%s", (long long)l->in, (long long)l->out,
             fac__module_slot(self, "bias")->tensor ? "True" : "False");
}

static const fac_module_class linear_class = {.name = "Linear",
                                              .version = 1,
                                              .state_size = sizeof(linear),
                                              .copy = fac_module_copy_values,
                                              .forward = linear_forward,
                                              .describe = linear_describe};

static fac_status linear_fill(fac_module *m, int64_t in, int64_t out, const fac_linear_new_kw *k) {
    linear *l = fac_module_state(m);
    l->in = in;
    l->out = out;
    const double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    fac_tensor *w = fac__nn_parameter(m, "weight", FAC_INTS(out, in), k->dtype, k->device);
    if (!w) return fac_error();
    FAC_TRY(fac__nn_uniform(w, bound));
    if (!k->bias) return fac_module_add_parameter(m, "bias", NULL), fac_error();
    fac_tensor *b = fac__nn_parameter(m, "bias", FAC_INTS(out), k->dtype, k->device);
    return b ? fac__nn_uniform(b, bound) : fac_error();
}

fac_module *(fac_linear_new)(int64_t in_features, int64_t out_features, const fac_linear_new_kw *kw) {
    fac_linear_new_kw k;
    if (fac_error() || fac__open_linear_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&linear_class);
    return m ? fac__nn_done(m, linear_fill(m, in_features, out_features, &k)) : NULL;
}

/* ---- Embedding ---- */

typedef struct embedding {
    int64_t count, dim, padding_idx; /* -1: none */
} embedding;

static fac_tensor *embedding_forward(fac_module *self, fac_tensor *x) {
    const embedding *e = fac_module_state(self);
    return fac_embedding(fac_module_parameter(self, "weight"), x, .padding_idx = e->padding_idx);
}

static void embedding_describe(fac_module *self, char *buf, size_t size) {
    const embedding *e = fac_module_state(self);
    int n = snprintf(buf, size, "%lld, %lld", (long long)e->count, (long long)e->dim);
    if (e->padding_idx >= 0 && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, ", padding_idx=%lld", (long long)e->padding_idx);
}

static const fac_module_class embedding_class = {.name = "Embedding",
                                                 .version = 1,
                                                 .state_size = sizeof(embedding),
                                                 .copy = fac_module_copy_values,
                                                 .forward = embedding_forward,
                                                 .describe = embedding_describe};

static fac_status zero_row(fac_tensor *w, int64_t row) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *r = fac_select(w, 0, row);
    return r && fac_zero_(r) ? FAC_OK : fac_error();
}

static fac_status embedding_fill(fac_module *m, int64_t count, int64_t dim, const fac_embedding_new_kw *k) {
    embedding *e = fac_module_state(m);
    const bool padded = k->padding_idx != FAC_UNSET;
    int64_t pad = padded ? k->padding_idx : -1;
    FAC_CHECK(count >= 0 && dim >= 0, FAC_ERR_ARGUMENT, "a table cannot have %lld rows of %lld numbers",
              (long long)count, (long long)dim);
    if (padded && pad < 0) pad += count;
    FAC_CHECK(!padded || (pad >= 0 && pad < count), FAC_ERR_INDEX,
              "padding_idx %lld is outside of a table of %lld rows", (long long)k->padding_idx, (long long)count);
    *e = (embedding){count, dim, pad};
    fac_tensor *w = fac__nn_parameter(m, "weight", FAC_INTS(count, dim), k->dtype, k->device);
    if (!w) return fac_error();
    FAC_TRY(fac__nn_normal(w));
    return pad >= 0 ? zero_row(w, pad) : FAC_OK;
}

fac_module *(fac_embedding_new)(int64_t num_embeddings, int64_t embedding_dim, const fac_embedding_new_kw *kw) {
    fac_embedding_new_kw k;
    if (fac_error() || fac__open_embedding_new_kw(&k, kw)) return NULL;
    fac_module *m = fac_module_new(&embedding_class);
    return m ? fac__nn_done(m, embedding_fill(m, num_embeddings, embedding_dim, &k)) : NULL;
}
