/* Loops of pointwise operators: each formula of ops/scalar/ by name, the numbers that come with a call, and who runs them: an
   iterator has been built, and its device says whose loop it is. */
#ifndef FAC_SRC_OPS_LOOP_H
#define FAC_SRC_OPS_LOOP_H

#include "core/scalar.h"
#include "iter/iter.h"
#include "loops_gen.h"
#include <facula/device.h>

#define FAC_LOOP_ID_(name, inputs, numbers) FAC_LOOP_##name,
typedef enum fac_loop_id { FAC_LOOP_NAMES(FAC_LOOP_ID_) FAC_LOOP_COUNT } fac_loop_id;

static inline fac_pointwise_number fac__number(fac_scalar s) {
    double parts[2];
    fac__scalar_c128(s, parts);
    return (fac_pointwise_number){parts[0], parts[1], fac__scalar_i64(s)};
}

typedef struct fac_loop_args {
    fac_pointwise_number v[3]; /* the FAC_NUMBERs of the formula */
    atomic_bool *zero_divisor; /* set by an integer division that meets one */
} fac_loop_args;

/* What a call would run: of one that only asks, since its loop serves a list of tensors (backend/pointwise/list.c). */
typedef struct fac_pointwise_plan {
    fac_loop_id id;
    fac_dtype out; /* that the loop writes, 0: the one that it reads */
    fac_loop_args args;
} fac_pointwise_plan;

/* The loops that there are formulas of, by kind of number; one that a list lacks exists on no device. */
#define FAC_LOOPS_OF_REAL(X) \
    FAC_LOOPS_REAL(X)        \
    FAC_LOOPS_PIECEWISE(X)   \
    FAC_LOOPS_MATH(X)        \
    FAC_LOOPS_ACTIVATION(X)  \
    FAC_LOOPS_SPECIAL(X) FAC_LOOPS_SUMS(X) FAC_LOOPS_POLYNOMIALS(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_LOOPS_OF_INTEGERS(X) FAC_LOOPS_INTEGER(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_LOOPS_OF_TRUTHS(X) FAC_LOOPS_BOOLEAN(X) FAC_LOOPS_TRUTH(X) FAC_LOOPS_SELECT(X)
#define FAC_LOOPS_OF_COMPLEX(X) FAC_LOOPS_COMPLEX(X) FAC_LOOPS_SELECT(X)

struct fac_structured;
/* A kind of device's own way to run a loop over s->iter, in its common dtype. Outputs come in `out`, or, when that is 0, like the
   inputs. args may be NULL. */
typedef fac_status (*fac_pointwise_run)(const struct fac_structured *s, fac_loop_id id, fac_dtype out,
                                        const fac_loop_args *args);
/* From now on kernels registered for "Pointwise" serve the kind, too. Called once, by the kind's start. */
void fac__pointwise_register(fac_device_type type, fac_pointwise_run run);
/* Runs a loop in the way of the iterator's kind of device.
   errors: DTYPE if no formula is for the iterator's dtype, in the same words on every device; UNSUPPORTED if the kind has no way */
fac_status fac__pointwise_run(const struct fac_structured *s, fac_loop_id id, fac_dtype out, const fac_loop_args *args);
/* Whether the iterator has the inputs that the loop reads; it may have more. */
bool fac__loop_fits(const fac_iter *it, fac_loop_id id);
/* Forgets all kinds. Called by fac_shutdown. */
void fac__pointwise_shutdown(void);

#endif
