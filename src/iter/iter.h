/* The tensor iterator: the only place that broadcasts and promotes pointwise operands, and orders and merges their dimensions.
   begin, out/in/scalar, plan; then the caller makes the outputs that are missing and binds them; then finish. What is
   left is a loop nest whose strides are bytes, which a back end runs over. */
#ifndef FAC_SRC_ITER_ITER_H
#define FAC_SRC_ITER_ITER_H

#include "iter/nest.h"

#define FAC_ITER_MAX FAC_NEST_OPERANDS

enum {
    FAC_ITER_PROMOTE = 1,       /* inputs of different dtypes meet in a common one; else all inputs must agree */
    FAC_ITER_INT_TO_FLOAT = 2,  /* an integral common dtype becomes the default floating one */
    FAC_ITER_CPU_SCALARS = 4,   /* a 0-dim CPU tensor may accompany tensors of another device */
    FAC_ITER_ANY_DTYPE = 8,     /* operands keep dtypes of their own (where's condition, casts): none is common */
    FAC_ITER_OUT_SHAPE = 32,    /* given outputs take part in broadcasting: inputs may be smaller (copies) */
    FAC_ITER_ROUND_NUMBERS = 16 /* numbers are rounded to a common dtype f16 or bf16 although it is computed in f32 */
};

/* One operand: a tensor, or a number, which never becomes a tensor. */
typedef struct fac_iter_operand {
    char *data;       /* first element; NULL for numbers, meta tensors and outputs that are not bound yet */
    fac_tensor *t;    /* borrowed; NULL for numbers and unbound outputs */
    fac_scalar value; /* if is_scalar */
    uint8_t dtype;    /* of the elements in memory; of a number: that of its kind */
    bool is_scalar, is_out;
} fac_iter_operand;

typedef struct fac_iter {
    int n, n_out;      /* operands; outputs come first */
    uint32_t options;  /* FAC_ITER_... */
    bool flat;         /* finished, ndim 1, every stride is the item size or 0 */
    bool reordered;    /* some dimension was moved */
    fac_dtype common;  /* dtype in which the inputs meet; 0 with ANY_DTYPE */
    fac_device device; /* of the outputs */
    fac_iter_operand op[FAC_ITER_MAX];
    int full_ndim;                    /* of the broadcast shape */
    int64_t full_shape[FAC_MAX_DIMS]; /* broadcast shape, outermost first, as tensors have it */
    int8_t perm[FAC_MAX_DIMS];        /* perm[d]: the tensor dimension that became d, fastest first */
    fac_nest nest; /* strides in bytes; counted once planned, merged once finished, when ndim is at least 1 */
} fac_iter;

/* Starts an iterator; nothing in it needs freeing. */
void fac_iter_begin(fac_iter *it, uint32_t options);
/* Adds operands; outputs first. An output may be NULL: it is bound after planning. A given output does not take part in
   broadcasting (unless FAC_ITER_OUT_SHAPE) or promotion; its sizes are checked when it is bound. */
fac_status fac_iter_out(fac_iter *it, fac_tensor *t);
fac_status fac_iter_in(fac_iter *it, fac_tensor *t);
fac_status fac_iter_scalar(fac_iter *it, fac_scalar v);
/* Finds the broadcast shape, the common dtype, the device and the order of dimensions.
   errors: SHAPE if sizes do not broadcast; DTYPE if inputs must agree and do not; DEVICE */
fac_status fac_iter_plan(fac_iter *it);
/* Strides, in elements, that give a new output the order of the inputs (row-major where they leave a choice). */
void fac_iter_out_strides(const fac_iter *it, int64_t *out_strides);
/* Puts a tensor of the broadcast shape in output slot i.
   errors: SHAPE if its sizes are not the broadcast shape */
fac_status fac_iter_bind(fac_iter *it, int i, fac_tensor *t);
/* Computes byte strides, merges dimensions and drops those of size one. Every output must be bound. */
void fac_iter_finish(fac_iter *it);
/* plan + bind + finish for iterators whose outputs are all given. */
fac_status fac_iter_build(fac_iter *it);

/* Operand i of one value, a number or a tensor's only element, as an element of dtype `as`. It passes through the common dtype
   where a tensor would have been converted to it: integers wrap, halves round. */
void fac_iter_number(const fac_iter *it, int i, fac_dtype as, void *out_element);

/* True if a tensor can be part of a flat iterator with `like`: contiguous, same sizes, dtype and device. */
static inline bool fac_iter_matches(const fac_tensor *t, const fac_tensor *like) {
    return (t->flags & like->flags & FAC_TF_CONTIGUOUS) && t->dtype == like->dtype &&
           t->device.type == like->device.type && t->device.index_plus == like->device.index_plus &&
           fac__same_sizes(t, like);
}
/* Short cut past begin..finish for inputs that pairwise fac_iter_matches and an output that is contiguous, with the same
   sizes and device, in any dtype. The common dtype is that of the inputs. The broadcast shape is not set. */
static inline void fac_iter_set_flat(fac_iter *it, fac_tensor *out, fac_tensor *const *in, int n_in) {
    int64_t item = fac__item_size(in[0]);
    it->n = 1 + n_in;
    it->n_out = 1;
    it->options = 0;
    it->flat = true;
    it->reordered = false;
    it->common = (fac_dtype)in[0]->dtype;
    it->device = out->device;
    it->nest.ndim = 1;
    it->nest.count = it->nest.size[0] = out->numel;
    for (int i = 0; i <= n_in; i++) {
        fac_iter_operand *o = &it->op[i];
        o->t = i ? in[i - 1] : out;
        o->data = fac__data(o->t);
        o->dtype = o->t->dtype;
        o->is_scalar = false;
        o->is_out = i == 0;
        it->nest.stride[i][0] = item;
    }
    if (out->dtype != in[0]->dtype) it->nest.stride[0][0] = fac__item_size(out);
}
/* Appends a number to a flat iterator. */
static inline void fac_iter_flat_scalar(fac_iter *it, fac_scalar v) {
    fac_iter_operand *o = &it->op[it->n];
    o->t = NULL;
    o->data = NULL;
    o->value = v;
    o->dtype = (uint8_t)it->common;
    o->is_scalar = true;
    o->is_out = false;
    it->nest.stride[it->n++][0] = 0;
}

#endif
