/* Starting zlib's inflate with the library's memory. All here is inline: the operator generator links this folder without zlib. */
#ifndef FAC_SRC_BASE_INFLATE_H
#define FAC_SRC_BASE_INFLATE_H

#include "base/base.h"
#include <zlib.h>

static inline void *fac__inflate_alloc(void *context, unsigned n, unsigned size) {
    (void)context;
    return fac__alloc_array(n, size);
}

static inline void fac__inflate_free(void *context, void *p) {
    (void)context;
    fac__free(p);
}

/* window_bits: as inflateInit2's. End it by inflateEnd. errors: MEMORY, with the file's name */
static inline fac_status fac__inflate_begin(z_stream *z, int window_bits, const char *path) {
    *z = (z_stream){.zalloc = fac__inflate_alloc, .zfree = fac__inflate_free};
    FAC_CHECK(inflateInit2(z, window_bits) == Z_OK, FAC_ERR_MEMORY, "out of memory: cannot read '%s'", path);
    return FAC_OK;
}

#endif
