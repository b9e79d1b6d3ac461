/* The operator record and the call path's inner parts. The generated stubs inline fac__pick and call. */
#ifndef FAC_SRC_DISPATCH_OPERATOR_H
#define FAC_SRC_DISPATCH_OPERATOR_H

#include "core/tensor.h"
#include "dispatch/batch_kinds.h"
#include "dispatch/schema.h"

/* Table slots: functionalities that differ by backend have 16 each, the others one. */
#define FAC_PER_BACKEND(f)                                                                                     \
    ((f) == FAC_KEY_DENSE || (f) == FAC_KEY_QUANTIZED || (f) == FAC_KEY_VENDOR || (f) == FAC_KEY_SPARSE_CSR || \
     (f) == FAC_KEY_SPARSE || (f) == FAC_KEY_AUTOGRAD || (f) == FAC_KEY_AUTOCAST)
#define FAC_SLOTS (7 * FAC_BACKEND_BITS + (FAC_KEY_COUNT - 7))
extern FAC_HIDDEN const uint8_t fac__slot_offset[FAC_KEY_COUNT]; /* first slot of each functionality */
extern FAC_HIDDEN const uint8_t fac__slot_mask[FAC_KEY_COUNT];   /* 15 if per backend, else 0 */

/* A chosen kernel. Immutable once published; replaced by a release store, retired rather than freed. Both entries are
   set: where only one was registered, the other is the signature's adapter. Only an operator whose signature no
   built-in operator has lacks typed entries, since nothing can call them. */
struct fac_kernel {
    fac_fn typed;
    fac_boxed_fn boxed;
    void *context;
    const char *where; /* file:line of the registration, or "generated" */
    const char *label; /* "kernel", "composite explicit", "catch-all", "fallback", "missing" */
    bool fallthrough;
    fac_fn direct_typed;       /* as registered, NULL if boxed only: a user's takes handles           */
    fac_boxed_fn direct_boxed; /* as registered, NULL if typed only: what `boxed` calls               */
};

/* One distinct C signature: its two adapters, generated. */
typedef struct fac_signature {
    const char *text;   /* fac__schema_signature */
    fac_fn box;         /* typed entry that packs its arguments and calls c->kernel->boxed        */
    fac_boxed_fn unbox; /* boxed entry that unpacks the stack and calls c->kernel->typed          */
    fac_fn door;        /* typed entry that makes handles of tensors and calls c->kernel->direct_typed, a user's */
} fac_signature;

/* One built-in registration: a row of the generated tables. */
typedef struct fac_builtin_kernel {
    const char *key; /* "CPU", "Meta", "Pointwise", "CompositeExplicit", "CatchAll", "Autograd", "ADInplaceOrView" */
    fac_fn typed;    /* NULL: the key falls through */
} fac_builtin_kernel;
/* What autocast does before a call: nothing; casts to the region's dtype; to f32; asks for f32 by the argument dtype; casts to
   the widest among the arguments; refuses the call; casts neither the call nor its parts. */
enum {
    FAC_CASTS_NOTHING,
    FAC_CASTS_LOWER,
    FAC_CASTS_F32,
    FAC_CASTS_F32_DTYPE,
    FAC_CASTS_WIDEST,
    FAC_CASTS_REFUSED,
    FAC_CASTS_NONE
};
/* What a schema does not say of an operator: see fac_operator_facts. */
typedef struct fac_builtin_facts {
    fac_operator *functional;
    uint32_t updates,
        shares; /* arguments, as bits, that are written, or that a result may be, though no schema says so */
    uint8_t offsets, combines;
    bool fills, data_dependent;
    uint32_t conjugated; /* arguments that the CPU's kernels read as conjugated where FAC_TF_CONJ says so */
    const char *gradient;
    const char *forward;    /* how tangents pass: see src/autograd/forward_rules.c; NULL: by the gradient's gradient */
    uint8_t batch;          /* a kind of batch_kinds.h */
    uint8_t autocast;       /* FAC_CASTS_...: of the CPU in the low half, of CUDA in the high one */
    uint32_t batch_args;    /* arguments, as bits, that the kind is told of */
    uint32_t batch_ranks;   /* numbers that it is told of, four bits each, the first lowest */
    fac_operator *batch_op; /* the operator that it is told of */
} fac_builtin_facts;
typedef struct fac_builtin_op {
    fac_operator *op;
    const char *schema;
    const char *doc;
    const char *const *tags; /* NULL-terminated */
    const fac_signature *signature;
    const fac_builtin_kernel *kernels; /* ends with key NULL */
    fac_builtin_facts facts;
} fac_builtin_op;
/* Those that this build or program has, sorted by name. See dispatch/gather.h. */
size_t fac__builtin_op_count(void);
const fac_builtin_op *fac__builtin_op_at(size_t i);
/* How many there are otherwise. */
size_t fac__builtin_ops_left_out(void);
/* Registers all of the above; called once by fac_init. */
fac_status fac__dispatch_init(void);
/* Ends the start: makes the tables that take in all fallbacks, which are not remade for each until then. */
fac_status fac__tables_settle(void);
/* From now on kernels registered for "Pointwise" serve devices of this kind, where they have none of their own. */
void fac__dispatch_pointwise(fac_device_type type);
void fac__dispatch_shutdown(void);

struct fac_operator {
    _Atomic(const fac_kernel *)
        table[FAC_SLOTS]; /* never NULL after registration: a missing kernel is one that reports */
    _Atomic(fac_keyset)
        fallthrough_mask[FAC_BACKEND_BITS + 1]; /* by highest backend + 1 (first: none): backends, and the keys that do
                                                       not fall through */
    _Atomic(const fac_schema *) schema;         /* NULL until declared; stays readable after removal */
    const fac_signature *signature;             /* NULL if no built-in operator has it (boxed only) */
    const char *name;                           /* "aten::add.Tensor" */
    const char *doc;
    const char *const *tags;
    const char *where;
    const fac_builtin_facts *facts; /* NULL of a user's operator */
    size_t n_args, n_rets;
    struct fac_op_registry *registry; /* stacks of registrations: src/dispatch/registry.h */
};

/* The name of a declared operator, without its overload's. */
static inline const char *fac__operator_base_name(const fac_operator *op) {
    return ((const fac_schema *)atomic_load_explicit(&op->schema, memory_order_acquire))->name;
}
extern FAC_HIDDEN _Atomic(fac_keyset) fac__global_keys;
/* Whether a call has more to do than run: tell an observer, or see whether it was cancelled. Built with FAC_NO_OBSERVER, never. */
static inline bool fac__is_observed(void) {
#ifdef FAC_NO_OBSERVER
    return false;
#else
    return atomic_load_explicit(&fac__watched, memory_order_relaxed) != 0;
#endif
}

/* Keys of the arguments with the thread's and the process's added and removed. */
static inline fac_keyset fac__call_keys(const fac_thread *th, fac_keyset of_args) {
    return (of_args | th->include | atomic_load_explicit(&fac__global_keys, memory_order_relaxed)) & ~th->exclude;
}
/* The kernel that serves `keys`; also strips fall-through keys from them. Without branches: no backend reads as CPU's
   column, and no functionality as Dense. */
static inline const fac_kernel *fac__pick(const fac_operator *op, fac_keyset *keys) {
    unsigned i = 31u - (unsigned)__builtin_clz((unsigned)(*keys & FAC_BACKEND_MASK) << 1 | 1u); /* backend + 1, or 0 */
    *keys &= atomic_load_explicit(&op->fallthrough_mask[i], memory_order_acquire);
    unsigned f = 63u - (unsigned)__builtin_clzll(*keys >> FAC_BACKEND_BITS | 1u);
    unsigned slot = fac__slot_offset[f] + ((i - (i != 0)) & fac__slot_mask[f]);
    return atomic_load_explicit(&op->table[slot], memory_order_acquire);
}
/* Keys of the arguments of a boxed call: see call.c. */
fac_keyset fac__boxed_keys(const fac_schema *s, const fac_value *stack);
/* Keys for a call without tensor arguments that has a device argument; unset means the CPU. A device that no back end
   serves leaves an error pending. */
static inline fac_keyset fac__device_keys(fac_device d) {
    fac_keyset ks;
    if (!d.type) d.type = FAC_CPU;
    return fac__default_keys(d, &ks) == FAC_OK ? ks : FAC_KS_DENSE;
}
/* Before (enter) and after a call that fac__is_observed: tells the observer, if there is one. Before, it fails if the thread's
   work was cancelled. */
fac_status fac__observe(const fac_operator *op, fac_keyset keys, bool enter);
/* Whether a kernel of the operator's own serves the device of t: neither a fallback nor the report that there is none. */
bool fac__has_kernel(const fac_operator *op, const fac_tensor *t);
/* Whether a kernel for "Pointwise" is there, a built-in one or another. */
bool fac__is_pointwise(const fac_operator *op);
/* Sets the error for a call that no kernel serves: op, key, and each key that has one. */
fac_status fac__no_kernel(const fac_call_info *c);

/* A result list of owned tensors, for operators that return Tensor[]. Zero-initialise. */
typedef struct fac_tensor_list {
    fac_tensor **v; /* fac__alloc'ed; owned, as each entry */
    size_t n;
} fac_tensor_list;
void fac__tensor_list_free(fac_tensor_list *l);

/* ---- what the generated adapters use ----------------------------------------------------------------------------- */

/* Readers of boxed arguments into the C types of typed kernels. They accept what the schema type accepts (an int for a
   float, a number for a Scalar, a single int for int[n]) and set a DTYPE/ARGUMENT error naming argument `i` else. */
fac_status fac__unbox_tensor(const fac_value *v, bool optional, const char *arg, fac_tensor **out);
fac_status fac__unbox_int(const fac_value *v, const char *arg, int64_t *out);
fac_status fac__unbox_opt_int(const fac_value *v, const char *arg, fac_opt_int *out);
fac_status fac__unbox_float(const fac_value *v, const char *arg, double *out);
fac_status fac__unbox_opt_num(const fac_value *v, const char *arg, fac_opt_num *out); /* float?, Scalar?, bool? */
fac_status fac__unbox_bool(const fac_value *v, const char *arg, bool *out);
fac_status fac__unbox_scalar(const fac_value *v, const char *arg, fac_scalar *out);
fac_status fac__unbox_string(const fac_value *v, bool optional, const char *arg, const char **out);
fac_status fac__unbox_dtype(const fac_value *v, const char *arg, fac_dtype *out);
fac_status fac__unbox_device(const fac_value *v, const char *arg, fac_device *out);
fac_status fac__unbox_layout(const fac_value *v, const char *arg, fac_layout *out);
fac_status fac__unbox_format(const fac_value *v, const char *arg, fac_memory_format *out);
fac_status fac__unbox_generator(const fac_value *v, const char *arg, fac_generator **out);
fac_status fac__unbox_ints(const fac_value *v, bool optional, const char *arg,
                           fac_ints *out); /* one int: points into v */
fac_status fac__unbox_floats(const fac_value *v, bool optional, const char *arg, fac_floats *out);
fac_status fac__unbox_scalars(const fac_value *v, const char *arg, fac_scalars *out);
fac_status fac__unbox_tensors(const fac_value *v, const char *arg, fac_tensors *out);
fac_value fac__box_opt_int(fac_opt_int x);
fac_value fac__box_opt_num(fac_opt_num x);
fac_value fac__box_ints(fac_ints x); /* unset -> NONE */
fac_value fac__box_floats(fac_floats x);
fac_value fac__box_owned_list(fac_tensor_list *l); /* takes it */
/* dtype, device, layout and format that are unset box as NONE. */
fac_value fac__box_dtype(fac_dtype d);
fac_value fac__box_device(fac_device d);
fac_value fac__box_layout(fac_layout l);
fac_value fac__box_format(fac_memory_format f);
/* What a user's typed kernel left in its n results: owned handles, made headers in place. After a failure they are NULL;
   returns st, or the error of a handle that is dead. */
fac_status fac__results_given(const fac_call_info *c, fac_status st, fac_tensor **v, size_t n);
/* Several results of which some are lists: each is a list, a tensor one of one. Into values, which take them; nothing is left on
   failure. And out of values. */
fac_status fac__box_lists(const fac_call_info *c, fac_tensor_list *lists, fac_value *st);
fac_status fac__take_lists(const fac_call_info *c, fac_value *st, fac_tensor_list *out);
/* The only entry of a list, whose array is freed. */
fac_tensor *fac__take_only(fac_tensor_list *l);
/* A list of one, which takes t. */
fac_status fac__list_of_one(fac_tensor *t, fac_tensor_list *out);
/* Moves a result out of its stack slot. */
fac_status fac__take_tensor(fac_value *v, fac_tensor **out);
fac_status fac__take_list(fac_value *v, fac_tensor_list *out);
/* A complex number points into the thread's own memory until its next. */
fac_scalar fac__take_scalar(fac_value *v);

#endif
