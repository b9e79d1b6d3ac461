/* Reads the pickle of a torch.save file as plain values. A pickle is a program for a machine with a stack; Python's runs whatever
   it names. This one knows only the instructions that make values, and of names only those in a closed list, none of which it
   calls: they stand for what PyTorch's own functions would make. */
#ifndef FAC_SRC_IO_PICKLE_H
#define FAC_SRC_IO_PICKLE_H

#include "base/base.h"

typedef enum pickle_kind {
    PICKLE_MARK,
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* keys and values in turn */
    PICKLE_NAME, /* something of the closed list */
    PICKLE_STORAGE,
    PICKLE_TENSOR
} pickle_kind;

/* What a name of the closed list stands for. */
typedef enum pickle_role {
    ROLE_DICT,      /* OrderedDict */
    ROLE_TENSOR,    /* _rebuild_tensor_v2 and its kin */
    ROLE_TENSOR3,   /* _rebuild_tensor_v3, which has a dtype */
    ROLE_PARAMETER, /* _rebuild_parameter */
    ROLE_STORAGE,   /* FloatStorage ...: a dtype */
    ROLE_BYTES,     /* UntypedStorage */
    ROLE_SIZE,      /* torch.Size */
    ROLE_DEVICE,    /* torch.device */
    ROLE_DTYPE      /* torch.float32 ... */
} pickle_role;

typedef struct pickle_value {
    pickle_kind kind;
    int role;         /* NAME */
    fac_dtype dtype;  /* NAME, STORAGE, TENSOR; FAC_DTYPE_DEFAULT: none */
    int64_t number;   /* BOOL, INT; TENSOR: its offset; STORAGE: how many elements */
    double real;      /* FLOAT */
    const char *text; /* TEXT, STORAGE: in the pickle, of `n` bytes; NAME: terminated */
    size_t n;
    struct pickle_value **items; /* TUPLE, LIST, DICT: n_items of them. TENSOR: storage, sizes, strides */
    size_t n_items, cap_items;
} pickle_value;

typedef struct fac_pickle {
    const char *path; /* the caller's, for messages */
    const unsigned char *bytes;
    size_t n, at;
    struct pickle_values {
        pickle_value **v;
        size_t n, cap;
    } all, stack, memo; /* all: owned */
    pickle_value *root;
} fac_pickle;

/* Reads n bytes, which must outlive p. Free it whether or not this succeeds. errors: FORMAT; UNSUPPORTED; MEMORY */
fac_status fac__pickle_read(fac_pickle *p, const char *path, const void *bytes, size_t n);
void fac__pickle_free(fac_pickle *p);

#endif
