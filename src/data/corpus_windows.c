/* Windows of a corpus: drawn at random, or one behind the other. */
#include "core/tensor_make.h"
#include "data/corpus.h"
#include "data/random.h"
#include "ops/call.h"

fac_span fac_corpus_training(const fac_corpus *c) {
    return fac__given(c, "corpus") ? (fac_span){0, c->n_training} : (fac_span){0};
}

fac_span fac_corpus_held_out(const fac_corpus *c) {
    return fac__given(c, "corpus") ? (fac_span){c->n_training, c->n_tokens} : (fac_span){0};
}

static fac_status check_span(const fac_corpus *c, int64_t begin, int64_t end) {
    FAC_CHECK(begin >= 0 && begin <= end && end <= c->n_tokens, FAC_ERR_SHAPE,
              "the span [%lld, %lld) is not inside the corpus of %lld tokens", (long long)begin, (long long)end,
              (long long)c->n_tokens);
    return FAC_OK;
}

static uint32_t token_at(const fac_corpus *c, int64_t i) {
    return c->tokens ? c->tokens[i] : (unsigned char)c->text.data[i];
}

int64_t fac_corpus_span_bytes(const fac_corpus *c, fac_span span) {
    if (!fac__given(c, "corpus")) return 0;
    const int64_t end = span.end ? span.end : c->n_tokens;
    if (check_span(c, span.begin, end)) return 0;
    int64_t bytes = 0;
    for (int64_t i = span.begin; i < end; i++) bytes += (int64_t)fac__vocab_token_bytes(c->vocab, token_at(c, i));
    return bytes;
}

/* A temporary and the address of its tokens. */
static fac_status new_window_tensor(int64_t batch, int64_t length, fac_tensor **out, int64_t **out_tokens) {
    fac_tensor *t;
    FAC_TRY(fac__empty((const int64_t[]){batch, length}, 2, FAC_I64, fac_device_make(FAC_CPU, -1), &t));
    *out_tokens = fac__data(t);
    *out = fac__adopt_handle(fac__thread(), t);
    return *out ? FAC_OK : fac_error();
}

/* Tokens [at, at + n) into out. */
static void copy_tokens(const fac_corpus *c, int64_t at, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = token_at(c, at + i);
}

fac_status fac_corpus_batch(const fac_corpus *c, fac_span span, int64_t batch, int64_t length, uint64_t *state,
                            fac_tensor **out_inputs, fac_tensor **out_targets) {
    if (fac_error()) return fac_error();
    FAC_CHECK(c && state && out_inputs && out_targets, FAC_ERR_ARGUMENT,
              "the corpus, the random state or the place for a result is NULL");
    int64_t end = span.end ? span.end : c->n_tokens;
    FAC_CHECK(batch > 0 && length > 0, FAC_ERR_SHAPE, "batch %lld and length %lld must be at least 1", (long long)batch,
              (long long)length);
    FAC_TRY(check_span(c, span.begin, end));
    FAC_CHECK(end - span.begin > length, FAC_ERR_SHAPE,
              "a span of %lld tokens has no window of %lld and its next token", (long long)(end - span.begin),
              (long long)length);
    int64_t *inputs, *targets;
    FAC_TRY(new_window_tensor(batch, length, out_inputs, &inputs));
    FAC_TRY(new_window_tensor(batch, length, out_targets, &targets));
    for (int64_t b = 0; b < batch; b++) {
        int64_t at = span.begin + fac__split_mix_below(state, end - span.begin - length);
        copy_tokens(c, at, length, inputs + b * length);
        copy_tokens(c, at + 1, length, targets + b * length);
    }
    return FAC_OK;
}

/* The row of a window whose first target is token `at`: behind the last token of the span stand targets that losses ignore, and
   inputs that nothing is asked of. */
static void copy_window(const fac_corpus *c, int64_t at, int64_t end, int64_t length, int64_t *inputs,
                        int64_t *targets) {
    const int64_t n = fac__max(0, fac__min(length, end - at));
    if (n > 0) copy_tokens(c, at - 1, n, inputs);
    if (n > 0) copy_tokens(c, at, n, targets);
    for (int64_t i = n; i < length; i++) {
        inputs[i] = 0;
        targets[i] = FAC_IGNORED_TARGET;
    }
}

bool fac_corpus_next(const fac_corpus *c, fac_span *rest, int64_t batch, int64_t length, fac_tensor **out_inputs,
                     fac_tensor **out_targets) {
    if (fac_error() || !fac__given(c, "corpus") || !fac__given(rest, "span") || !fac__given(out_inputs, "inputs") ||
        !fac__given(out_targets, "targets") || check_span(c, rest->begin, rest->end))
        return false;
    if (batch < 1 || length < 1) {
        FAC_FAIL(FAC_ERR_SHAPE, "batch %lld and length %lld must be at least 1", (long long)batch, (long long)length);
        return false;
    }
    int64_t at = fac__max(1, rest->begin), *inputs, *targets;
    if (at >= rest->end) return false;
    const int64_t rows = fac__min(batch, fac__div_up(rest->end - at, length));
    if (new_window_tensor(rows, length, out_inputs, &inputs) || new_window_tensor(rows, length, out_targets, &targets))
        return false;
    for (int64_t b = 0; b < rows; b++, at += length)
        copy_window(c, at, rest->end, length, inputs + b * length, targets + b * length);
    rest->begin = fac__min(at, rest->end);
    return true;
}
