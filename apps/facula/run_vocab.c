/* Writes a vocabulary into a checkpoint's notes and reads it from there. */
#include "run_vocab.h"
#include "cli.h"
#include <string.h>

void run_keep_vocab(notes *n, const fac_vocab *v, bool characters) {
    notes_set(n, "vocab_kind", characters ? "characters" : "bpe");
    notes_set(n, "vocab", fac_vocab_text(v));
}

static fac_vocab *read_vocab(const notes *n) {
    const char *text = notes_get(n, "vocab"), *kind = notes_get(n, "vocab_kind");
    if (text && !kind) kind = text[0] ? "characters" : "bpe"; /* of 0.1, where no text meant bytes */
    if (text && strcmp(kind, "bpe") == 0) return fac_vocab_bpe_of(text, strlen(text));
    if (text && strcmp(kind, "characters") == 0) return fac_vocab_characters(text, strlen(text));
    fac_error_set(FAC_ERR_FORMAT, "the checkpoint does not say which vocabulary it uses");
    return NULL;
}

fac_vocab *run_vocab(const notes *n) {
    fac_vocab *v = read_vocab(n);
    const int64_t size = v ? notes_int(n, "vocab_size") : 0;
    if (!v || fac_vocab_size(v) == size) return v;
    fac_error_set(FAC_ERR_FORMAT, "the vocabulary of the checkpoint has %lld %s, but its model has %lld",
                  (long long)fac_vocab_size(v), cli_word(fac_vocab_size(v), "token", "tokens"), (long long)size);
    fac_vocab_release(v);
    return NULL;
}
