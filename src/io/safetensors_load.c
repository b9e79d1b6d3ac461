/* Reading the data of safetensors files: verifying, single tensors, and whole sets of them by name. */
#include "base/file.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "io/safetensors_file.h"
#include <facula/autograd.h>
#include <facula/ops.h>
#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

enum { CHUNK = 1 << 20 }; /* bytes read at a time while verifying */

static fac_status checksum_data(const fac_safetensors *f, uint32_t *crc) {
    void *chunk = fac__alloc(CHUNK);
    if (!chunk) return fac_error();
    fac_status st = FAC_OK;
    for (int64_t at = f->file_bytes - f->data_bytes; at < f->file_bytes && st == FAC_OK; at += CHUNK) {
        size_t n = (size_t)fac__min(CHUNK, f->file_bytes - at);
        st = fac__file_read(f->fd, f->path, at, chunk, n);
        if (st == FAC_OK) *crc = (uint32_t)crc32_z(*crc, chunk, n);
    }
    fac__free(chunk);
    return st;
}

/* CRC-32 of the length and the header, with the checksum's own digits as zeros. */
static uint32_t checksum_header(const fac_safetensors *f) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)f->header_bytes >> 8 * i);
    const unsigned char *header = (const unsigned char *)f->header;
    size_t lead = strlen(FAC_CHECKSUM_LEAD), rest = lead + FAC_CHECKSUM_DIGITS;
    uLong crc = crc32_z(0, length, sizeof length);
    if (!f->has_checksum) return (uint32_t)crc32_z(crc, header, (size_t)f->header_bytes);
    crc = crc32_z(crc, header, lead);
    crc = crc32_z(crc, (const unsigned char *)FAC_CHECKSUM_ZERO, FAC_CHECKSUM_DIGITS);
    return (uint32_t)crc32_z(crc, header + rest, (size_t)f->header_bytes - rest);
}

fac_status fac_safetensors_verify(fac_safetensors *f) {
    if (!fac__given(f, "safetensors file")) return fac_error();
    uint32_t crc = checksum_header(f);
    FAC_TRY(checksum_data(f, &crc));
    if (!f->has_checksum) return FAC_OK;
    char digits[FAC_CHECKSUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, crc);
    const char *stated = fac_safetensors_metadata(f, FAC_CHECKSUM_KEY);
    FAC_CHECK(strcmp(digits, stated) == 0, FAC_ERR_FORMAT,
              "'%s' is damaged: its checksum should be %s, but its bytes make %s", f->path, stated, digits);
    return FAC_OK;
}

fac_tensor *fac_safetensors_read(fac_safetensors *f, size_t i) {
    if (fac_error()) return NULL;
    fac_safetensors_entry e;
    FAC_TRY_NULL(fac_safetensors_get(f, i, &e));
    if (e.dtype == FAC_DTYPE_DEFAULT)
        return FAC_FAIL(FAC_ERR_UNSUPPORTED, "tensor '%s' is of type %s, which Facula has not", e.name, e.type), NULL;
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty_stored(e.sizes.v, NULL, (int)e.sizes.n, e.dtype, fac_device_make(FAC_CPU, -1), NULL, &t));
    if (e.bytes > 0 && fac__file_read(f->fd, f->path, e.position, fac__data(t), (size_t)e.bytes) != FAC_OK) {
        fac__unref(t);
        return NULL;
    }
    return fac__adopt_handle(fac__thread(), t);
}

static void unmap(void *context) {
    fac_file_map *m = context;
    fac__file_unmap(m);
    fac__free(m);
}

fac_tensor *fac_safetensors_map(fac_safetensors *f, size_t i) {
    if (fac_error()) return NULL;
    fac_safetensors_entry e;
    FAC_TRY_NULL(fac_safetensors_get(f, i, &e));
    if (e.bytes == 0 || e.dtype == FAC_DTYPE_DEFAULT || e.position % (int64_t)fac_dtype_size(e.dtype))
        return fac_safetensors_read(f, i);
    fac_file_map *m = fac__alloc(sizeof *m);
    if (!m) return NULL;
    if (fac__file_map(f->fd, f->path, e.position, (size_t)e.bytes, m) != FAC_OK) {
        fac__free(m);
        return NULL;
    }
    fac_tensor *t = fac_tensor_wrap(m->first, (size_t)e.bytes, e.dtype, e.sizes, (fac_ints){0}, 0, unmap, m);
    if (!t) unmap(m);
    return t;
}

/* ---- sets of tensors --------------------------------------------------------------------------------------------------- */

static fac_status check_target(const fac_safetensors *f, const fac_named_tensor *target) {
    FAC_CHECK(target->name, FAC_ERR_ARGUMENT, "the name of a tensor to load into is NULL");
    const fac_tensor *t = fac__open(target->tensor, "safetensors_load", target->name);
    if (!t) return fac_error();
    int64_t i = fac_safetensors_find(f, target->name);
    FAC_CHECK(i >= 0, FAC_ERR_NOT_FOUND, "'%s' has no tensor '%s'", f->path, target->name);
    const fac_safetensors_item *e = &f->items[i];
    FAC_CHECK(e->dtype != FAC_DTYPE_DEFAULT, FAC_ERR_UNSUPPORTED, "tensor '%s' is of type %s, which Facula has not",
              e->name, e->type);
    FAC_CHECK(e->ndim == t->ndim && memcmp(e->sizes, t->sizes, (size_t)e->ndim * sizeof *e->sizes) == 0, FAC_ERR_SHAPE,
              "tensor '%s' has shape %s in '%s', but %s is expected", e->name,
              fac__shape_text(e->sizes, e->ndim, (char[256]){0}, 256), f->path, FAC_SHAPE_TEXT(t));
    return FAC_OK;
}

/* Every target is in the file, no target is named twice, and nothing in the file is left over. */
static fac_status check_targets(const fac_safetensors *f, const fac_named_tensor *targets, size_t n) {
    fac_map seen = {0};
    fac_status st = FAC_OK;
    for (size_t i = 0; i < n && st == FAC_OK; i++) {
        st = check_target(f, &targets[i]);
        if (st == FAC_OK && fac__map_get(&seen, targets[i].name))
            st = FAC_FAIL(FAC_ERR_ARGUMENT, "the tensor name '%s' is given twice", targets[i].name);
        if (st == FAC_OK) st = fac__map_set(&seen, targets[i].name, targets[i].tensor);
    }
    for (size_t i = 0; i < f->n && st == FAC_OK; i++)
        if (!fac__map_get(&seen, f->items[i].name))
            st = FAC_FAIL(FAC_ERR_ARGUMENT, "'%s' holds a tensor '%s' that is not among those to load", f->path,
                          f->items[i].name);
    fac__map_free(&seen);
    return st;
}

static fac_status load_one(fac_safetensors *f, const fac_named_tensor *target) {
    FAC_SCOPE(s);
    FAC_NO_GRAD(g);
    fac_tensor *t = fac_safetensors_read(f, (size_t)fac_safetensors_find(f, target->name));
    return fac_copy_(target->tensor, t) ? FAC_OK : fac_error();
}

fac_status fac_safetensors_load(const char *path, const fac_named_tensor *tensors, size_t n_tensors) {
    if (fac_error()) return fac_error();
    FAC_CHECK(tensors || !n_tensors, FAC_ERR_ARGUMENT, "the list of tensors is NULL but its length is not zero");
    fac_safetensors *f = fac_safetensors_open(path);
    if (!f) return fac_error();
    fac_status st = check_targets(f, tensors, n_tensors);
    if (st == FAC_OK) st = fac_safetensors_verify(f);
    for (size_t i = 0; i < n_tensors && st == FAC_OK; i++) st = load_one(f, &tensors[i]);
    fac_safetensors_close(f);
    return st;
}
