/* Text corpora: walking folders, reading what is text, and cutting it into tokens. */
#include "base/file.h"
#include "data/random.h"
#include "data/utf8.h"
#include "data/vocab.h"
#include "keywords_gen.h"
#include "ops/call.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct fac_corpus {
    fac_buf text;     /* with a vocabulary of bytes its bytes are the tokens, else it is empty once it is cut */
    uint32_t *tokens; /* NULL with a vocabulary of bytes */
    int64_t n_tokens, n_bytes, files, skipped, max_bytes;
    fac_vocab *vocab;
    const char *skip_beside; /* the caller's, while files are read */
};

/* ---- reading files ----------------------------------------------------------------------------------------------------- */

static bool is_text(const char *bytes, size_t n) { return !memchr(bytes, 0, n) && fac__utf8_valid(bytes, n); }

/* Appends a file behind what is there, with a newline between; with `any` also if it is not text. */
static fac_status append_file(fac_corpus *c, const char *path, int fd, int64_t bytes, bool any) {
    char *p = fac__alloc((size_t)bytes);
    if (!p) return fac_error();
    fac_status st = fac__file_read(fd, path, 0, p, (size_t)bytes);
    if (st == FAC_OK && !any && !is_text(p, (size_t)bytes)) {
        c->skipped++;
    } else if (st == FAC_OK) {
        c->files++;
        if (c->text.n > 0 && c->text.data[c->text.n - 1] != '\n') st = fac__buf_add(&c->text, "\n", 1);
        if (st == FAC_OK) st = fac__buf_add(&c->text, p, (size_t)bytes);
    }
    fac__free(p);
    return st;
}

static fac_status read_file(fac_corpus *c, const char *path, bool named) {
    int fd;
    int64_t bytes;
    FAC_TRY(fac__file_open(path, &fd, &bytes));
    fac_status st = FAC_OK;
    bool newline = c->text.n > 0 && c->text.data[c->text.n - 1] != '\n';
    bool fits = bytes <= c->max_bytes - (int64_t)c->text.n - newline;
    if (fits)
        st = append_file(c, path, fd, bytes, named);
    else if (named)
        st = FAC_FAIL(FAC_ERR_ARGUMENT, "'%s' has %lld bytes; with it the text would exceed max_bytes, %lld", path,
                      (long long)bytes, (long long)c->max_bytes);
    else
        c->skipped++;
    close(fd);
    return st;
}

/* ---- walking folders -------------------------------------------------------------------------------------------------- */

/* Names in a folder, sorted, so that the text does not depend on the order of the file system. */
typedef struct names {
    char **v;
    size_t n, cap;
} names;

static void free_names(names *l) {
    for (size_t i = 0; i < l->n; i++) fac__free(l->v[i]);
    fac__free(l->v);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static fac_status list_folder(const char *path, names *l) {
    DIR *folder = opendir(path);
    FAC_CHECK(folder, FAC_ERR_IO, "cannot read the folder '%s': %s", path, strerror(errno));
    fac_status st = FAC_OK;
    for (struct dirent *e; st == FAC_OK && (e = readdir(folder)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        st = FAC_VEC_GROW(l);
        if (st) break;
        char *name = fac__format("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", e->d_name);
        if (name)
            l->v[l->n++] = name;
        else
            st = fac_error();
    }
    closedir(folder);
    if (st == FAC_OK && l->n > 1) qsort(l->v, l->n, sizeof *l->v, by_name);
    return st;
}

static bool has_file(const names *l, const char *wanted) {
    for (size_t i = 0; wanted && i < l->n; i++)
        if (strcmp(strrchr(l->v[i], '/') + 1, wanted) == 0) return true;
    return false;
}

/* Puts what is in a folder on top of `waiting`, the first name uppermost. */
static fac_status enter(const fac_corpus *c, const char *path, names *waiting) {
    names l = {0};
    fac_status st = list_folder(path, &l);
    const bool skip = st == FAC_OK && has_file(&l, c->skip_beside);
    while (st == FAC_OK && l.n > 0 && !skip) {
        st = FAC_VEC_GROW(waiting);
        if (st == FAC_OK) waiting->v[waiting->n++] = l.v[--l.n];
    }
    free_names(&l);
    return st;
}

/* Something found in a folder. What vanished since it was listed, and what is neither file nor folder, is passed over. */
static fac_status visit(fac_corpus *c, const char *path, names *waiting) {
    struct stat info;
    if (lstat(path, &info) != 0) return FAC_OK;
    if (S_ISDIR(info.st_mode)) return enter(c, path, waiting);
    return S_ISREG(info.st_mode) ? read_file(c, path, false) : FAC_OK;
}

/* Depth first, in order, and without recursion: folders may lie deeper in each other than a stack is. */
static fac_status walk(fac_corpus *c, const char *path) {
    names waiting = {0};
    fac_status st = enter(c, path, &waiting);
    while (st == FAC_OK && waiting.n > 0) {
        char *next = waiting.v[--waiting.n];
        st = visit(c, next, &waiting);
        fac__free(next);
    }
    free_names(&waiting);
    return st;
}

static fac_status read_path(fac_corpus *c, const char *path) {
    struct stat info;
    FAC_CHECK(path && *path, FAC_ERR_ARGUMENT, "a path of the corpus is empty");
    FAC_CHECK(stat(path, &info) == 0, FAC_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    return S_ISDIR(info.st_mode) ? walk(c, path) : read_file(c, path, true);
}

/* ---- tokens ---------------------------------------------------------------------------------------------------------------- */

static fac_status choose_vocab(fac_corpus *c, const fac_corpus_new_kw *kw) {
    c->vocab = kw->vocab        ? fac_vocab_keep(kw->vocab)
               : kw->characters ? fac_vocab_characters(c->text.data, c->text.n)
                                : fac_vocab_bytes();
    return c->vocab ? FAC_OK : fac_error();
}

static fac_status cut(fac_corpus *c) {
    c->n_bytes = c->n_tokens = (int64_t)c->text.n;
    if (!c->vocab->points) return FAC_OK;
    c->tokens = fac__alloc_array(c->text.n, sizeof *c->tokens);
    if (!c->tokens) return fac_error();
    c->n_tokens = 0;
    for (const char *p = c->text.data, *end = p + c->text.n; p < end;) {
        int64_t token;
        FAC_TRY(fac__vocab_next(c->vocab, &p, end, &token));
        c->tokens[c->n_tokens++] = (uint32_t)token;
    }
    fac__buf_free(&c->text);
    return FAC_OK;
}

static fac_status fill(fac_corpus *c, const char *const *paths, size_t n, const fac_corpus_new_kw *kw) {
    FAC_CHECK(kw->max_bytes > 0, FAC_ERR_ARGUMENT, "max_bytes should be positive, but is %lld",
              (long long)kw->max_bytes);
    FAC_CHECK(paths || !n, FAC_ERR_ARGUMENT, "a list of %zu paths has no array", n);
    c->max_bytes = kw->max_bytes;
    c->skip_beside = kw->skip_beside;
    for (size_t i = 0; i < n; i++) FAC_TRY(read_path(c, paths[i]));
    FAC_CHECK(c->text.n > 0, FAC_ERR_ARGUMENT, "there is no text to read: %lld files were left out, none was taken",
              (long long)c->skipped);
    FAC_TRY(choose_vocab(c, kw));
    return cut(c);
}

fac_corpus *(fac_corpus_new)(const char *const *paths, size_t n_paths, const fac_corpus_new_kw *kw) {
    fac_corpus_new_kw k;
    if (fac_error() || fac__open_corpus_new_kw(&k, kw)) return NULL;
    fac_corpus *c = fac__alloc_zero(sizeof *c);
    if (!c || fill(c, paths, n_paths, &k) == FAC_OK) return c;
    fac_corpus_release(c);
    return NULL;
}

void fac_corpus_release(fac_corpus *c) {
    if (!c) return;
    fac__buf_free(&c->text);
    fac__free(c->tokens);
    fac_vocab_release(c->vocab);
    fac__free(c);
}

int64_t fac_corpus_files(const fac_corpus *c) { return fac__given(c, "corpus") ? c->files : 0; }
int64_t fac_corpus_skipped(const fac_corpus *c) { return fac__given(c, "corpus") ? c->skipped : 0; }
int64_t fac_corpus_bytes(const fac_corpus *c) { return fac__given(c, "corpus") ? c->n_bytes : 0; }
int64_t fac_corpus_tokens(const fac_corpus *c) { return fac__given(c, "corpus") ? c->n_tokens : 0; }
fac_vocab *fac_corpus_vocab(const fac_corpus *c) { return fac__given(c, "corpus") ? c->vocab : NULL; }

/* ---- windows --------------------------------------------------------------------------------------------------------------- */

/* A temporary and the address of its tokens. */
static fac_status new_window_tensor(int64_t batch, int64_t length, fac_tensor **out, int64_t **out_tokens) {
    fac_tensor *t;
    FAC_TRY(fac__empty((const int64_t[]){batch, length}, 2, FAC_I64, fac_device_make(FAC_CPU, -1), &t));
    *out_tokens = fac__data(t);
    *out = fac__adopt_handle(fac__thread(), t);
    return *out ? FAC_OK : fac_error();
}

/* Tokens [at, at + n) into out. */
static void copy_tokens(const fac_corpus *c, int64_t at, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = c->tokens ? c->tokens[at + i] : (unsigned char)c->text.data[at + i];
}

fac_status fac_corpus_batch(const fac_corpus *c, fac_span span, int64_t batch, int64_t length, uint64_t *state,
                            fac_tensor **out_inputs, fac_tensor **out_targets) {
    if (fac_error()) return fac_error();
    FAC_CHECK(c && state && out_inputs && out_targets, FAC_ERR_ARGUMENT,
              "the corpus, the random state or the place for a result is NULL");
    int64_t end = span.end ? span.end : c->n_tokens;
    FAC_CHECK(batch > 0 && length > 0, FAC_ERR_SHAPE, "batch %lld and length %lld must be at least 1", (long long)batch,
              (long long)length);
    FAC_CHECK(span.begin >= 0 && span.begin <= end && end <= c->n_tokens, FAC_ERR_SHAPE,
              "the span [%lld, %lld) is not inside the corpus of %lld tokens", (long long)span.begin, (long long)end,
              (long long)c->n_tokens);
    FAC_CHECK(end - span.begin > length, FAC_ERR_SHAPE,
              "a span of %lld tokens has no window of %lld and its next token", (long long)(end - span.begin),
              (long long)length);
    int64_t *inputs, *targets;
    FAC_TRY(new_window_tensor(batch, length, out_inputs, &inputs));
    FAC_TRY(new_window_tensor(batch, length, out_targets, &targets));
    for (int64_t b = 0; b < batch; b++) {
        int64_t at = span.begin + fac__split_mix_below(state, end - span.begin - length);
        copy_tokens(c, at, length, inputs + b * length);
        copy_tokens(c, at + 1, length, targets + b * length);
    }
    return FAC_OK;
}
