/* Batching: operators that are called once for all samples of a batch.

   A level is one vmap under way. A batched tensor of a level is a header of its own class: it shows the geometry
   of one sample, and holds the value of all, with the dimension in which the samples lie. It has the key Batched,
   which stands on top of all others, so that everything below, autograd too, sees plain tensors of all samples.
   The kernel of that key takes the innermost level among a call's arguments, puts the values in the place of the
   batched tensors, and calls the operator by the rule that its entry names (dispatch/batch_kinds.h) with that
   level and those within it out of sight; values may be batched tensors of outer levels, so the call may come by
   again. Results are wrapped. See docs/design/013-vmap.md. */
#ifndef FAC_SRC_OPS_BATCH_BATCH_H
#define FAC_SRC_OPS_BATCH_BATCH_H

#include "core/tensor.h"
#include "dispatch/operator.h"

/* What random operators give within a level. */
typedef enum fac_batch_random { FAC_RANDOM_REFUSED, FAC_RANDOM_DIFFERENT, FAC_RANDOM_SAME } fac_batch_random;

/* One vmap under way, on its caller's stack. */
typedef struct fac_batch_level {
    const struct fac_batch_level *outer;
    uint64_t id; /* never used again */
    int64_t size;
    fac_batch_random random;
    bool chunked;       /* further samples come later, at a level of their own; set after it was opened */
    fac_keyset include; /* the thread's when the level was opened */
} fac_batch_level;

/* The value of a batched tensor. */
typedef struct fac_batched {
    fac_tensor *value; /* owned */
    uint64_t level;
    int dim; /* of the value, in which the samples lie */
} fac_batched;

extern const fac_tensor_class fac__batched_class;
static inline const fac_batched *fac__batched(const fac_tensor *t) {
    return t && t->cls == &fac__batched_class ? t->ext : NULL;
}

/* Whether t is of a kind, sparse or quantized, that cannot be a value of samples. */
static inline bool fac__is_opaque(const fac_tensor *t) { return t->cls && !t->cls->in_memory && !fac__batched(t); }

/* Opens a level on this thread within those that are in sight, and closes it. Both go with scopes: the last opened first. */
void fac__batch_open(fac_batch_level *l, int64_t size, fac_batch_random random);
void fac__batch_close(const fac_batch_level *l);
/* What a thread sees of levels. */
typedef struct fac_batch_sight {
    const fac_batch_level *batch;
    fac_keyset include;
} fac_batch_sight;
/* From here to fac__batch_see only `l` and the levels around it are in sight (NULL: none). */
fac_batch_sight fac__batch_hide(const fac_batch_level *l);
void fac__batch_see(fac_batch_sight s);
/* The level of a batched tensor; NULL, with an error, if it is not in sight: its vmap has ended. */
const fac_batch_level *fac__batch_level_of(const fac_tensor *t);

/* errors: UNSUPPORTED if value is of a kind that samples cannot be of */
fac_status fac__batch_check(const fac_tensor *value);
/* Owned batched tensor over `value`, which it takes, also on failure. */
fac_status fac__batch_wrap(const fac_batch_level *l, fac_tensor *value, int dim, fac_tensor **out);
/* Owned: the value of t at level l with the samples in dimension 0. What is not batched there is expanded to it if `expand` is set,
   else it is t itself. */
fac_status fac__batch_front(const fac_batch_level *l, fac_tensor *t, bool expand, fac_tensor **out);
/* Owned: the value of t with a dimension in front for every level in sight, the outermost first, whether or not it is batched
   there. Nothing is in sight while it is made. */
fac_status fac__batch_lower(fac_tensor *t, fac_tensor **out);
/* The reverse, for a tensor with those dimensions in front, which it takes. */
fac_status fac__batch_raise(fac_tensor *value, fac_tensor **out);
/* The same of n tensors, NULL among them, in place, and of no more than the `depth` innermost levels in sight; what comes is
   temporary in the innermost scope. */
fac_status fac__batch_lower_all(fac_tensor **v, size_t n, size_t depth);
fac_status fac__batch_raise_all(fac_tensor **v, size_t n, size_t depth);

/* ---- code that runs again ------------------------------------------------------------------------------------------------- */

/* What levels were in sight, the outermost first: for code that a backward pass runs, perhaps after they are closed. Counted. */
typedef struct fac_batch_levels {
    atomic_int refs;
    size_t n;
    fac_batch_level v[];
} fac_batch_levels;
/* A new one of the levels in sight; NULL, with an error, if memory is out. */
fac_batch_levels *fac__batch_levels_now(void);
fac_batch_levels *fac__batch_levels_ref(fac_batch_levels *l); /* both NULL-safe */
void fac__batch_levels_unref(fac_batch_levels *l);

typedef struct fac_batch_stay {
    fac_batch_sight was;
    fac_batch_level *levels;
} fac_batch_stay;
/* From here to fac__batch_leave fresh levels like these are in sight within those that are: values with their dimensions in front are
   raised to these `like->n` and lowered again. Nothing is to be left after a failure. */
fac_status fac__batch_enter(const fac_batch_levels *like, fac_batch_stay *out);
void fac__batch_leave(fac_batch_stay *s);

/* How many levels are in sight. */
int fac__batch_depth(void);

/* Registers the kernel of the key. */
fac_status fac__batch_init(void);
void fac__batch_shutdown(void);
/* What operators are called by: "pointwise", "loop" ... */
const char *fac__batch_kind_name(const fac_operator *op);

#endif
