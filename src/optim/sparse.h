/* Rows of a sparse gradient, for steps that touch nothing else. Handles; temporaries of the innermost scope; NULL while an error
   is pending. */
#ifndef FAC_SRC_OPTIM_SPARSE_H
#define FAC_SRC_OPTIM_SPARSE_H

#include "optim/optimizer.h"

typedef struct fac_sparse_rows {
    fac_tensor *grad; /* each coordinate once */
    fac_tensor *indices, *values;
} fac_sparse_rows;

fac_sparse_rows fac__sparse_rows(fac_tensor *grad);
/* What a dense tensor of the gradient's sizes has at its coordinates. */
fac_tensor *fac__sparse_values(const fac_sparse_rows *r, fac_tensor *dense);
/* A sparse tensor of other values at the same coordinates. */
fac_tensor *fac__sparse_like(const fac_sparse_rows *r, fac_tensor *values);

#endif
