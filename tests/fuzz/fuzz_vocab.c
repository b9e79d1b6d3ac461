/* Vocabularies of the input's characters, of bytes and of the input's byte pairs: the input, encoded and decoded, is the input. It is
   also read as a list of pairs. */
#include "input.h"
#include <facula/facula.h>

static void check_round_trip(const fac_vocab *v, const char *text, size_t n) {
    FAC_SCOPE(s);
    fac_tensor *tokens = fac_vocab_encode(v, text, n);
    if (!tokens) abort();
    size_t count = (size_t)fac_tensor_numel(tokens), at = 0;
    int64_t *ids = malloc((count + 1) * sizeof *ids);
    if (!ids || fac_tensor_read(tokens, FAC_I64, ids, count) != FAC_OK) abort();
    for (size_t i = 0; i < count; i++) {
        char piece[FAC_VOCAB_TOKEN_BYTES];
        size_t length;
        if (fac_vocab_decode(v, ids[i], piece, &length) != FAC_OK || at + length > n ||
            memcmp(piece, text + at, length) != 0)
            abort();
        at += length;
    }
    if (at != n) abort();
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = input_text(data, n);
    fac_vocab *v = fac_vocab_characters(text, n), *bytes = fac_vocab_bytes();
    if (v) check_round_trip(v, text, n);
    fac_error_clear();
    if (!bytes) abort();
    check_round_trip(bytes, text, n);
    fac_vocab *pairs = fac_vocab_bpe(text, n, 300), *read = fac_vocab_bpe_of(text, n);
    fac_error_clear(); /* of a text that is no list of pairs */
    if (!pairs) abort();
    check_round_trip(pairs, text, n);
    if (read) check_round_trip(read, text, n);
    fac_vocab_release(pairs);
    fac_vocab_release(read);
    fac_vocab_release(v);
    fac_vocab_release(bytes);
    free(text);
    return 0;
}
