/* Nested tensors: a list of tensors of one number of dimensions, one dtype and one device, whose sizes may differ.

   The elements of all components lie in one vector, the buffer, component after component, each row-major in the sizes that it is
   stored in. What is shown may have a component's dimensions in another order, the same for all, so that transposing moves nothing.

   A nested tensor has no history of its own: the buffer has, and gradients flow to it. So it has the key Nested, which stands on
   top of all others, and none of them. Its header shows n for the first size, and for each other the size that all components
   agree in or FAC_RAGGED. */
#ifndef FAC_SRC_CORE_NESTED_H
#define FAC_SRC_CORE_NESTED_H

#include "core/tensor.h"

enum { FAC_RAGGED = -1 };

/* The sizes of all components, as stored. Counted, and not changed once it is complete: nested tensors of the same sizes may share one. */
typedef struct fac_ragged {
    atomic_int refs;
    int d;            /* dimensions of a component */
    int64_t n;        /* components */
    int64_t *sizes;   /* [n, d] */
    int64_t *offsets; /* [n + 1]: where each begins in the buffer, and where the last ends */
} fac_ragged;

typedef struct fac_nested {
    fac_tensor *buffer;          /* a vector; owned */
    fac_ragged *shape;           /* a counted reference */
    uint8_t order[FAC_MAX_DIMS]; /* dimension k of a component is dimension order[k] as stored */
} fac_nested;

extern FAC_HIDDEN const fac_tensor_class fac__nested_class;

/* What hangs on a nested tensor; NULL of any other, and of NULL. */
static inline fac_nested *fac__nested_of(const fac_tensor *t) {
    return t && t->cls == &fac__nested_class ? (fac_nested *)t->ext : NULL;
}
/* The tensor that has the history of t: the buffer of a nested tensor, else t itself. */
static inline fac_tensor *fac__history_of(fac_tensor *t) {
    return FAC_UNLIKELY(fac__nested_of(t) != NULL) ? fac__nested_of(t)->buffer : t;
}

/* Owned, with room for the sizes of n components, to be filled in. errors: SHAPE, OVERFLOW, MEMORY */
fac_status fac__ragged_new(int64_t n, int d, fac_ragged **out);
/* Counts elements. errors: SHAPE for a negative size; OVERFLOW */
fac_status fac__ragged_complete(fac_ragged *r);
fac_ragged *fac__ragged_ref(fac_ragged *r);
void fac__ragged_unref(fac_ragged *r); /* NULL allowed */
bool fac__ragged_equal(const fac_ragged *a, const fac_ragged *b);

/* Owned: a nested tensor over a buffer and sizes, of both of which it takes references. order NULL: dimensions as they are stored.
   errors: SHAPE if the buffer has not as many elements; DTYPE for 8-bit floats; UNSUPPORTED if the buffer is of a kind that has no
   elements in memory */
fac_status fac__nested_make(fac_tensor *buffer, fac_ragged *shape, const uint8_t *order, fac_tensor **out);
/* The size of component i in dimension k, as shown. */
static inline int64_t fac__nested_size(const fac_nested *t, int64_t i, int k) {
    return t->shape->sizes[i * t->shape->d + t->order[k]];
}
/* The size in dimension k of a component, as shown, that all agree in, else FAC_RAGGED. Without components: 0. */
int64_t fac__nested_common_size(const fac_nested *t, int k);
/* Whether dimensions are shown as they are stored. */
bool fac__nested_in_order(const fac_nested *t);
/* Whether two nested tensors have components of the same sizes, stored alike: then elements at the same place of their buffers
   belong together. */
bool fac__nested_alike(const fac_nested *a, const fac_nested *b);
/* "[[2, 5], [3, 5]]", shortened to fit; returns buf. */
char *fac__nested_text(const fac_tensor *t, char *buf, size_t size);

#endif
