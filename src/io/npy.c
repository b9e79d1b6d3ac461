/* .npy files. The header is text that Python would evaluate; here a strict reader takes the one form that NumPy writes. */
#include "io/npy.h"
#include "base/file.h"
#include "core/handle.h"
#include "core/read.h"
#include "core/tensor_make.h"
#include <facula/files.h>
#include <facula/ops.h>
#include <unistd.h>

enum { MOST_HEADER = 1 << 20 };
static const char magic[] = "\x93NUMPY";

/* NumPy's names without the byte order. */
static const struct {
    const char *name;
    fac_dtype dtype;
} types[] = {{"b1", FAC_BOOL}, {"u1", FAC_U8},  {"i1", FAC_I8},  {"i2", FAC_I16}, {"i4", FAC_I32},  {"i8", FAC_I64},
             {"f2", FAC_F16},  {"f4", FAC_F32}, {"f8", FAC_F64}, {"c8", FAC_C64}, {"c16", FAC_C128}};

static fac_status bad(const npy_source *s, const char *format, ...) FAC_PRINTF(2, 3);
static fac_status bad(const npy_source *s, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is not a .npy file: %s", s->name, text);
}

static fac_status take(npy_source *s, void *out, size_t n) {
    if ((uint64_t)n > (uint64_t)s->left) return bad(s, "it ends too early");
    s->left -= (int64_t)n;
    return s->read(s->context, out, n);
}

/* ---- the header ------------------------------------------------------------------------------------------------------ */

typedef struct text {
    const npy_source *s;
    const char *at;
} text;

static void skip_blanks(text *t) { t->at += strspn(t->at, " \n\t"); }

static bool eat(text *t, const char *word) {
    skip_blanks(t);
    const size_t n = strlen(word);
    if (strncmp(t->at, word, n) != 0) return false;
    t->at += n;
    return true;
}

/* A quoted word without escapes, cut to the room. */
static bool eat_word(text *t, char *out, size_t room) {
    skip_blanks(t);
    const char quote = *t->at;
    if (quote != '\'' && quote != '"') return false;
    const char *end = strchr(t->at + 1, quote);
    if (!end || (size_t)(end - t->at) > room || memchr(t->at, '\\', (size_t)(end - t->at))) return false;
    memcpy(out, t->at + 1, (size_t)(end - t->at) - 1);
    out[end - t->at - 1] = '\0';
    t->at = end + 1;
    return true;
}

static fac_status read_type(text *t, npy_header *h) {
    char name[32];
    skip_blanks(t);
    FAC_CHECK(*t->at != '[', FAC_ERR_UNSUPPORTED, "'%s' holds records, which Facula has not", t->s->name);
    if (!eat_word(t, name, sizeof name) || !name[0]) return bad(t->s, "its header has no type");
    const char *type = strchr("<>=|", name[0]) ? name + 1 : name;
    for (size_t i = 0; i < FAC_COUNT(types); i++)
        if (strcmp(types[i].name, type) == 0) {
            h->dtype = types[i].dtype;
            h->swapped = name[0] == '>';
            return FAC_OK;
        }
    FAC_CHECK(type[0] != 'O', FAC_ERR_UNSUPPORTED,
              "'%s' holds Python objects, which are made by running code: they are not read", t->s->name);
    return FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' holds elements of type '%s', which Facula has not", t->s->name, name);
}

static fac_status read_size(text *t, npy_header *h) {
    int64_t size = 0;
    if (h->ndim == FAC_MAX_DIMS) return bad(t->s, "it has more than %d dimensions", FAC_MAX_DIMS);
    if (*t->at < '0' || *t->at > '9') return bad(t->s, "a size in its header is no number");
    for (; *t->at >= '0' && *t->at <= '9'; t->at++)
        if (!fac__mul(size, 10, &size) || !fac__add(size, *t->at - '0', &size)) return bad(t->s, "a size overflows");
    if (*t->at == 'L') t->at++; /* as Python 2 wrote */
    h->sizes[h->ndim++] = size;
    return FAC_OK;
}

static fac_status read_shape(text *t, npy_header *h) {
    if (!eat(t, "(")) return bad(t->s, "its header has no shape");
    while (!eat(t, ")")) {
        FAC_TRY(read_size(t, h));
        if (eat(t, ",")) continue;
        if (!eat(t, ")")) return bad(t->s, "the shape in its header does not end");
        break;
    }
    return FAC_OK;
}

static fac_status read_order(text *t, npy_header *h) {
    h->fortran = eat(t, "True");
    return h->fortran || eat(t, "False") ? FAC_OK : bad(t->s, "its header does not say whether its order is Fortran's");
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, keys in any order, each once. */
static fac_status read_dict(text *t, npy_header *h) {
    static const struct {
        const char *key;
        fac_status (*read)(text *t, npy_header *h);
    } keys[] = {{"descr", read_type}, {"fortran_order", read_order}, {"shape", read_shape}};
    unsigned seen = 0;
    if (!eat(t, "{")) return bad(t->s, "its header is no dict");
    while (!eat(t, "}")) {
        char key[32];
        size_t i = 0;
        if (!eat_word(t, key, sizeof key) || !eat(t, ":")) return bad(t->s, "its header is no dict of words");
        while (i < FAC_COUNT(keys) && strcmp(keys[i].key, key) != 0) i++;
        if (i == FAC_COUNT(keys) || seen >> i & 1) return bad(t->s, "its header has the key '%s'", key);
        seen |= 1u << i;
        FAC_TRY(keys[i].read(t, h));
        if (!eat(t, ",")) {
            if (!eat(t, "}")) return bad(t->s, "its header does not end");
            break;
        }
    }
    skip_blanks(t);
    if (seen != 7 || *t->at) return bad(t->s, "its header lacks a key, or goes on behind its end");
    return FAC_OK;
}

static fac_status read_text(npy_source *s, char **out) {
    unsigned char head[8], length[4] = {0};
    FAC_TRY(take(s, head, sizeof head));
    if (memcmp(head, magic, 6) != 0) return bad(s, "it does not begin as one");
    FAC_CHECK(head[6] >= 1 && head[6] <= 3, FAC_ERR_UNSUPPORTED, "'%s' is of version %d of the format; 1 to 3 are read",
              s->name, head[6]);
    FAC_TRY(take(s, length, head[6] == 1 ? 2 : 4));
    const size_t n = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (n > MOST_HEADER || (int64_t)n > s->left) return bad(s, "its header of %zu bytes cannot be there", n);
    char *header = fac__alloc(n + 1);
    if (!header) return fac_error();
    fac_status st = take(s, header, n);
    header[n] = '\0';
    if (st == FAC_OK && strlen(header) != n) st = bad(s, "its header has a zero byte");
    if (st == FAC_OK)
        *out = header;
    else
        fac__free(header);
    return st;
}

fac_status fac__npy_header(npy_source *s, npy_header *h) {
    char *header = NULL;
    *h = (npy_header){.ndim = 0};
    FAC_TRY(read_text(s, &header));
    const fac_status st = read_dict(&(text){s, header}, h);
    fac__free(header);
    FAC_TRY(st);
    int64_t numel, bytes;
    FAC_CHECK(fac__numel(h->sizes, h->ndim, &numel) && fac__mul(numel, (int64_t)fac_dtype_size(h->dtype), &bytes),
              FAC_ERR_OVERFLOW, "the sizes in '%s' overflow", s->name);
    if (bytes != s->left)
        return bad(s, "its header promises %lld bytes, but %lld follow", (long long)bytes, (long long)s->left);
    return FAC_OK;
}

/* ---- elements -------------------------------------------------------------------------------------------------------- */

static void swap_bytes(char *p, size_t n, size_t element) {
    for (size_t i = 0; i < n; i++, p += element)
        for (size_t a = 0, b = element - 1; a < b; a++, b--) {
            const char t = p[a];
            p[a] = p[b];
            p[b] = t;
        }
}

/* What Facula relies on: one byte order, and no bool but 0 and 1. */
static void make_native(const npy_header *h, char *p, size_t n) {
    const bool is_complex = h->dtype == FAC_C64 || h->dtype == FAC_C128;
    const size_t element = fac_dtype_size(h->dtype), part = is_complex ? element / 2 : element;
    if (h->swapped) swap_bytes(p, n * (element / part), part);
    for (size_t i = 0; h->dtype == FAC_BOOL && i < n; i++) p[i] = p[i] != 0;
}

fac_tensor *fac__npy_elements(npy_source *s, const npy_header *h) {
    int64_t sizes[FAC_MAX_DIMS], order[FAC_MAX_DIMS];
    for (int i = 0; i < h->ndim; i++) {
        sizes[i] = h->sizes[h->fortran ? h->ndim - 1 - i : i];
        order[i] = h->ndim - 1 - i;
    }
    fac_tensor *t;
    FAC_TRY_NULL(fac__empty(sizes, h->ndim, h->dtype, fac_device_make(FAC_CPU, -1), &t));
    const size_t n = (size_t)t->numel;
    if (n > 0 && take(s, fac__data(t), n * fac_dtype_size(h->dtype)) != FAC_OK) {
        fac__unref(t);
        return NULL;
    }
    if (n > 0) make_native(h, fac__data(t), n);
    t = fac__adopt_handle(fac__thread(), t);
    return h->fortran && h->ndim > 1 && t ? fac_contiguous(fac_permute(t, fac_ints_of(order, (size_t)h->ndim))) : t;
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

typedef struct file_source {
    const char *path;
    int fd;
    int64_t at;
} file_source;

static fac_status read_file(void *context, void *out, size_t n) {
    file_source *f = context;
    FAC_TRY(fac__file_read(f->fd, f->path, f->at, out, n));
    f->at += (int64_t)n;
    return FAC_OK;
}

fac_tensor *fac_npy_read(const char *path) {
    if (fac_error() || !fac__given(path, "path to read")) return NULL;
    file_source f = {.path = path};
    npy_source s = {.context = &f, .read = read_file, .name = path};
    FAC_TRY_NULL(fac__file_open(path, &f.fd, &s.left));
    npy_header h;
    fac_tensor *t = fac__npy_header(&s, &h) == FAC_OK ? fac__npy_elements(&s, &h) : NULL;
    close(f.fd);
    return t;
}

fac_status fac__npy_make_header(const fac_tensor *t, fac_buf *out) {
    size_t i = 0;
    while (i < FAC_COUNT(types) && types[i].dtype != (fac_dtype)t->dtype) i++;
    FAC_CHECK(i < FAC_COUNT(types), FAC_ERR_UNSUPPORTED, "NumPy has no %s", fac_dtype_name((fac_dtype)t->dtype));
    FAC_CHECK(!t->cls, FAC_ERR_UNSUPPORTED, "a %s tensor cannot be written; make it strided by fac_to_dense",
              t->cls->name);
    FAC_CHECK(t->storage || t->numel == 0, FAC_ERR_ARGUMENT, "a meta tensor has no data to write");
    const size_t begin = out->n;
    FAC_TRY(fac__buf_add(out, "\x93NUMPY\1\0??", 10));
    FAC_TRY(fac__buf_printf(out, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
                            fac_dtype_size((fac_dtype)t->dtype) > 1 ? "<" : "|", types[i].name));
    for (int d = 0; d < t->ndim; d++)
        FAC_TRY(fac__buf_printf(out, "%s%lld%s", d ? ", " : "", (long long)t->sizes[d], t->ndim == 1 ? "," : ""));
    FAC_TRY(fac__buf_printf(out, "), }"));
    while ((out->n - begin + 1) % 64 != 0) FAC_TRY(fac__buf_add(out, " ", 1));
    FAC_TRY(fac__buf_add(out, "\n", 1));
    const size_t length = out->n - begin - 10; /* at most 64 dimensions of 19 digits: two bytes hold it */
    out->data[begin + 8] = (char)(length & 255);
    out->data[begin + 9] = (char)(length >> 8);
    return FAC_OK;
}

fac_status fac__elements_in_order(fac_tensor *t, const void **out, size_t *out_bytes, void **out_copy) {
    *out_copy = NULL;
    *out = "";
    *out_bytes = (size_t)t->numel * fac_dtype_size((fac_dtype)t->dtype);
    if (t->numel == 0) return FAC_OK;
    if (fac__is_cpu(t) && fac__is_contiguous(t) && !fac__pending(t)) {
        *out = fac__data(t);
        return FAC_OK;
    }
    void *copy = fac__alloc(*out_bytes);
    if (!copy) return fac_error();
    const fac_status st = fac__read(t, (fac_dtype)t->dtype, copy, (size_t)t->numel);
    if (st) fac__free(copy);
    if (st == FAC_OK) *out = *out_copy = copy;
    return st;
}

fac_status fac_npy_write(const char *path, fac_tensor *t) {
    if (fac_error()) return fac_error();
    if (!fac__given(path, "path to write to")) return fac_error();
    FAC_OPEN(t, "npy_write", "t", fac_error());
    fac_buf header = {0};
    fac_new_file f = FAC_NEW_FILE;
    const void *bytes;
    void *copy = NULL;
    size_t n;
    fac_status st = fac__npy_make_header(t, &header);
    if (st == FAC_OK) st = fac__elements_in_order(t, &bytes, &n, &copy);
    if (st == FAC_OK) st = fac__new_file_open(&f, path, 0666);
    if (st == FAC_OK) st = fac__new_file_write(&f, header.data, header.n);
    if (st == FAC_OK && n > 0) st = fac__new_file_write(&f, bytes, n);
    if (st == FAC_OK) st = fac__new_file_commit(&f);
    fac__new_file_close(&f);
    fac__buf_free(&header);
    fac__free(copy);
    return st;
}
