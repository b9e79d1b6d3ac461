/* .npz files: a zip file whose members are .npy files. */
#include "base/file.h"
#include "core/handle.h"
#include "io/npy.h"
#include "io/tensor_file.h"
#include "io/zip.h"
#include "keywords_gen.h"

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

typedef struct npz_file {
    fac_tensor_file base;
    fac_zip zip;
    zip_stream stream;
} npz_file;

static fac_status read_member(void *context, void *out, size_t n) { return fac__zip_stream_read(context, out, n); }

static fac_status open_member(npz_file *f, const zip_member *m, npy_source *s, npy_header *h) {
    *s = (npy_source){&f->stream, read_member, m->size, m->name};
    FAC_TRY(fac__zip_stream_open(&f->stream, &f->zip, m));
    return fac__npy_header(s, h);
}

static fac_status add_member(npz_file *f, const zip_member *m) {
    const size_t n = strlen(m->name);
    if (n < 4 || strcmp(m->name + n - 4, ".npy") != 0)
        return fac__zip_bad(&f->zip, "member '%.100s' is no .npy file", m->name);
    npy_source s;
    npy_header h;
    const fac_status st = open_member(f, m, &s, &h);
    fac__zip_stream_close(&f->stream);
    FAC_TRY(st);
    char *name = fac__format("%.*s", (int)(n - 4), m->name);
    tensor_entry *e = name ? fac__tensor_file_add(&f->base, name, h.dtype, h.sizes, h.ndim) : NULL;
    fac__free(name);
    if (!e) return fac_error();
    e->member = m;
    return FAC_OK;
}

static fac_tensor *read_npz(fac_tensor_file *file, const tensor_entry *e) {
    npz_file *f = (npz_file *)file;
    npy_source s;
    npy_header h;
    fac_status st = open_member(f, e->member, &s, &h);
    fac_tensor *t = st == FAC_OK ? fac__npy_elements(&s, &h) : NULL;
    if (t && fac__zip_stream_check(&f->stream) != FAC_OK) t = NULL;
    fac__zip_stream_close(&f->stream);
    return t;
}

static void close_npz(fac_tensor_file *file) { fac__zip_close(&((npz_file *)file)->zip); }

fac_tensor_file *fac_npz_open(const char *path) {
    if (fac_error()) return NULL;
    npz_file *f = fac__alloc_zero(sizeof *f);
    if (!f) return NULL;
    f->base.read = read_npz;
    f->base.close = close_npz;
    fac_status st = fac__zip_open(&f->zip, path, "a .npz file");
    for (size_t i = 0; i < f->zip.members.n && st == FAC_OK; i++) st = add_member(f, &f->zip.members.v[i]);
    if (st == FAC_OK) st = fac__tensor_file_index(&f->base, path);
    if (st == FAC_OK) return &f->base;
    fac_tensor_file_close(&f->base);
    return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

typedef struct npz_writer {
    fac_new_file file;
    fac_buf directory;
    uint32_t at; /* bytes written */
    uint16_t members;
    bool compressed;
} npz_writer;

static fac_status put_bytes(npz_writer *w, const void *bytes, size_t n) {
    FAC_CHECK(n < UINT32_MAX - w->at, FAC_ERR_OVERFLOW, "a .npz file of 4 GiB or more cannot be written");
    w->at += (uint32_t)n;
    return fac__new_file_write(&w->file, bytes, n);
}

static void put(unsigned char *p, int n, uint32_t x) {
    for (int i = 0; i < n; i++) p[i] = (unsigned char)(x >> 8 * i);
}

/* What a member's two headers have in common, from the version that is needed on to the length of the name. */
enum { COMMON = 24 };
static void put_common(unsigned char *p, bool packed, uint32_t crc, size_t bytes, size_t size, size_t name) {
    memset(p, 0, COMMON);
    put(p, 2, 20);
    put(p + 4, 2, packed ? 8 : 0);
    put(p + 8, 2, 0x21); /* the first day that there is, so that equal tensors make equal files */
    put(p + 10, 4, crc);
    put(p + 14, 4, (uint32_t)bytes);
    put(p + 18, 4, (uint32_t)size);
    put(p + 22, 2, (uint32_t)name);
}

static fac_status write_member(npz_writer *w, const char *name, bool packed, uint32_t crc, const void *bytes, size_t n,
                               size_t size) {
    unsigned char local[30] = "PK\3\4", central[46] = "PK\1\2";
    const size_t name_bytes = strlen(name);
    put_common(local + 4, packed, crc, n, size, name_bytes);
    put(central + 4, 2, 20);
    memcpy(central + 6, local + 4, COMMON);
    put(central + 42, 4, w->at);
    FAC_TRY(fac__buf_add(&w->directory, central, sizeof central));
    FAC_TRY(fac__buf_add(&w->directory, name, name_bytes));
    FAC_TRY(put_bytes(w, local, sizeof local));
    FAC_TRY(put_bytes(w, name, name_bytes));
    w->members++;
    return n > 0 ? put_bytes(w, bytes, n) : FAC_OK;
}

/* Deflates into fresh memory. */
static fac_status pack(const void *bytes, size_t n, void **out, size_t *out_n) {
    z_stream z = {0};
    const uLong room = compressBound((uLong)n);
    unsigned char *to = fac__alloc(room);
    if (!to) return fac_error();
    bool ok = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    if (ok) {
        z.next_in = (unsigned char *)(uintptr_t)bytes;
        z.avail_in = (unsigned)n;
        z.next_out = to;
        z.avail_out = (unsigned)room;
        ok = deflate(&z, Z_FINISH) == Z_STREAM_END;
        *out_n = z.total_out;
        (void)deflateEnd(&z);
    }
    if (!ok) fac__free(to);
    FAC_CHECK(ok, FAC_ERR_MEMORY, "out of memory: cannot compress %zu bytes", n);
    *out = to;
    return FAC_OK;
}

static fac_status write_array(npz_writer *w, const char *name, const fac_buf *array) {
    const uint32_t crc = (uint32_t)crc32_z(0, (const unsigned char *)array->data, array->n);
    if (!w->compressed) return write_member(w, name, false, crc, array->data, array->n, array->n);
    void *packed = NULL;
    size_t n = 0;
    FAC_TRY(pack(array->data, array->n, &packed, &n));
    const fac_status st = write_member(w, name, true, crc, packed, n, array->n);
    fac__free(packed);
    return st;
}

/* A whole .npy file in memory. */
static fac_status make_array(fac_tensor *t, fac_buf *out) {
    const void *bytes;
    void *copy;
    size_t n;
    FAC_TRY(fac__npy_make_header(t, out));
    FAC_TRY(fac__elements_in_order(t, &bytes, &n, &copy));
    fac_status st = FAC_OK;
    if (n >= INT32_MAX - out->n)
        st = FAC_FAIL(FAC_ERR_OVERFLOW, "a tensor of %zu bytes is too large for a .npz file", n);
    if (st == FAC_OK && n > 0) st = fac__buf_add(out, bytes, n);
    fac__free(copy);
    return st;
}

static fac_status write_one(npz_writer *w, const fac_named_tensor *given) {
    fac_tensor *t = given->tensor;
    FAC_OPEN(t, "npz_write", given->name, fac_error());
    char *name = fac__format("%s.npy", given->name);
    fac_buf array = {0};
    fac_status st = name ? make_array(t, &array) : fac_error();
    if (st == FAC_OK) st = write_array(w, name, &array);
    fac__buf_free(&array);
    fac__free(name);
    return st;
}

static fac_status write_end(npz_writer *w) {
    unsigned char end[22] = "PK\5\6";
    put(end + 8, 2, w->members);
    put(end + 10, 2, w->members);
    put(end + 12, 4, (uint32_t)w->directory.n);
    put(end + 16, 4, w->at);
    if (w->directory.n) FAC_TRY(put_bytes(w, w->directory.data, w->directory.n));
    FAC_TRY(put_bytes(w, end, sizeof end));
    return fac__new_file_commit(&w->file);
}

/* Before the file is begun. */
static fac_status check_tensors(const fac_named_tensor *tensors, size_t n) {
    fac_map seen = {0};
    fac_status st = FAC_OK;
    if (n >= UINT16_MAX) st = FAC_FAIL(FAC_ERR_OVERFLOW, "a .npz file has fewer than 65535 arrays, not %zu", n);
    for (size_t i = 0; i < n && st == FAC_OK; i++) {
        const char *name = tensors[i].name;
        if (!name || !name[0] || strlen(name) > 60000)
            st = FAC_FAIL(FAC_ERR_ARGUMENT, "the name of tensor %zu is %s", i,
                          !name     ? "NULL"
                          : name[0] ? "too long"
                                    : "empty");
        else if (fac__map_get(&seen, name))
            st = FAC_FAIL(FAC_ERR_ARGUMENT, "the tensor name '%s' is given twice", name);
        else
            st = fac__open(tensors[i].tensor, "npz_write", name) ? fac__map_set(&seen, name, &seen) : fac_error();
    }
    fac__map_free(&seen);
    return st;
}

fac_status(fac_npz_write)(const char *path, const fac_named_tensor *tensors, size_t n, const fac_npz_write_kw *kw) {
    fac_npz_write_kw k;
    if (fac_error()) return fac_error();
    FAC_TRY(fac__open_npz_write_kw(&k, kw));
    if (!fac__given(path, "path to write to") || !fac__list_given(tensors, n, "tensors")) return fac_error();
    FAC_TRY(check_tensors(tensors, n));
    npz_writer w = {.file = FAC_NEW_FILE, .compressed = k.compressed};
    fac_status st = fac__new_file_open(&w.file, path, 0666);
    for (size_t i = 0; i < n && st == FAC_OK; i++) st = write_one(&w, &tensors[i]);
    if (st == FAC_OK) st = write_end(&w);
    fac__new_file_close(&w.file);
    fac__buf_free(&w.directory);
    return st;
}
