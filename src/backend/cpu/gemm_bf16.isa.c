/* The packed product of pairs of bf16 by the instruction that multiplies them: c += a[2p] b[2p] + a[2p + 1] b[2p + 1] in each lane, in
   f32. The operands are bf16, or f32 that is rounded to it while it is packed. Built for AVX-512, run where fac__cpu_bf16 says that
   the processor has it. The instructions take numbers below the normal range for zero.

   As in gemm_body.h, C goes in strips of NR columns and panels of at most MR rows, so that MR x 2 accumulators stay in registers. A
   panel of A is packed as [pairs][rows], a strip of B as [pairs][NR]; an odd depth ends with zeros. Each element of C is summed over k
   in order, by pairs, in passes of DEPTH; borders of panels, strips and blocks do not change it. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "core/scalar.h"

#if FAC_ISA_LEVEL >= 2
#include <immintrin.h>

#define WITH_BF16 __attribute__((target("avx512bf16")))
enum {
    LANES = 16,
    NR = 2 * LANES,
    MR = 14,
    DEPTH = 2 * FAC_GEMM_KC, /* so that a packed strip takes the room that one of f32 takes */
    GROUP = 4                /* strips packed together */
};

/* Of a vector, the first n. */
static __mmask16 lanes_of(int64_t n) { return (__mmask16)((1u << fac__max(0, fac__min(LANES, n))) - 1); }

/* Where a strip of C begins, and which lanes of its two vectors exist. */
typedef struct corner {
    float *c;
    const float *from;
    int64_t ldc, ldf;
    __mmask16 lanes[2];
} corner;

/* c[rows, NR] = from[rows, NR] (0 if NULL) + a[pairs][rows]^T b[pairs][NR]. `rows` is constant where this is inlined. */
WITH_BF16 __attribute__((always_inline)) static inline void tile(const int rows, int64_t pairs, const uint32_t *a,
                                                                 const uint32_t *b, const corner *o) {
    __m512 acc[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(o->c + i * o->ldc, 1);
        __builtin_prefetch(o->c + i * o->ldc + LANES, 1);
        acc[i][0] = acc[i][1] = _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < pairs; p++, a += rows, b += NR) {
        const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + LANES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
            acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, b0);
            acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        for (int v = 0; v < 2; v++) {
            __m512 sum = acc[i][v];
            if (o->from) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(o->lanes[v], o->from + i * o->ldf + v * LANES), sum);
            _mm512_mask_storeu_ps(o->c + i * o->ldc + v * LANES, o->lanes[v], sum);
        }
    }
}

typedef void tile_fn(int64_t pairs, const uint32_t *a, const uint32_t *b, const corner *o);
#define TILE(rows)                                                                                           \
    WITH_BF16 static void tile##rows(int64_t pairs, const uint32_t *a, const uint32_t *b, const corner *o) { \
        tile(rows, pairs, a, b, o);                                                                          \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
static tile_fn *const tiles[MR] = {tile1, tile2, tile3,  tile4,  tile5,  tile6,  tile7,
                                   tile8, tile9, tile10, tile11, tile12, tile13, tile14};

/* ---- packing f32 ------------------------------------------------------------------------------------------------------------ */

/* Two vectors of f32 as pairs: those of `first` below, those of `second` above. */
WITH_BF16 static inline __m512i pairs_of(__m512 first, __m512 second) {
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(first)),
                  high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(second));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Memory runs along the width: pair p of column i from rows 2p and 2p + 1 of src. */
WITH_BF16 static void pack_across(uint32_t *dst, const float *src, int64_t ps, int width, int ld, int64_t depth,
                                  float alpha) {
    const __m512 by = _mm512_set1_ps(alpha);
    for (int64_t p = 0; p < depth; p += 2, dst += ld) {
        for (int i = 0; i < ld; i += LANES) {
            const __mmask16 in = lanes_of(width - i), out = lanes_of(ld - i);
            const __m512 first = _mm512_maskz_loadu_ps(in, src + p * ps + i);
            const __m512 second =
                p + 1 < depth ? _mm512_maskz_loadu_ps(in, src + (p + 1) * ps + i) : _mm512_setzero_ps();
            _mm512_mask_storeu_epi32(dst + i, out, pairs_of(_mm512_mul_ps(first, by), _mm512_mul_ps(second, by)));
        }
    }
}

/* Memory runs along the depth: pairs lie side by side, and each row of them becomes a column. */
WITH_BF16 static void pack_along(uint32_t *dst, const float *src, int64_t is, int width, int ld, int64_t depth,
                                 float alpha) {
    const __m512 by = _mm512_set1_ps(alpha);
    for (int64_t p = 0; p < depth; p += 2 * LANES) {
        const int64_t n = fac__min(2 * LANES, depth - p), pairs = (n + 1) / 2;
        const __mmask32 in = n == 2 * LANES ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
        for (int i = 0; i < width; i++) {
            const float *row = src + i * is + p;
            const __m512 low = _mm512_maskz_loadu_ps((__mmask16)in, row),
                         high = _mm512_maskz_loadu_ps((__mmask16)(in >> LANES), row + LANES);
            uint32_t line[LANES];
            _mm512_storeu_si512(line, (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(high, by), _mm512_mul_ps(low, by)));
            for (int64_t q = 0; q < pairs; q++) dst[(p / 2 + q) * ld + i] = line[q];
        }
        for (int64_t q = 0; q < pairs; q++)
            for (int i = width; i < ld; i++) dst[(p / 2 + q) * ld + i] = 0;
    }
}

/* A number below the normal range is zero, as it is to the instructions, which do not round it up into it. */
static inline uint32_t rounded(float x) {
    return fac__f32_to_bf16(__builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0, x) : x);
}

static void pack_apart(uint32_t *dst, const float *src, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                       float alpha) {
    for (int64_t p = 0; p < depth; p += 2, dst += ld) {
        for (int i = 0; i < ld; i++) {
            const float *x = src + i * is + p * ps;
            const uint32_t low = i < width ? rounded(x[0] * alpha) : 0,
                           high = i < width && p + 1 < depth ? rounded(x[ps] * alpha) : 0;
            dst[i] = low | high << 16;
        }
    }
}

/* dst[p / 2][i] = alpha * src[i*is + p*ps] for i < width, 0 for i in [width, ld). */
static void pack_f32(uint32_t *dst, const char *from, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                     float alpha) {
    const float *src = (const float *)(const void *)from;
    if (is == 1)
        pack_across(dst, src, ps, width, ld, depth, alpha);
    else if (ps == 1)
        pack_along(dst, src, is, width, ld, depth, alpha);
    else
        pack_apart(dst, src, is, ps, width, ld, depth, alpha);
}

/* ---- packing bf16 ----------------------------------------------------------------------------------------------------------- */

static inline uint32_t pair(const uint16_t *x, int64_t ps, bool both) {
    return x[0] | (both ? (uint32_t)x[ps] << 16 : 0);
}

/* The first n of 16 elements, `by` apart, which is 1 or 2, each in a lane of 32 bits. What is not asked for is not read. */
static inline __attribute__((always_inline)) __m512i load_by(const uint16_t *x, const int by, int64_t n) {
    if (by == 1) return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes_of(n), x));
    const __mmask32 second = 0x55555555;
    return _mm512_maskz_loadu_epi16(n >= LANES ? second : second & (((__mmask32)1 << 2 * fac__max(0, n)) - 1), x);
}

/* Rows of pairs [p, p + 16) for 16 of i, from memory that runs along the depth, each element or every second one. */
static inline __attribute__((always_inline)) void turn(uint32_t *dst, const uint16_t *src, int64_t is, const int by,
                                                       int width, int ld) {
    fac_vf32 v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        v[i] = (fac_vf32){0};
        if (i >= width) continue;
        if (by == 1)
            memcpy(&v[i], src + i * is, sizeof v[i]);
        else
            v[i] = (fac_vf32)_mm512_inserti64x4(
                _mm512_castsi256_si512(_mm512_cvtepi32_epi16(load_by(src + i * is, 2, LANES))),
                _mm512_cvtepi32_epi16(load_by(src + i * is + 2 * LANES, 2, LANES)), 1);
    }
    fac_transpose_f32(v);
#pragma GCC unroll 16
    for (int p = 0; p < 16; p++) memcpy(dst + p * ld, &v[p], sizeof v[p]);
}

/* Panels or strips of `ld` columns side by side, from memory that runs along the columns, or every second element of it: long runs of it are read at once, and rows
   further on fetched, as these lie too far apart for the hardware to guess them. Zeros beyond `width`. */
static inline __attribute__((always_inline)) void pack_side_by_side(uint32_t *dst, const uint16_t *src, const int is,
                                                                    int64_t ps, int64_t width, int ld, int64_t depth) {
    enum { AHEAD = 8 };
    const int64_t pairs = fac__div_up(depth, 2);
    for (int64_t p = 0; p < pairs; p++, dst += ld) {
        const uint16_t *x = src + 2 * p * ps, *y = x + ps;
        const bool both = 2 * p + 1 < depth;
        uint32_t *to = dst;
        for (int64_t c = 0; c < width; c += ld, x += ld * is, y += ld * is, to += ld * pairs)
            for (int i = 0; i < ld; i += LANES) {
                const int64_t n = fac__min(width - c - i, ld - i);
                __builtin_prefetch(x + AHEAD * ps + i * is);
                __builtin_prefetch(y + AHEAD * ps + i * is);
                const __m512i low = load_by(x + i * is, is, n), high = load_by(y + i * is, is, both ? n : 0);
                _mm512_mask_storeu_epi32(to + i, lanes_of(ld - i), _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
            }
    }
}

static void pack_by_1(uint32_t *dst, const uint16_t *src, int64_t ps, int64_t width, int ld, int64_t depth) {
    pack_side_by_side(dst, src, 1, ps, width, ld, depth);
}
static void pack_by_2(uint32_t *dst, const uint16_t *src, int64_t ps, int64_t width, int ld, int64_t depth) {
    pack_side_by_side(dst, src, 2, ps, width, ld, depth);
}

/* dst[p*ld + i] = src[i*is + 2p*ps] and src[i*is + (2p + 1)*ps] for i < width, zeros for i in [width, ld). May write 16 elements past
   the end. alpha is 1. */
static void pack_bf16(uint32_t *dst, const char *from, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                      float alpha) {
    (void)alpha; /* 1 */
    const uint16_t *src = (const uint16_t *)(const void *)from;
    int64_t p = 0;
    const int64_t pairs = fac__div_up(depth, 2);
    if (is != 1 && (ps == 1 || ps == 2))
        for (; 2 * (p + 16) <= depth; p += 16)
            for (int i = (ld - 1) / 16 * 16; i >= 0; i -= 16) { /* what a store has too much is mended by the next */
                const uint16_t *x = src + i * is + 2 * p * ps;
                for (int j = 0; j < width - i && j < 16; j++) __builtin_prefetch(x + (width + j) * is, 0, 2);
                if (ps == 1)
                    turn(dst + p * ld + i, x, is, 1, width - i, ld);
                else
                    turn(dst + p * ld + i, x, is, 2, width - i, ld);
            }
    for (; p < pairs; p++) {
        const bool both = 2 * p + 1 < depth;
        const uint16_t *x = src + 2 * p * ps;
        for (int i = 0; i < ld; i++) dst[p * ld + i] = i < width ? pair(x + i * is, ps, both) : 0;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------------------------------------- */

typedef void pack_fn(uint32_t *dst, const char *from, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                     float alpha);

static const char *element(const fac_gemm_block *g, const fac_gemm_operand *x, int64_t row, int64_t col) {
    return x->data + (row * x->rs + col * x->cs) * fac__dtype_size(g->dtype);
}

/* All panels of A, h rows each, against one strip of B. */
static void strip(const fac_gemm_block *g, const uint32_t *a, int h, int64_t pairs, const uint32_t *b, corner o) {
    for (int64_t i = 0; i < g->m; i += h) {
        const int rows = (int)fac__min(h, g->m - i);
        tiles[rows - 1](pairs, a + i * pairs, b, &o);
        o.c += h * o.ldc;
        if (o.from) o.from += h * o.ldf;
    }
}

/* Packs `n` columns of B, or rows of A, at depth [p, p + depth) as strips, or panels, of `ld`; `fit`: the last one is narrower. */
static void pack_all(const fac_gemm_block *g, pack_fn *pack, uint32_t *dst, const char *src, int64_t is, int64_t ps,
                     int64_t n, int ld, bool fit, int64_t depth, float alpha) {
    const int64_t pairs = fac__div_up(depth, 2);
    for (int64_t i = 0, width; i < n; i += width) {
        const char *at = src + i * is * fac__dtype_size(g->dtype);
        width = fac__min(fit && n - i < ld ? n - i : ld * GROUP, n - i);
        if (fit && width > ld) width -= width % ld;
        if (g->dtype == FAC_BF16 && (is == 1 || is == 2)) {
            (is == 1 ? pack_by_1 : pack_by_2)(dst + i * pairs, (const uint16_t *)(const void *)at, ps, width,
                                              fit && width < ld ? (int)width : ld, depth);
            continue;
        }
        width = fac__min(ld, n - i);
        pack(dst + i * pairs, at, is, ps, (int)width, fit ? (int)width : ld, depth, alpha);
    }
}

/* One pass over depth [p, p + depth): the first adds to g->from, later ones to C. */
static void pass(const fac_gemm_block *g, pack_fn *pack, int64_t p, int64_t depth) {
    const int64_t pairs = fac__div_up(depth, 2);
    const int h = (int)fac__div_up(g->m, fac__div_up(g->m, MR));
    const float *from = p ? g->c : g->from;
    uint32_t *b = g->scratch, *a = b + fac__min(fac__div_up(g->n, NR), GROUP) * NR * pairs + LANES;
    pack_all(g, pack, a, element(g, &g->a, 0, p), g->a.rs, g->a.cs, g->m, h, true, depth, (float)g->alpha[0]);
    for (int64_t j0 = 0; j0 < g->n; j0 += GROUP * NR) {
        const int64_t end = fac__min(g->n, j0 + GROUP * NR);
        pack_all(g, pack, b, element(g, &g->b, p, j0), g->b.cs, g->b.rs, end - j0, NR, false, depth, 1);
        for (int64_t j = j0; j < end; j += NR) {
            const corner o = {(float *)g->c + j,
                              from ? from + j : NULL,
                              g->ldc,
                              p ? g->ldc : g->ldf,
                              {lanes_of(end - j), lanes_of(end - j - LANES)}};
            strip(g, a, h, pairs, b + (j - j0) * pairs, o);
        }
    }
}

static void block(const fac_gemm_block *g) {
    pack_fn *const pack = g->dtype == FAC_F32 ? pack_f32 : pack_bf16;
    for (int64_t p = 0; p < g->k; p += DEPTH) pass(g, pack, p, fac__min(DEPTH, g->k - p));
}

/* ---- rows times a vector ---------------------------------------------------------------------------------------------------- */

/* k <= DOT products, in SUMS vectors of sums. */
enum { DOT = 1 << 12, SUMS = 4, STEP = 2 * LANES };
WITH_BF16 static float dot(int64_t k, const uint16_t *a, const uint16_t *b) {
    __m512 sum[SUMS];
    int64_t i = 0;
    for (int u = 0; u < SUMS; u++) sum[u] = _mm512_setzero_ps();
    for (; i + SUMS * STEP <= k; i += SUMS * STEP)
        for (int u = 0; u < SUMS; u++)
            sum[u] = _mm512_dpbf16_ps(sum[u], (__m512bh)_mm512_loadu_si512(a + i + u * STEP),
                                      (__m512bh)_mm512_loadu_si512(b + i + u * STEP));
    for (int u = 0; i < k; i += STEP, u++) {
        const __mmask32 in = k - i >= STEP ? ~(__mmask32)0 : ((__mmask32)1 << (k - i)) - 1;
        sum[u] = _mm512_dpbf16_ps(sum[u], (__m512bh)_mm512_maskz_loadu_epi16(in, a + i),
                                  (__m512bh)_mm512_maskz_loadu_epi16(in, b + i));
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3])));
}

static void rows(int64_t m, int64_t k, const uint16_t *a, int64_t lda, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < m; i++, a += lda) {
        double sum = 0;
        for (int64_t p = 0; p < k; p += DOT) sum += (double)dot(fac__min(DOT, k - p), a + p, x + p);
        y[i] = (float)sum;
    }
}

/* ---- rows times columns that both lie along k -------------------------------------------------------------------------------- */

enum { SIDE = 4 };
/* sum[i * SIDE + j] = a's row i times b's row j: products are summed in a vector over DOT elements at a time, and these sums in double.
   `rows` and `cols` are constant where this is inlined. */
WITH_BF16 __attribute__((always_inline)) static inline void some_dots(const int rows, const int cols, int64_t k,
                                                                      const uint16_t *a, int64_t lda, const uint16_t *b,
                                                                      int64_t ldb, double *sum) {
    for (int64_t p = 0; p < k; p += DOT) {
        __m512 acc[SIDE][SIDE];
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) acc[i][j] = _mm512_setzero_ps();
        for (int64_t at = p, end = fac__min(k, p + DOT); at < end; at += STEP) {
            const __mmask32 in = end - at >= STEP ? ~(__mmask32)0 : ((__mmask32)1 << (end - at)) - 1;
            __m512bh y[SIDE];
#pragma GCC unroll 4
            for (int j = 0; j < cols; j++) y[j] = (__m512bh)_mm512_maskz_loadu_epi16(in, b + j * ldb + at);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) {
                const __m512bh x = (__m512bh)_mm512_maskz_loadu_epi16(in, a + i * lda + at);
#pragma GCC unroll 4
                for (int j = 0; j < cols; j++) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], x, y[j]);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < cols; j++)
                sum[i * SIDE + j] = (p ? sum[i * SIDE + j] : 0) + (double)_mm512_reduce_add_ps(acc[i][j]);
    }
}

WITH_BF16 static void dots_tile(int rows, int cols, int64_t k, const uint16_t *a, int64_t lda, const uint16_t *b,
                                int64_t ldb, double *sum) {
    if (rows == SIDE && cols == SIDE) {
        some_dots(SIDE, SIDE, k, a, lda, b, ldb, sum);
        return;
    }
    if (cols == SIDE) {
        for (int i = 0; i < rows; i++) some_dots(1, SIDE, k, a + i * lda, lda, b, ldb, sum + i * SIDE);
        return;
    }
    for (int j = 0; j < cols; j++) {
        if (rows == SIDE) some_dots(SIDE, 1, k, a, lda, b + j * ldb, ldb, sum + j);
        for (int i = 0; rows < SIDE && i < rows; i++)
            some_dots(1, 1, k, a + i * lda, lda, b + j * ldb, ldb, sum + i * SIDE + j);
    }
}

/* Tiles, along the shorter side first: its lines then stay in the cache. */
static void dots(const fac_gemm_block *g) {
    const int64_t down = fac__div_up(g->m, SIDE), across = fac__div_up(g->n, SIDE);
    for (int64_t t = 0; t < down * across; t++) {
        const int64_t i = (down < across ? t % down : t / across) * SIDE,
                      j = (down < across ? t / down : t % across) * SIDE;
        const int rows = (int)fac__min(SIDE, g->m - i), cols = (int)fac__min(SIDE, g->n - j);
        double sum[SIDE * SIDE];
        dots_tile(rows, cols, g->k, (const uint16_t *)(const void *)element(g, &g->a, i, 0), g->a.rs,
                  (const uint16_t *)(const void *)element(g, &g->b, 0, j), g->b.cs, sum);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < cols; c++) {
                const float *from = g->from ? (const float *)g->from + (i + r) * g->ldf + j + c : NULL;
                ((float *)g->c)[(i + r) * g->ldc + j + c] = (from ? *from : 0) + (float)sum[r * SIDE + c];
            }
    }
}

fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_bf16_dots)(void) { return fac__cpu_bf16 ? dots : NULL; }
fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_bf16)(void) { return fac__cpu_bf16 ? block : NULL; }
fac_gemv_bf16_fn *FAC_ISA_NAME(fac__gemv_bf16)(void) { return fac__cpu_bf16 ? rows : NULL; }
#else
fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_bf16)(void) { return NULL; }
fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_bf16_dots)(void) { return NULL; }
fac_gemv_bf16_fn *FAC_ISA_NAME(fac__gemv_bf16)(void) { return NULL; }
#endif
