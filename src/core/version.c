/* The library's version as text. */
#include "core/tensor.h"

const char *fac_version(void) {
    return FAC_STRINGIZE(FACULA_VERSION_MAJOR) "." FAC_STRINGIZE(FACULA_VERSION_MINOR) "." FAC_STRINGIZE(
        FACULA_VERSION_PATCH);
}
