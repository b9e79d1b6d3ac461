/* Structured operators: one meta function declares the outputs of the functional, in-place and out forms; the kernel
   then fills them. The generated wrappers run begin, meta, check, kernel, end.

   A call that fails changes nothing. The meta and what it calls here only look at the caller's tensors: one that must be
   resized, converted to, or that shares memory with an input is computed aside, and changed at the end, when no more can
   fail. A kernel writes straight into a caller's tensor that fits; so it finds every fault in its data, and makes every
   allocation, before it writes its first element. */
#ifndef FAC_SRC_OPS_STRUCTURED_H
#define FAC_SRC_OPS_STRUCTURED_H

#include "dispatch/operator.h"
#include "iter/iter.h"

#define FAC_MAX_OUT 8
typedef enum { FAC_FUNCTIONAL, FAC_INPLACE, FAC_OUT } fac_form;

typedef struct fac_structured {
    const fac_call_info *call;
    fac_form form;
    int n_out;
    bool same_values;                /* outputs may overlap themselves: the kernel gives every element the same value */
    bool meta_only;                  /* the call is on the meta device: outputs have no data, no kernel follows */
    struct fac_pointwise_plan *plan; /* NULL; but of a call that only asks which loop it would run: where to say it */
    fac_tensor *out[FAC_MAX_OUT];    /* what the kernel writes. Functional: owned, NULL until declared */
    /* In-place and out forms: the caller's tensors; owned, what those become that are resized, else NULL. out[i] is one of
       the two, or an owned tensor that is copied there in the end. */
    fac_tensor *given[FAC_MAX_OUT], *resized[FAC_MAX_OUT];
    int64_t carry[8]; /* values that meta hands to the kernel */
    bool has_iter;    /* the operator is pointwise: an output may be one of its inputs */
    fac_iter iter;    /* built by metas of pointwise operators; not initialised otherwise */
} fac_structured;

/* `given` holds n_out tensors for in-place and out forms, NULL for the functional form. */
void fac__structured_begin(fac_structured *s, const fac_call_info *c, fac_form form, int n_out,
                           fac_tensor *const *given);
/* Declares output i. strides NULL: row-major. Functional: allocates. In-place: given sizes must equal `sizes` and dtype
   must be castable from `dtype`. Out: checks device and castability; the caller's tensor is resized in the end, with a
   warning unless it was empty. */
fac_status fac_out_declare(fac_structured *s, int i, const int64_t *sizes, const int64_t *strides, int ndim,
                           fac_dtype dtype, fac_device device);
/* Same sizes and strides permutation as `like`. */
fac_status fac_out_declare_like(fac_structured *s, int i, fac_tensor *like, fac_dtype dtype);
/* Refuses outputs that overlap themselves or partly overlap an input; a full overlap is allowed when `elementwise`. */
fac_status fac_out_check_overlap(fac_structured *s, int i, fac_tensor *input, bool elementwise);
/* For kernels that cannot find every fault before they write: from here on they write output i to a tensor of its own, which
   is copied to the caller's once the kernel has succeeded. Not for pointwise operators, whose iterators are bound already. */
fac_status fac_out_aside(fac_structured *s, int i);
/* For metas of pointwise operators: s->iter has been begun and has its inputs, and before them n_out outputs, each NULL.
   Plans it, declares the outputs in its shape, order and dtype (out_dtype, or the common one when that is 0) and finishes
   it. Outputs of another dtype are written through a conversion, without temporaries. */
fac_status fac_out_declare_iter(fac_structured *s, fac_dtype out_dtype);
/* The same where each output has a dtype of its own. */
fac_status fac_out_declare_iter_each(fac_structured *s, const fac_dtype *out_dtypes);
/* The error of an output that overlaps an input. */
fac_status fac__shared_memory(void);
/* Between meta and kernel of the in-place and out forms: no two outputs may share memory; an output that shares some with an
   input (`reads`; NULL is skipped) is refused if they overlap in part, and computed aside if they are the same. */
fac_status fac__structured_check_all(fac_structured *s, fac_tensor *const *reads, size_t n);
static inline fac_status fac__structured_check(fac_structured *s, fac_tensor *const *reads, size_t n) {
    const bool element_by_element = s->has_iter && s->n_out == 1; /* each is read before it is written */
    return FAC_LIKELY(element_by_element) ? FAC_OK : fac__structured_check_all(s, reads, n);
}
/* Copies temporaries back, resizes, and hands over the results: functional outputs move to out[], the other forms give a
   counted reference to the given tensor. Frees all on failure. Returns st, or the error of the copying. */
fac_status fac__structured_end(fac_structured *s, fac_status st, fac_tensor **out);
/* fac__resize_end for an out argument: warns if it held elements of another shape. */
void fac__resize_out_end(fac_tensor *out, fac_tensor *resized);
/* Refuses a number that cannot become a d: a complex one for a real dtype, or a finite one beyond its range. Whole negative
   numbers wrap around in uint8, as in PyTorch. */
fac_status fac__check_any_number(fac_dtype d, fac_scalar v);
/* What needs no look at the dtype, such as a factor of 1. */
static inline bool fac__fits_every_dtype(fac_scalar v) {
    return v.kind == FAC_KIND_INT && (uint64_t)v.bits <= INT8_MAX;
}
static inline fac_status fac__check_number(fac_dtype d, fac_scalar v) {
    return FAC_LIKELY(fac__fits_every_dtype(v)) ? FAC_OK : fac__check_any_number(d, v);
}
/* Refuses a complex tensor as the value for elements of a real dtype. */
fac_status fac__check_value(fac_dtype d, const fac_tensor *value);
/* The same for a factor, which halves take in single precision. */
static inline fac_status fac__check_factor(fac_dtype d, fac_scalar v) {
    return fac__check_number(fac__is_half(d) ? FAC_F32 : d, v);
}
/* A bound as an integer dtype holds it: a lower one below the dtype's range, or an upper one above it, becomes the range's end,
   which bounds nothing. errors: OVERFLOW for a bound that no number of the dtype meets, and as fac__check_number */
fac_status fac__check_bound(fac_dtype d, bool lower, fac_scalar *bound);
/* Refuses a tensor to be changed that is not on the meta device, in a call that went there for the sake of another. */
fac_status fac__need_meta(const char *name, const fac_tensor *t);
/* All tensors on one device; the error names both. NULL entries are skipped. Operators that take numbers from 0-dim CPU
   tensors beside those of another device check devices themselves. */
fac_status fac__check_same_device(const char *const *names, fac_tensor *const *tensors, size_t n);

#endif
