/* Feeds any bytes to the reader of .npz files. */
#include "input.h"
#include "tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    FAC_SCOPE(s);
    read_entries(fac_npz_open(input_path(data, n)));
    return 0;
}
