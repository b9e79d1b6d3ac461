/* Feeds any bytes to the reader of PNG and JPEG files. */
#include "input.h"
#include <facula/facula.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    FAC_SCOPE(s);
    (void)!fac_image_read(input_path(data, n));
    fac_error_clear();
    return 0;
}
