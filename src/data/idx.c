/* IDX files: magic number (0, 0, type, number of dimensions), sizes, elements, all big-endian; often inside gzip. Sizes are
   compared with what the file can hold before memory is asked for. */
#include "core/handle.h"
#include "core/tensor_make.h"
#include "data/packed.h"
#include <facula/data.h>

enum { DEFLATE_RATIO = 1032 }; /* deflate never makes more than this many bytes of one */

/* Reads exactly n bytes. */
static fac_status read_bytes(fac_packed_file *f, void *out, size_t n) {
    size_t done;
    FAC_TRY(fac__packed_read(f, out, n, &done));
    FAC_CHECK(done == n, FAC_ERR_FORMAT, "'%s' is not a whole IDX file: it ends too early", f->path);
    return FAC_OK;
}

/* Reading on past the last element, zlib compares the checksum. */
static fac_status check_end(fac_packed_file *f) {
    char byte;
    size_t more;
    FAC_TRY(fac__packed_read(f, &byte, 1, &more));
    FAC_CHECK(more == 0, FAC_ERR_FORMAT, "'%s' is not an IDX file: it goes on behind the last element", f->path);
    FAC_CHECK(!f->packed || f->ended, FAC_ERR_FORMAT, "'%s' is not a whole IDX file: its checksum is missing", f->path);
    return FAC_OK;
}

static uint32_t big_endian(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static fac_dtype type_of(unsigned char code) {
    static const fac_dtype types[] = {
        [0x08] = FAC_U8, [0x09] = FAC_I8, [0x0b] = FAC_I16, [0x0c] = FAC_I32, [0x0d] = FAC_F32, [0x0e] = FAC_F64};
    return code < FAC_COUNT(types) ? types[code] : FAC_DTYPE_DEFAULT;
}

static fac_status read_header(fac_packed_file *f, fac_dtype *dtype, int64_t *sizes, int *ndim) {
    unsigned char magic[4], raw[4];
    FAC_TRY(read_bytes(f, magic, sizeof magic));
    *dtype = type_of(magic[2]);
    *ndim = magic[3];
    FAC_CHECK(
        magic[0] == 0 && magic[1] == 0 && *dtype != FAC_DTYPE_DEFAULT && *ndim > 0 && *ndim <= FAC_MAX_DIMS,
        FAC_ERR_FORMAT,
        "'%s' is not an IDX file: it begins with %02x %02x %02x %02x, not 00 00, a type and a number of dimensions",
        f->path, magic[0], magic[1], magic[2], magic[3]);
    for (int i = 0; i < *ndim; i++) {
        FAC_TRY(read_bytes(f, raw, sizeof raw));
        sizes[i] = big_endian(raw);
    }
    return FAC_OK;
}

/* The elements cannot take more bytes than the file has, or can have been packed into it. */
static fac_status check_size(fac_packed_file *f, const int64_t *sizes, int ndim, size_t element) {
    int64_t numel, bytes, limit = f->bytes;
    FAC_CHECK(fac__numel(sizes, ndim, &numel) && fac__mul(numel, (int64_t)element, &bytes), FAC_ERR_OVERFLOW,
              "the sizes in '%s' overflow", f->path);
    if (f->packed && !fac__mul(limit, DEFLATE_RATIO, &limit)) limit = INT64_MAX;
    FAC_CHECK(bytes <= limit, FAC_ERR_FORMAT,
              "'%s' is not a whole IDX file: its header promises %lld bytes, which %lld cannot hold", f->path,
              (long long)bytes, (long long)f->bytes);
    return FAC_OK;
}

static void swap_bytes(char *p, size_t n, size_t element) {
    for (size_t i = 0; i < n; i++, p += element)
        for (size_t a = 0, b = element - 1; a < b; a++, b--) {
            char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

static fac_status read_idx(fac_packed_file *f, fac_tensor **out) {
    fac_dtype dtype;
    int64_t sizes[FAC_MAX_DIMS];
    int ndim;
    FAC_TRY(read_header(f, &dtype, sizes, &ndim));
    size_t element = fac_dtype_size(dtype);
    FAC_TRY(check_size(f, sizes, ndim, element));
    FAC_TRY(fac__empty(sizes, ndim, dtype, fac_device_make(FAC_CPU, -1), out));
    size_t n = (size_t)(*out)->numel;
    FAC_TRY(read_bytes(f, fac__data(*out), n * element));
    swap_bytes(fac__data(*out), n, element);
    return check_end(f);
}

fac_tensor *fac_idx_read(const char *path) {
    if (fac_error()) return NULL;
    if (!path) return FAC_FAIL(FAC_ERR_ARGUMENT, "the path to read is NULL"), NULL;
    fac_packed_file *f = fac__alloc(sizeof *f);
    if (!f) return NULL;
    fac_tensor *t = NULL;
    fac_status st = fac__packed_open(f, path);
    if (st == FAC_OK) st = read_idx(f, &t);
    fac__packed_close(f);
    fac__free(f);
    if (st == FAC_OK) return fac__adopt_handle(fac__thread(), t);
    fac__unref(t);
    return NULL;
}
