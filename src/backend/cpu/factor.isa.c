/* The factors and systems of factor_body.h in f32 and in f64. */
#include "backend/cpu/factor.h"
#include "backend/cpu/kernels/transpose.h"
#include "backend/cpu/simd.h"

#if FAC_VECTOR_BYTES == 64
#define ROWS 8 /* 16 accumulators, two vectors of lanes and one of numbers, of 32 registers */
#else
#define ROWS 4 /* 8, two and one of 16 */
#endif
#define BLOCK 8  /* reflections that are applied together */
#define PANEL 16 /* columns of an LU panel; a multiple of all LANES */

/* Whether tall panels of QR have a way of their own. For x86 without AVX2, where the library is to be small, they have not. */
#if FAC_VECTOR_BYTES == 16 && defined(__x86_64__)
#define COLUMNS 0
#else
#define COLUMNS 1
#endif

#if COLUMNS
/* Columns of a panel from rows, and back. */
static void turn_f32(char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t cols) {
    FAC_ISA_NAME(fac__transpose_4)(to, to_row, from, from_row, rows, cols, false);
}
static void turn_f64(char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t cols) {
    FAC_ISA_NAME(fac__transpose_8)(to, to_row, from, from_row, rows, cols);
}
#endif

#define T float
#define V fac_vf32
#define I int32_t
#define VI fac_vi32
#define LANES FAC_LANES_F32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define FMA fac_fma_f32
#define TRANSPOSE fac_transpose_f32
#define ROOT __builtin_sqrtf
#define LEAST_SQUARE 0x1p-60
#define MOST_SQUARE 0x1p60
#define N(name) FAC_PASTE(name, _f32)
typedef int32_t fac_vi32 __attribute__((vector_size(FAC_VECTOR_BYTES)));
#include "backend/cpu/factor_body.h"
#undef T
#undef V
#undef I
#undef VI
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef FMA
#undef TRANSPOSE
#undef ROOT
#undef LEAST_SQUARE
#undef MOST_SQUARE
#undef N

#define T double
#define V fac_vf64
#define I int64_t
#define VI fac_vi64
#define LANES FAC_LANES_F64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define FMA fac_fma_f64
#define TRANSPOSE fac_transpose_f64
#define ROOT __builtin_sqrt
#define LEAST_SQUARE 0x1p-600
#define MOST_SQUARE 0x1p600
#define N(name) FAC_PASTE(name, _f64)
typedef int64_t fac_vi64 __attribute__((vector_size(FAC_VECTOR_BYTES)));
#include "backend/cpu/factor_body.h"

static void solve(const fac_systems *s, int64_t first, void *tile) {
    if (s->dtype == FAC_F64)
        solve_f64(s, first, tile);
    else
        solve_f32(s, first, tile);
}

static int cholesky(fac_dtype dtype, int64_t n, void *a, int64_t ld) {
    return dtype == FAC_F64 ? cholesky_f64(n, a, ld) : cholesky_f32(n, a, ld);
}

static int lu(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, int *pivots, void *tile) {
    return dtype == FAC_F64 ? lu_f64(m, n, a, ld, pivots, tile) : lu_f32(m, n, a, ld, pivots, tile);
}

static int ldl(fac_dtype dtype, int64_t n, void *a, int64_t ld, int *pivots) {
    return dtype == FAC_F64 ? ldl_f64(n, a, ld, pivots) : ldl_f32(n, a, ld, pivots);
}

static void qr(fac_dtype dtype, int64_t m, int64_t n, void *a, int64_t ld, void *tau, void *room) {
    if (dtype == FAC_F64)
        qr_f64(m, n, a, ld, tau, room);
    else
        qr_f32(m, n, a, ld, tau, room);
}

static void qr_apply(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t ld, const void *tau, bool transpose,
                     void *c, int64_t ldc, int64_t cols, bool identity, void *room) {
    if (dtype == FAC_F64)
        qr_apply_f64(m, k, a, ld, tau, transpose, c, ldc, cols, identity, room);
    else
        qr_apply_f32(m, k, a, ld, tau, transpose, c, ldc, cols, identity, room);
}

#if COLUMNS
static void qr_columns(fac_dtype dtype, int64_t m, int64_t n, void *v, int64_t ld, void *tau) {
    if (dtype == FAC_F64)
        reflect_columns_f64(m, (int)n, v, ld, tau);
    else
        reflect_columns_f32(m, (int)n, v, ld, tau);
}

static void qr_columns_give(fac_dtype dtype, int64_t m, int64_t n, void *v, int64_t ld, const void *tau, void *q,
                            int64_t ldq) {
    if (dtype == FAC_F64)
        give_columns_f64(m, (int)n, v, ld, tau, q, ldq);
    else
        give_columns_f32(m, (int)n, v, ld, tau, q, ldq);
}
#endif

const fac_factor_kernels *FAC_ISA_NAME(fac__factor_kernels)(void) {
    static const fac_factor_kernels table = {
        .strip_f32 = 2 * FAC_LANES_F32,
        .strip_f64 = 2 * FAC_LANES_F64,
        .solve = solve,
        .cholesky = cholesky,
        .lu = lu,
        .ldl = ldl,
        .qr = qr,
#if COLUMNS
        .qr_columns = qr_columns,
        .qr_columns_give = qr_columns_give,
#endif
        .qr_apply = qr_apply
    };
    return &table;
}
