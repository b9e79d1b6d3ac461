/* Rows that are the text of a call, "aten::add.Tensor(f32[1M], f32[1M])" or "quantized::cat(...)", made through the boxed door. torch_rows.py reads the same
   text for PyTorch. "grad aten::..." also computes the gradients of all inputs of real or complex numbers, from ones for the first result.

       f32[64,128]     a tensor of normal numbers; K and M stand for 2^10 and 2^20. Integers are drawn from 0 to 9, bools are mixed
         {0:1000}        numbers drawn evenly from the first up to the second
         {spd} {eye}     symmetric and positive definite; normal numbers / 8 plus the unit matrix: both over the last two dimensions
         {perm}          a permutation of the numbers below the size
         {0,3}           elements, repeated
         {coo:0.01} {csr:0.01} {csc:0.01}   sparse: about one element in a hundred is there; {loose:0.01} is a coo not coalesced,
                         {bsr:0.01} has the blocks of 4 by 4 in which such an element lies
         {channels}      of a quantized dtype: a scale for each item of the first dimension; else there is one scale
         't              its last two dimensions change places: it is not row-major
         's              only every second element of memory is its own
         'c              its channels are last: of four dimensions
       3  0.5  True  "text"  None  [1,2]  [0.5]  [f32[4],None]  dtype(f32) */
#ifndef FACULA_BENCH_BOXED_H
#define FACULA_BENCH_BOXED_H

#include <facula/dispatch.h>
#include <facula/facula.h>
#include <string.h>

enum { BOXED_ARGS = 24, BOXED_RESULTS = 16, BOXED_LEAVES = 64 };

typedef struct boxed_call {
    const fac_operator *op;
    fac_value args[BOXED_ARGS];
    size_t n;
    bool backward;
    fac_tensor *leaves[BOXED_LEAVES]; /* of `args`, for backward */
    size_t n_leaves;
    fac_tensor *ones; /* owned; made by the first run backward */
} boxed_call;

static inline bool boxed_is(const char *text) {
    if (strncmp(text, "grad ", 5) == 0) text += 5;
    const size_t n = strcspn(text, ":(");
    return (n == 4 && strncmp(text, "aten::", 6) == 0) || (n == 9 && strncmp(text, "quantized::", 11) == 0);
}
/* Reads a call and makes its arguments, which boxed_drop releases. False with a line on standard error, or an error pending. */
bool boxed_make(boxed_call *c, const char *text);
void boxed_drop(boxed_call *c);
/* Bytes of all elements that the call reads and writes, forward, each counted once; *out_numel: elements of its first result. 0 where it
   fails, with an error pending. */
double boxed_bytes(boxed_call *c, double *out_numel);
/* Makes the call once; the results are released. False with an error pending. */
bool boxed_run(boxed_call *c);

#endif
