/* The book-keeping behind the operator tables. Everything here is read and written under fac__registry_lock, but for
   the table of names, which is searched without. Call paths see its results only: kernel records, fall-through masks and
   definitions, each published by a release store and retired, never freed, before fac_shutdown. */
#ifndef FAC_SRC_DISPATCH_REGISTRY_H
#define FAC_SRC_DISPATCH_REGISTRY_H

#include "dispatch/operator.h"
#include "dispatch/value.h"

/* Where a kernel can be registered: a slot of the table, or a place that stands for several. */
enum {
    FAC_PLACE_EXPLICIT = FAC_SLOTS,
    FAC_PLACE_CATCH_ALL,
    FAC_PLACE_AUTOGRAD_OTHER,
    FAC_PLACE_POINTWISE,
    FAC_PLACE_ALL, /* + functionality: it on every backend */
    FAC_PLACES = FAC_PLACE_ALL + FAC_KEY_COUNT
};
int fac__place_of(fac_key key);
fac_key fac__key_of_place(int place);
/* Backends that kernels for "Pointwise" serve. */
extern FAC_HIDDEN fac_keyset fac__pointwise_backends;
static inline int fac__slot(int f, int b) { return fac__slot_offset[f] + (b & fac__slot_mask[f]); }

/* A kernel record made from a registration for operators of one signature. */
typedef struct fac_record {
    fac_kernel kernel;
    const fac_signature *signature;
    struct fac_record *next;
} fac_record;

typedef enum { FAC_REG_OPERATOR, FAC_REG_KERNEL, FAC_REG_FALLBACK, FAC_REG_LISTENER, FAC_REG_RETIRED } fac_reg_kind;

struct fac_registration {
    fac_reg_kind kind;
    int place;                         /* of a kernel or fallback                         */
    struct fac_registration *below;    /* what this one hides; for listeners the next one */
    struct fac_registration *next_all; /* every registration ever made: shutdown's list   */
    fac_operator *op;
    const char *label;
    fac_fn typed;
    fac_boxed_fn boxed;
    const fac_signature *signature; /* of `typed` */
    bool takes_handles;             /* `typed` is a user's */
    bool fallthrough;
    fac_operator_listener listener;
    void *context;
    fac_record *records; /* one per signature of the operators that it serves */
    const char *where;   /* never NULL */
    char where_copy[];
};

/* What a schema declares; immutable. */
typedef struct fac_definition {
    fac_schema *schema;
    fac_value *defaults; /* by argument; NONE where there is none */
    const fac_signature *signature;
    struct fac_definition *next_all;
} fac_definition;

typedef struct fac_op_registry {
    _Atomic(const fac_definition *) definition; /* NULL while the operator is not declared */
    fac_registration *declared;
    struct fac_stack {
        int place;
        fac_registration *top;
    } * v; /* newest first; a place without registrations may stay, with top NULL */
    size_t n, cap;
    bool fixed;            /* the operator is a generated record, not one of ours to free */
    atomic_bool pointwise; /* a kernel for "Pointwise" is there; follows the stacks when the operator's table does */
} fac_op_registry;

/* The one lock of all writers; recursive, since a listener may register. */
void fac__registry_lock(void);
void fac__registry_unlock(void);

/* ---- operators by name (names.c) --------------------------------------------------------------------------------- */

/* The entry, made if need be (from `fixed` where that is given: a generated operator's record). */
fac_status fac__entry_make(const char *name, fac_operator *fixed, fac_operator **out);
/* Declared operators in order of name. */
fac_status fac__listing_reserve(void);
void fac__listing_add(fac_operator *op);
void fac__listing_remove(const fac_operator *op);
size_t fac__listing(fac_operator *const **out);
void fac__names_free(void);

/* ---- kernel records and tables (table.c) ------------------------------------------------------------------------- */

extern fac_registration *fac__fallbacks[FAC_PLACES]; /* newest first */
/* Ensures that the registration has a record for operators of the signature (NULL: boxed only). */
fac_status fac__record_ensure(fac_registration *r, const fac_signature *signature);
/* The same for the registrations that no operator owns: fallbacks, and those that stand for no kernel. */
fac_status fac__records_ensure_shared(const fac_signature *signature);
void fac__records_free(fac_registration *r);
/* Computes every entry of a declared operator's table. Cannot fail: the records exist. */
void fac__table_refresh(fac_operator *op);
/* Every entry reports that the operator has no kernel. */
void fac__table_clear(fac_operator *op);
/* Which registration serves functionality f on backend b, by the order of precedence; never NULL. */
const fac_registration *fac__table_choose(const fac_operator *op, int f, int b);
void fac__table_free(void);
/* From here on what concerns all operators leaves their tables as they are, until fac__tables_settle (operator.h). */
void fac__tables_hold(void);

/* ---- registration (registry.c) ----------------------------------------------------------------------------------- */

/* Declares a built-in operator and attaches its kernels. */
fac_status fac__builtin_declare(const fac_builtin_op *row);
void fac__registry_free(void);
/* The generated adapters for a signature's text, or NULL (builtin.c). */
const fac_signature *fac__signature_find(const char *text);
/* For each namespace the place that first declared an operator in it, one per line. */
void fac__namespaces_print(FILE *stream);

#endif
