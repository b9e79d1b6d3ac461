/* Large factors are cut in two, left and right: the left half, its triangle applied to the right one, a matrix product, the right half.
   Products and right sides are shared among threads; what is left to one thread is the blocks on the diagonal. Where a factor is cut
   depends on its shape alone. */
#include "backend/cpu/factor.h"
#include "backend/cpu/blas.h"

enum {
    WHOLE = 128,         /* sides up to which a factor is not cut */
    CUT = 64,            /* what halves are multiples of */
    PANEL = 16,          /* right sides in a tile of LU */
    SQUARE = 128,        /* columns of a symmetric product that are computed together */
    CHUNK_WORK = 1 << 18 /* multiply-adds per chunk of right sides: some microseconds */
};

static const fac_factor_kernels *kernels(void) { return FAC_ISA_PICK(fac__factor_kernels)(); }
static int64_t strip_of(fac_dtype d) { return d == FAC_F64 ? kernels()->strip_f64 : kernels()->strip_f32; }
static char *at(const void *a, int64_t elements, fac_dtype d) {
    return (char *)(uintptr_t)a + elements * fac__dtype_size(d);
}

int64_t fac__factor_ld(int64_t rows, fac_dtype dtype) {
    const int64_t ld = fac__div_up(fac__max(rows, 1), PANEL) * PANEL;
    return ld * fac__dtype_size(dtype) % 512 == 0 ? ld + PANEL : ld;
}

int fac__factor_threads(int64_t count) { return count > 1 || fac__in_parallel() ? 1 : fac_num_threads(); }

static int64_t tile_bytes(int64_t n, fac_dtype dtype) {
    return fac__workspace_round(n * fac__max(strip_of(dtype), PANEL) * fac__dtype_size(dtype));
}

int64_t fac__factor_scratch(int64_t m, int64_t n, fac_dtype dtype, int threads) {
    const int64_t k = fac__min(m, n), tiles = threads * tile_bytes(k, dtype);
    if (k <= WHOLE) return tiles;
    const fac_gemm g = {.dtype = dtype,
                        .batch = 1,
                        .m = m,
                        .n = n,
                        .k = k,
                        .c_row = 1,
                        .c_col = m,
                        .alpha = fac_scalar_i_(-1),
                        .beta = fac_scalar_i_(1)};
    return fac__max(tiles, fac__gemm_scratch(&g, threads));
}

fac_status fac__factor_for(int64_t n, double work, int64_t bytes, fac_scratch_fn fn, void *ctx) {
    const int64_t grain = fac__grain(CHUNK_WORK, work < CHUNK_WORK ? (int64_t)work : CHUNK_WORK);
    return fac__parallel_for_scratch(0, n, grain, fac__max(1, bytes), fn, ctx);
}

/* ---- systems --------------------------------------------------------------------------------------------------------------- */

typedef struct strips {
    const fac_systems *s;
    int64_t width;
} strips;

static fac_status solve_chunk(void *ctx, int64_t begin, int64_t end, void *tile) {
    const strips *j = ctx;
    for (int64_t i = begin; i < end; i++) kernels()->solve(j->s, i * j->width, tile);
    return FAC_OK;
}

void fac__solve_systems(const fac_systems *s, fac_workspace scratch) {
    strips j = {s, strip_of(s->dtype)};
    const int64_t each = fac__mul_or_max(fac__mul_or_max(s->n, s->n) / 2, j.width * s->steps),
                  n = fac__div_up(s->k, j.width);
    (void)fac__parallel_for_taken(0, n, fac__grain(CHUNK_WORK, each), tile_bytes(s->n, s->dtype), scratch, solve_chunk,
                                  &j);
}

/* C[m, n] -= A[m, k] B[k, n], all in columns or, A and B, with any strides. With scratch memory it can fail for the library's
   reasons only. */
static fac_status subtract(fac_dtype dtype, int64_t m, int64_t n, int64_t k, fac_gemm_matrix a, fac_gemm_matrix b,
                           void *c, int64_t ld, fac_workspace scratch) {
    const fac_gemm g = {.dtype = dtype,
                        .batch = 1,
                        .m = m,
                        .n = n,
                        .k = k,
                        .a = a,
                        .b = b,
                        .c = c,
                        .c_row = 1,
                        .c_col = ld,
                        .alpha = fac_scalar_i_(-1),
                        .beta = fac_scalar_i_(1),
                        .scratch = scratch};
    return fac__gemm(&g);
}

static int64_t half(int64_t n) { return fac__div_up(n / 2, CUT) * CUT; }

/* ---- Cholesky --------------------------------------------------------------------------------------------------------------- */

int fac__factor_cholesky(fac_dtype dtype, int64_t n, void *a, int64_t ld, fac_workspace scratch) {
    if (n <= WHOLE) return kernels()->cholesky(dtype, n, a, ld);
    const int64_t left = half(n), right = n - left;
    char *below = at(a, left, dtype);
    int info = fac__factor_cholesky(dtype, left, a, ld, scratch);
    if (info) return info;
    const fac_systems s = {.dtype = dtype,
                           .n = left,
                           .k = right,
                           .steps = 1,
                           .t = {{.a = a, .rs = 1, .cs = ld}},
                           .b = below,
                           .b_rs = ld,
                           .b_cs = 1,
                           .x = below,
                           .x_rs = ld,
                           .x_cs = 1};
    fac__solve_systems(&s, scratch);
    for (int64_t j = 0; j < right; j += SQUARE) {
        const fac_gemm_matrix x = {.data = at(below, j, dtype), .row = 1, .col = ld},
                              y = {.data = x.data, .row = ld, .col = 1};
        const fac_status st = subtract(dtype, right - j, fac__min(SQUARE, right - j), left, x, y,
                                       at(below, left * ld + j * (ld + 1), dtype), ld, scratch);
        if (st != FAC_OK) return -(int)st;
    }
    info = fac__factor_cholesky(dtype, right, at(a, left * (ld + 1), dtype), ld, scratch);
    return info > 0 ? (int)left + info : info;
}

/* ---- LU ---------------------------------------------------------------------------------------------------------------------- */

static void swap_rows(fac_dtype dtype, int64_t columns, void *a, int64_t ld, const int *pivots, int64_t begin,
                      int64_t end) {
    for (int64_t c = 0; c < columns; c++) {
        float *f = (float *)(void *)at(a, c * ld, dtype);
        double *d = (double *)(void *)f;
        for (int64_t i = begin; dtype == FAC_F32 && i < end; i++) {
            const float x = f[i];
            f[i] = f[pivots[i]];
            f[pivots[i]] = x;
        }
        for (int64_t i = begin; dtype == FAC_F64 && i < end; i++) {
            const double x = d[i];
            d[i] = d[pivots[i]];
            d[pivots[i]] = x;
        }
    }
}

/* As fac__factor_lu, with pivots counted from zero. */
static int lu(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, int *pivots, fac_workspace scratch) {
    const int64_t k = fac__min(m, n);
    if (k <= WHOLE) return kernels()->lu(dtype, m, n, a, ld, pivots, scratch.at);
    const int64_t left = half(k);
    char *right = at(a, left * ld, dtype), *below = at(right, left, dtype);
    const int info = lu(dtype, m, left, a, ld, pivots, scratch);
    if (info < 0) return info;
    swap_rows(dtype, n - left, right, ld, pivots, 0, left);
    const fac_systems s = {.dtype = dtype,
                           .n = left,
                           .k = n - left,
                           .steps = 1,
                           .t = {{.a = a, .rs = 1, .cs = ld, .unit = true}},
                           .b = right,
                           .b_rs = 1,
                           .b_cs = ld,
                           .x = right,
                           .x_rs = 1,
                           .x_cs = ld};
    fac__solve_systems(&s, scratch);
    const fac_status st =
        subtract(dtype, m - left, n - left, left, (fac_gemm_matrix){.data = at(a, left, dtype), .row = 1, .col = ld},
                 (fac_gemm_matrix){.data = right, .row = 1, .col = ld}, below, ld, scratch);
    if (st != FAC_OK) return -(int)st;
    const int more = lu(dtype, m - left, n - left, below, ld, pivots + left, scratch);
    if (more < 0) return more;
    for (int64_t i = left; i < k; i++) pivots[i] += (int)left;
    swap_rows(dtype, left, a, ld, pivots, left, k);
    return info ? info : more ? (int)left + more : 0;
}

int fac__factor_lu(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, int *pivots, fac_workspace scratch) {
    const int info = lu(dtype, m, n, a, ld, pivots, scratch);
    if (info < 0) return info;
    for (int64_t i = 0; i < fac__min(m, n); i++) pivots[i]++;
    return info;
}
