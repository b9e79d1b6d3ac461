/* A corpus's inside, for the files that read, split and cut it. */
#ifndef FAC_SRC_DATA_CORPUS_H
#define FAC_SRC_DATA_CORPUS_H

#include "data/vocab.h"

typedef struct corpus_file {
    char *path;      /* owned */
    size_t name;     /* where in path its name below the folder that was given begins */
    size_t begin;    /* in the text, as it was read */
    size_t bytes;    /* of it */
    size_t held_out; /* of its bytes, at its end */
} corpus_file;

struct fac_corpus {
    fac_buf text;          /* with a vocabulary of bytes its bytes are the tokens, else it is empty once it is cut */
    size_t training_bytes; /* of text; what is behind them is held out */
    uint32_t *tokens;      /* NULL with a vocabulary of bytes */
    int64_t n_tokens, n_training, n_bytes, skipped, max_bytes;
    fac_vocab *vocab;
    struct corpus_files {
        corpus_file *v;
        size_t n, cap;
    } files;                 /* in the order in which they were read */
    const char *skip_beside; /* the caller's, while files are read */
    size_t root;             /* corpus_file.name of files that are read now */
};

/* Adds a file's bytes behind a text, with a newline between. */
fac_status fac__corpus_join(fac_buf *text, const char *bytes, size_t n);
/* Holds a part of the text out: moves it to the end, and sets training_bytes and what of each file is held out. */
fac_status fac__corpus_split(fac_corpus *c, double part);

#endif
