/* Equations of einsum, for the number of operands that the first byte says: two bits each for their dimensions. */
#include "input.h"
#include <facula/facula.h>

enum { MOST_OPERANDS = 3 };

static fac_tensor *operand(int ndim) {
    static const int64_t sizes[] = {2, 3, 2, 3};
    fac_ints shape = {sizes, (size_t)ndim};
    return fac_zeros(shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) return 0;
    FAC_SCOPE(s);
    fac_tensor *v[MOST_OPERANDS];
    size_t operands = 1 + (data[0] & 3u) % MOST_OPERANDS;
    for (size_t i = 0; i < operands; i++) v[i] = operand(data[0] >> (2 + 2 * i) & 3);
    char *equation = input_text(data + 1, n - 1);
    fac_tensors all = {v, operands};
    fac_tensor *sum = fac_einsum(equation, all);
    if (!sum != (fac_error() != FAC_OK)) abort();
    fac_error_clear();
    free(equation);
    return 0;
}
