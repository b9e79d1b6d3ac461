/* Reading a file that may be compressed by gzip, from its front to its end. Interrupted calls go on where they were, which
   zlib's own files do not. */
#ifndef FAC_SRC_DATA_PACKED_H
#define FAC_SRC_DATA_PACKED_H

#include "base/base.h"
#include <zlib.h>

typedef struct fac_packed_file {
    const char *path; /* the caller's */
    int fd;           /* -1: not open */
    int64_t bytes;    /* of the file */
    int64_t at;       /* up to which it was read */
    bool packed;      /* begins as gzip does */
    bool ended;       /* the compressed data did, and were what their checksum says */
    z_stream z;
    unsigned char in[1 << 14], out[1 << 14]; /* out: bytes [out_at, out_n) were inflated and not read yet */
    size_t out_at, out_n;
} fac_packed_file;

/* Close it whether or not this succeeds. errors: IO; MEMORY */
fac_status fac__packed_open(fac_packed_file *f, const char *path);
void fac__packed_close(fac_packed_file *f);
/* Reads n bytes, or fewer, *out_n, where the file ends. errors: IO; FORMAT if compressed data are damaged; MEMORY */
fac_status fac__packed_read(fac_packed_file *f, void *out, size_t n, size_t *out_n);

#endif
