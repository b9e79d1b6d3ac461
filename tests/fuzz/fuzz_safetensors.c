/* Feeds any bytes to the reader of safetensors files. */
#include "input.h"
#include <facula/facula.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    FAC_SCOPE(s);
    fac_safetensors *f = fac_safetensors_open(input_path(data, n));
    if (f && fac_safetensors_verify(f) == FAC_OK)
        for (size_t i = 0; i < fac_safetensors_count(f); i++) {
            (void)!fac_safetensors_read(f, i);
            fac_error_clear();
        }
    fac_safetensors_close(f);
    fac_error_clear();
    return 0;
}
