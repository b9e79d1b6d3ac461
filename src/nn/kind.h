/* Kinds of modules that are described (modules.yaml): a class with a table of its constructor's arguments, from
   which the library shows a module, makes one from text, and checks what is given. */
#ifndef FAC_SRC_NN_KIND_H
#define FAC_SRC_NN_KIND_H

#include "nn/module.h"

/* A list of integers of any length that a module keeps. */
enum { FAC_NN_MAX_LIST = 8 };
typedef struct fac_nn_list {
    size_t n;
    int64_t v[FAC_NN_MAX_LIST];
} fac_nn_list;
typedef struct fac_nn_floats {
    size_t n;
    double v[FAC_NN_MAX_LIST];
} fac_nn_floats;

typedef enum fac_nn_type {
    FAC_NN_INT,
    FAC_NN_OPT_INT, /* FAC_UNSET: none */
    FAC_NN_FLOAT,
    FAC_NN_OPT_FLOAT, /* FAC_UNSET_FLOAT: none */
    FAC_NN_BOOL,
    FAC_NN_OPT_BOOL, /* an int; negative: none */
    FAC_NN_TEXT,     /* one of its choices; NULL: none */
    FAC_NN_REDUCTION,
    FAC_NN_INTS,   /* int64_t[size] */
    FAC_NN_LIST,   /* fac_nn_list */
    FAC_NN_FLOATS, /* fac_nn_floats */
    FAC_NN_DTYPE,
    FAC_NN_DEVICE,
    FAC_NN_TENSOR, /* is a buffer of the module, and not kept */
} fac_nn_type;

/* Of zero_means: 0 is what is kept and computed with, and shown as None. */
enum { FAC_NN_ZERO_IS_NONE = -2 };
typedef struct fac_nn_field {
    const char *name;
    fac_nn_type type;
    bool by_name; /* not by position */
    int64_t size; /* of FAC_NN_INTS */
    size_t offset;
    const char *unset; /* its default, as text; NULL: it must be given */
    int zero_means;    /* the field whose value it has where it is 0; -1: none; or FAC_NN_ZERO_IS_NONE */
    const char *const *choices;
} fac_nn_field;

typedef struct fac_nn_kind {
    fac_module_class cls;
    const char *
        shows; /* what print shows: "{name}" is a value; "{(name)}" a list as a tuple in any case; "{=name}" a word without quotes; "{@name}"
                                whether there is such a parameter; what stands in brackets is left out where its first value is the default */
    const char *constructor; /* "conv2d_new", for messages */
    const fac_nn_field *fields;
    size_t n_fields;
    fac_status (*build)(
        fac_module *m); /* adds parameters and children, and refuses arguments that make no sense; or NULL */
} fac_nn_kind;

/* All, NULL last. */
extern const fac_nn_kind *const fac__nn_kinds[];

/* A module with these arguments (the kind's struct; NULL where it has none), and the tensors among them in order. */
fac_module *fac__nn_make(const fac_nn_kind *kind, const void *arguments, fac_tensor *const *tensors);
/* One number for all directions, or one for each of n; the other for lists of any length. */
fac_status fac__nn_ints(const char *constructor, const char *name, int64_t *out, size_t n, fac_ints given);
fac_status fac__nn_list(const char *constructor, const char *name, fac_nn_list *out, fac_ints given);
fac_status fac__nn_floats(const char *constructor, const char *name, fac_nn_floats *out, fac_floats given);
/* Refuses a number of inputs that is not in least ... most, and inputs that must be there and are NULL; `names`
   tells them. */
fac_status fac__nn_inputs(fac_module *m, fac_tensors inputs, const char *names, size_t least, size_t most);
/* The `describe` of described kinds. */
void fac__nn_describe(fac_module *m, char *buf, size_t size);
/* The value of a field in `arguments` as Python would write it; a list whose numbers are equal as one of them unless `tuple`, and one of
   any length as a number only if it has one. */
void fac__nn_text(const fac_nn_field *f, const void *arguments, bool tuple, char *buf, size_t size);
/* Puts a default, or what a user wrote in place of it, into `arguments`: text as Python's. */
fac_status fac__nn_read(const fac_nn_kind *k, const fac_nn_field *f, const char *text, void *arguments);

#endif
