/* The packed product of bf16 by the instruction that multiplies pairs: c += a[2p] b[2p] + a[2p + 1] b[2p + 1] in each lane, in f32. Built
   for AVX-512, run where fac__cpu_bf16 says that the processor has it. The instruction takes subnormal operands for zero.

   As in gemm_body.h, C is computed in strips of 32 columns and panels of at most 14 rows. A panel of A is packed as [pairs][rows], a strip
   of B as [pairs][32]; an odd depth ends with zeros. Each element of C is summed over k in order, by pairs, in passes of DEPTH; borders of
   panels, strips and blocks do not change it. */
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"

void FAC_ISA_NAME(fac__gemm_bf16)(const fac_gemm_block *g);

#if FAC_VECTOR_BYTES == 64
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512bf16")
#endif

#define MR 14
#define NR 32
#define DEPTH (2 * FAC_GEMM_KC) /* so that a packed strip takes the room that one of f32 takes */
#define GROUP 4                 /* strips packed together */

/* c[rows, 32] = from[rows, 32] (0 if NULL) + the product of a panel and a strip. `rows` is constant where this is inlined. */
static inline __attribute__((always_inline)) void tile(const int rows, int64_t pairs, const uint32_t *a,
                                                       const uint32_t *b, float *c, int64_t ldc, const float *from,
                                                       int64_t ldf) {
    __m512 acc[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) acc[i][0] = acc[i][1] = _mm512_setzero_ps();
    for (int64_t p = 0; p < pairs; p++, a += rows, b += NR) {
        const __m512bh b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
            acc[i][0] = _mm512_dpbf16_ps(acc[i][0], x, b0);
            acc[i][1] = _mm512_dpbf16_ps(acc[i][1], x, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += ldc) {
        const float *f = from ? from + i * ldf : NULL;
        _mm512_storeu_ps(c, f ? _mm512_add_ps(_mm512_loadu_ps(f), acc[i][0]) : acc[i][0]);
        _mm512_storeu_ps(c + 16, f ? _mm512_add_ps(_mm512_loadu_ps(f + 16), acc[i][1]) : acc[i][1]);
    }
}

typedef void (*tile_fn)(int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t ldc, const float *from,
                        int64_t ldf);
#define TILE(rows)                                                                                     \
    static void tile##rows(int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t ldc, \
                           const float *from, int64_t ldf) {                                           \
        tile(rows, pairs, a, b, c, ldc, from, ldf);                                                    \
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
#undef TILE
static const tile_fn tiles[MR] = {tile1, tile2, tile3,  tile4,  tile5,  tile6,  tile7,
                                  tile8, tile9, tile10, tile11, tile12, tile13, tile14};

static inline uint32_t pair(const uint16_t *x, int64_t ps, bool both) {
    return x[0] | (both ? (uint32_t)x[ps] << 16 : 0);
}

/* Rows of pairs [p, p + 16) for 16 of i, from memory that runs along the depth. */
static inline __attribute__((always_inline)) void turn(uint32_t *dst, const uint16_t *src, int64_t is, int width,
                                                       int ld) {
    fac_vf32 v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        if (i < width)
            memcpy(&v[i], src + i * is, sizeof v[i]);
        else
            v[i] = (fac_vf32){0};
    }
    fac_transpose_f32(v);
#pragma GCC unroll 16
    for (int p = 0; p < 16; p++) memcpy(dst + p * ld, &v[p], sizeof v[p]);
}

/* dst[p*ld + i] = src[i*is + 2p*ps] and src[i*is + (2p + 1)*ps] for i < width, zeros for i in [width, ld). May write 16 elements past
   the end. */
static void pack(uint32_t *dst, const uint16_t *src, int64_t is, int64_t ps, int width, int ld, int64_t depth) {
    int64_t p = 0;
    const int64_t pairs = fac__div_up(depth, 2);
    if (ps == 1 && is != 1)
        for (; 2 * (p + 16) <= depth; p += 16)
            for (int i = (ld - 1) / 16 * 16; i >= 0; i -= 16) /* what a store has too much is mended by the next */
                turn(dst + p * ld + i, src + i * is + 2 * p, is, width - i, ld);
    for (; p < pairs; p++) {
        const bool both = 2 * p + 1 < depth;
        const uint16_t *x = src + 2 * p * ps;
        int i = 0;
        if (is == 1 && both)
            for (; i + 16 <= width; i += 16) {
                const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(x + i))),
                              high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(x + ps + i)));
                _mm512_storeu_si512(dst + p * ld + i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
            }
        for (; i < width; i++) dst[p * ld + i] = pair(x + i * is, ps, both);
        for (; i < ld; i++) dst[p * ld + i] = 0;
    }
}

/* One strip of C: all panels of A against it. */
static void strip(const uint32_t *a, int64_t m, int h, int64_t pairs, const uint32_t *b, float *c, int64_t ldc,
                  int cols, const float *from, int64_t ldf) {
    for (int64_t i = 0; i < m; i += h) {
        const int rows = (int)fac__min(h, m - i);
        const float *f = from ? from + i * ldf : NULL;
        if (FAC_LIKELY(cols == NR)) {
            tiles[rows - 1](pairs, a + i * pairs, b, c + i * ldc, ldc, f, ldf);
            continue;
        }
        float t[MR * NR];
        tiles[rows - 1](pairs, a + i * pairs, b, t, NR, NULL, 0);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < cols; j++) c[(i + r) * ldc + j] = f ? f[r * ldf + j] + t[r * NR + j] : t[r * NR + j];
    }
}

static void pass(const fac_gemm_block *g, int64_t p, int64_t depth) {
    const int64_t pairs = fac__div_up(depth, 2), m = g->m;
    const int h = (int)fac__div_up(m, fac__div_up(m, MR));
    uint32_t *bs = g->scratch, *a = bs + fac__min(fac__div_up(g->n, NR), GROUP) * NR * pairs + 16;
    const float *from = p ? g->c : g->from;
    const int64_t ldf = p ? g->ldc : g->ldf;
    const uint16_t *from_a = (const uint16_t *)(const void *)g->a.data + p * g->a.cs,
                   *from_b = (const uint16_t *)(const void *)g->b.data + p * g->b.rs;
    for (int64_t i = 0; i < m; i += h) {
        const int rows = (int)fac__min(h, m - i);
        pack(a + i * pairs, from_a + i * g->a.rs, g->a.rs, g->a.cs, rows, rows, depth);
    }
    for (int64_t j0 = 0; j0 < g->n; j0 += GROUP * NR) {
        const int64_t end = fac__min(g->n, j0 + GROUP * NR);
        for (int64_t j = j0; j < end; j += NR)
            pack(bs + (j - j0) * pairs, from_b + j * g->b.cs, g->b.cs, g->b.rs, (int)fac__min(NR, end - j), NR, depth);
        for (int64_t j = j0; j < end; j += NR)
            strip(a, m, h, pairs, bs + (j - j0) * pairs, (float *)g->c + j, g->ldc, (int)fac__min(NR, end - j),
                  from ? from + j : NULL, ldf);
    }
}

/* As fac_gemm_kernels.block, with bf16 operands and an alpha of 1. */
void FAC_ISA_NAME(fac__gemm_bf16)(const fac_gemm_block *g) {
    for (int64_t p = 0; p < g->k; p += DEPTH) pass(g, p, fac__min(DEPTH, g->k - p));
    for (int64_t i = 0; g->k == 0 && !g->from && i < g->m; i++)
        memset((float *)g->c + i * g->ldc, 0, (size_t)g->n * sizeof(float));
}

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
void FAC_ISA_NAME(fac__gemm_bf16)(const fac_gemm_block *g) { (void)g; }
#endif
