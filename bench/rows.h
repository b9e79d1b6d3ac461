/* The rows that bench.c measures. torch_rows.py has the same rows, by the same names, for PyTorch. */
#ifndef FACULA_BENCH_ROWS_H
#define FACULA_BENCH_ROWS_H

#include <facula/facula.h>

enum { ROW_TENSORS = 4, ROW_DIMS = 4, ROW_OPTIMIZERS = 2 };

/* What a row works on. Everything belongs to it and is dropped after the row. */
typedef struct fixture {
    fac_tensor *x[ROW_TENSORS]; /* temporaries of the scope that is open around the row */
    fac_tensor *weights;        /* likewise: of a graph's edges */
    fac_module *model;
    fac_optimizer *optimizer[ROW_OPTIMIZERS]; /* NULL where it has fewer */
    const struct whole_model *of;             /* of rows of whole models (rows_models.c) */
    bool bf16;                                /* by autocast */
    struct boxed_call *call;                  /* of a row that is a call's text */
} fixture;

typedef struct row {
    const char *section, *name;
    fac_tensor *(*run)(fixture *f); /* one measured run; NULL is a failure. Temporaries go to the scope around it. */
    void (*prepare)(fixture *f);    /* after the inputs are drawn; may be NULL */
    int64_t sizes[ROW_TENSORS][ROW_DIMS]; /* of normal inputs, each up to its first 0 */
    bool grad;                            /* the inputs require gradients */
} row;

extern const row op_rows[], model_rows[];
extern const size_t n_op_rows, n_model_rows;

/* Prints a line for each operator that runs of a row call: its own microseconds of a run, calls, schema (profile.c). */
bool print_operators(const row *r, fixture *f);

#endif
