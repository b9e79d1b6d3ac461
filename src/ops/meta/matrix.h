/* What operators that factor matrices ask of their arguments, and how they declare their results. */
#ifndef FAC_SRC_OPS_META_MATRIX_H
#define FAC_SRC_OPS_META_MATRIX_H

#include "ops/meta/check.h"
#include "ops/structured.h"

/* t must be a batch of matrices of f32, f64, c64 or c128. */
fac_status fac__need_matrices(const char *name, const fac_tensor *t);
/* The same, and the matrices must be square. */
fac_status fac__need_square(const char *name, const fac_tensor *t);
/* t must be of the dtype of `like`. */
fac_status fac__need_alike(const char *name, const fac_tensor *t, const fac_tensor *like);
/* The real dtype of the parts of a complex one; a real one itself. */
static inline fac_dtype fac__real_dtype(fac_dtype d) { return d == FAC_C64 ? FAC_F32 : d == FAC_C128 ? FAC_F64 : d; }
static inline fac_dtype fac__complex_dtype(fac_dtype d) { return d == FAC_F32 ? FAC_C64 : d == FAC_F64 ? FAC_C128 : d; }

static inline int64_t fac__rows(const fac_tensor *t) { return t->sizes[t->ndim - 2]; }
static inline int64_t fac__cols(const fac_tensor *t) { return t->sizes[t->ndim - 1]; }

/* Sizes of a result: those of a batch and then one or two of its own. */
typedef struct fac_batch_sizes {
    int64_t v[FAC_MAX_DIMS + 2];
    int n; /* of the batch */
} fac_batch_sizes;
/* The batch of t, whose last `own` dimensions are a matrix's. */
fac_batch_sizes fac__batch_of(const fac_tensor *t, int own);
/* The batch that both broadcast to. */
fac_status fac__batch_of_both(const fac_tensor *a, int own_a, const fac_tensor *b, int own_b, fac_batch_sizes *out);
/* Declares output i: a batch of matrices in columns, of vectors, or of numbers. */
fac_status fac__declare_matrices(fac_structured *s, int i, fac_batch_sizes *b, int64_t rows, int64_t cols,
                                 fac_dtype dtype, fac_device device);
fac_status fac__declare_vectors(fac_structured *s, int i, fac_batch_sizes *b, int64_t n, fac_dtype dtype,
                                fac_device device);
fac_status fac__declare_numbers(fac_structured *s, int i, fac_batch_sizes *b, fac_dtype dtype, fac_device device);
/* Declares output i without elements, [0]. */
fac_status fac__declare_nothing(fac_structured *s, int i, fac_dtype dtype, fac_device device);
/* Whether B is a vector, or a batch of them, for matrices A. */
bool fac__is_vector_for(const fac_tensor *A, const fac_tensor *B);

#endif
