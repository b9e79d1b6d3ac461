/* Writing safetensors. Tensors are laid out by falling element size, so that each is aligned to its own elements. */
#include "base/file.h"
#include "base/utf8.h"
#include "core/handle.h"
#include "core/read.h"
#include "io/safetensors.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <zlib.h>

/* Names are those of the format; types without a dtype here are known by their size alone. */
static const fac_safetensors_type TYPES[] = {
    {"BOOL", FAC_BOOL, 1},
    {"U8", FAC_U8, 1},
    {"I8", FAC_I8, 1},
    {"I16", FAC_I16, 2},
    {"I32", FAC_I32, 4},
    {"I64", FAC_I64, 8},
    {"F16", FAC_F16, 2},
    {"F32", FAC_F32, 4},
    {"F64", FAC_F64, 8},
    {"BF16", FAC_BF16, 2},
    {"C64", FAC_C64, 8},
    {"U16", 0, 2},
    {"U32", 0, 4},
    {"U64", 0, 8},
    {"F8_E4M3", FAC_F8_E4M3FN, 1},
    {"F8_E5M2", FAC_F8_E5M2, 1},
    {"F8_E8M0", FAC_F8_E8M0FNU, 1},
};

const fac_safetensors_type *fac__safetensors_type_named(const char *name) {
    for (size_t i = 0; i < FAC_COUNT(TYPES); i++)
        if (strcmp(TYPES[i].name, name) == 0) return &TYPES[i];
    return NULL;
}

static const fac_safetensors_type *type_of(fac_dtype dtype) {
    for (size_t i = 0; i < FAC_COUNT(TYPES); i++)
        if (TYPES[i].dtype == dtype && dtype != FAC_DTYPE_DEFAULT) return &TYPES[i];
    return NULL;
}

/* One tensor and where its bytes go. */
typedef struct plan {
    const char *name;
    fac_tensor *tensor;
    const fac_safetensors_type *type;
    int64_t begin, end; /* in the data */
    size_t given;       /* place among the arguments: keeps the sort stable */
} plan;

static int by_element_size(const void *a, const void *b) {
    const plan *x = a, *y = b;
    if (x->type->bytes != y->type->bytes) return y->type->bytes - x->type->bytes;
    return (x->given > y->given) - (x->given < y->given);
}

static fac_status check_text(const char *what, const char *text) {
    FAC_CHECK(text, FAC_ERR_ARGUMENT, "a %s is NULL; it must be UTF-8 text", what);
    FAC_CHECK(fac__utf8_valid(text, strlen(text)), FAC_ERR_ARGUMENT, "a %s is not valid UTF-8", what);
    return FAC_OK;
}

static fac_status plan_one(plan *p, const fac_named_tensor *given, size_t i) {
    FAC_TRY(check_text("tensor's name", given->name));
    FAC_CHECK(strcmp(given->name, "__metadata__") != 0, FAC_ERR_ARGUMENT,
              "a tensor cannot be saved as '__metadata__': the format reserves that name");
    fac_tensor *t = given->tensor;
    FAC_OPEN(t, "safetensors_save", given->name, fac_error());
    fac_dtype dtype = (fac_dtype)t->dtype;
    *p = (plan){given->name, t, type_of(dtype), 0, 0, i};
    FAC_CHECK(p->type, FAC_ERR_UNSUPPORTED, "'%s' is %s, which safetensors has no name for; save its parts instead",
              given->name, fac_dtype_name(dtype));
    FAC_CHECK(!t->cls, FAC_ERR_UNSUPPORTED,
              "'%s' is a %s tensor, but a file holds strided ones: make it so by to_dense", given->name, t->cls->name);
    FAC_CHECK(t->storage || t->numel == 0, FAC_ERR_ARGUMENT, "'%s' has no data to save: it is a meta tensor",
              given->name);
    return FAC_OK;
}

/* Checks all tensors and decides where each goes. */
static fac_status make_plan(plan *plans, const fac_named_tensor *tensors, size_t n) {
    for (size_t i = 0; i < n; i++) FAC_TRY(plan_one(&plans[i], &tensors[i], i));
    qsort(plans, n, sizeof *plans, by_element_size);
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t bytes;
        plans[i].begin = at;
        FAC_CHECK(fac__mul(plans[i].tensor->numel, plans[i].type->bytes, &bytes) && fac__add(at, bytes, &at),
                  FAC_ERR_OVERFLOW, "the tensors are larger than a file can be");
        plans[i].end = at;
    }
    return FAC_OK;
}

/* jansson fails only for want of memory here, since all text was checked. */
static fac_status json_put(json_t *object, const char *key, json_t *value) {
    FAC_CHECK(json_object_set_new(object, key, value) == 0, FAC_ERR_MEMORY, "out of memory: cannot write the header");
    return FAC_OK;
}

static fac_status put_metadata(json_t *root, const fac_metadata *metadata, size_t n) {
    json_t *object = json_object();
    FAC_TRY(json_put(root, "__metadata__", object));
    FAC_TRY(json_put(object, FAC_CHECKSUM_KEY, json_string(FAC_CHECKSUM_ZERO)));
    FAC_TRY(json_put(object, FAC_WRITER_KEY, json_string(fac_version())));
    for (size_t i = 0; i < n; i++) {
        FAC_TRY(check_text("metadata key", metadata[i].key));
        FAC_TRY(check_text("metadata value", metadata[i].value));
        FAC_CHECK(strncmp(metadata[i].key, "facula.", 7) != 0, FAC_ERR_ARGUMENT,
                  "metadata key '%s': keys that begin with 'facula.' are Facula's own", metadata[i].key);
        FAC_CHECK(!json_object_get(object, metadata[i].key), FAC_ERR_ARGUMENT, "metadata key '%s' is given twice",
                  metadata[i].key);
        FAC_TRY(json_put(object, metadata[i].key, json_string(metadata[i].value)));
    }
    return FAC_OK;
}

static fac_status put_tensor(json_t *root, const plan *p) {
    FAC_CHECK(!json_object_get(root, p->name), FAC_ERR_ARGUMENT, "the tensor name '%s' is given twice", p->name);
    json_t *object = json_object();
    FAC_TRY(json_put(root, p->name, object));
    json_t *shape = json_array();
    FAC_TRY(json_put(object, "dtype", json_string(p->type->name)));
    FAC_TRY(json_put(object, "shape", shape));
    for (int d = 0; d < p->tensor->ndim; d++)
        FAC_CHECK(json_array_append_new(shape, json_integer(p->tensor->sizes[d])) == 0, FAC_ERR_MEMORY,
                  "out of memory: cannot write the header");
    return json_put(object, "data_offsets", json_pack("[I,I]", (json_int_t)p->begin, (json_int_t)p->end));
}

/* The header as text, padded with blanks to a multiple of eight bytes. */
static fac_status make_header(const plan *plans, size_t n, const fac_metadata *metadata, size_t n_metadata,
                              fac_buf *out) {
    json_t *root = json_object();
    FAC_CHECK(root, FAC_ERR_MEMORY, "out of memory: cannot write the header");
    fac_status st = put_metadata(root, metadata, n_metadata);
    for (size_t i = 0; i < n && st == FAC_OK; i++) st = put_tensor(root, &plans[i]);
    char *text = st ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (st) return st;
    FAC_CHECK(text, FAC_ERR_MEMORY, "out of memory: cannot write the header");
    st = fac__buf_add(out, text, strlen(text));
    free(text);
    while (st == FAC_OK && out->n % 8 != 0) st = fac__buf_add(out, " ", 1);
    if (st) return st;
    FAC_CHECK(out->n <= FAC_HEADER_MAX, FAC_ERR_ARGUMENT,
              "names, shapes and metadata take %zu bytes; a safetensors header holds at most %d", out->n,
              FAC_HEADER_MAX);
    return FAC_OK;
}

/* A file on its way, and the CRC-32 of what has gone into it. */
typedef struct sink {
    fac_new_file file;
    uint32_t crc;
} sink;

static fac_status sink_write(sink *s, const void *bytes, size_t n) {
    FAC_TRY(fac__new_file_write(&s->file, bytes, n));
    s->crc = (uint32_t)crc32_z(s->crc, bytes, n);
    return FAC_OK;
}

static fac_status write_tensor(sink *f, fac_tensor *t) {
    size_t n = (size_t)t->numel, bytes = n * fac_dtype_size((fac_dtype)t->dtype);
    if (n == 0) return FAC_OK;
    if (fac__is_cpu(t) && fac__is_contiguous(t) && !fac__pending(t)) return sink_write(f, fac__data(t), bytes);
    void *copy = fac__alloc(bytes);
    if (!copy) return fac_error();
    fac_status st = fac__read(t, (fac_dtype)t->dtype, copy, n);
    if (st == FAC_OK) st = sink_write(f, copy, bytes);
    fac__free(copy);
    return st;
}

/* Everything goes out with zeros for the checksum, which is then put in its place. */
static fac_status write_file(sink *f, const plan *plans, size_t n, const fac_buf *header) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->n >> 8 * i);
    FAC_TRY(sink_write(f, length, sizeof length));
    FAC_TRY(sink_write(f, header->data, header->n));
    for (size_t i = 0; i < n; i++) FAC_TRY(write_tensor(f, plans[i].tensor));
    char digits[FAC_CHECKSUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, f->crc);
    const int64_t place = (int64_t)(sizeof length + sizeof FAC_CHECKSUM_LEAD - 1);
    FAC_TRY(fac__new_file_patch(&f->file, place, digits, FAC_CHECKSUM_DIGITS));
    return fac__new_file_commit(&f->file);
}

fac_status fac_safetensors_save(const char *path, const fac_named_tensor *tensors, size_t n_tensors,
                                const fac_metadata *metadata, size_t n_metadata) {
    if (fac_error()) return fac_error();
    FAC_CHECK(path, FAC_ERR_ARGUMENT, "the path to save to is NULL");
    FAC_CHECK((tensors || !n_tensors) && (metadata || !n_metadata), FAC_ERR_ARGUMENT,
              "the list of tensors or of metadata is NULL but its length is not zero");
    plan *plans = fac__alloc_array(n_tensors, sizeof *plans);
    if (!plans) return fac_error();
    fac_buf header = {0};
    sink out = {.file = FAC_NEW_FILE};
    fac_status st = make_plan(plans, tensors, n_tensors);
    if (st == FAC_OK) st = make_header(plans, n_tensors, metadata, n_metadata, &header);
    if (st == FAC_OK) st = fac__new_file_open(&out.file, path, 0666);
    if (st == FAC_OK) st = write_file(&out, plans, n_tensors, &header);
    fac__new_file_close(&out.file);
    fac__buf_free(&header);
    fac__free(plans);
    return st;
}
