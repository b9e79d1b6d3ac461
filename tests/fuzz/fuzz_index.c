/* Feeds any bytes to the reader of indices of safetensors in parts. The parts are not there, which is an error too. */
#include "input.h"
#include "tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    FAC_SCOPE(s);
    read_entries(fac_safetensors_open_index(input_path(data, n)));
    return 0;
}
