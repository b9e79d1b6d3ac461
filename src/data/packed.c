/* Reads gzip's and plain files alike, through zlib's inflate. */
#include "data/packed.h"
#include "base/file.h"
#include "base/inflate.h"
#include <unistd.h>

enum { GZIP_ONLY = 16 + MAX_WBITS };
static const unsigned char gzip_magic[2] = {0x1f, 0x8b};

/* True if the file has gzip's first bytes where it is read next; what is in `in` has been used up. */
static fac_status at_member(const fac_packed_file *f, bool *out) {
    unsigned char first[sizeof gzip_magic];
    *out = false;
    if (f->bytes - f->at < (int64_t)sizeof first) return FAC_OK;
    FAC_TRY(fac__file_read(f->fd, f->path, f->at, first, sizeof first));
    *out = memcmp(first, gzip_magic, sizeof first) == 0;
    return FAC_OK;
}

fac_status fac__packed_open(fac_packed_file *f, const char *path) {
    *f = (fac_packed_file){.path = path, .fd = -1};
    FAC_TRY(fac__file_open(path, &f->fd, &f->bytes));
    bool packed;
    FAC_TRY(at_member(f, &packed));
    if (!packed) return FAC_OK;
    FAC_TRY(fac__inflate_begin(&f->z, GZIP_ONLY, path));
    f->packed = true;
    return FAC_OK;
}

void fac__packed_close(fac_packed_file *f) {
    if (f->packed) (void)inflateEnd(&f->z);
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    f->packed = false;
}

static fac_status fill(fac_packed_file *f) {
    const size_t n = (size_t)fac__min((int64_t)sizeof f->in, f->bytes - f->at);
    FAC_TRY(fac__file_read(f->fd, f->path, f->at, f->in, n));
    f->z.next_in = f->in;
    f->z.avail_in = (unsigned)n;
    f->at += (int64_t)n;
    return FAC_OK;
}

/* Behind compressed data there may be more of them; what else is there does not count, as for gzip. */
static fac_status next_member(fac_packed_file *f) {
    bool more;
    f->at -= f->z.avail_in;
    f->z.avail_in = 0;
    FAC_TRY(at_member(f, &more));
    f->ended = !more;
    FAC_CHECK(!more || inflateReset(&f->z) == Z_OK, FAC_ERR_INTERNAL, "zlib could not begin anew");
    return FAC_OK;
}

/* Inflates into what is left of `out`. False where the file has no more. */
static fac_status inflate_some(fac_packed_file *f, bool *more) {
    if (f->z.avail_in == 0) FAC_TRY(fill(f));
    *more = f->z.avail_in > 0;
    if (!*more) return FAC_OK;
    const int code = inflate(&f->z, Z_NO_FLUSH);
    if (code == Z_STREAM_END) return next_member(f);
    FAC_CHECK(code != Z_MEM_ERROR, FAC_ERR_MEMORY, "out of memory: cannot read '%s'", f->path);
    FAC_CHECK(code == Z_OK || code == Z_BUF_ERROR, FAC_ERR_FORMAT, "'%s' is damaged: %s", f->path,
              f->z.msg ? f->z.msg : "it is not what gzip wrote");
    return FAC_OK;
}

/* Fills `out` anew. Looking ahead, it finds damage to small files before their first byte is used. */
static fac_status inflate_ahead(fac_packed_file *f) {
    bool more = true;
    f->z.next_out = f->out;
    f->z.avail_out = sizeof f->out;
    while (more && !f->ended && f->z.avail_out > 0) FAC_TRY(inflate_some(f, &more));
    f->out_at = 0;
    f->out_n = sizeof f->out - f->z.avail_out;
    return FAC_OK;
}

static fac_status read_packed(fac_packed_file *f, char *to, size_t n, size_t *out_n) {
    for (*out_n = 0; *out_n < n;) {
        if (f->out_at == f->out_n) FAC_TRY(inflate_ahead(f));
        const size_t there = f->out_n - f->out_at, piece = there < n - *out_n ? there : n - *out_n;
        if (piece == 0) return FAC_OK;
        memcpy(to + *out_n, f->out + f->out_at, piece);
        f->out_at += piece;
        *out_n += piece;
    }
    return FAC_OK;
}

fac_status fac__packed_read(fac_packed_file *f, void *out, size_t n, size_t *out_n) {
    if (f->packed) return read_packed(f, out, n, out_n);
    *out_n = (size_t)fac__min((int64_t)(n < INT64_MAX ? n : INT64_MAX), f->bytes - f->at);
    FAC_TRY(fac__file_read(f->fd, f->path, f->at, out, *out_n));
    f->at += (int64_t)*out_n;
    return FAC_OK;
}
