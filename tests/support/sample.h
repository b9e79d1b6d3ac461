/* Calls of operators as plain data: written and read as text, copied, changed, and made into boxed arguments.

       index_select(f32[4,3]!, 0, i64[2]{0,3})

   is a call of aten::index_select. A value is written as follows.

       f32[2,3]          a tensor: dtype and sizes; then any of (dtypes also e4m3 and e5m2, 8-bit floats, and qi8, qu8 and qi32,
                         quantized by a scale of 1/16 and a zero point of 3)
         :[3,1] +5         strides, and where the first element lies in the storage
         {0,3}             elements, repeated as often as needed; without them small numbers that differ
         @cpu @meta @next  another device than the call's own; @next is the one after it
         ! !!              requires a gradient: a leaf, and the result of an operation
         ~                 made in inference mode
         ^                 quantized along dimension 0
         &0                lies in the storage of the call's tensor number 0
         ^                 quantized along dimension 0
         %2 %csr           made sparse: coordinates of two dimensions (%2u: not marked as coalesced), or csr, csc, bsr or bsc (with blocks of one element)
         %nested           made nested: its entries are the components, every second one shorter by one in its first dimension
         %mkldnn           in the vendor layout, which is the CPU's whatever the device
       $0                the tensor number 0 once more
       3  0.5  nan  True  (1,2)  "text"  "ab"*100  None  [1,2]     (1,2) is the complex number 1+2j
       dtype(f32)  device(cpu)  layout(0)  format(1)  generator */
#ifndef FAC_TESTS_SAMPLE_H
#define FAC_TESTS_SAMPLE_H

#include "base/base.h"
#include <facula/dispatch.h>

enum { SAMPLE_ARGS = 20, SAMPLE_TENSORS = 12, SAMPLE_ITEMS = 160, SAMPLE_DIMS = FAC_MAX_DIMS, SAMPLE_ELEMENTS = 24 };

typedef enum sample_kind {
    SAMPLE_NONE,
    SAMPLE_TENSOR,
    SAMPLE_INT,
    SAMPLE_FLOAT,
    SAMPLE_BOOL,
    SAMPLE_COMPLEX,
    SAMPLE_STRING,
    SAMPLE_LIST,
    SAMPLE_DTYPE,
    SAMPLE_DEVICE,
    SAMPLE_LAYOUT,
    SAMPLE_FORMAT,
    SAMPLE_GENERATOR
} sample_kind;

/* Where a tensor lies, or which device an argument names. */
typedef enum sample_place { SAMPLE_HERE, SAMPLE_CPU, SAMPLE_META, SAMPLE_NEXT, SAMPLE_PLACES } sample_place;

typedef struct sample_value {
    sample_kind kind;
    int64_t i; /* the integer, bool, dtype, place, layout or format; the tensor's number; a list's first item; how often
                  a string is repeated */
    int64_t n; /* items of a list */
    double re, im;
    char text[48];
} sample_value;

enum { SAMPLE_GRAD = 1, SAMPLE_NONLEAF = 2, SAMPLE_INFERENCE = 4, SAMPLE_CHANNELS = 8 };

typedef struct sample_tensor {
    fac_dtype dtype;
    sample_place place;
    int ndim;
    int64_t sizes[SAMPLE_DIMS], strides[SAMPLE_DIMS];
    bool strided; /* false: row-major, and strides are not looked at */
    int64_t offset;
    int base; /* number of an earlier tensor whose storage it lies in; -1: one of its own */
    unsigned flags;
    fac_layout layout;  /* FAC_STRIDED, or what it is made after it has its elements */
    int64_t sparse_dim; /* of coordinates */
    bool uncoalesced;   /* not marked as in order */
    bool nested;        /* made so after it has its elements */
    int n_elements;     /* 0: small numbers */
    double elements[SAMPLE_ELEMENTS];
} sample_tensor;

typedef struct sample_call {
    char op[80]; /* "aten::add.Tensor" */
    int n_args, n_tensors, n_items;
    sample_value args[SAMPLE_ARGS];
    sample_tensor tensors[SAMPLE_TENSORS];
    sample_value items[SAMPLE_ITEMS]; /* of all lists; a list holds no list */
} sample_call;

/* Reads one call. False if the text is none; *out_where then points at what was not understood. */
bool sample_parse(const char *text, sample_call *out, const char **out_where);
/* Writes it into buf, cut off if it does not fit; returns buf. */
char *sample_print(const sample_call *c, char *buf, size_t size);
enum { SAMPLE_TEXT = 16384 };

/* Adds a tensor, row-major, without a gradient; its number, -1 if there is no more room. */
int sample_add_tensor(sample_call *c, fac_dtype dtype, const int64_t *sizes, int ndim);
/* Numbers the tensors in the order in which they stand in the arguments, and forgets those that no longer do; a change by
   hand ends with this, since text knows tensors by their place. */
void sample_tidy(sample_call *c);
/* Gives every floating tensor this dtype. */
void sample_set_dtype(sample_call *c, fac_dtype dtype);

/* The arguments of a call, made. */
typedef struct sample_made {
    fac_value args[SAMPLE_ARGS];
    fac_value tensors[SAMPLE_TENSORS]; /* in the order of the call's tensors */
    size_t n_args, n_tensors;
} sample_made;

/* Makes the arguments on a device; those of a CPU in blocks of their own, so that AddressSanitizer sees a step outside. On failure an error is pending, and nothing is left to release. */
fac_status sample_make(const sample_call *c, fac_device device, sample_made *out);
void sample_unmake(sample_made *m);

#endif
