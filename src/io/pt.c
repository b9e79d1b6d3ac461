/* .pt files: a zip file with a pickle, data.pkl, and the bytes of each storage, data/KEY. The pickle's containers are laid out flat:
   an entry's name is the keys that lead to it, joined by points. */
#include "core/handle.h"
#include "core/tensor_make.h"
#include "io/pickle.h"
#include "io/tensor_file.h"
#include "io/zip.h"
#include <facula/ops.h>
#include <math.h>
#include <stdlib.h>

/* A pickle's instruction of a byte makes a value of a hundred, so one is not packed tightly as well: torch.save packs none. */
enum { MOST_PICKLE = 1 << 26, MOST_DEPTH = 64, MOST_PACKED = 32, SMALL_PICKLE = 1 << 16 };

typedef struct pt_file {
    fac_tensor_file base;
    fac_zip zip;
    zip_stream stream;
    char *root;           /* owned: of the names of members, with a slash behind it */
    unsigned char *bytes; /* owned, of the pickle; NULL once it is read */
    fac_pickle pickle;
    int64_t name_bytes; /* of all entries: a list that contains a list twice, and that one another twice, has no end */
} pt_file;

/* ---- entries ---------------------------------------------------------------------------------------------------------- */

/* Where a tensor's elements lie is inside its storage, and the storage is a member of its size. */
static fac_status check_place(const pt_file *f, const tensor_entry *e, const pickle_value *storage) {
    int64_t numel, last = e->offset, step, bytes;
    FAC_CHECK(fac__numel(e->sizes, e->ndim, &numel), FAC_ERR_OVERFLOW, "the shape of '%.100s' overflows", e->name);
    for (int i = 0; i < e->ndim && numel > 0; i++)
        if (!fac__mul(e->sizes[i] - 1, e->strides[i], &step) || !fac__add(last, step, &last))
            return fac__zip_bad(&f->zip, "the strides of '%.100s' overflow", e->name);
    const zip_member *m = e->member;
    if (!fac__mul(e->span, (int64_t)fac_dtype_size(e->dtype), &bytes) || bytes != m->size)
        return fac__zip_bad(&f->zip, "the storage of '%.100s' has %lld elements, but its member %lld bytes", e->name,
                            (long long)storage->number, (long long)m->size);
    if (numel > 0 && last >= e->span)
        return fac__zip_bad(&f->zip, "'%.100s' reaches element %lld of a storage of %lld", e->name, (long long)last,
                            (long long)e->span);
    return FAC_OK;
}

static fac_status add_tensor(pt_file *f, const char *name, const pickle_value *t) {
    const pickle_value *storage = t->items[0], *sizes = t->items[1], *strides = t->items[2];
    int64_t room[FAC_MAX_DIMS];
    for (size_t i = 0; i < sizes->n_items; i++) room[i] = sizes->items[i]->number;
    tensor_entry *e = fac__tensor_file_add(&f->base, name, t->dtype, room, (int)sizes->n_items);
    if (!e) return fac_error();
    e->strides = fac__alloc_array(strides->n_items, sizeof *e->strides);
    if (!e->strides) return fac_error();
    for (size_t i = 0; i < strides->n_items; i++) e->strides[i] = strides->items[i]->number;
    char *member = fac__format("%sdata/%.*s", f->root, (int)storage->n, storage->text);
    if (!member) return fac_error();
    e->member = fac__zip_find(&f->zip, member);
    fac__free(member);
    if (!e->member) return fac__zip_bad(&f->zip, "the storage of '%.100s' is missing", name);
    e->offset = t->number;
    /* An untyped storage counts bytes. */
    e->span =
        storage->dtype == FAC_DTYPE_DEFAULT ? storage->number / (int64_t)fac_dtype_size(t->dtype) : storage->number;
    return check_place(f, e, storage);
}

/* The shortest text that is the same number again, as Python has it. */
static char *real_text(double x) {
    char text[40];
    if (isnan(x) || isinf(x)) return fac__strdup(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    return fac__format("%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static char *text_of(const pickle_value *v) {
    switch (v->kind) {
    case PICKLE_BOOL: return fac__strdup(v->number ? "True" : "False");
    case PICKLE_INT: return fac__format("%lld", (long long)v->number);
    case PICKLE_FLOAT: return real_text(v->real);
    case PICKLE_TEXT: return fac__format("%.*s", (int)v->n, v->text);
    case PICKLE_NAME: return fac__format("torch.%s", v->text);
    case PICKLE_STORAGE: return fac__strdup("storage");
    default: return fac__strdup("None");
    }
}

static fac_status add_text(pt_file *f, const char *name, const pickle_value *v) {
    tensor_entry *e = fac__tensor_file_add(&f->base, name, FAC_DTYPE_DEFAULT, NULL, 0);
    if (e) e->text = text_of(v);
    return e && e->text ? FAC_OK : fac_error();
}

static fac_status add_value(pt_file *f, const char *name, const pickle_value *v, int depth);

static fac_status add_child(pt_file *f, const char *name, const char *key, size_t n, const pickle_value *v, int depth) {
    char *path = fac__format("%s%s%.*s", name, name[0] ? "." : "", (int)n, key);
    if (!path) return fac_error();
    f->name_bytes += (int64_t)strlen(path) + 1;
    fac_status st = FAC_OK;
    if (f->name_bytes > 16 * (int64_t)f->pickle.n + (1 << 18))
        st = FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' has containers within each other too often", f->zip.path);
    if (st == FAC_OK) st = add_value(f, path, v, depth + 1);
    fac__free(path);
    return st;
}

static fac_status add_dict(pt_file *f, const char *name, const pickle_value *v, int depth) {
    for (size_t i = 0; i < v->n_items; i += 2) {
        const pickle_value *key = v->items[i];
        FAC_CHECK(key->kind == PICKLE_TEXT || key->kind == PICKLE_INT, FAC_ERR_UNSUPPORTED,
                  "'%s' has a dict at '%.100s' with a key that is neither text nor a whole number", f->zip.path, name);
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)key->number);
        const bool text = key->kind == PICKLE_TEXT;
        FAC_TRY(add_child(f, name, text ? key->text : number, text ? key->n : strlen(number), v->items[i + 1], depth));
    }
    return FAC_OK;
}

static fac_status add_value(pt_file *f, const char *name, const pickle_value *v, int depth) {
    FAC_CHECK(depth <= MOST_DEPTH, FAC_ERR_UNSUPPORTED, "'%s' nests deeper than %d levels at '%.60s'", f->zip.path,
              MOST_DEPTH, name);
    if (v->kind == PICKLE_TENSOR) return add_tensor(f, name, v);
    if (v->kind == PICKLE_DICT) return add_dict(f, name, v, depth);
    if (v->kind != PICKLE_LIST && v->kind != PICKLE_TUPLE) return add_text(f, name, v);
    for (size_t i = 0; i < v->n_items; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        FAC_TRY(add_child(f, name, number, strlen(number), v->items[i], depth));
    }
    return FAC_OK;
}

/* ---- opening ---------------------------------------------------------------------------------------------------------- */

/* Reads a member of at most so many bytes into fresh memory. */
static fac_status read_whole(pt_file *f, const zip_member *m, int64_t most, unsigned char **out) {
    FAC_CHECK(m->size <= most, FAC_ERR_UNSUPPORTED, "member '%.100s' of '%s' has %lld bytes; %lld are the most",
              m->name, f->zip.path, (long long)m->size, (long long)most);
    unsigned char *bytes = fac__alloc((size_t)m->size);
    if (!bytes) return fac_error();
    fac_status st = fac__zip_stream_open(&f->stream, &f->zip, m);
    if (st == FAC_OK) st = fac__zip_stream_read(&f->stream, bytes, (size_t)m->size);
    if (st == FAC_OK) st = fac__zip_stream_check(&f->stream);
    fac__zip_stream_close(&f->stream);
    if (st)
        fac__free(bytes);
    else
        *out = bytes;
    return st;
}

static const zip_member *find_pickle(const pt_file *f) {
    for (size_t i = 0; i < f->zip.members.n; i++) {
        const zip_member *m = &f->zip.members.v[i];
        const char *slash = strchr(m->name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0) return m;
    }
    return NULL;
}

static fac_status check_byte_order(pt_file *f) {
    char *name = fac__format("%sbyteorder", f->root);
    const zip_member *m = name ? fac__zip_find(&f->zip, name) : NULL;
    fac__free(name);
    if (!m) return fac_error();
    unsigned char *order;
    FAC_TRY(read_whole(f, m, 16, &order));
    const bool little = m->size == 6 && memcmp(order, "little", 6) == 0;
    fac__free(order);
    FAC_CHECK(little, FAC_ERR_UNSUPPORTED, "'%s' was written by a machine of another byte order", f->zip.path);
    return FAC_OK;
}

static fac_status open_pt(pt_file *f, const char *path) {
    FAC_TRY(fac__zip_open(&f->zip, path, "a file of torch.save since PyTorch 1.6"));
    const zip_member *m = find_pickle(f);
    if (!m) return fac__zip_bad(&f->zip, "it has no data.pkl");
    f->root = fac__format("%.*s", (int)(strchr(m->name, '/') + 1 - m->name), m->name);
    if (!f->root) return fac_error();
    FAC_TRY(check_byte_order(f));
    FAC_TRY(read_whole(f, m, fac__min(MOST_PICKLE, MOST_PACKED * m->bytes + SMALL_PICKLE), &f->bytes));
    FAC_TRY(fac__pickle_read(&f->pickle, path, f->bytes, (size_t)m->size));
    FAC_TRY(add_value(f, "", f->pickle.root, 0));
    fac__pickle_free(&f->pickle);
    fac__free(f->bytes);
    f->bytes = NULL;
    return fac__tensor_file_index(&f->base, path);
}

/* The storage as a tensor of one dimension, and the entry as a view of it unless it is all of it. */
static fac_tensor *read_pt(fac_tensor_file *file, const tensor_entry *e) {
    pt_file *f = (pt_file *)file;
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty_stored(&e->span, NULL, 1, e->dtype, fac_device_make(FAC_CPU, -1), NULL, &t));
    const zip_member *m = e->member;
    fac_status st = fac__zip_stream_open(&f->stream, &f->zip, m);
    if (st == FAC_OK && m->size > 0) st = fac__zip_stream_read(&f->stream, fac__data(t), (size_t)m->size);
    if (st == FAC_OK) st = fac__zip_stream_check(&f->stream);
    fac__zip_stream_close(&f->stream);
    unsigned char *bytes = e->dtype == FAC_BOOL && st == FAC_OK && m->size > 0 ? fac__data(t) : NULL;
    for (int64_t i = 0; bytes && i < m->size; i++) bytes[i] = bytes[i] != 0;
    if (st) fac__unref(t);
    t = st ? NULL : fac__adopt_handle(fac__thread(), t);
    const fac_ints sizes = fac_ints_of(e->sizes, (size_t)e->ndim), strides = fac_ints_of(e->strides, (size_t)e->ndim);
    return t ? fac_as_strided(t, sizes, strides, .storage_offset = e->offset) : NULL;
}

static void close_pt(fac_tensor_file *file) {
    pt_file *f = (pt_file *)file;
    fac__pickle_free(&f->pickle);
    fac__zip_close(&f->zip);
    fac__free(f->bytes);
    fac__free(f->root);
}

fac_tensor_file *fac_pt_open(const char *path) {
    if (fac_error()) return NULL;
    pt_file *f = fac__alloc_zero(sizeof *f);
    if (!f) return NULL;
    f->base.read = read_pt;
    f->base.close = close_pt;
    if (open_pt(f, path) == FAC_OK) return &f->base;
    fac_tensor_file_close(&f->base);
    return NULL;
}
