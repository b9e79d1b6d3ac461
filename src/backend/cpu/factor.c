/* Large factors are cut in two, left and right: the left half, its triangle applied to the right one, a matrix product, the right half.
   Products and right sides are shared among threads; what is left to one thread is the blocks on the diagonal. Where a factor is cut
   depends on its shape alone. */
#include "backend/cpu/factor.h"
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/lapack.h"

enum {
    WHOLE = 128,         /* sides up to which a factor is not cut */
    CUT = 64,            /* what halves are multiples of, and sides up to which a complex inverse is left to LAPACK */
    PANEL = 16,          /* right sides in a tile of LU */
    SQUARE = 128,        /* columns of a symmetric product that are computed together */
    MIRRORED = 16,       /* columns of a symmetric matrix that are mirrored together */
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

/* C[m, n] = beta C - A[m, k] B[k, n], all in columns or, A and B, with any strides. With scratch memory it can fail for the library's
   reasons only. */
static fac_status product(fac_dtype dtype, int64_t m, int64_t n, int64_t k, fac_gemm_matrix a, fac_gemm_matrix b,
                          int beta, void *c, int64_t ld, fac_workspace scratch) {
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
                        .beta = fac_scalar_i_(beta),
                        .scratch = scratch};
    return fac__gemm(&g);
}

/* The same with a beta of 1, for the lower triangle of a symmetric C[n, n], and some numbers above it. */
static fac_status subtract_lower(fac_dtype dtype, int64_t n, int64_t k, fac_gemm_matrix a, fac_gemm_matrix b, void *c,
                                 int64_t ld, fac_workspace scratch) {
    for (int64_t j = 0; j < n; j += SQUARE) {
        fac_gemm_matrix x = a, y = b;
        x.data = at(a.data, j * a.row, dtype);
        y.data = at(b.data, j * b.col, dtype);
        FAC_TRY(product(dtype, n - j, fac__min(SQUARE, n - j), k, x, y, 1, at(c, j * (ld + 1), dtype), ld, scratch));
    }
    return FAC_OK;
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
    const fac_status st =
        subtract_lower(dtype, right, left, (fac_gemm_matrix){.data = below, .row = 1, .col = ld},
                       (fac_gemm_matrix){.data = below, .row = ld, .col = 1}, at(below, left * ld, dtype), ld, scratch);
    if (st != FAC_OK) return -(int)st;
    info = fac__factor_cholesky(dtype, right, at(a, left * (ld + 1), dtype), ld, scratch);
    return info > 0 ? (int)left + info : info;
}

/* ---- inverses from Cholesky factors ------------------------------------------------------------------------------------------ */

/* Of numbers of one or two parts, the second of which changes its sign: what is above the diagonal of a small square, from what is below;
   and to[c][r] = from[r][c] of complex numbers for r < rows, c < cols. */
#define MIRROR(T)                                                                        \
    static void mirror_square_##T(int parts, int64_t n, T *a, int64_t ld) {              \
        for (int64_t c = 0; c < n; c++) {                                                \
            if (parts == 2) a[2 * c * (ld + 1) + 1] = 0;                                 \
            for (int64_t r = c + 1; r < n; r++) {                                        \
                T *to = a + parts * (r * ld + c);                                        \
                const T *from = a + parts * (c * ld + r);                                \
                to[0] = from[0];                                                         \
                if (parts == 2) to[1] = -from[1];                                        \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    static void turn_##T(int64_t rows, int64_t cols, T *to, const T *from, int64_t ld) { \
        for (int64_t j = 0; j < cols; j += MIRRORED)                                     \
            for (int64_t r = 0; r < rows; r++)                                           \
                for (int64_t c = j; c < fac__min(j + MIRRORED, cols); c++) {             \
                    to[2 * (r * ld + c)] = from[2 * (c * ld + r)];                       \
                    to[2 * (r * ld + c) + 1] = -from[2 * (c * ld + r) + 1];              \
                }                                                                        \
    }
MIRROR(float)
MIRROR(double)

/* The conjugate transpose; columns of both are ld numbers apart. */
static void turn(fac_dtype dtype, int64_t rows, int64_t cols, void *to, const void *from, int64_t ld) {
    if (dtype == FAC_F32)
        FAC_ISA_PICK(fac__transpose_4)(to, ld * 4, from, ld * 4, rows, cols, false);
    else if (dtype == FAC_F64)
        FAC_ISA_PICK(fac__transpose_8)(to, ld * 8, from, ld * 8, rows, cols);
    else if (dtype == FAC_C64)
        turn_float(rows, cols, to, from, ld);
    else
        turn_double(rows, cols, to, from, ld);
}

/* What is above the diagonal, from what is below it. */
static void mirror(fac_dtype dtype, int64_t n, void *a, int64_t ld) {
    const int parts = fac__factor_takes(dtype) ? 1 : 2;
    for (int64_t j = 0; j < n; j += MIRRORED) {
        const int64_t size = fac__min(MIRRORED, n - j), end = j + size;
        void *square = at(a, j * (ld + 1), dtype);
        if (dtype == FAC_F32 || dtype == FAC_C64)
            mirror_square_float(parts, size, square, ld);
        else
            mirror_square_double(parts, size, square, ld);
        turn(dtype, n - end, size, at(a, end * ld + j, dtype), at(a, j * ld + end, dtype), ld);
    }
}

/* s without its first unknowns: the inverse's part that is left is the inverse of what the rest of the factor makes. */
static fac_systems without(const fac_systems *s, int64_t first) {
    fac_systems rest = *s;
    rest.n -= first;
    for (int k = 0; k < 2; k++) rest.t[k].a = at(s->t[k].a, first * (s->t[k].rs + s->t[k].cs), s->dtype);
    rest.x = at(s->x, first * (s->x_rs + s->x_cs), s->dtype);
    return rest;
}

/* Strips of columns from the diagonal on. */
static fac_status inverse_chunk(void *ctx, int64_t begin, int64_t end, void *tile) {
    const strips *j = ctx;
    for (int64_t i = begin; i < end; i++) {
        fac_systems s = without(j->s, i * j->width);
        s.k = fac__min(j->width, s.n);
        kernels()->solve(&s, 0, tile);
    }
    return FAC_OK;
}

static void small_inverse(const fac_systems *s, fac_workspace scratch) {
    strips j = {s, strip_of(s->dtype)};
    const int n = (int)s->n, ld = (int)s->x_cs;
    int info;
    if (fac__factor_takes(s->dtype))
        (void)fac__parallel_for_taken(0, fac__div_up(n, j.width), fac__grain(CHUNK_WORK, s->n * n / 3 * j.width),
                                      tile_bytes(n, s->dtype), scratch, inverse_chunk, &j);
    else
        fac__lapack.potri[fac__lapack_kind(s->dtype)]("L", &n, s->x, &ld, &info, 1);
    mirror(s->dtype, n, s->x, ld);
}

/* L21 L11^-1 below L11's inverse, where L21 stands if the factor is complex. */
static void divide_below(const fac_systems *s, int64_t left, fac_workspace scratch) {
    const fac_triangle *l = &s->t[0];
    const int kind = fac__lapack_kind(s->dtype), m = (int)(s->n - left), n = (int)left, ld = (int)s->x_cs;
    const fac_systems w = {.dtype = s->dtype,
                           .n = left,
                           .k = m,
                           .steps = 1,
                           .t = {s->t[1]},
                           .b = at(l->a, left * l->rs, s->dtype),
                           .b_rs = l->cs,
                           .b_cs = l->rs,
                           .x = at(s->x, left, s->dtype),
                           .x_rs = ld,
                           .x_cs = 1};
    const float one_f32[] = {1, 0};
    const double one_f64[] = {1, 0};
    if (kind < 2)
        fac__solve_systems(&w, scratch);
    else
        fac__lapack.trsm[kind]("R", "L", "N", "N", &m, &n, kind == 2 ? (const void *)one_f32 : one_f64, s->x, &ld, w.x,
                               &ld, 1, 1, 1, 1);
}

/* With W = L21 L11^-1, which stands in X21's place meanwhile: X22 = (L22 L22^H)^-1, X12 = -W^H X22, X11 = (L11 L11^H)^-1 - X12 W. */
static fac_status inverse(const fac_systems *s, fac_workspace scratch) {
    if (s->n <= (fac__factor_takes(s->dtype) ? WHOLE : CUT)) {
        small_inverse(s, scratch);
        return FAC_OK;
    }
    const fac_dtype dtype = s->dtype;
    const int64_t left = half(s->n), right = s->n - left, ld = s->x_cs;
    fac_systems first = *s, rest = without(s, left);
    first.n = left;
    char *below = at(s->x, left, dtype), *beside = at(s->x, left * ld, dtype);
    const fac_gemm_matrix w = {.data = below, .row = 1, .col = ld},
                          wh = {.data = below, .row = ld, .col = 1, .conj = !fac__factor_takes(dtype)};
    divide_below(s, left, scratch);
    FAC_TRY(inverse(&rest, scratch));
    FAC_TRY(product(dtype, left, right, right, wh, (fac_gemm_matrix){.data = rest.x, .row = 1, .col = ld}, 0, beside,
                    ld, scratch));
    FAC_TRY(inverse(&first, scratch));
    FAC_TRY(subtract_lower(dtype, left, right, (fac_gemm_matrix){.data = beside, .row = 1, .col = ld}, w, s->x, ld,
                           scratch));
    mirror(dtype, left, s->x, ld);
    turn(dtype, left, right, below, beside, ld);
    return FAC_OK;
}

fac_status fac__factor_inverse(fac_dtype dtype, int64_t n, const fac_triangle *l, void *x, int64_t ld,
                               fac_workspace scratch) {
    const fac_triangle turned = {.a = l->a, .rs = l->cs, .cs = l->rs, .upper = true};
    const fac_systems s = {.dtype = dtype, .n = n, .steps = 2, .t = {*l, turned}, .x = x, .x_rs = 1, .x_cs = ld};
    return inverse(&s, scratch);
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
        product(dtype, m - left, n - left, left, (fac_gemm_matrix){.data = at(a, left, dtype), .row = 1, .col = ld},
                (fac_gemm_matrix){.data = right, .row = 1, .col = ld}, 1, below, ld, scratch);
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
