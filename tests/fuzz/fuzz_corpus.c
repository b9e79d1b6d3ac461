/* A corpus of one file. */
#include "input.h"
#include <facula/facula.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *path = input_path(data, n);
    for (int characters = 0; characters < 2; characters++) {
        fac_corpus *c = fac_corpus_new(&path, 1, .characters = characters != 0);
        if (c && fac_corpus_bytes(c) > (int64_t)n) abort();
        if (c && fac_corpus_tokens(c) > fac_corpus_bytes(c)) abort();
        fac_corpus_release(c);
        fac_error_clear();
    }
    return 0;
}
