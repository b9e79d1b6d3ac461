/* The packed matrix product of gemm_body.h in f32 (also for f16, bf16 and c64) and in f64 (also for c128). */
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "core/scalar.h"

/* Vectors of half the bytes, where they are vectors still. */
#if FAC_VECTOR_BYTES > 16
typedef float fac_hf32 __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
typedef double fac_hf64 __attribute__((vector_size(FAC_VECTOR_BYTES / 2)));
#if FAC_VECTOR_BYTES == 64
static inline fac_hf32 fac_fma_h32(fac_hf32 a, fac_hf32 b, fac_hf32 c) {
    return (fac_hf32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
static inline fac_hf64 fac_fma_h64(fac_hf64 a, fac_hf64 b, fac_hf64 c) {
    return (fac_hf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#else
static inline fac_hf32 fac_fma_h32(fac_hf32 a, fac_hf32 b, fac_hf32 c) {
    return (fac_hf32)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
}
static inline fac_hf64 fac_fma_h64(fac_hf64 a, fac_hf64 b, fac_hf64 c) {
    return (fac_hf64)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
}
#endif
#endif

/* Every second element of two vectors that have one in common, the last of a and the first of b. */
#if FAC_VECTOR_BYTES == 64
#define EVENS_F32(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#define EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#elif FAC_VECTOR_BYTES == 32
#define EVENS_F32(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#else
#define EVENS_F32(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#define EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 3)
#endif

#if FAC_VECTOR_BYTES == 64
#define MR 14 /* 28 accumulators, two vectors of B and one of A: 31 of 32 registers */
#elif FAC_VECTOR_BYTES == 32
#define MR 6 /* 12 + 2 + 1 of 16 */
#else
#define MR 4
#endif

/* Whether there are ways of their own for few rows, columns and panels, and lines are fetched ahead. For x86 without AVX2, where the
   library is to be small, there are not. */
#if FAC_VECTOR_BYTES == 16 && defined(__x86_64__)
#define FEW 0
#else
#define FEW 1
#endif

/* Lines of memory that are wanted soon: `rows` rows of `lines` lines, `gap` bytes between them. A tile fetches one of them at each step of
   its depth, or at every fourth where `mask` is 3: the hardware does not guess rows that lie apart. A core waits for few lines at once,
   A's panels from L2 among them, so that what is not urgent had better come slowly. */
#define SLOWLY 3
#define SOON 16 /* steps of depth after which A is wanted in L1 */
typedef struct ahead {
    const char *at;
    int64_t lines, line, gap, rows, mask;
} ahead;

static inline ahead ahead_of(const void *at, int64_t lines, int64_t step, int64_t rows) {
    return (ahead){at, lines, lines, step - lines * FAC_CACHE_LINE, fac__max(rows, 0), 0};
}

static inline __attribute__((always_inline)) void fetch_ahead(ahead *f) {
    if (!FEW || f->rows == 0) return;
    __builtin_prefetch(f->at, 0, 2);
    f->at += FAC_CACHE_LINE;
    if (--f->line > 0) return;
    f->at += f->gap;
    f->line = f->lines;
    f->rows--;
}

static void widen(float *dst, const uint16_t *src, int64_t n, fac_dtype dtype) {
    int64_t i = 0;
    if (dtype == FAC_BF16) {
        for (; i < n; i++) dst[i] = fac__bf16_to_f32(src[i]);
        return;
    }
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m128i h;
        memcpy(&h, src + i, sizeof h);
        __m256 f = _mm256_cvtph_ps(h);
        memcpy(dst + i, &f, sizeof f);
    }
#endif
    for (; i < n; i++) dst[i] = fac__f16_to_f32(src[i]);
}

static void pack_f32(float *dst, const float *src, int64_t is, int64_t ps, int width, int ld, int64_t depth);

/* As pack_f32, from 16-bit floats, through pieces of 64 widened elements where memory runs along the depth. */
static void pack_half(float *dst, const uint16_t *src, int64_t is, int64_t ps, int width, int ld, int64_t depth,
                      fac_dtype dtype) {
    enum { PIECE = 64 };
    float piece[2 * FAC_LANES_F32 * PIECE];
    for (int64_t p = 0; p < depth; p += PIECE) {
        int64_t n = fac__min(PIECE, depth - p);
        if (ps == 1) {
            for (int i = 0; i < width; i++) widen(piece + i * PIECE, src + i * is + p, n, dtype);
            pack_f32(dst + p * ld, piece, PIECE, 1, width, ld, n);
            continue;
        }
        for (int64_t q = p; q < p + n; q++) {
            float *d = dst + q * ld;
            if (is == 1) {
                widen(d, src + q * ps, width, dtype);
            } else {
                for (int i = 0; i < width; i++) widen(d + i, src + i * is + q * ps, 1, dtype);
            }
            for (int i = width; i < ld; i++) d[i] = 0;
        }
    }
}

static inline void pack_any_f32(float *dst, const fac_gemm_operand *o, int64_t at, int64_t is, int64_t ps, int width,
                                int ld, int64_t depth, fac_dtype dtype) {
    if (dtype == FAC_F32)
        pack_f32(dst, (const float *)(const void *)o->data + at, is, ps, width, ld, depth);
    else
        pack_half(dst, (const uint16_t *)(const void *)o->data + at, is, ps, width, ld, depth, dtype);
}

#define T float
#define V fac_vf32
#define LANES FAC_LANES_F32
#define LOAD fac_load_f32
#define STORE fac_store_f32
#define SPLAT fac_splat_f32
#define FMA fac_fma_f32
#define TRANSPOSE fac_transpose_f32
#define EVENS EVENS_F32
#define FMA1 fac_fma1_f32
#define VH fac_hf32
#define FMAH fac_fma_h32
#define N(name) FAC_PASTE(name, _f32)
#define IS_NATIVE(dtype) ((dtype) == FAC_F32)
#define PACK_REAL(dst, o, at, is, ps, width, ld, depth) pack_any_f32(dst, o, at, is, ps, width, ld, depth, g->dtype)
#include "backend/cpu/gemm_body.h"
#undef T
#undef V
#undef LANES
#undef LOAD
#undef STORE
#undef SPLAT
#undef FMA
#undef TRANSPOSE
#undef EVENS
#undef FMA1
#undef VH
#undef FMAH
#undef N
#undef IS_NATIVE
#undef PACK_REAL

#define T double
#define V fac_vf64
#define LANES FAC_LANES_F64
#define LOAD fac_load_f64
#define STORE fac_store_f64
#define SPLAT fac_splat_f64
#define FMA fac_fma_f64
#define TRANSPOSE fac_transpose_f64
#define EVENS EVENS_F64
#define FMA1 fac_fma1_f64
#define VH fac_hf64
#define FMAH fac_fma_h64
#define N(name) FAC_PASTE(name, _f64)
#define IS_NATIVE(dtype) ((dtype) == FAC_F64)
#define PACK_REAL(dst, o, at, is, ps, width, ld, depth) \
    pack_f64(dst, (const double *)(const void *)(o)->data + (at), is, ps, width, ld, depth)
#include "backend/cpu/gemm_body.h"

static void block(const fac_gemm_block *g) {
    if (g->dtype == FAC_F64 || g->dtype == FAC_C128)
        block_f64(g);
    else
        block_f32(g);
}

#if FEW
static void dots(const fac_gemm_block *g) {
    if (g->dtype == FAC_F64)
        dots_f64(g);
    else
        dots_f32(g);
}
#endif

static size_t scratch_bytes(int64_t m, int64_t n, int64_t k, fac_dtype dtype) {
    bool complex = dtype == FAC_C64 || dtype == FAC_C128;
    return dtype == FAC_F64 || dtype == FAC_C128 ? scratch_f64(m, n, k, complex) : scratch_f32(m, n, k, complex);
}

static void merge(float *restrict c, float beta, const float *restrict t, int64_t n) {
    for (int64_t i = 0; i < n; i++) c[i] = beta * c[i] + t[i];
}

void FAC_ISA_NAME(fac__gemv_rows)(fac_dtype dtype, int64_t m, int64_t k, const void *a, int64_t lda, const void *x,
                                  void *y);
void FAC_ISA_NAME(fac__gemv_cols)(fac_dtype dtype, int64_t k, int64_t n, const void *a, int64_t lda, const void *x,
                                  void *y, bool accumulate);

const fac_gemm_kernels *FAC_ISA_NAME(fac__gemm_kernels)(void) {
    static const fac_gemm_kernels table = {
        .mr = MR,
        .nr_f32 = 2 * FAC_LANES_F32,
        .nr_f64 = 2 * FAC_LANES_F64,
        .large = FEW,
        .scratch_bytes = scratch_bytes,
        .block = block,
#if FEW
        .dots = dots,
#endif
        .gemv_rows = FAC_ISA_NAME(fac__gemv_rows),
        .gemv_cols = FAC_ISA_NAME(fac__gemv_cols),
        .merge = merge,
    };
    return &table;
}
