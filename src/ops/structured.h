/* Structured operators: one meta function declares the outputs of the functional, in-place and out forms; the kernel
   then fills them. The generated wrappers run begin, meta, kernel, end. */
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
    bool meta_only;               /* the call is on the meta device: outputs have no data, no kernel follows */
    fac_tensor *out[FAC_MAX_OUT]; /* what the kernel writes. Functional: owned, NULL until declared */
    fac_tensor
        *given[FAC_MAX_OUT]; /* in-place and out: the caller's tensors; out[i] may be a temporary in another dtype */
    int64_t carry[8];        /* values that meta hands to the kernel */
    bool has_iter;
    fac_iter iter; /* built by metas of pointwise and reduction operators; not initialised otherwise */
} fac_structured;

/* `given` holds n_out tensors for in-place and out forms, NULL for the functional form. */
void fac__structured_begin(fac_structured *s, const fac_call_info *c, fac_form form, int n_out,
                           fac_tensor *const *given);
/* Declares output i. strides NULL: row-major. Functional: allocates. In-place: given sizes must equal `sizes` and dtype
   must be castable from `dtype`. Out: resizes (warning unless it was empty), checks device and castability. */
fac_status fac_out_declare(fac_structured *s, int i, const int64_t *sizes, const int64_t *strides, int ndim,
                           fac_dtype dtype, fac_device device);
/* Same sizes and strides permutation as `like`. */
fac_status fac_out_declare_like(fac_structured *s, int i, fac_tensor *like, fac_dtype dtype);
/* Refuses outputs that overlap themselves or partly overlap an input; a full overlap is allowed when `elementwise`. */
fac_status fac_out_check_overlap(fac_structured *s, int i, fac_tensor *input, bool elementwise);
/* For metas of pointwise operators: s->iter has been begun and has its inputs, and before them n_out outputs, each NULL.
   Plans it, declares the outputs in its shape, order and dtype (out_dtype, or the common one when that is 0) and finishes
   it. Outputs of another dtype are written through a conversion, without temporaries. */
fac_status fac_out_declare_iter(fac_structured *s, fac_dtype out_dtype);
/* Copies temporaries back and hands over the results: functional outputs move to out[], the other forms give a counted
   reference to the given tensor. Frees all on failure. Returns st, or the error of the copying. */
fac_status fac__structured_end(fac_structured *s, fac_status st, fac_tensor **out);
/* Resizes a given out tensor to row-major `sizes`; warns if it held elements of another shape. */
fac_status fac__resize_out(fac_tensor *out, const int64_t *sizes, int ndim);
/* Refuses a number that cannot become a d: a complex one for a real dtype, or a finite one beyond its range. Negative numbers
   wrap around in uint8, as in PyTorch. */
fac_status fac__check_number(fac_dtype d, fac_scalar v);
/* The same for a factor, which halves take in single precision. */
fac_status fac__check_factor(fac_dtype d, fac_scalar v);
/* All tensors on one device, 0-dim CPU tensors aside; the error names both devices. NULL entries are skipped. */
fac_status fac__check_same_device(const char *const *names, fac_tensor *const *tensors, size_t n);

#endif
