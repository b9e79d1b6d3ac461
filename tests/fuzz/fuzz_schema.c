/* Feeds any text to the parser of schemas. */
#include "input.h"

#include "dispatch/schema.h"

/* What is understood says so in its canonical text, which is understood to be the same. */
static void check_canonical(const fac_schema *schema) {
    fac_schema *again;
    if (fac__schema_parse(schema->text, &again) != FAC_OK || strcmp(again->text, schema->text) != 0) abort();
    fac__schema_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = input_text(data, n);
    fac_schema *schema;
    if (fac__schema_parse(text, &schema) == FAC_OK) {
        check_canonical(schema);
        fac__schema_free(schema);
    }
    fac_error_clear();
    free(text);
    return 0;
}
