/* Which files of a corpus are held out: those whose names have the smallest hashes, so that it depends on the names alone, and
   neither on the order of files nor on where their folder lies. */
#include "data/corpus.h"
#include <stdlib.h>

/* FNV-1a of a file's name below the folder that was given. */
static uint64_t hash(const corpus_file *f) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = f->path + f->name; *p; p++) h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h;
}

static int by_hash(const void *a, const void *b) {
    const corpus_file *x = *(corpus_file *const *)a, *y = *(corpus_file *const *)b;
    const uint64_t hx = hash(x), hy = hash(y);
    return hx != hy ? (hx < hy ? -1 : 1) : x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Takes files in order of their hash while all that is taken stays within `most` bytes; returns how many those are. */
static size_t take(corpus_file **sorted, size_t n, size_t most) {
    size_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->bytes > most - taken) continue;
        sorted[i]->held_out = sorted[i]->bytes;
        taken += sorted[i]->bytes;
    }
    return taken;
}

/* Adds the files that are held out, or those that are not. */
static fac_status join(const fac_corpus *c, bool held_out, fac_buf *text) {
    for (size_t i = 0; i < c->files.n; i++) {
        const corpus_file *f = &c->files.v[i];
        if ((f->held_out > 0) == held_out) FAC_TRY(fac__corpus_join(text, c->text.data + f->begin, f->bytes));
    }
    return FAC_OK;
}

/* Puts the files that are held out behind the others. A newline between the two belongs to those. */
static fac_status arrange(fac_corpus *c, fac_buf *text) {
    FAC_TRY(join(c, false, text));
    FAC_TRY(fac__corpus_join(text, NULL, 0));
    c->training_bytes = text->n;
    return join(c, true, text);
}

static fac_status split_by_file(fac_corpus *c) {
    fac_buf text = {0};
    const fac_status st = arrange(c, &text);
    fac_buf *drop = st ? &text : &c->text;
    fac__buf_free(drop);
    if (!st) c->text = text;
    return st;
}

/* From the first whole line of the last `most` bytes on, or else, where that would be less than half of them, the first
   character. */
static void split_tail(fac_corpus *c, size_t most) {
    const size_t n = c->text.n;
    size_t at = n - most;
    const char *line = memchr(c->text.data + at, '\n', most / 2);
    if (line)
        at = (size_t)(line + 1 - c->text.data);
    else
        while (at < n && (c->text.data[at] & 0xc0) == 0x80) at++;
    c->training_bytes = at;
    for (size_t i = 0; i < c->files.n; i++) {
        corpus_file *f = &c->files.v[i];
        const size_t end = f->begin + f->bytes, from = at > f->begin ? at : f->begin;
        f->held_out = end > from ? end - from : 0;
    }
}

/* Whole files, if there are some that make at least half of the part. */
fac_status fac__corpus_split(fac_corpus *c, double part) {
    c->training_bytes = c->text.n;
    const size_t n = c->files.n;
    size_t bytes = 0; /* without the newlines between files, so that some file is always left */
    for (size_t i = 0; i < n; i++) bytes += c->files.v[i].bytes;
    const size_t most = (size_t)(part * (double)bytes);
    if (most == 0) return FAC_OK;
    corpus_file **sorted = fac__alloc_array(n, sizeof(corpus_file *));
    if (!sorted) return fac_error();
    for (size_t i = 0; i < n; i++) sorted[i] = &c->files.v[i];
    qsort(sorted, n, sizeof(corpus_file *), by_hash);
    const size_t taken = take(sorted, n, most);
    fac__free(sorted);
    if (taken > 0 && taken >= most / 2) return split_by_file(c);
    split_tail(c, most);
    return FAC_OK;
}
