/* Which way a matrix product is computed, and how it is cut into tasks.

   vector     one of m, n is 1 and the matrix has a contiguous side: gemv.isa.c, bound by memory; long rows of bf16, where there are
              dot products of these, gemm_bf16.isa.c
   library    large f32: oneDNN's sgemm, on blocks fixed by shape, since its bits depend on the block
   rounded    large enough f32 whose factors may be rounded to bf16, where there are dot products of these: gemm_bf16.isa.c
   dots       few rows or columns of f32 or f64, or of bf16 where there are dot products of these, all of which lie along k: sums over
              vectors without packing (gemm.isa.c, gemm_bf16.isa.c)
   packed     all else that is floating or complex: gemm.isa.c, whose bits do not depend on the blocks, so that these may
              follow the number of threads
   integers   plain loops (blas_int.isa.c)

   A product with few, deep elements is first split along k into a number of parts fixed by shape, which are added in
   order. Every choice depends on shape, strides and dtype alone. */
#include "backend/cpu/blas.h"
#include "backend/cpu/blas_int.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/parallel.h"
#include "core/scalar.h"

enum {
    TASK_WORK = 1 << 17, /* multiply-adds per chunk of tasks: some microseconds */
    /* Sides of a packed block. One that is written straight to C may be large, so that little is packed twice; any other is computed in
       a plane of its own size first. */
    PACKED_SIDE = 2048,
    PLANE_ROWS = 256, /* twice as many of f32 where vectors are of 64 bytes */
    PLANE_COLS = 1024,
    PACKED_PACK = 16,            /* packing an element costs as much as so many multiply-adds */
    PACKED_WORK = 8 * TASK_WORK, /* multiply-adds that are worth a thread */
    SPLIT_DEPTH = 2048,          /* depth of one part of a split product */
    SPLIT_MAX = 16,
    SPLIT_ELEMENTS = 8 * 128 * 128, /* most elements of C */
    ROUNDED_WORK = 1 << 12, /* multiply-adds of one matrix above which factors are rounded: PyTorch's own limit */
    LIBRARY_MIN = 256,      /* sides from which oneDNN is faster than gemm.isa.c (by up to 15%) */
    LIBRARY_BLOCK = 512,    /* sides of its blocks where there are LIBRARY_MANY of them, else half of that */
    LIBRARY_MANY = 16,
    LIBRARY_FEW = 4, /* with fewer blocks, gemm.isa.c feeds more threads */
    NARROW = 16,     /* columns and depth of a product of halves that are widened apart */
    NARROW_DEPTH = 64,
    DOT_ROWS = 16,            /* of products that are sums of products of vectors along k, */
    DOT_COLUMNS = 12,         /* or their columns, */
    DOT_DEPTH = 32,           /* and k at least, for each of these */
    HALF_PIECE = 256,         /* elements of C that are widened together */
    PAIRS_FEW = 8,            /* rows whose factors are not worth widening, however slow products of pairs are */
    PAIRS_DEPTH = 64,         /* of a row whose products are summed by pairs */
    VECTOR_ELEMENTS = 1 << 15 /* matrix elements per chunk of a matrix-vector product */
};
static const int64_t longest_side = INT64_C(1)
                                    << 40; /* of a product that is computed: sums of rooms for it cannot overflow */

static const fac_gemm_kernels *kernels(void) { return FAC_ISA_PICK(fac__gemm_kernels)(); }

/* The way by dot products of bf16, for operands of it and for f32 that may be rounded and is worth it; NULL: as all others. */
static fac_gemm_block_fn *bf16_block(const fac_gemm *g) {
    if (g->k == 0) return NULL;
    if (g->dtype == FAC_BF16) {
        const bool faster = fac__cpu_bf16_fast || g->m <= PAIRS_FEW;
        return faster && fac__scalar_f64(g->alpha) == 1 ? FAC_ISA_PICK(fac__gemm_bf16)() : NULL;
    }
    if (!fac__cpu_bf16_fast || !g->may_round || g->dtype != FAC_F32 || g->c_dtype != FAC_F32) return NULL;
    if ((double)g->m * (double)g->n * (double)g->k <= ROUNDED_WORK) return NULL;
    return FAC_ISA_PICK(fac__gemm_bf16)();
}

static inline fac_dtype compute_type(fac_dtype d) { return d == FAC_F64 || d == FAC_C128 ? FAC_F64 : FAC_F32; }
static inline const char *at(const void *p, int64_t elements, fac_dtype d) {
    return (const char *)p + elements * fac__dtype_size(d);
}

/* ---- writing results: c = beta * c + t --------------------------------------------------------------------------- */

typedef struct merge_target {
    char *c;
    const char *from; /* halves: what beta multiplies in place of c, rows from_row apart; or NULL */
    int64_t row, col, from_row;
    fac_dtype dtype;
    double beta[2];
} merge_target;

static inline bool beta_is(const merge_target *t, double v) { return t->beta[0] == v && t->beta[1] == 0; }

#define MERGE_REAL(name, T)                                                                                          \
    static void name(const merge_target *o, int64_t m, int64_t n, const T *t, int64_t ld) {                          \
        T beta = (T)o->beta[0];                                                                                      \
        for (int64_t i = 0; i < m; i++) {                                                                            \
            T *c = (T *)(void *)o->c + i * o->row;                                                                   \
            for (int64_t j = 0; j < n; j++, c += o->col) *c = beta == 0 ? t[i * ld + j] : beta * *c + t[i * ld + j]; \
        }                                                                                                            \
    }
MERGE_REAL(merge_f32, float)
MERGE_REAL(merge_f64, double)

/* Halves are computed in f32, by pieces. */
static void merge_half(const merge_target *o, int64_t m, int64_t n, const float *t, int64_t ld) {
    const float beta = (float)o->beta[0];
    float piece[HALF_PIECE];
    if (o->col == 1 && o->row == n && ld == n && !o->from) { /* one long row */
        n *= m;
        m = 1;
    }
    for (int64_t i = 0; i < m; i++) {
        uint16_t *c = (uint16_t *)(void *)o->c + i * o->row;
        const uint16_t *from = o->from ? (const uint16_t *)(const void *)o->from + i * o->from_row : c;
        const int64_t step = o->from ? 1 : o->col;
        if (beta == 0) fac__casts[o->dtype][FAC_F32](c, o->col, t + i * ld, 1, n);
        for (int64_t j = 0; beta != 0 && j < n; j += HALF_PIECE) {
            const int64_t width = fac__min(HALF_PIECE, n - j);
            fac__casts[FAC_F32][o->dtype](piece, 1, from + j * step, step, width);
            kernels()->merge(piece, beta, t + i * ld + j, width);
            fac__casts[o->dtype][FAC_F32](c + j * o->col, o->col, piece, 1, width);
        }
    }
}

#define MERGE_COMPLEX(name, T)                                                                            \
    static void name(const merge_target *o, int64_t m, int64_t n, const T *re, const T *im, int64_t ld) { \
        T br = (T)o->beta[0], bi = (T)o->beta[1];                                                         \
        bool read = !beta_is(o, 0);                                                                       \
        for (int64_t i = 0; i < m; i++) {                                                                 \
            T *c = (T *)(void *)o->c + 2 * i * o->row;                                                    \
            for (int64_t j = 0; j < n; j++, c += 2 * o->col) {                                            \
                T x = read ? c[0] : 0, y = read ? c[1] : 0;                                               \
                c[0] = read ? br * x - bi * y + re[i * ld + j] : re[i * ld + j];                          \
                c[1] = read ? br * y + bi * x + im[i * ld + j] : im[i * ld + j];                          \
            }                                                                                             \
        }                                                                                                 \
    }
MERGE_COMPLEX(merge_c64, float)
MERGE_COMPLEX(merge_c128, double)

/* t (and t_imag for complex): [m, n] of the compute type with leading dimension ld. */
static void merge(const merge_target *o, int64_t m, int64_t n, const void *t, const void *t_imag, int64_t ld) {
    switch (o->dtype) {
    case FAC_F64: merge_f64(o, m, n, t, ld); break;
    case FAC_F16:
    case FAC_BF16: merge_half(o, m, n, t, ld); break;
    case FAC_C64: merge_c64(o, m, n, t, t_imag, ld); break;
    case FAC_C128: merge_c128(o, m, n, t, t_imag, ld); break;
    default: merge_f32(o, m, n, t, ld); break;
    }
}

static merge_target target_of(const fac_gemm *g, int64_t batch, int64_t i, int64_t j) {
    merge_target o = {.row = g->c_row, .col = g->c_col, .dtype = g->c_dtype};
    o.c = (char *)g->c + (batch * g->c_batch + i * g->c_row + j * g->c_col) * fac__dtype_size(g->c_dtype);
    fac__scalar_c128(g->beta, o.beta);
    return o;
}

/* ---- matrix by vector ---------------------------------------------------------------------------------------------- */

/* y = A x with n == 1, after transposing a product with m == 1. */
typedef struct vector_job {
    const fac_gemm *g;
    int64_t rows;            /* of A per task */
    int64_t chunks;          /* tasks per batch entry */
    bool by_cols;            /* A's columns are contiguous */
    bool direct;             /* y is written where C is */
    fac_gemv_bf16_fn *pairs; /* multiplies rows by x as it is, or NULL */
    int64_t y_bytes;
} vector_job;

/* n elements of x of one batch entry as contiguous numbers of the compute type, times alpha; in place if it already is. */
static const void *vector_x(const fac_gemm *g, int64_t batch, int64_t from, int64_t n, void *room) {
    const char *x = at(g->b.data, batch * g->b.batch + from * g->b.row, g->dtype);
    double alpha = fac__scalar_f64(g->alpha);
    if (g->b.row == 1 && alpha == 1 && !fac__is_half(g->dtype)) return x;
    fac__casts[compute_type(g->dtype)][g->dtype](room, 1, x, g->b.row, n);
    for (int64_t i = 0; alpha != 1 && i < n; i++) {
        if (g->dtype == FAC_F64)
            ((double *)room)[i] *= alpha;
        else
            ((float *)room)[i] *= (float)alpha;
    }
    return room;
}

/* One row of halves: pieces of x that stay in L1 are converted, and the pieces' products added in double. */
static void halves_row(const fac_gemm *g, int64_t batch, const char *a, char *room, float *y) {
    enum { PIECE = 4096 };
    double sum = 0;
    for (int64_t k = 0; k < g->k; k += PIECE) {
        const int64_t n = fac__min(PIECE, g->k - k);
        float part;
        kernels()->gemv_rows(g->dtype, 1, n, at(a, k, g->dtype), n, vector_x(g, batch, k, n, room), &part);
        sum += (double)part;
    }
    *y = (float)sum;
}

static void vector_task(const vector_job *job, int64_t task, char *room) {
    const fac_gemm *g = job->g;
    int64_t batch = task / job->chunks, i = task % job->chunks * job->rows, m = fac__min(job->rows, g->m - i);
    merge_target o = target_of(g, batch, i, 0);
    const bool in_pieces = g->m == 1 && fac__is_half(g->dtype) && !job->by_cols;
    const void *x = in_pieces || job->pairs ? NULL : vector_x(g, batch, 0, g->k, room + job->y_bytes);
    void *y = job->direct ? o.c : room;
    const char *a = at(g->a.data, batch * g->a.batch + i * g->a.row, g->dtype);
    if (job->pairs)
        job->pairs(m, g->k, (const uint16_t *)(const void *)a, g->a.row,
                   (const uint16_t *)(const void *)at(g->b.data, batch * g->b.batch, g->dtype), y);
    else if (in_pieces)
        halves_row(g, batch, a, room + job->y_bytes, y);
    else if (job->by_cols)
        kernels()->gemv_cols(g->dtype, g->k, m, a, g->a.col, x, y, false);
    else
        kernels()->gemv_rows(g->dtype, m, g->k, a, g->a.row, x, y);
    if (!job->direct) merge(&o, m, 1, y, NULL, 1);
}

static fac_status vector_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) vector_task(ctx, t, scratch);
    return FAC_OK;
}

static bool is_vector(const fac_gemm *g) {
    return g->n == 1 && !fac_dtype_is_complex(g->dtype) && (g->a.col == 1 || g->k == 1 || g->a.row == 1 || g->m == 1);
}

static fac_status run_vector(const fac_gemm *g) {
    const int64_t item = fac__dtype_size(compute_type(g->dtype));
    vector_job job = {.g = g, .rows = g->m, .chunks = 1};
    merge_target o = target_of(g, 0, 0, 0);
    job.by_cols = !(g->a.col == 1 || g->k == 1);
    if (g->dtype == FAC_BF16 && !job.by_cols && g->b.row == 1 && g->k >= PAIRS_DEPTH && fac__scalar_f64(g->alpha) == 1)
        job.pairs = FAC_ISA_PICK(fac__gemv_bf16)();
    if (g->m * g->k > VECTOR_ELEMENTS) {
        job.rows = fac__max(VECTOR_ELEMENTS / g->k, job.by_cols ? 256 : 1);
        job.chunks = fac__div_up(g->m, job.rows);
    }
    job.direct = !fac__is_half(g->c_dtype) && g->c_row == 1 && beta_is(&o, 0);
    job.y_bytes = job.direct ? 0 : fac__workspace_round(fac__min(job.rows, g->m) * item);
    int64_t work = fac__min(job.rows, g->m) * g->k + 16;
    return fac__parallel_for_taken(0, g->batch * job.chunks, fac__max(1, VECTOR_ELEMENTS / work),
                                   job.y_bytes + g->k * item, g->scratch, vector_range, &job);
}

/* ---- packed and library products ------------------------------------------------------------------------------------ */

typedef struct block_job {
    const fac_gemm *g;
    int64_t mb, nb;     /* sides of a block */
    int64_t rows, cols; /* blocks per batch entry */
    bool direct;        /* blocks are written where C is */
    bool library;
    bool widens;              /* the operands to f32 first */
    fac_gemm_block_fn *block; /* unless the library is the way */
    double alpha[2];
    size_t kernel_bytes;              /* of a task's scratch: packing */
    size_t plane_bytes, planes_bytes; /* one plane of a block, and the planes that are not direct */
} block_job;

/* An operand of halves, [rows, cols] or turned, becomes one of f32 at `to`, whose rows have no gaps. */
static void widen(fac_gemm_operand *x, int64_t rows, int64_t cols, fac_dtype d, float *to) {
    const bool dense = x->cs == 1 && x->rs == cols; /* one row */
    const int64_t lines = dense ? 1 : rows, n = dense ? rows * cols : cols;
    for (int64_t i = 0; i < lines; i++) fac__casts[FAC_F32][d](to + i * n, 1, x->data + 2 * i * x->rs, x->cs, n);
    x->data = (const char *)to, x->rs = cols, x->cs = 1;
}

static void turn(fac_gemm_operand *x) {
    const int64_t rs = x->rs;
    x->rs = x->cs, x->cs = rs;
}

/* The stride of a dimension of one element, which may be any number, becomes one that nothing overflows by. */
static fac_gemm_operand operand(const fac_gemm_matrix *x, const char *data, int64_t rows, int64_t cols) {
    return (fac_gemm_operand){data, rows == 1 ? 0 : x->row, cols == 1 ? 1 : x->col, x->conj};
}

static fac_status block_task(const block_job *job, int64_t task, char *room) {
    const fac_gemm *g = job->g;
    int64_t per = job->rows * job->cols, batch = task / per;
    int64_t i = task % per / job->cols * job->mb, j = task % job->cols * job->nb;
    fac_gemm_block p = {
        .dtype = g->dtype, .m = fac__min(job->mb, g->m - i), .n = fac__min(job->nb, g->n - j), .k = g->k};
    p.a = operand(&g->a, at(g->a.data, batch * g->a.batch + i * g->a.row, g->dtype), g->m, g->k);
    p.b = operand(&g->b, at(g->b.data, batch * g->b.batch + j * g->b.col, g->dtype), g->k, g->n);
    memcpy(p.alpha, job->alpha, sizeof p.alpha);
    bool complex = fac_dtype_is_complex(g->dtype);
    merge_target o = target_of(g, batch, i, j);
    p.c = job->direct ? (void *)o.c : room;
    p.c_imag = complex ? room + job->plane_bytes : NULL;
    p.ldc = job->direct ? g->c_row : p.n;
    const char *from = g->from ? at(g->from, batch * g->from_batch + i * g->from_row + j, g->c_dtype) : NULL;
    if (!job->direct) {
        o.from = from;
        o.from_row = g->from_row;
    } else if (beta_is(&o, 1)) {
        p.from = from ? from : o.c;
        p.ldf = from ? g->from_row : g->c_row;
    }
    p.scratch = room + job->planes_bytes;
    if (job->widens) {
        float *a = (float *)(void *)(room + job->planes_bytes + job->kernel_bytes);
        const bool by_cols = p.a.rs == 1;
        if (by_cols) turn(&p.a);
        widen(&p.a, by_cols ? p.k : p.m, by_cols ? p.m : p.k, g->dtype, a);
        if (by_cols) turn(&p.a);
        widen(&p.b, p.k, p.n, g->dtype, a + p.m * p.k);
        p.dtype = FAC_F32;
    }
    fac_status st = FAC_OK;
    if (job->library)
        st = fac__onednn_sgemm(&p);
    else
        job->block(&p);
    if (st == FAC_OK && !job->direct) merge(&o, p.m, p.n, p.c, p.c_imag, p.ldc);
    return st;
}

static fac_status block_range(void *ctx, int64_t begin, int64_t end, void *scratch) {
    for (int64_t t = begin; t < end; t++) FAC_TRY(block_task(ctx, t, scratch));
    return FAC_OK;
}

/* C holds the compute type and its rows have no gaps, and nothing but a sum is asked for. */
static bool writes_direct(const fac_gemm *g) {
    double beta[2];
    fac__scalar_c128(g->beta, beta);
    return (g->c_dtype == FAC_F32 || g->c_dtype == FAC_F64) && g->c_col == 1 && (beta[0] == 0 || beta[0] == 1);
}

/* Threads that a packed product keeps busy. */
static int64_t packed_threads(const fac_gemm *g) {
    int64_t tasks = g->m * g->n * g->k * g->batch / PACKED_WORK;
    return tasks < 2 || fac__in_parallel() ? 1 : fac__min(tasks, fac_num_threads());
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* Most rows and columns of a packed block; where threads share the blocks, half of the largest. */
static int64_t packed_most(const fac_gemm *g, const fac_gemm_kernels *kern, int64_t threads, int64_t *cols) {
    if (kern->large && writes_direct(g) && !bf16_block(g)) return *cols = threads > 1 ? PACKED_SIDE / 2 : PACKED_SIDE;
    *cols = PLANE_COLS;
    return compute_type(g->dtype) == FAC_F32 && kern->nr_f32 >= 32 ? 2 * PLANE_ROWS : PLANE_ROWS;
}

/* Sides of a packed block: at most what suits the caches, and even. Of the cuts that give all threads as many blocks, the
   one is taken by which the busiest thread multiplies and packs least. */
static void packed_sides(const fac_gemm *g, const fac_gemm_kernels *kern, int64_t *mb, int64_t *nb) {
    int64_t nr = compute_type(g->dtype) == FAC_F64 ? kern->nr_f64 : kern->nr_f32, strips = fac__div_up(g->n, nr);
    int64_t threads = packed_threads(g), least = INT64_MAX, widest;
    const int64_t most = packed_most(g, kern, threads, &widest);
    if (threads == 1 && g->m <= most && g->n <= widest) { /* a cut would only have more to pack */
        *mb = g->m;
        *nb = strips * nr;
        return;
    }
    for (int64_t cols = fac__div_up(g->n, widest); cols <= strips; cols *= 2) {
        int64_t step = threads / gcd(threads, g->batch * cols);
        int64_t rows = fac__div_up(fac__div_up(g->m, most), step) * step;
        int64_t m = fac__div_up(g->m, rows), n = fac__div_up(strips, cols) * nr;
        int64_t blocks = g->batch * fac__div_up(g->m, m) * fac__div_up(g->n, n);
        int64_t cost = fac__div_up(blocks, threads) * (m * n + PACKED_PACK * (m + n));
        if (cost >= least) continue;
        least = cost;
        *mb = m;
        *nb = n;
    }
}

/* Sides of at most `side`, even, in multiples of a vector; returns how many blocks they make. */
static int64_t even_sides(const fac_gemm *g, int64_t side, int64_t *mb, int64_t *nb) {
    int64_t rows = fac__div_up(g->m, side), cols = fac__div_up(g->n, side);
    *mb = fac__div_up(fac__div_up(g->m, rows), 16) * 16;
    *nb = fac__div_up(fac__div_up(g->n, cols), 16) * 16;
    return rows * cols;
}

/* Sides of oneDNN's blocks, from the shape alone; returns how many there are. */
static int64_t library_sides(const fac_gemm *g, int64_t *mb, int64_t *nb) {
    int64_t blocks = even_sides(g, LIBRARY_BLOCK, mb, nb);
    return g->batch * (blocks >= LIBRARY_MANY ? blocks : even_sides(g, LIBRARY_BLOCK / 2, mb, nb));
}

/* The table of measurements in one line: oneDNN wins where all sides are large and B need not be transposed, but not on Intel's processors
   with AVX-512. */
static bool suits_library(const fac_gemm *g) {
    const fac_gemm_matrix *a = &g->a, *b = &g->b;
    bool layout = (a->col == 1 ? a->row >= g->k : a->row == 1 && a->col >= g->m) && b->col == 1 && b->row >= g->n;
    if (!fac__onednn_built_in || (fac__cpu_intel && fac__cpu_isa == FAC_ISA_AVX512)) return false;
    return g->dtype == FAC_F32 && g->c_dtype == FAC_F32 && g->c_col == 1 && g->c_row >= g->n && layout &&
           g->m >= LIBRARY_MIN && g->n >= LIBRARY_MIN && g->k >= LIBRARY_MIN;
}

/* Whether oneDNN multiplies, and the sides of its blocks. */
static bool use_library(const fac_gemm *g, int64_t *mb, int64_t *nb) {
    return !bf16_block(g) && suits_library(g) && library_sides(g, mb, nb) >= LIBRARY_FEW;
}

/* Halves of which each takes part in few products: converting them while they are packed would cost more than these. */
static bool suits_widening(const fac_gemm *g) {
    return fac__is_half(g->dtype) && g->n <= NARROW && g->k <= NARROW_DEPTH && fac__scalar_f64(g->alpha) == 1;
}

/* Few rows or columns, all of which lie along k: packing would cost more than sums over vectors. */
static bool suits_dots(const fac_gemm *g) {
    return (g->dtype == FAC_F32 || g->dtype == FAC_F64 || g->dtype == FAC_BF16) &&
           ((g->n <= DOT_COLUMNS && g->k >= DOT_DEPTH * g->n) || (g->m <= DOT_ROWS && g->k >= DOT_DEPTH * g->m)) &&
           g->a.col == 1 && g->b.row == 1 && g->b.col != 1 && fac__scalar_f64(g->alpha) == 1;
}

static int64_t widened_bytes(int64_t rows, int64_t depth) { return (rows + NARROW) * depth * (int64_t)sizeof(float); }

static fac_status run_blocks(const fac_gemm *g) {
    const fac_gemm_kernels *kern = kernels();
    block_job job = {.g = g, .direct = writes_direct(g)};
    fac__scalar_c128(g->alpha, job.alpha);
    job.library = use_library(g, &job.mb, &job.nb);
    if (!job.library) {
        job.widens = suits_widening(g) && g->n <= kern->nr_f32; /* in one block of columns */
        fac_gemm_block_fn *pairs = job.widens ? NULL : bf16_block(g);
        const bool rounds = pairs && g->dtype == FAC_F32; /* in products of every shape */
        if (!job.widens && !rounds && suits_dots(g))
            job.block = g->dtype == FAC_BF16 ? FAC_ISA_PICK(fac__gemm_bf16_dots)() : kern->dots;
        if (!job.block) job.block = pairs ? pairs : kern->block;
        packed_sides(g, kern, &job.mb, &job.nb);
        job.kernel_bytes = kern->scratch_bytes(job.mb, job.nb, g->k, g->dtype);
        if (job.widens) job.kernel_bytes = (size_t)fac__workspace_round((int64_t)job.kernel_bytes);
    }
    job.plane_bytes = (size_t)(job.mb * job.nb) * fac__dtype_size(compute_type(g->dtype));
    job.planes_bytes = job.direct ? 0 : job.plane_bytes * (fac_dtype_is_complex(g->dtype) ? 2 : 1);
    job.rows = fac__div_up(g->m, job.mb);
    job.cols = fac__div_up(g->n, job.nb);
    int64_t work = fac__min(job.mb, g->m) * fac__min(job.nb, g->n) * g->k + 1;
    const int64_t widened = job.widens ? widened_bytes(job.mb, g->k) : 0;
    return fac__parallel_for_taken(0, g->batch * job.rows * job.cols, fac__max(1, TASK_WORK / work),
                                   (int64_t)(job.planes_bytes + job.kernel_bytes) + widened, g->scratch, block_range,
                                   &job);
}

/* ---- products split along k ------------------------------------------------------------------------------------------ */

static fac_status run(const fac_gemm *g) { return is_vector(g) ? run_vector(g) : run_blocks(g); }

/* Parts to split k into; 1: do not. */
static int64_t split_parts(const fac_gemm *g) {
    if (g->batch != 1 || fac_dtype_is_complex(g->dtype) || g->k < 2 * SPLIT_DEPTH || g->m * g->n > SPLIT_ELEMENTS)
        return 1;
    /* A vector's rows are tasks enough when there are many. */
    if (is_vector(g) ? g->m > 64 : g->m * g->n * g->k < 16 * TASK_WORK) return 1;
    return fac__min(SPLIT_MAX, g->k / SPLIT_DEPTH);
}

/* parts[0] += parts[1..n_parts), each of `size` numbers, in order. */
static void add_parts(void *parts, int64_t n_parts, int64_t size, fac_dtype dtype) {
    double *d = parts;
    float *f = parts;
    for (int64_t p = 1; p < n_parts; p++)
        for (int64_t e = 0; e < size; e++) {
            if (dtype == FAC_F64)
                d[e] += d[p * size + e];
            else
                f[e] += f[p * size + e];
        }
}

/* Room for the parts: the front of g's scratch, of which *rest is left, or else *own. */
static fac_status take_parts(const fac_gemm *g, int64_t bytes, fac_workspace *rest, fac_workspace *own, char **parts) {
    *rest = g->scratch;
    if (!g->scratch.at) {
        FAC_TRY(fac__workspace_take(bytes, own));
        *parts = own->at;
        return FAC_OK;
    }
    *parts = rest->at;
    rest->at += fac__workspace_round(bytes);
    rest->bytes -= fac__workspace_round(bytes);
    return FAC_OK;
}

static fac_status run_split(const fac_gemm *g, int64_t n_parts) {
    fac_gemm head = *g, tail;
    int64_t depth = g->k / n_parts, size = g->m * g->n;
    head.c_dtype = compute_type(g->dtype);
    size_t item = fac__dtype_size(head.c_dtype);
    fac_workspace own = {0};
    char *parts;
    FAC_TRY(take_parts(g, n_parts * size * (int64_t)item, &head.scratch, &own, &parts));
    head.batch = n_parts - 1;
    head.k = depth;
    head.a.batch = depth * g->a.col;
    head.b.batch = depth * g->b.row;
    head.c = parts;
    head.c_row = g->n;
    head.c_col = 1;
    head.c_batch = size;
    head.beta = fac_scalar_i_(0);
    tail = head;
    tail.batch = 1;
    tail.k = g->k - (n_parts - 1) * depth;
    tail.a.data = at(g->a.data, (n_parts - 1) * head.a.batch, g->dtype);
    tail.b.data = at(g->b.data, (n_parts - 1) * head.b.batch, g->dtype);
    tail.c = parts + (size_t)((n_parts - 1) * size) * item;
    fac_status st = run(&head);
    if (st == FAC_OK) st = run(&tail);
    if (st == FAC_OK) {
        add_parts(parts, n_parts, size, head.c_dtype);
        merge_target o = target_of(g, 0, 0, 0);
        merge(&o, g->m, g->n, parts, NULL, g->n);
    }
    fac__workspace_give(own);
    return st;
}

/* ---- scratch ---------------------------------------------------------------------------------------------------------- */

/* C^T = B^T A^T. */
static void transpose(fac_gemm *g) {
    fac_gemm_matrix a = g->a, b = g->b;
    g->a = (fac_gemm_matrix){b.data, b.col, b.row, b.batch, b.conj};
    g->b = (fac_gemm_matrix){a.data, a.col, a.row, a.batch, a.conj};
    int64_t m = g->m, row = g->c_row;
    g->m = g->n;
    g->n = m;
    g->c_row = g->c_col;
    g->c_col = row;
}

/* Bounds that grow with each size, whatever way of computing the sizes lead to. */
static int64_t split_bytes(const fac_gemm *g, int64_t item) {
    if (g->batch != 1 || g->k < 2 * SPLIT_DEPTH) return 0;
    return fac__min(SPLIT_MAX, g->k / SPLIT_DEPTH) * fac__min(fac__mul_or_max(g->m, g->n), SPLIT_ELEMENTS) * item;
}

static int64_t block_bytes(const fac_gemm *g, int64_t item) {
    const fac_gemm_kernels *kern = kernels();
    const int64_t nr = compute_type(g->dtype) == FAC_F64 ? kern->nr_f64 : kern->nr_f32;
    int64_t widest;
    const int64_t most = packed_most(g, kern, 1, &widest), m = fac__min(g->m, most),
                  n = fac__min(fac__div_up(g->n, nr) * nr, widest);
    const int64_t side = fac__max(most, LIBRARY_BLOCK), width = fac__max(widest, LIBRARY_BLOCK);
    /* What is direct is so with more than one column. */
    const int64_t rows = fac__min(fac__div_up(g->m, 16) * 16, side),
                  cols = writes_direct(g) ? nr : fac__min(fac__div_up(g->n, nr) * nr, width),
                  plane = rows * cols * item;
    const int64_t widened = fac__is_half(g->dtype) ? widened_bytes(most, fac__min(g->k, NARROW_DEPTH)) : 0;
    return fac__workspace_round((int64_t)kern->scratch_bytes(m, n, g->k, g->dtype)) + widened +
           plane * (fac_dtype_is_complex(g->dtype) ? 2 : 1);
}

int64_t fac__gemm_scratch(const fac_gemm *request, int threads) {
    if (fac_dtype_is_integral(request->dtype, true)) return 0;
    const int64_t item = fac__dtype_size(compute_type(request->dtype));
    fac_gemm g = *request, turned;
    if (!g.c_dtype) g.c_dtype = g.dtype;
    g.m = fac__min(g.m, longest_side);
    g.n = fac__min(g.n, longest_side);
    g.k = fac__min(g.k, longest_side);
    turned = g;
    transpose(&turned);
    const int64_t block = fac__max(block_bytes(&g, item), block_bytes(&turned, item));
    const int64_t vector = fac__workspace_round(fac__max(g.m, g.n) * item) + g.k * item;
    return fac__workspace_round(split_bytes(&g, item)) + threads * fac__workspace_round(fac__max(block, vector));
}

/* ---- entry ------------------------------------------------------------------------------------------------------------ */

/* How many multiplications there are; false if too many to count or along too long a side. */
static bool count_work(const fac_gemm *g, int64_t *work) {
    return fac__mul(g->m, g->n, work) && fac__mul(*work, fac__max(g->k, 1), work) && fac__mul(*work, g->batch, work) &&
           (*work == 0 || fac__max(g->m, fac__max(g->n, g->k)) <= longest_side);
}

bool fac__gemm_takes_from(const fac_gemm *request) {
    fac_gemm g = *request;
    if (!g.c_dtype) g.c_dtype = g.dtype;
    int64_t mb, nb, work;
    const bool in_place = fac__is_half(g.c_dtype) ? g.c_col == 1 : writes_direct(&g);
    return count_work(&g, &work) && in_place && g.m > 1 && g.n > 1 && g.k > 0 && split_parts(&g) == 1 &&
           !use_library(&g, &mb, &nb);
}

fac_status fac__gemm(const fac_gemm *request) {
    fac_gemm g = *request;
    if (!g.c_dtype) g.c_dtype = g.dtype;
    int64_t work;
    FAC_CHECK(count_work(&g, &work), FAC_ERR_OVERFLOW, "a product of %lld x [%lld, %lld] and [%lld, %lld] is too large",
              (long long)g.batch, (long long)g.m, (long long)g.k, (long long)g.k, (long long)g.n);
    if (work == 0) return FAC_OK;
    FAC_CHECK(g.dtype != FAC_BOOL, FAC_ERR_DTYPE, "matrix products are not implemented for 'Bool'");
    if (fac_dtype_is_integral(g.dtype, false)) return fac__gemm_int(&g);
    /* Row-major C, and the vector on the right. */
    if (g.n != 1 && (g.m == 1 || (g.c_row == 1 && g.c_col != 1))) transpose(&g);
    int64_t parts = split_parts(&g);
    return parts > 1 ? run_split(&g, parts) : run(&g);
}
