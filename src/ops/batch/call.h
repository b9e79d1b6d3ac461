/* One call of an operator for a batch, on its way from the key's kernel to a rule. Private to this folder. */
#ifndef FAC_SRC_OPS_BATCH_CALL_H
#define FAC_SRC_OPS_BATCH_CALL_H

#include "dispatch/value.h"
#include "ops/batch/batch.h"

/* A tensor among the arguments, alone or in a list. */
typedef struct batch_tensor {
    fac_tensor *given; /* borrowed: what the caller passed, a batched tensor if `batched` */
    fac_tensor *t;     /* owned: what the call gets in its place; the samples, if `front`, in dimension 0 */
    bool batched, front, written;
    int rank; /* of one sample */
    size_t arg, at;
} batch_tensor;

typedef struct batch_call {
    const fac_call_info *info;
    const fac_operator *op;
    const fac_schema *schema;
    const fac_builtin_facts *facts;
    const fac_batch_level *level;
    const fac_value *stack; /* the caller's arguments */
    fac_value *args, *outs; /* owned: what the call gets, NONE where that is the caller's; what it gave */
    batch_tensor *v;
    size_t n;
    bool any;   /* one of the tensors is batched */
    bool plain; /* the outs are the same for all samples */
} batch_call;

/* A rule makes the outs of all samples, in dimension 0 of each tensor. One that does not cover the arguments goes to
   fac__batch_loop. */
typedef fac_status (*batch_rule)(batch_call *b);
fac_status fac__batch_loop(batch_call *b);
extern const batch_rule fac__batch_rules[FAC_BATCH_COUNT];
/* Random operators where each sample has numbers of its own, or all have the same. */
fac_status fac__batch_random_call(batch_call *b);

/* ---- arguments -------------------------------------------------------------------------------------------------- */

/* An argument as the call will get it. */
static inline const fac_value *batch_arg(const batch_call *b, size_t i) {
    return b->args[i].tag == FAC_TAG_NONE ? &b->stack[i] : &b->args[i];
}
/* Puts a value, which it takes, in the place of an argument. */
fac_status batch_set(batch_call *b, size_t i, fac_value v);
static inline fac_status batch_set_ints(batch_call *b, size_t i, const int64_t *v, size_t n) {
    return batch_set(b, i, fac_value_ints(v, n));
}
/* The number of an argument; -1 if there is none of this name. */
int batch_find(const batch_call *b, const char *name);
static inline bool batch_told(const batch_call *b, size_t i) { return i < 32 && b->facts->batch_args >> i & 1; }
static inline int batch_number(const batch_call *b, int i) { return (int)(b->facts->batch_ranks >> 4 * i & 15); }
/* The only tensor of an argument; NULL if it is none or not given. */
batch_tensor *batch_tensor_of(const batch_call *b, size_t arg);

/* ---- steps of rules --------------------------------------------------------------------------------------------- */

/* Samples in front; what is not batched is expanded if `expand`, else left. */
fac_status batch_front(batch_call *b, batch_tensor *x, bool expand);
fac_status batch_front_all(batch_call *b, bool expand);
/* Replaces x->t by *next, unless making it failed. */
fac_status batch_become(batch_tensor *x, fac_status st, fac_tensor *const *next);
/* Puts n dimensions of one element behind the first `at` of x->t. */
fac_status batch_insert(batch_tensor *x, int at, int n);
/* Joins the n dimensions from `at` on into one, and the reverse, splitting dimension 0 of an out. */
fac_status batch_flatten(batch_tensor *x, int at, int n);
fac_status batch_split(fac_value *out, int64_t first);
/* Calls the operator, or another with these arguments, into b->outs. */
fac_status batch_call_op(batch_call *b);
fac_status batch_call_other(batch_call *b, const fac_operator *op, const fac_value *args, size_t n);
/* f(out) in the place of each tensor of the outs. */
fac_status batch_each_out(batch_call *b, fac_status (*f)(batch_call *b, fac_tensor *t, fac_tensor **out));
/* An owned tensor as out i. */
void batch_give(batch_call *b, size_t i, fac_tensor *owned);
fac_status batch_refuse(const batch_call *b, const char *why);

#endif
