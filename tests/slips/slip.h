/* What the generated calls and the program that makes them share. */
#ifndef FAC_TESTS_SLIP_H
#define FAC_TESTS_SLIP_H

#include <facula/facula.h>

/* What stands in a keyword's place. */
typedef enum written {
    W_NUMBER, /* an int or a double: number */
    W_BOOL,   /* number is 0 or 1 */
    W_TENSOR,
    W_POINTER, /* some address */
    W_TEXT,
    W_NULL,
    W_INTS,
    W_FLOATS,
    W_TENSORS,
    W_DEVICE,
    W_SCALAR, /* FAC_SCALAR(number) */
    W_GENERATOR,
    W_ENUM /* an enumerator of `enumeration` with the value number */
} written;

typedef struct slip {
    const char *text;        /* as in a program */
    const char *argument;    /* of the schema; "" where the value is one too many */
    const char *names[2];    /* of the keyword, the second or "" */
    const char *enumeration; /* the type of what is written, if it is an enumerator */
    const char *field;       /* the type of the keyword */
    written written;
    long double number;  /* which holds every integer */
    void (*usual)(void); /* the call without keywords */
    void (*call)(void);
} slip;

/* What calls are given; the program makes them. */
FAC_API extern fac_tensor *slip_tensor, *slip_number_tensor,
    *slip_index_tensor; /* of sizes [2, 3]; of one number; of [1, 2] zeros */
FAC_API extern fac_generator *slip_generator;
FAC_API extern fac_module *slip_module;
FAC_API extern fac_optimizer *slip_optimizer;
FAC_API extern double (*slip_factor)(void *context, size_t group, int64_t step);
FAC_API extern void *slip_pointer;
FAC_API extern const char *slip_path;
FAC_API extern bool slip_yes, slip_no;
FAC_API extern double slip_half;
FAC_API extern int slip_three;
FAC_API extern fac_tensor *slip_result; /* of factories */
/* The lists that are written. */
#define SLIP_INTS FAC_INTS(5, 7)
#define SLIP_FLOATS FAC_FLOATS(0.5, 1.5)
#define SLIP_TENSORS FAC_TENSORS(slip_tensor, slip_tensor)

#endif
