/* Zip files, as NumPy and PyTorch write them: members that are stored or deflated. The directory at the end is checked as a whole
   when a file is opened: that members lie inside the file, apart from each other, and are no larger than what is packed can
   become. */
#ifndef FAC_SRC_IO_ZIP_H
#define FAC_SRC_IO_ZIP_H

#include "base/base.h"
#include <zlib.h>

typedef struct zip_member {
    char *name; /* owned */
    bool packed;
    uint32_t crc;
    int64_t begin, bytes, size; /* of its header in the file; in the file; unpacked */
} zip_member;

typedef struct fac_zip {
    char *path;       /* owned */
    const char *what; /* what the file should be: "a .npz file" */
    int fd;
    int64_t file_bytes;
    struct zip_members {
        zip_member *v;
        size_t n, cap;
    } members;
    fac_map by_name; /* -> zip_member */
} fac_zip;

/* Close it whether or not this succeeds. errors: FORMAT; UNSUPPORTED for what is encrypted or packed otherwise; IO; MEMORY */
fac_status fac__zip_open(fac_zip *z, const char *path, const char *what);
void fac__zip_close(fac_zip *z);
/* NULL if there is none. */
const zip_member *fac__zip_find(const fac_zip *z, const char *name);
/* Sets the error for a file that is not what it claims to be. */
fac_status fac__zip_bad(const fac_zip *z, const char *format, ...) FAC_PRINTF(2, 3);

/* Reading a member from its front. Zeroed or not: opening fills it. */
typedef struct zip_stream {
    const fac_zip *zip;
    const zip_member *member;
    int64_t at, left;    /* in the file; unpacked bytes that were not read yet */
    int64_t packed_left; /* bytes in the file behind `at` */
    uint32_t crc;        /* of what was read */
    bool inflating;      /* z is in use */
    z_stream z;
    unsigned char in[1 << 14];
} zip_stream;
/* Close it whether or not this succeeds. */
fac_status fac__zip_stream_open(zip_stream *s, const fac_zip *z, const zip_member *m);
/* Reads exactly n bytes; FORMAT if the member ends before. */
fac_status fac__zip_stream_read(zip_stream *s, void *out, size_t n);
/* All was read: compares the checksum. */
fac_status fac__zip_stream_check(const zip_stream *s);
void fac__zip_stream_close(zip_stream *s);

#endif
