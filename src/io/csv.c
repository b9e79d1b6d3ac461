/* Tables of text: fields between delimiters, rows in lines, double quotes around what has either. source: RFC 4180 */
#include "base/file.h"
#include "core/handle.h"
#include "core/tensor_make.h"
#include "keywords_gen.h"
#include <facula/files.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* The distinct texts of a column, sorted. */
typedef struct csv_classes {
    const char **v; /* owned array; NULL until it is asked for */
    int64_t n;
} csv_classes;

struct fac_csv {
    char *path; /* owned */
    char *text; /* owned: the file, in which each field is cut and unquoted where it lies */
    struct fields {
        uint32_t *v; /* where each begins in text */
        size_t n, cap;
    } fields;
    int64_t columns, rows; /* rows below the header */
    bool header;
    csv_classes *classes; /* one for each column */
};

/* ---- cutting ---------------------------------------------------------------------------------------------------------- */

typedef struct cutter {
    fac_csv *t;
    char *at, *end; /* *end is '\0', put there */
    char delimiter;
    int64_t line;
} cutter;

/* A quoted field: the text between its quotes moves together over doubled ones. */
static fac_status cut_quoted(cutter *c) {
    const int64_t begun = c->line;
    char *to = c->at, *from = c->at + 1;
    for (;; from++) {
        if (from == c->end)
            return FAC_FAIL(FAC_ERR_FORMAT, "'%s', line %lld: a quote is not closed", c->t->path, (long long)begun);
        c->line += *from == '\n';
        if (*from == '"' && *++from != '"') break;
        *to++ = *from;
    }
    if (from != c->end && *from != c->delimiter && *from != '\n' && *from != '\r')
        return FAC_FAIL(FAC_ERR_FORMAT, "'%s', line %lld: text follows a closing quote", c->t->path,
                        (long long)c->line);
    c->at = from;
    while (to < from) *to++ = '\0'; /* at least the opening quote's place is free */
    return FAC_OK;
}

/* One field, up to its delimiter; what stood there is in *out_stop ('\0': the end). */
static fac_status cut_field(cutter *c, char *out_stop) {
    FAC_TRY(FAC_VEC_GROW(&c->t->fields));
    c->t->fields.v[c->t->fields.n++] = (uint32_t)(c->at - c->t->text);
    if (*c->at == '"' && c->at != c->end)
        FAC_TRY(cut_quoted(c));
    else
        while (c->at != c->end && *c->at != c->delimiter && *c->at != '\n' && *c->at != '\r') c->at++;
    *out_stop = c->at == c->end ? '\0' : *c->at;
    char *stop = c->at;
    if (*out_stop == '\r') {
        if (c->at + 1 != c->end && c->at[1] == '\n') c->at++;
        *out_stop = '\n';
    }
    if (c->at != c->end) c->at++;
    *stop = '\0';
    return FAC_OK;
}

static fac_status cut_row(cutter *c) {
    const size_t first = c->t->fields.n;
    const int64_t line = c->line;
    char stop;
    do FAC_TRY(cut_field(c, &stop));
    while (stop == c->delimiter);
    c->line++;
    const int64_t n = (int64_t)(c->t->fields.n - first);
    if (first == 0) c->t->columns = n;
    if (n != c->t->columns)
        return FAC_FAIL(FAC_ERR_FORMAT, "'%s', line %lld: there are %lld fields, but the first row has %lld",
                        c->t->path, (long long)line, (long long)n, (long long)c->t->columns);
    c->t->rows++;
    return FAC_OK;
}

static fac_status cut(fac_csv *t, size_t n, char delimiter) {
    cutter c = {t, t->text, t->text + n, delimiter, 1};
    if (n >= 3 && memcmp(t->text, "\xef\xbb\xbf", 3) == 0) c.at += 3; /* a byte order mark */
    const char *zero = memchr(t->text, 0, n);
    if (zero)
        return FAC_FAIL(FAC_ERR_FORMAT, "'%s' is no text: byte %lld is zero", t->path, (long long)(zero - t->text));
    while (c.at != c.end) {
        if (*c.at == '\n' || *c.at == '\r') { /* an empty line */
            c.line += *c.at++ == '\n';
            continue;
        }
        FAC_TRY(cut_row(&c));
    }
    return FAC_OK;
}

static fac_status read_text(fac_csv *t, const char *path, size_t *out_n) {
    int fd;
    int64_t n;
    FAC_TRY(fac__file_open(path, &fd, &n));
    fac_status st = FAC_OK;
    if (n >= UINT32_MAX)
        st = FAC_FAIL(FAC_ERR_UNSUPPORTED, "'%s' has %lld bytes; tables of less than 4 GiB are read", path,
                      (long long)n);
    if (st == FAC_OK) {
        t->text = fac__alloc((size_t)n + 1);
        st = t->text ? fac__file_read(fd, path, 0, t->text, (size_t)n) : fac_error();
    }
    close(fd);
    if (st == FAC_OK) t->text[n] = '\0';
    *out_n = (size_t)n;
    return st;
}

static fac_status fill(fac_csv *t, const char *path, const fac_csv_open_kw *k) {
    size_t n;
    FAC_CHECK(k->delimiter && k->delimiter[0] && !k->delimiter[1] && !strchr("\"\n\r", k->delimiter[0]),
              FAC_ERR_ARGUMENT, "the delimiter is one character, and neither a quote nor the end of a line");
    t->path = fac__strdup(path);
    if (!t->path) return fac_error();
    FAC_TRY(read_text(t, path, &n));
    FAC_TRY(cut(t, n, k->delimiter[0]));
    t->header = k->header && t->rows > 0;
    t->rows -= t->header;
    t->classes = fac__alloc_array((size_t)t->columns, sizeof *t->classes);
    if (!t->classes) return fac_error();
    memset(t->classes, 0, (size_t)t->columns * sizeof *t->classes);
    return FAC_OK;
}

fac_csv *(fac_csv_open)(const char *path, const fac_csv_open_kw *kw) {
    fac_csv_open_kw k;
    if (fac_error() || fac__open_csv_open_kw(&k, kw) || !fac__given(path, "path to read")) return NULL;
    fac_csv *t = fac__alloc_zero(sizeof *t);
    if (!t) return NULL;
    if (fill(t, path, &k) == FAC_OK) return t;
    fac_csv_close(t);
    return NULL;
}

void fac_csv_close(fac_csv *t) {
    if (!t) return;
    for (int64_t i = 0; t->classes && i < t->columns; i++) fac__free(t->classes[i].v);
    fac__free(t->classes);
    fac__free(t->fields.v);
    fac__free(t->text);
    fac__free(t->path);
    fac__free(t);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

int64_t fac_csv_rows(const fac_csv *t) { return fac__given(t, "table") ? t->rows : 0; }
int64_t fac_csv_columns(const fac_csv *t) { return fac__given(t, "table") ? t->columns : 0; }

static const char *field(const fac_csv *t, int64_t row, int64_t column) {
    return t->text + t->fields.v[(row + t->header) * t->columns + column];
}

static fac_status check_column(const fac_csv *t, int64_t column) {
    if (fac_error()) return fac_error();
    if (!fac__given(t, "table")) return fac_error();
    FAC_CHECK(column >= 0 && column < t->columns, FAC_ERR_INDEX, "there is no column %lld: '%s' has %lld",
              (long long)column, t->path, (long long)t->columns);
    return FAC_OK;
}

const char *fac_csv_name(const fac_csv *t, int64_t column) {
    if (check_column(t, column)) return NULL;
    return t->header ? field(t, -1, column) : "";
}

int64_t fac_csv_find(const fac_csv *t, const char *name) {
    if (!fac__given(t, "table")) return -1;
    for (int64_t i = 0; name && t->header && i < t->columns; i++)
        if (strcmp(field(t, -1, i), name) == 0) return i;
    return -1;
}

const char *fac_csv_text(const fac_csv *t, int64_t row, int64_t column) {
    if (check_column(t, column)) return NULL;
    if (row < 0 || row >= t->rows)
        return FAC_FAIL(FAC_ERR_INDEX, "there is no row %lld: '%s' has %lld", (long long)row, t->path,
                        (long long)t->rows),
               NULL;
    return field(t, row, column);
}

/* The C library's strtod, but for hexadecimal numbers. */
static fac_status number_of(const fac_csv *t, int64_t row, int64_t column, double *out) {
    const char *text = field(t, row, column);
    while (*text == ' ' || *text == '\t') text++;
    *out = NAN;
    if (!*text) return FAC_OK;
    char *end;
    const double x = strtod(text, &end);
    while (*end == ' ' || *end == '\t') end++;
    FAC_CHECK(end != text && !*end && !strpbrk(text, "xXpP"), FAC_ERR_FORMAT,
              "'%s', row %lld, column %lld: '%.60s' is no number", t->path, (long long)row, (long long)column, text);
    *out = x;
    return FAC_OK;
}

fac_tensor *fac_csv_numbers(const fac_csv *t, fac_ints columns) {
    if (fac_error() || !fac__given(t, "table") || !fac__list_given(columns.v, columns.n, "columns")) return NULL;
    for (size_t i = 0; i < columns.n; i++) FAC_TRY_NULL(check_column(t, columns.v[i]));
    fac_tensor *out;
    FAC_TRY_NULL(fac__empty((int64_t[]){t->rows, (int64_t)columns.n}, 2, FAC_F64, fac_device_make(FAC_CPU, -1), &out));
    double *to = fac__data(out);
    fac_status st = FAC_OK;
    const locale_t points = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* whatever the program's language writes */
    const locale_t before = points ? uselocale(points) : (locale_t)0;
    for (int64_t row = 0; row < t->rows && st == FAC_OK; row++)
        for (size_t i = 0; i < columns.n && st == FAC_OK; i++) st = number_of(t, row, columns.v[i], to++);
    if (points) {
        uselocale(before);
        freelocale(points);
    }
    if (st == FAC_OK) return fac__adopt_handle(fac__thread(), out);
    fac__unref(out);
    return NULL;
}

/* ---- classes ---------------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static csv_classes *classes_of(fac_csv *t, int64_t column) {
    FAC_TRY_NULL(check_column(t, column));
    csv_classes *c = &t->classes[column];
    if (c->v) return c;
    const char **v = fac__alloc_array((size_t)t->rows, sizeof *v);
    if (!v) return NULL;
    for (int64_t i = 0; i < t->rows; i++) v[i] = field(t, i, column);
    if (t->rows) qsort(v, (size_t)t->rows, sizeof *v, by_text);
    for (int64_t i = 0; i < t->rows; i++)
        if (i == 0 || strcmp(v[i], v[c->n - 1]) != 0) v[c->n++] = v[i];
    c->v = v;
    return c;
}

int64_t fac_csv_class_count(fac_csv *t, int64_t column) {
    const csv_classes *c = classes_of(t, column);
    return c ? c->n : 0;
}

const char *fac_csv_class(fac_csv *t, int64_t column, int64_t k) {
    const csv_classes *c = classes_of(t, column);
    if (!c) return NULL;
    if (k < 0 || k >= c->n)
        return FAC_FAIL(FAC_ERR_INDEX, "column %lld of '%s' has %lld classes; there is no number %lld",
                        (long long)column, t->path, (long long)c->n, (long long)k),
               NULL;
    return c->v[k];
}

fac_tensor *fac_csv_classes(fac_csv *t, int64_t column) {
    const csv_classes *c = classes_of(t, column);
    if (!c) return NULL;
    fac_tensor *out;
    FAC_TRY_NULL(fac__empty(&t->rows, 1, FAC_I64, fac_device_make(FAC_CPU, -1), &out));
    int64_t *to = fac__data(out);
    for (int64_t i = 0; i < t->rows; i++) {
        const char *text = field(t, i, column);
        const char *const *found = bsearch(&text, c->v, (size_t)c->n, sizeof *c->v, by_text);
        to[i] = found - c->v;
    }
    return fac__adopt_handle(fac__thread(), out);
}
