/* Names of devices, dtypes, dispatch keys and operators: what is understood is written back as something that is. */
#include "input.h"
#include <facula/facula.h>

static void check_device(const char *text) {
    char buf[24];
    fac_device d = fac_device_parse(text);
    if (d.type && !fac_device_equal(fac_device_parse(fac_device_format(d, buf, sizeof buf)), d)) abort();
    fac_error_clear();
}

static void check_dtype(const char *text) {
    fac_dtype d = fac_dtype_parse(text);
    if (d && fac_dtype_parse(fac_dtype_name(d)) != d) abort();
    fac_error_clear();
}

static void check_key(const char *text) {
    char buf[40];
    fac_key key, again;
    if (fac_key_parse(text, &key) == FAC_OK &&
        (fac_key_parse(fac_key_format(key, buf, sizeof buf), &again) != FAC_OK ||
         key.functionality != again.functionality || key.backend != again.backend || key.alias != again.alias))
        abort();
    fac_error_clear();
}

/* Near misses of an unknown name take long to find: those are looked for where the name starts like one. */
static void check_operator(const char *text) {
    const fac_operator *op = *text == 'a' ? fac_operator_find(text) : fac_operator_lookup(text);
    if (*text == 'a' && !op && !fac_error()) abort();
    fac_error_clear();
    if (op && fac_operator_lookup(fac_operator_name(op)) != op) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = input_text(data, n);
    if (fac_init() != FAC_OK) abort();
    check_device(text);
    check_dtype(text);
    check_key(text);
    check_operator(text);
    free(text);
    return 0;
}
