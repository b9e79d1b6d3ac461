/* The schema language: "ns::name.overload(Tensor(a!) self, int[2] k=1, *, Scalar alpha=1) -> (Tensor(a!), Tensor)".
   One parser for the library (registration at run time) and for the generator (build time): it includes base only. */
#ifndef FAC_SRC_DISPATCH_SCHEMA_H
#define FAC_SRC_DISPATCH_SCHEMA_H

#include "base/base.h"

typedef enum fac_type_kind {
    FAC_TYPE_TENSOR,
    FAC_TYPE_INT,
    FAC_TYPE_FLOAT,
    FAC_TYPE_BOOL,
    FAC_TYPE_SCALAR,
    FAC_TYPE_STRING,
    FAC_TYPE_DTYPE,     /* ScalarType   */
    FAC_TYPE_DEVICE,    /* Device       */
    FAC_TYPE_LAYOUT,    /* Layout       */
    FAC_TYPE_FORMAT,    /* MemoryFormat */
    FAC_TYPE_GENERATOR, /* Generator    */
    FAC_TYPE_OBJECT,    /* Object: a user's own */
    FAC_TYPE_KINDS
} fac_type_kind;

typedef struct fac_schema_type {
    fac_type_kind kind;
    bool list;          /* T[] or T[n]             */
    int64_t list_size;  /* n of T[n], 0 if open    */
    bool optional;      /* trailing ?              */
    bool elem_optional; /* Tensor?[]               */
    char alias;         /* 'a' of Tensor(a), the first of Tensor(a|b), '*' of Tensor(*); or 0 */
    bool write;         /* the ! of Tensor(a!)     */
    uint32_t before;    /* alias sets as bits: 'a' is bit 0, FAC_ALIAS_SET_ANY is '*' */
    uint32_t after;     /* the same after the arrow of Tensor(a -> *); 0 if there is none */
} fac_schema_type;
#define FAC_ALIAS_SET_ANY (1u << 31)

typedef struct fac_schema_arg {
    char *name; /* never NULL in arguments; "" in unnamed results */
    fac_schema_type type;
    bool kwarg_only;
    char
        *default_text; /* as written: "1", "None", "[0,1]", "True", "\"mean\"", "contiguous_format"; NULL if required */
} fac_schema_arg;

typedef struct fac_schema {
    char *ns, *name, *overload; /* "aten", "add", "Tensor"; overload may be "" */
    char *full;                 /* "aten::add.Tensor" */
    char *text;                 /* canonical text without the namespace */
    fac_schema_arg *args, *rets;
    size_t n_args, n_rets;
} fac_schema;

/* Parses text; the namespace defaults to "aten". On error *out is NULL and the message shows text and column.
   Errors: unknown type, duplicate argument, required after default, alias in results that no argument has, a default
   that the type cannot take. */
fac_status fac__schema_parse(const char *text, fac_schema **out);
void fac__schema_free(fac_schema *s);
/* Rewrites a user's "Tensor, int[2] -> (Tensor, Tensor)" as fac__schema_signature would. Owned string in *out. */
fac_status fac__signature_normalise(const char *text, char **out);
/* The integer that a default of type int stands for: digits, or Mean, Sum (reductions). False if it is neither. */
bool fac__default_int(const char *text, int64_t *out);
/* Type as canonical text ("Tensor(a!)?", "int[2]"), into buf; returns buf. */
char *fac__type_text(const fac_schema_type *t, char *buf, size_t size);
/* The C signature class of a schema: argument and result kinds only, such as "Tensor, Tensor?, int[] -> Tensor".
   Alias marks and list sizes are left out. Two schemas with equal text share adapters. Owned string. */
char *fac__schema_signature(const fac_schema *s);
/* Fills in full and text of a schema that is otherwise complete; the parser's own. */
fac_status fac__schema_texts(fac_schema *s);

#endif
