/* Draws tokens from a trained model, one after another, and prints them as they come. */
#include "sample.h"
#include "gpt.h"
#include <string.h>

/* Draws a token from logits [1, vocab]. */
static int64_t draw(fac_tensor *logits, const sample_options *o, fac_generator *g) {
    if (o->temperature <= 0) return fac_item_int(fac_argmax(logits));
    logits = fac_div(logits, o->temperature);
    const int64_t vocab = fac_tensor_size(logits, -1);
    if (o->top_k > 0 && o->top_k < vocab) {
        fac_topk_result top = fac_topk(logits, o->top_k);
        const int64_t nth = fac_item_int(fac_multinomial(fac_softmax(top.values, -1), 1, .generator = g));
        return fac_item_int(fac_select(fac_flatten(top.indices), 0, nth));
    }
    return fac_item_int(fac_multinomial(fac_softmax(logits, -1), 1, .generator = g));
}

/* Logits of the token after `n` tokens, of which the model sees as many as its context holds. */
static fac_tensor *next_logits(fac_module *gpt, const int64_t *tokens, int64_t n) {
    const int64_t context = gpt_config_of(gpt).context, seen = n < context ? n : context;
    fac_tensor *x = fac_tensor_from(tokens + n - seen, FAC_I64, FAC_INTS(1, seen));
    return fac_select(fac_forward(gpt, x), 1, -1);
}

static void put_text(const char *text, size_t n, const char *indent, FILE *stream) {
    for (size_t i = 0; i < n; i++) {
        fputc(text[i], stream);
        if (text[i] == '\n') fputs(indent, stream);
    }
}

static fac_status put_token(const fac_vocab *vocab, int64_t token, const char *indent, FILE *stream) {
    char text[FAC_VOCAB_TOKEN_BYTES];
    size_t n = 0;
    fac_status st = fac_vocab_decode(vocab, token, text, &n);
    if (!st) put_text(text, n, indent, stream);
    return st;
}

static fac_status write_tokens(fac_module *gpt, const fac_vocab *vocab, int64_t *tokens, int64_t n,
                               const sample_options *o, FILE *stream, const volatile sig_atomic_t *stop) {
    fac_generator *g = fac_generator_new(o->seed);
    fac_status st = g ? FAC_OK : fac_error();
    for (int64_t i = 0; i < o->tokens && !st && !(stop && *stop); i++) {
        FAC_SCOPE(s);
        tokens[n] = draw(next_logits(gpt, tokens, n), o, g);
        st = fac_error();
        if (!st) st = put_token(vocab, tokens[n++], o->indent, stream);
        fflush(stream);
    }
    fac_generator_release(g);
    return st;
}

fac_status sample_text(fac_module *gpt, const fac_vocab *vocab, const char *prompt, const sample_options *o,
                       FILE *stream, const volatile sig_atomic_t *stop) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    const bool was_training = fac_module_is_training(gpt);
    if (!prompt[0]) prompt = "\n";
    fac_tensor *start = fac_vocab_encode(vocab, prompt, strlen(prompt));
    const int64_t n = fac_tensor_numel(start);
    fac_tensor *room = fac_zeros(FAC_INTS(n + o->tokens), .dtype = FAC_I64);
    if (fac_error()) return fac_error();
    fac_status st = fac_tensor_read(start, FAC_I64, fac_tensor_data(room), (size_t)n);
    put_text(prompt, strlen(prompt), o->indent, stream);
    fac_module_train(gpt, false);
    if (!st) st = write_tokens(gpt, vocab, fac_tensor_data(room), n, o, stream, stop);
    fac_module_train(gpt, was_training);
    fputc('\n', stream);
    return st;
}
