/* Feeds any bytes to the reader of WAV files. */
#include "input.h"
#include <facula/facula.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    FAC_SCOPE(s);
    int64_t rate;
    (void)!fac_wav_read(input_path(data, n), &rate);
    fac_error_clear();
    return 0;
}
