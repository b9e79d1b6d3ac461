/* Writing text with a trained model. */
#ifndef FACULA_APP_SAMPLE_H
#define FACULA_APP_SAMPLE_H

#include <facula/facula.h>
#include <signal.h>

typedef struct sample_options {
    int64_t tokens;     /* how many to write */
    double temperature; /* 0: always the likeliest */
    int64_t top_k;      /* draw among the k likeliest; 0: all */
    uint64_t seed;
    const char *indent; /* what each line begins with */
} sample_options;

/* Writes `prompt` and what follows it to stream, token by token. Stops early when *stop is set (may be NULL). */
fac_status sample_text(fac_module *gpt, const fac_vocab *vocab, const char *prompt, const sample_options *o,
                       FILE *stream, const volatile sig_atomic_t *stop);

#endif
