/* Feeds any text to the parser of the allocator's settings. */
#include "input.h"

#include "backend/cuda/runtime/alloc_config.h"

/* Takes every option, as the hook of another kind of device would. */
static fac_status any(const void *context, const char *key, const char *value) {
    (void)context;
    return *key && value ? FAC_OK : FAC_ERR_ARGUMENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = input_text(data, n);
    fac_alloc_config c;
    if (fac__alloc_config_parse(text, "fuzz", NULL, NULL, &c) == FAC_OK &&
        fac__alloc_config_parse(text, "fuzz", any, NULL, &c) != FAC_OK)
        abort(); /* what is good without the hook is good with it */
    fac_error_clear();
    free(text);
    return 0;
}
