/* Discrete Fourier transforms of lines of elements: plans and the inner loops that carry them out. kernels/fft.c walks
   tensors and threads. docs/design/011-fft.md says why it is built so.

   A lane is one element of a vector. Inner loops transform as many sequences at once as a vector has lanes, one in each,
   so that no arithmetic crosses lanes. Lines reach them in two ways:

     lanes  a group of lines, one per lane: lengths with few factors, and neighbouring lines of any
     short  one or two lines of 16, 32, 48, 64, 96, 112, 128 or as many points as a square of lanes has, split as below without leaving
            registers, or nearly
     split  one line of n = columns * rows elements: its columns are transformed, one per lane, multiplied by twiddle
            factors, transposed by registers, and its rows are transformed, one per lane again (Bailey's four steps)

   Sequences in lanes go through Stockham passes of radix 2, 3, 4, 5, 7, 8, 11, 13, 16 or any prime up to FAC_FFT_PRIME; a
   length with a larger prime factor becomes a convolution (Bluestein's chirps) of a length with small factors.
   A real line of even length is transformed as a complex one of half the length.

   All transforms are forward ones without scale: the inverse exchanges real and imaginary parts on the way in and out. */
#ifndef FAC_SRC_BACKEND_CPU_FFT_FFT_H
#define FAC_SRC_BACKEND_CPU_FFT_FFT_H

#include "backend/cpu/cpu.h"

enum {
    FAC_FFT_PRIME = 61,  /* the largest prime factor that has a pass */
    FAC_FFT_PASSES = 64, /* more than a length below 2^63 has factors */
    FAC_FFT_LANES = 16   /* the most of any vector */
};

/* One pass of a chain: `blocks` times `run` butterflies of `radix` elements. */
typedef struct fac_fft_pass {
    int64_t radix, blocks, run;
    int64_t twiddles; /* where the factors of its blocks begin: radix - 1 complex ones each, none for block 0 */
    int64_t roots;    /* where cos and sin of 2 pi j / radix begin, of odd radices */
} fac_fft_pass;

/* Transform of n elements, one sequence in each lane. */
typedef struct fac_fft_chain {
    int64_t n;
    int passes;
    fac_fft_pass pass[FAC_FFT_PASSES];
    void *table;
    double cost; /* of all lanes together, in operations on vectors */
} fac_fft_chain;

/* Transform of n complex elements without large prime factors. */
typedef struct fac_fft_core {
    int64_t n;
    fac_fft_chain whole;         /* for lanes */
    fac_fft_chain columns, rows; /* for split: transforms of `rows.n` columns and of `columns.n` rows; n 0: none */
    void *
        lane_twiddles; /* of row r and lane v, w^(r v): [r][re of all lanes, im of all lanes]; of short lines, of each group */
    void
        *group_twiddles; /* of row r and the first column a of group g, w^(r a), complex: [g][r]; NULL of short lines */
    double split_cost;   /* of one line */
    bool short_lines;    /* split, and as many at once as fill vectors */
    /* Of short lines: of 4 columns for 16, 32, 48 and 96 points (make_pair_factors), of 8 for 64 and 128 of 16 lanes: [row][re, im]. */
    void *short_factors;
} fac_fft_core;

typedef enum { FAC_FFT_COMPLEX, FAC_FFT_FROM_REAL, FAC_FFT_TO_REAL } fac_fft_kind;

typedef struct fac_fft_plan {
    fac_fft_kind kind;
    fac_dtype dtype; /* FAC_F32 or FAC_F64, of the parts of complex numbers too */
    int64_t n;       /* elements of the line that is not halved */
    int64_t inner;   /* length of the complex transform: n / 2 for real lines of even length, else n */
    int lanes;
    bool chirped; /* Bluestein: core.n >= 2 inner - 1 */
    void *chirp;  /* complex, [inner]: w^(j j / 2) */
    void *filter; /* complex, [core.n]: the transform of the conjugate chirp, divided by core.n */
    /* [re, im][inner / 2 + 1]: -i w^k / 2 of n, for real lines of even length, whose inverse leaves halves. */
    void *unfold;
    fac_fft_core core;
    int64_t bytes;           /* memory of its tables */
    int64_t users, last_use; /* the cache's */
} fac_fft_plan;

/* The plan of a transform, kept for the next time. Give it back. errors: MEMORY, OVERFLOW */
fac_status fac__fft_plan_take(fac_fft_kind kind, fac_dtype dtype, int64_t n, fac_fft_plan **out);
void fac__fft_plan_give(fac_fft_plan *p);
/* What is kept: at most so many plans and bytes, but for plans in use. */
enum { FAC_FFT_KEPT = 64, FAC_FFT_KEPT_BYTES = 64 << 20 };
int fac__fft_plans_kept(void);
/* Frees those that nobody uses. */
void fac__fft_plans_trim(void);

/* True if `lines` lines are transformed faster one by one than a group of lanes at a time. */
bool fac__fft_is_split(const fac_fft_plan *p, int64_t lines);

/* ---- inner loops (fft.isa.c) ---------------------------------------------------------------------------------------- */

/* Bytes of a vector. */
FAC_ISA_DECLARE(int, fac__fft_vector, (void));

/* One side of a group of lines. Pointers and steps count reals. */
typedef struct fac_fft_lines {
    void *at[FAC_FFT_LANES]; /* the first element of each line */
    int64_t step;            /* from one element to the next */
    bool complex;            /* elements are pairs of reals side by side */
    bool adjacent;           /* lines are neighbours: an element of the next line follows that of this one */
} fac_fft_lines;

/* A group of lines, one per lane. */
typedef struct fac_fft_group {
    const fac_fft_plan *plan;
    int lanes; /* in use */
    bool inverse, two_sided;
    double scale;
    fac_fft_lines in, out;
} fac_fft_group;
/* Scratch of a group. */
int64_t fac__fft_group_bytes(const fac_fft_plan *p);
FAC_ISA_DECLARE(void, fac__fft_group_f32, (const fac_fft_group *g, void *scratch));
FAC_ISA_DECLARE(void, fac__fft_group_f64, (const fac_fft_group *g, void *scratch));

/* One line, in stages over ranges, which threads can share: each stage needs all of the one before. */
typedef enum {
    FAC_FFT_ENTER,   /* per element, or pair of elements: `in` -> work */
    FAC_FFT_COLUMNS, /* per group of columns: `from` -> middle */
    FAC_FFT_ROWS,    /* per group of rows: middle -> `to` */
    FAC_FFT_FILTER,  /* per element of the core: work *= filter, parts exchanged */
    FAC_FFT_LEAVE    /* per element, or pair of elements: work -> `out` */
} fac_fft_stage;
typedef struct fac_fft_line {
    const fac_fft_plan *plan;
    bool inverse, two_sided;
    double scale;
    const void *in;
    void *out;
    int64_t in_step, out_step; /* in reals, from one element to the next */
    const void *from;          /* complex elements side by side: `in`, or `work` */
    void *to;                  /* the same: `out`, or `work` */
    bool exchange_from, exchange_to;
    double to_scale;
    void *middle, *work;
} fac_fft_line;
/* How many items a stage has. */
int64_t fac__fft_stage_items(const fac_fft_line *l, fac_fft_stage stage);
/* Scratch of a thread in COLUMNS and ROWS, and bytes of `middle` and `work`. */
void fac__fft_line_bytes(const fac_fft_plan *p, int64_t *out_lane, int64_t *out_middle, int64_t *out_work);
FAC_ISA_DECLARE(void, fac__fft_stage_f32,
                (const fac_fft_line *l, fac_fft_stage stage, int64_t begin, int64_t end, void *scratch));
FAC_ISA_DECLARE(void, fac__fft_stage_f64,
                (const fac_fft_line *l, fac_fft_stage stage, int64_t begin, int64_t end, void *scratch));

#endif
