/* The packed matrix product of f32 matrices whose elements are rounded to bfloat16: vdpbf16ps multiplies two pairs of them per
   lane and adds to an f32 sum, twice the work of an instruction on f32.

   As gemm_body.h: C goes in strips of NR columns and panels of at most MR rows, so that MR x 2 accumulators stay in registers. A
   panel of A is packed as [pairs][rows], a strip of B as [pairs][NR], where a pair holds two elements that follow each other along
   the depth. Each element of C is summed over k in order, in passes of KC: borders do not change it. An element of an odd
   depth is paired with zero. The instructions take numbers below the normal range for zero. */
#include "backend/cpu/gemm.h"
#include "core/scalar.h"

#if FAC_ISA_LEVEL >= 2
#include <immintrin.h>

#define WITH_BF16 __attribute__((target("avx512bf16")))
enum { LANES = 16, NR = 2 * LANES, MR = 14, KC = 2 * FAC_GEMM_KC };

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
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
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
static void pack(uint32_t *dst, const float *src, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                 float alpha) {
    if (is == 1)
        pack_across(dst, src, ps, width, ld, depth, alpha);
    else if (ps == 1)
        pack_along(dst, src, is, width, ld, depth, alpha);
    else
        pack_apart(dst, src, is, ps, width, ld, depth, alpha);
}

static const float *element(const fac_gemm_operand *x, int64_t row, int64_t col) {
    return (const float *)(const void *)x->data + row * x->rs + col * x->cs;
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

/* One pass over depth [p, p + kc): the first adds to g->from, later ones to C. */
static void pass(const fac_gemm_block *g, int64_t p, int64_t kc) {
    const int64_t pairs = (kc + 1) / 2;
    const int h = (int)fac__div_up(g->m, fac__div_up(g->m, MR));
    const float *from = p == 0 ? g->from : g->c;
    uint32_t *b = g->scratch, *a = b + NR * pairs;
    for (int64_t i = 0; i < g->m; i += h) {
        const int rows = (int)fac__min(h, g->m - i);
        pack(a + i * pairs, element(&g->a, i, p), g->a.rs, g->a.cs, rows, rows, kc, (float)g->alpha[0]);
    }
    for (int64_t j = 0; j < g->n; j += NR) {
        const int64_t cols = fac__min(NR, g->n - j);
        pack(b, element(&g->b, p, j), g->b.cs, g->b.rs, (int)cols, NR, kc, 1);
        const corner o = {(float *)g->c + j,
                          from ? from + j : NULL,
                          g->ldc,
                          p == 0 ? g->ldf : g->ldc,
                          {lanes_of(cols), lanes_of(cols - LANES)}};
        strip(g, a, h, pairs, b, o);
    }
}

static void block(const fac_gemm_block *g) {
    for (int64_t p = 0; p < g->k; p += KC) pass(g, p, fac__min(KC, g->k - p));
}

fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_rounded)(void) { return __builtin_cpu_supports("avx512bf16") ? block : NULL; }
#else
fac_gemm_block_fn *FAC_ISA_NAME(fac__gemm_rounded)(void) { return NULL; }
#endif
