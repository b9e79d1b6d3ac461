/* Forward mode: tensors that carry a tangent. See docs/design/014-forward-mode.md.

   A dual tensor is a header over the memory of its primal, of the class `fac__dual_class` and with the key ForwardAD. Below the
   key operators see primals. Primal and tangent may be dual tensors themselves, of levels that were opened before. */
#ifndef FAC_SRC_AUTOGRAD_FORWARD_H
#define FAC_SRC_AUTOGRAD_FORWARD_H

#include "autograd/mode.h"
#include "core/tensor.h"
#include <facula/autograd.h>

#define FAC_KS_FORWARD (fac__func_bit(FAC_KEY_FORWARD_AD))

/* A level by its number, which no other level ever has, and its place among those that are open. */
typedef struct fac_level {
    int64_t number; /* 0: none */
    uint8_t place;
} fac_level;

typedef struct fac_dual_parts {
    fac_tensor *primal, *tangent; /* owned; the tangent lies in memory as the primal does */
    fac_level level;
} fac_dual_parts;

extern const fac_tensor_class fac__dual_class;

/* ---- levels ---------------------------------------------------------------------------------------------------------- */

/* Opens a level on this thread. `pure`: what is below it is recorded as it was when it was opened, whatever mode code inside
   chooses; else as the mode says at the time. */
fac_status fac__level_open(bool pure, fac_level *out);
/* Closes it, and those that were opened after it. */
void fac__level_close(fac_level level);
void fac__levels_end_thread(fac_thread *th);
bool fac__level_is_open(fac_level level);
/* The innermost that this thread has open; number 0 if there is none. */
fac_level fac__level_innermost(void);
/* The outermost that it has. */
fac_level fac__level_outermost(void);
/* Makes the thread's mode that of what is below an open level. */
void fac__level_leave(fac_level level, fac_thread *th);

/* ---- dual tensors ------------------------------------------------------------------------------------------------------ */

/* The parts of a dual tensor; NULL of any other, and of one whose level is closed. */
fac_dual_parts *fac__dual_parts(const fac_tensor *t);
/* What t is without the levels that are closed; borrowed. */
fac_tensor *fac__dual_open_part(fac_tensor *t);
/* Owned, of two references that it takes, always. */
fac_status fac__dual_wrap(fac_tensor *primal, fac_tensor *tangent, fac_level level, fac_tensor **out);
/* Turns t itself, whose memory the primal has, into a dual tensor. Takes both references, always. */
fac_status fac__dual_become(fac_tensor *t, fac_tensor *primal, fac_tensor *tangent, fac_level level);
/* errors: UNSUPPORTED if t is of a kind, sparse or quantized, that cannot carry a tangent */
fac_status fac__dual_check_kind(const fac_tensor *t);
/* errors: DTYPE, SHAPE, DEVICE, UNSUPPORTED if the two do not make a dual tensor */
fac_status fac__dual_check(const fac_tensor *primal, const fac_tensor *tangent);
/* Owned: a dual tensor of the level, of a view of the primal and a copy of the tangent. Checks that they fit. */
fac_status fac__dual_make(fac_tensor *primal, fac_tensor *tangent, fac_level level, fac_tensor **out);
/* Owned: `tangent` in the sizes, dtype and layout of `primal`; the tensor itself where that is so and only the caller has it. */
fac_status fac__dual_settle(fac_tensor *tangent, const fac_tensor *primal, fac_tensor **out);
/* Gives `made`, which is fresh, a history that leads to that of `of` and changes nothing, or that ends there (NULL). */
fac_status fac__dual_begin(fac_tensor *made, fac_tensor *of);
/* Makes t, a view that is plain though its base has become dual since, the dual tensor that it would be now. NULL-safe. Whoever
   asks a tensor for its parts calls this first, unless the fallback of ForwardAD, which does, has come by. */
fac_status fac__dual_catch_up(fac_tensor *t);
/* Has the thread's calls come by that fallback while there may be views that are behind their bases; ends it after. */
void fac__dual_watch_views(fac_thread *th);
/* The outermost level in which a plain tensor has become dual on this thread; makes it that of another, for whom this one works. */
fac_level fac__dual_watched(void);
void fac__dual_watch_from(fac_thread *th, fac_level level);
/* Whether t, a primal, a tangent or both, wants a gradient on any of its levels. */
bool fac__dual_requires_grad(const fac_tensor *t);

/* The fallback of the key ForwardAD. */
fac_status fac__forward_init(void);

#endif
