/* What operators on nested tensors share. They run above autograd and compute with the buffer, or with views of it, by operators,
   which are recorded: so gradients and tangents need nothing of their own. Tensors are headers and temporaries of the innermost scope;
   NULL, with an error pending, is passed on. */
#ifndef FAC_SRC_OPS_NESTED_PARTS_H
#define FAC_SRC_OPS_NESTED_PARTS_H

#include "core/nested.h"
#include "ops/call.h"
#include "ops_gen.h"

/* The error for a tensor that is not nested. */
fac_status fac__nested_need(const fac_tensor *t, const char *argument);

/* ---- sizes, while they are worked out ---------------------------------------------------------------------------------- */

static inline void fac__ragged_drop(fac_ragged **r) { fac__ragged_unref(*r); }
/* A reference that ends with the block. */
#define FAC_RAGGED_HELD(name) fac_ragged *name __attribute__((cleanup(fac__ragged_drop))) = NULL
/* Owned: the sizes of t's components as shown, with the last `drop` dimensions replaced by `sizes`. */
fac_status fac__nested_shape_with(const fac_tensor *t, int drop, fac_ints sizes, fac_ragged **out);

/* ---- making them --------------------------------------------------------------------------------------------------------- */

/* Over a buffer and sizes, dimensions in order. */
fac_tensor *fac__nested_of_buffer(fac_tensor *buffer, fac_ragged *shape);
/* Over a buffer, otherwise like another. */
fac_tensor *fac__nested_like(fac_tensor *buffer, const fac_tensor *like);
/* Of tensors of one number of dimensions, one dtype and one device, whose elements are copied. */
fac_tensor *fac__nested_of_list(fac_tensors l);
/* t, with its dimensions stored as they are shown. */
fac_tensor *fac__nested_contiguous(fac_tensor *t);
/* A strided tensor as a nested one whose components have the same sizes. */
fac_tensor *fac__nested_of_strided(fac_tensor *t);

/* ---- their components ---------------------------------------------------------------------------------------------------- */

/* Component i, as shown, of its elements: a vector. */
fac_tensor *fac__nested_component(const fac_tensor *t, int64_t i, fac_tensor *elements);
/* The elements of each component: views of the buffer. Empty on failure. */
fac_tensors fac__nested_split(const fac_tensor *t);
/* The elements of t, another nested tensor, in the order in which those of `like` are stored. errors: SHAPE if sizes differ */
fac_tensor *fac__nested_elements_like(fac_tensor *t, fac_tensor *like);
/* dim among t's, an error for the first one, whose entries are the components. `what` says for what it is asked. */
fac_status fac__nested_dim(const fac_tensor *t, int64_t dim, const char *what, int *out);

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

/* Computes with rows [r, d]; what it returns has r rows. */
typedef fac_tensor *(*fac_row_fn)(void *context, fac_tensor *rows);
/* The result of fn on the rows of a tensor that is stored in order, where a row is the last dimension: as a buffer. Rows of all
   components go together if they have one length, else components of one length that follow each other. */
fac_tensor *fac__nested_by_rows(fac_tensor *t, fac_row_fn fn, void *context);

#endif
