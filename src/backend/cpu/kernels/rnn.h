/* Inner loops of recurrent layers (rnn.isa.c): a product of a few rows by a packed matrix, and what a cell does with it
   while it is in cache. Elements are float, double or bf16, of which float is the compute type; products with w, and what is kept of
   cells beside h and slopes, are of the compute type. Steps are in elements of what they are of. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_RNN_H
#define FAC_SRC_BACKEND_CPU_KERNELS_RNN_H

#include "backend/cpu/cpu.h"

#define FAC_RNN_STRIP_BYTES 256 /* of a row of a strip, at most: four vectors of the widest instruction set */

/* A matrix [k, parts * columns] packed as strips, one behind the other, each [words of k][vectors of a register]. With several parts (the
   gates of a cell) vector v of strip s holds columns s * lanes ... of part v, so that a strip has all gates of its units; with one
   part it holds the columns from (s * vectors + v) * lanes on. What is beyond the last column is zero. */
typedef struct fac_rnn_weights {
    void *packed; /* NULL: not packed */
    int64_t k, columns, parts, strips;
    int vectors;
} fac_rnn_weights;

/* What is done with a row of products t. */
typedef enum fac_rnn_action {
    FAC_RNN_SUM,  /* gates = t + given, a bias */
    FAC_RNN_ADD,  /* out = t + given */
    FAC_RNN_TANH, /* out = tanh(gates + t) */
    FAC_RNN_RELU, /* out = max(0, gates + t) */
    FAC_RNN_LSTM, /* gates (i, f, g, o): their sums of the input come in, their values go out; prev and cell: c; out: h */
    FAC_RNN_GRU,       /* gates (r, z, n, and W h + b of n); prev and out: h; given: the bias of n */
    FAC_RNN_TANH_BACK, /* slopes = (given + t) times the slope at out */
    FAC_RNN_RELU_BACK,
    FAC_RNN_LSTM_BACK, /* t + given: the gradient of h; carry: that of c, which goes to the step before; out: h again */
    FAC_RNN_GRU_BACK   /* t + given + carry: the gradient of h; carry: its part that goes straight to the step before.
                          slopes: (n, r, z, W h + b of n) */
} fac_rnn_action;

/* Rows of a matrix; step 0: one row for all. at NULL: not given. */
typedef struct fac_rnn_rows {
    void *at;
    int64_t step;
} fac_rnn_rows;

typedef struct fac_rnn_step {
    fac_rnn_action action;
    const fac_rnn_weights *w; /* t = a w, over strips [first, end) */
    int64_t first, end;
    int64_t rows, units; /* of the layer: parts of gates and slopes are so far from each other */
    fac_rnn_rows a;      /* elements [rows, k]; with w not packed the products themselves, [rows, parts * columns] */
    fac_rnn_rows slopes, out; /* elements; so are `given`, but for a bias, and a GRU's prev */
    fac_rnn_rows gates, prev, cell, given, carry;
} fac_rnn_step;

typedef struct fac_rnn_kernels {
    int lanes, depth; /* of a vector, and of a word */
    /* Packs strips [first, end) of the matrix whose element (p, j) is at m + p * k_step + j * column_step. */
    void (*pack)(const fac_rnn_weights *w, const void *m, int64_t k_step, int64_t column_step, int64_t first,
                 int64_t end);
    void (*step)(const fac_rnn_step *s);
    /* sums[j] = sum of the rows' column first + j, in blocks of 64 rows whose sums are added in order, for j < n. */
    void (*column_sums)(int64_t rows, int64_t n, const void *m, int64_t ld, void *sums, void *block);
} fac_rnn_kernels;

/* Of elements of a dtype; NULL if there are none, as of bf16 where the processor does not multiply pairs of it. */
FAC_ISA_DECLARE(const fac_rnn_kernels *, fac__rnn_kernels, (fac_dtype dtype));

#endif
