/* An open file of several tensors: its entries, and what its kind does to read and close it. */
#ifndef FAC_SRC_IO_TENSOR_FILE_H
#define FAC_SRC_IO_TENSOR_FILE_H

#include "base/base.h"
#include <facula/files.h>

typedef struct tensor_entry {
    char *name; /* owned */
    char *text; /* owned; NULL for tensors */
    fac_dtype dtype;
    int ndim;
    int64_t *sizes;       /* owned */
    int64_t *strides;     /* owned; of .pt */
    int64_t offset, span; /* of .pt: first element in its storage, and how many that has */
    const void *member;   /* of the zip file */
    size_t part, number;  /* of safetensors in parts */
} tensor_entry;

/* The first member of each kind's own struct. */
struct fac_tensor_file {
    fac_tensor *(*read)(fac_tensor_file *f, const tensor_entry *e); /* a handle of the innermost scope */
    fac_tensor *(*map)(fac_tensor_file *f, const tensor_entry *e);  /* NULL: read is called */
    void (*close)(fac_tensor_file *f);
    struct tensor_entries {
        tensor_entry *v;
        size_t n, cap;
    } entries;
    fac_map by_name; /* made when all entries are there */
};

/* A new entry under a copy of the name; NULL on failure. Sizes are copied. */
tensor_entry *fac__tensor_file_add(fac_tensor_file *f, const char *name, fac_dtype dtype, const int64_t *sizes,
                                   int ndim);
/* Makes by_name. errors: FORMAT if two entries have one name */
fac_status fac__tensor_file_index(fac_tensor_file *f, const char *path);

#endif
