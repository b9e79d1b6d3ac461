/* Feeds any bytes to the reader of tables, and asks for every column as numbers and as classes. */
#include "input.h"
#include <facula/facula.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fac_csv *t = fac_csv_open(input_path(data, n), .header = n % 2);
    for (int64_t i = 0; t && i < fac_csv_columns(t); i++) {
        FAC_SCOPE(s);
        (void)!fac_csv_numbers(t, FAC_INTS(i));
        fac_error_clear();
        (void)!fac_csv_classes(t, i);
        (void)fac_csv_find(t, fac_csv_name(t, i));
        if (fac_error()) __builtin_trap();
    }
    fac_csv_close(t);
    fac_error_clear();
    return 0;
}
