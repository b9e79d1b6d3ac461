/* Reading the header of a safetensors file, trusting none of it. What is checked: the length of the header against the
   file and the format's limit; JSON and UTF-8; duplicate keys; that each entry has a type, a shape and a range and nothing
   else; shape times element size against the range; that the ranges, in order, cover the data without overlap, hole or
   rest. An open file holds the parsed JSON, which owns all strings. */
#include "base/file.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include <stdlib.h>
#include <unistd.h>

/* Sets the error for a file that is not what it claims to be. */
static fac_status bad(const fac_safetensors *f, const char *format, ...) FAC_PRINTF(2, 3);
static fac_status bad(const fac_safetensors *f, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not a valid safetensors file: %s", f->path, text);
}

/* ---- one entry ------------------------------------------------------------------------------------------------------ */

static fac_status read_type(const fac_safetensors *f, fac_safetensors_item *e, const json_t *value, int *out_bytes) {
    if (!json_is_string(value)) return bad(f, "tensor '%.100s' has no dtype", e->name);
    const fac_safetensors_type *type = fac__safetensors_type_named(json_string_value(value));
    if (!type) return bad(f, "tensor '%.100s' has the unknown dtype '%.40s'", e->name, json_string_value(value));
    e->type = type->name;
    e->dtype = type->dtype;
    *out_bytes = type->bytes;
    return FAC_OK;
}

static fac_status read_shape(const fac_safetensors *f, fac_safetensors_item *e, const json_t *value,
                             int64_t *out_numel) {
    if (!json_is_array(value)) return bad(f, "tensor '%.100s' has no shape", e->name);
    size_t n = json_array_size(value);
    if (n > FAC_MAX_DIMS)
        return bad(f, "tensor '%.100s' has %zu dimensions; at most %d are possible", e->name, n, FAC_MAX_DIMS);
    e->ndim = (int)n;
    e->sizes = fac__alloc_array(n, sizeof *e->sizes);
    if (!e->sizes) return fac_error();
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(value, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return bad(f, "tensor '%.100s' has a size that is not a count", e->name);
        e->sizes[i] = json_integer_value(size);
    }
    if (!fac__numel(e->sizes, e->ndim, out_numel)) return bad(f, "the shape of tensor '%.100s' overflows", e->name);
    return FAC_OK;
}

static fac_status read_range(const fac_safetensors *f, fac_safetensors_item *e, const json_t *value, int64_t bytes) {
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(f, "tensor '%.100s' has no data_offsets [begin, end]", e->name);
    e->begin = json_integer_value(begin);
    e->end = json_integer_value(end);
    if (e->begin < 0 || e->begin > e->end || e->end > f->data_bytes)
        return bad(f, "the range [%lld, %lld] of tensor '%.100s' is not inside the %lld bytes of data",
                   (long long)e->begin, (long long)e->end, e->name, (long long)f->data_bytes);
    if (e->end - e->begin != bytes)
        return bad(f, "tensor '%.100s' has %lld bytes in the file; its shape and dtype make %lld", e->name,
                   (long long)(e->end - e->begin), (long long)bytes);
    return FAC_OK;
}

static fac_status read_entry(const fac_safetensors *f, fac_safetensors_item *e, const char *name, json_t *value) {
    e->name = name;
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad(f, "entry '%.100s' is not an object of dtype, shape and data_offsets", name);
    int element = 0;
    int64_t numel, bytes;
    FAC_TRY(read_type(f, e, json_object_get(value, "dtype"), &element));
    FAC_TRY(read_shape(f, e, json_object_get(value, "shape"), &numel));
    if (!fac__mul(numel, element, &bytes)) return bad(f, "the size of tensor '%.100s' overflows", name);
    return read_range(f, e, json_object_get(value, "data_offsets"), bytes);
}

/* ---- the header --------------------------------------------------------------------------------------------------------- */

static fac_status read_metadata(fac_safetensors *f, json_t *object) {
    if (!json_is_object(object)) return bad(f, "__metadata__ is not an object");
    f->metadata = fac__alloc_array(json_object_size(object), sizeof *f->metadata);
    if (!f->metadata) return fac_error();
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value)) return bad(f, "the metadata '%.100s' is not text", key);
        f->metadata[f->n_metadata++] = (fac_metadata){key, json_string_value(value)};
    }
    /* Facula writes both; one alone means that a bit of the other has changed. */
    bool checksum = fac_safetensors_metadata(f, FAC_CHECKSUM_KEY) != NULL;
    if (checksum != (fac_safetensors_metadata(f, FAC_WRITER_KEY) != NULL))
        return bad(f, "one of '" FAC_CHECKSUM_KEY "' and '" FAC_WRITER_KEY "' is missing: the file was changed");
    const char *lead = FAC_CHECKSUM_LEAD;
    f->has_checksum = checksum;
    if (checksum &&
        ((size_t)f->header_bytes < strlen(lead) + FAC_CHECKSUM_DIGITS || memcmp(f->header, lead, strlen(lead)) != 0))
        return bad(f, "the checksum is not where Facula puts it: the file was changed");
    return FAC_OK;
}

static int by_range(const void *a, const void *b) {
    const fac_safetensors_item *x = a, *y = b;
    if (x->begin != y->begin) return (x->begin > y->begin) - (x->begin < y->begin);
    return (x->end > y->end) - (x->end < y->end);
}

static fac_status check_cover(const fac_safetensors *f) {
    int64_t at = 0;
    for (size_t i = 0; i < f->n; i++) {
        const fac_safetensors_item *e = &f->items[i];
        if (e->begin < at) return bad(f, "the data of tensor '%.100s' overlap another's", e->name);
        if (e->begin > at)
            return bad(f, "bytes %lld to %lld of the data belong to no tensor", (long long)at, (long long)e->begin);
        at = e->end;
    }
    if (at != f->data_bytes)
        return bad(f, "%lld bytes at the end belong to no tensor", (long long)(f->data_bytes - at));
    return FAC_OK;
}

static fac_status index_names(fac_safetensors *f) {
    for (size_t i = 0; i < f->n; i++) FAC_TRY(fac__map_set(&f->by_name, f->items[i].name, &f->items[i]));
    return FAC_OK;
}

static fac_status read_entries(fac_safetensors *f) {
    size_t n = json_object_size(f->json);
    f->items = fac__alloc_array(n, sizeof *f->items);
    if (!f->items) return fac_error();
    memset(f->items, 0, n * sizeof *f->items);
    const char *key;
    json_t *value;
    json_object_foreach(f->json, key, value) {
        if (strcmp(key, "__metadata__") == 0)
            FAC_TRY(read_metadata(f, value));
        else
            FAC_TRY(read_entry(f, &f->items[f->n++], key, value));
    }
    qsort(f->items, f->n, sizeof *f->items, by_range);
    FAC_TRY(check_cover(f));
    return index_names(f);
}

static fac_status read_header(fac_safetensors *f) {
    unsigned char raw[8];
    uint64_t length = 0;
    if (f->file_bytes < 8)
        return bad(f, "it has %lld bytes; the length of the header alone takes 8", (long long)f->file_bytes);
    FAC_TRY(fac__file_read(f->fd, f->path, 0, raw, sizeof raw));
    for (int i = 0; i < 8; i++) length |= (uint64_t)raw[i] << 8 * i;
    if (length > FAC_HEADER_MAX)
        return bad(f, "it claims a header of %llu bytes; at most %d are possible", (unsigned long long)length,
                   FAC_HEADER_MAX);
    if ((int64_t)length > f->file_bytes - 8)
        return bad(f, "it claims a header of %llu bytes but has only %lld", (unsigned long long)length,
                   (long long)f->file_bytes);
    f->header_bytes = (int64_t)length;
    f->data_bytes = f->file_bytes - 8 - f->header_bytes;
    f->header = fac__alloc((size_t)length);
    if (!f->header) return fac_error();
    FAC_TRY(fac__file_read(f->fd, f->path, 8, f->header, (size_t)length));
    if (length == 0 || f->header[0] != '{') return bad(f, "the header does not begin with '{'");
    json_error_t error;
    f->json = fac__json_parse(f->header, (size_t)length, &error);
    if (!f->json) return bad(f, "the header is not the JSON it should be: %s (byte %d)", error.text, error.position);
    return read_entries(f);
}

/* ---- open files ------------------------------------------------------------------------------------------------------------ */

fac_safetensors *fac_safetensors_open(const char *path) {
    if (!path) return FAC_FAIL(FAC_ERR_ARGUMENT, "the path to open is NULL"), NULL;
    fac_safetensors *f = fac__alloc_zero(sizeof *f);
    if (!f) return NULL;
    f->fd = -1;
    f->path = fac__strdup(path);
    if (f->path && fac__file_open(path, &f->fd, &f->file_bytes) == FAC_OK && read_header(f) == FAC_OK) return f;
    fac_safetensors_close(f);
    return NULL;
}

void fac_safetensors_close(fac_safetensors *f) {
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    for (size_t i = 0; i < f->n; i++) fac__free(f->items[i].sizes);
    fac__free(f->items);
    fac__free(f->metadata);
    fac__free(f->header);
    fac__map_free(&f->by_name);
    json_decref(f->json);
    fac__free(f->path);
    fac__free(f);
}

static bool is_there(const fac_safetensors *f) { return fac__given(f, "safetensors file"); }

size_t fac_safetensors_count(const fac_safetensors *f) { return is_there(f) ? f->n : 0; }

fac_status fac_safetensors_get(const fac_safetensors *f, size_t i, fac_safetensors_entry *out) {
    if (!is_there(f) || !fac__given(out, "place for the entry")) return fac_error();
    FAC_CHECK(i < f->n, FAC_ERR_INDEX, "'%s' holds %zu tensors; there is no number %zu", f->path, f->n, i);
    const fac_safetensors_item *e = &f->items[i];
    *out = (fac_safetensors_entry){.name = e->name,
                                   .type = e->type,
                                   .dtype = e->dtype,
                                   .sizes = {e->sizes, (size_t)e->ndim},
                                   .bytes = e->end - e->begin,
                                   .position = 8 + f->header_bytes + e->begin};
    return FAC_OK;
}

int64_t fac_safetensors_find(const fac_safetensors *f, const char *name) {
    const fac_safetensors_item *e = is_there(f) && name ? fac__map_get(&f->by_name, name) : NULL;
    return e ? e - f->items : -1;
}

size_t fac_safetensors_metadata_count(const fac_safetensors *f) { return is_there(f) ? f->n_metadata : 0; }

fac_metadata fac_safetensors_metadata_at(const fac_safetensors *f, size_t i) {
    return is_there(f) && i < f->n_metadata ? f->metadata[i] : (fac_metadata){NULL, NULL};
}

const char *fac_safetensors_metadata(const fac_safetensors *f, const char *key) {
    if (!is_there(f) || !key) return NULL;
    for (size_t i = 0; i < f->n_metadata; i++)
        if (strcmp(f->metadata[i].key, key) == 0) return f->metadata[i].value;
    return NULL;
}
