/* The public face of replacing files. */
#include "base/file.h"
#include <facula/io.h>

fac_status fac_file_replace(const char *path, const void *bytes, size_t n) {
    if (fac_error()) return fac_error();
    if (!fac__given(path, "path to write to")) return fac_error();
    FAC_CHECK(bytes || n == 0, FAC_ERR_ARGUMENT, "the bytes for '%s' are NULL but their number is %zu", path, n);
    return fac__file_replace(path, bytes, n);
}

fac_status fac_file_sweep(const char *path) {
    if (fac_error()) return fac_error();
    return fac__given(path, "path to sweep for") ? fac__file_sweep(path) : fac_error();
}
