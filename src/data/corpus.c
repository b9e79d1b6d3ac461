/* Text corpora: walking folders, reading what is text, and cutting it into tokens. */
#include "data/corpus.h"
#include "base/file.h"
#include "base/utf8.h"
#include "keywords_gen.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading files ----------------------------------------------------------------------------------------------------- */

static bool is_text(const char *bytes, size_t n) { return !memchr(bytes, 0, n) && fac__utf8_valid(bytes, n); }

fac_status fac__corpus_join(fac_buf *text, const char *bytes, size_t n) {
    if (text->n > 0 && text->data[text->n - 1] != '\n') FAC_TRY(fac__buf_add(text, "\n", 1));
    return fac__buf_add(text, bytes, n);
}

/* Adds a file's text; with nothing pending and on failure alike the path is the list's or gone. */
static fac_status add_file(fac_corpus *c, const char *path, const char *bytes, size_t n) {
    FAC_TRY(FAC_VEC_GROW(&c->files));
    char *copy = fac__strdup(path);
    if (!copy) return fac_error();
    corpus_file *f = &c->files.v[c->files.n++];
    *f = (corpus_file){.path = copy, .name = c->root};
    FAC_TRY(fac__corpus_join(&c->text, bytes, n));
    f->begin = c->text.n - n;
    f->bytes = n;
    return FAC_OK;
}

/* Adds a file; with `any` also if it is not text. */
static fac_status append_file(fac_corpus *c, const char *path, int fd, int64_t bytes, bool any) {
    char *p = fac__alloc((size_t)bytes);
    if (!p) return fac_error();
    fac_status st = fac__file_read(fd, path, 0, p, (size_t)bytes);
    if (st == FAC_OK && !any && !is_text(p, (size_t)bytes))
        c->skipped++;
    else if (st == FAC_OK)
        st = add_file(c, path, p, (size_t)bytes);
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
    c->root = strlen(path) + (path[strlen(path) - 1] != '/');
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
    if (S_ISDIR(info.st_mode)) return walk(c, path);
    const char *slash = strrchr(path, '/');
    c->root = slash ? (size_t)(slash + 1 - path) : 0;
    return read_file(c, path, true);
}

/* ---- tokens ---------------------------------------------------------------------------------------------------------------- */

/* Byte pairs are learned from what is trained on; characters are all that there are, so that what is held out has no others. */
static fac_status choose_vocab(fac_corpus *c, const fac_corpus_new_kw *kw) {
    FAC_CHECK(!kw->characters || !kw->bpe, FAC_ERR_ARGUMENT,
              "characters and bpe are given; tokens are the ones or the others");
    c->vocab = kw->vocab        ? fac_vocab_keep(kw->vocab)
               : kw->bpe        ? fac_vocab_bpe(c->text.data, c->training_bytes, kw->bpe)
               : kw->characters ? fac_vocab_characters(c->text.data, c->text.n)
                                : fac_vocab_bytes();
    return c->vocab ? FAC_OK : fac_error();
}

/* No token reaches from the part to train on into the one that is held out. */
static fac_status cut(fac_corpus *c) {
    c->n_bytes = c->n_tokens = (int64_t)c->text.n;
    c->n_training = (int64_t)c->training_bytes;
    if (c->vocab->kind == VOCAB_BYTES) return FAC_OK;
    c->tokens = fac__alloc_array(c->text.n, sizeof *c->tokens);
    if (!c->tokens) return fac_error();
    const size_t first = c->training_bytes;
    int64_t rest;
    FAC_TRY(fac__vocab_cut(c->vocab, c->text.data, first, c->tokens, &c->n_training));
    FAC_TRY(fac__vocab_cut(c->vocab, c->text.data + first, c->text.n - first, c->tokens + c->n_training, &rest));
    c->n_tokens = c->n_training + rest;
    fac__buf_free(&c->text);
    return FAC_OK;
}

static fac_status fill(fac_corpus *c, const char *const *paths, size_t n, const fac_corpus_new_kw *kw) {
    FAC_CHECK(kw->max_bytes > 0, FAC_ERR_ARGUMENT, "max_bytes should be positive, but is %lld",
              (long long)kw->max_bytes);
    FAC_CHECK(paths || !n, FAC_ERR_ARGUMENT, "a list of %zu paths has no array", n);
    FAC_CHECK(kw->hold_out >= 0 && kw->hold_out < 1, FAC_ERR_ARGUMENT,
              "hold_out is a part of the text, from 0 to below 1, but is %g", kw->hold_out);
    c->max_bytes = kw->max_bytes;
    c->skip_beside = kw->skip_beside;
    for (size_t i = 0; i < n; i++) FAC_TRY(read_path(c, paths[i]));
    FAC_CHECK(c->text.n > 0, FAC_ERR_ARGUMENT, "there is no text to read: %lld files were left out, none was taken",
              (long long)c->skipped);
    FAC_TRY(fac__corpus_split(c, kw->hold_out));
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
    for (size_t i = 0; i < c->files.n; i++) fac__free(c->files.v[i].path);
    fac__free(c->files.v);
    fac__buf_free(&c->text);
    fac__free(c->tokens);
    fac_vocab_release(c->vocab);
    fac__free(c);
}

int64_t fac_corpus_files(const fac_corpus *c) { return fac__given(c, "corpus") ? (int64_t)c->files.n : 0; }
int64_t fac_corpus_skipped(const fac_corpus *c) { return fac__given(c, "corpus") ? c->skipped : 0; }
int64_t fac_corpus_bytes(const fac_corpus *c) { return fac__given(c, "corpus") ? c->n_bytes : 0; }
int64_t fac_corpus_tokens(const fac_corpus *c) { return fac__given(c, "corpus") ? c->n_tokens : 0; }
fac_vocab *fac_corpus_vocab(const fac_corpus *c) { return fac__given(c, "corpus") ? c->vocab : NULL; }

fac_corpus_file fac_corpus_file_at(const fac_corpus *c, int64_t i) {
    if (!fac__given(c, "corpus")) return (fac_corpus_file){0};
    if (i < 0 || i >= (int64_t)c->files.n) {
        FAC_FAIL(FAC_ERR_INDEX, "there is no file %lld; the corpus has %zu", (long long)i, c->files.n);
        return (fac_corpus_file){0};
    }
    const corpus_file *f = &c->files.v[i];
    return (fac_corpus_file){f->path, (int64_t)f->bytes, (int64_t)f->held_out};
}
