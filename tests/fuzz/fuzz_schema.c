#include "input.h"

#include "dispatch/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, data, n);
    text[n] = '\0';
    fac_schema *schema;
    if (fac__schema_parse(text, &schema) == FAC_OK) fac__schema_free(schema);
    fac_error_clear();
    free(text);
    return 0;
}
