/* Copies windows of images into the rows and columns of a matrix, run by run. */
#include "backend/cpu/im2col.h"
#include "backend/cpu/simd.h"

/* The first and the last SIZE bytes of n, which may overlap. */
#define COPY_ENDS(to, from, n, SIZE)                                                      \
    if ((n) >= (SIZE)) {                                                                  \
        memcpy((to), (from), (SIZE));                                                     \
        memcpy((char *)(to) + (n) - (SIZE), (const char *)(from) + (n) - (SIZE), (SIZE)); \
        return;                                                                           \
    }
/* Rows are short, so that a call per row would cost as much as the copying. n is 2 or more. */
static inline void copy_bytes(void *restrict to, const void *restrict from, int64_t n) {
    if (n < FAC_VECTOR_BYTES) {
        COPY_ENDS(to, from, n, 32)
        COPY_ENDS(to, from, n, 16)
        COPY_ENDS(to, from, n, 8)
        COPY_ENDS(to, from, n, 4)
        COPY_ENDS(to, from, n, 2)
        return;
    }
    /* Whole vectors, the last of them ending at the end. */
    for (int64_t i = 0; i < n; i += FAC_VECTOR_BYTES) {
        int64_t at = fac__min(i, n - FAC_VECTOR_BYTES);
        memcpy((char *)to + at, (const char *)from + at, FAC_VECTOR_BYTES);
    }
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/* Small positions p in [p, end), as runs along rows (the last dimension), and what one tap of the kernel makes of each:
   small position at + x goes with large position from + x * stride for x in [lo, hi); the rest of [x, x + n) meets padding. */
typedef struct runs {
    const fac_conv *c;
    int64_t p, end;
    int64_t i0, i1, x, n;        /* row, and the run in it */
    int64_t d0, d1, shift;       /* the tap's offset to stride * position, by dimension */
    int64_t first, past, stride; /* x that stay inside, for any row */
    int64_t at, from, lo, hi;
} runs;

/* Sets the current run from the row and x. */
static inline void runs_set(runs *s) {
    const fac_conv *c = s->c;
    int64_t z0 = s->i0 * c->stride[0] + s->d0, z1 = s->i1 * c->stride[1] + s->d1;
    bool inside = z0 >= 0 && z0 < c->large_size[0] && z1 >= 0 && z1 < c->large_size[1];
    s->n = fac__min(c->small_size[2] - s->x, s->end - s->p);
    s->at = s->p - s->x;
    s->from = inside ? (z0 * c->large_size[1] + z1) * c->large_size[2] + s->shift : 0;
    s->lo = clamp(s->first, s->x, s->x + s->n);
    s->hi = inside ? clamp(s->past, s->lo, s->x + s->n) : s->lo;
}

static inline runs runs_begin(const fac_conv *c, int64_t begin, int64_t end, int64_t tap) {
    int64_t t2 = tap % c->kernel[2], t1 = tap / c->kernel[2] % c->kernel[1], t0 = tap / c->kernel[2] / c->kernel[1];
    int64_t row = begin / c->small_size[2], size = c->large_size[2], stride = c->stride[2];
    runs s = {
        .c = c, .p = begin, .end = end, .i0 = row / c->small_size[1], .i1 = row % c->small_size[1], .stride = stride};
    s.x = begin % c->small_size[2];
    s.d0 = t0 * c->dilation[0] - c->padding[0];
    s.d1 = t1 * c->dilation[1] - c->padding[1];
    s.shift = t2 * c->dilation[2] - c->padding[2];
    s.first = s.shift >= 0 ? 0 : fac__div_up(-s.shift, stride);
    s.past = s.shift >= size ? 0 : fac__div_up(size - s.shift, stride);
    runs_set(&s);
    return s;
}

static inline void runs_next(runs *s) {
    s->p += s->n;
    s->x = 0;
    if (s->p >= s->end) return;
    if (++s->i1 == s->c->small_size[1]) {
        s->i1 = 0;
        s->i0++;
    }
    runs_set(s);
}

#define EACH_RUN(s, c, begin, end, tap) for (runs s = runs_begin(c, begin, end, tap); s.p < s.end; runs_next(&s))

/* The spatial arrays are padded to three dimensions at the end, but rows should be the last real one: moves it there. */
static fac_conv rows_last(const fac_conv *c) {
    fac_conv r = *c;
    int shift = FAC_CONV_DIMS - c->nd;
    for (int d = FAC_CONV_DIMS - 1; d >= 0; d--) {
        bool real = d >= shift;
        r.small_size[d] = real ? c->small_size[d - shift] : 1;
        r.large_size[d] = real ? c->large_size[d - shift] : 1;
        r.kernel[d] = real ? c->kernel[d - shift] : 1;
        r.stride[d] = real ? c->stride[d - shift] : 1;
        r.padding[d] = real ? c->padding[d - shift] : 0;
        r.dilation[d] = real ? c->dilation[d - shift] : 1;
    }
    return r;
}

#define IM2COL(name, E)                                                                                     \
    static void name(const fac_conv *c, const E *large, int64_t begin, int64_t end, int64_t tap, E *col) {  \
        EACH_RUN(s, c, begin, end, tap) {                                                                   \
            int64_t to = s.at - begin;                                                                      \
            if (s.lo > s.x) memset(col + (to + s.x), 0, (size_t)(s.lo - s.x) * sizeof(E));                  \
            if (s.stride == 1 && s.hi > s.lo)                                                               \
                copy_bytes(col + (to + s.lo), large + (s.from + s.lo), (s.hi - s.lo) * (int64_t)sizeof(E)); \
            else                                                                                            \
                for (int64_t x = s.lo; x < s.hi; x++) col[to + x] = large[s.from + x * s.stride];           \
            if (s.hi < s.x + s.n) memset(col + (to + s.hi), 0, (size_t)(s.x + s.n - s.hi) * sizeof(E));     \
        }                                                                                                   \
    }
typedef struct item16 {
    uint64_t lo, hi;
} item16;
IM2COL(im2col_2, uint16_t)
IM2COL(im2col_4, uint32_t)
IM2COL(im2col_8, uint64_t)
IM2COL(im2col_16, item16)

void FAC_ISA_NAME(fac__im2col)(const fac_conv *conv, size_t item, const void *large, int64_t channels, int64_t begin,
                               int64_t end, void *col) {
    fac_conv c = rows_last(conv);
    const char *from = large;
    char *to = col;
    for (int64_t k = 0; k < channels; k++, from += (size_t)c.large_count * item)
        for (int64_t tap = 0; tap < c.taps; tap++, to += (size_t)(end - begin) * item) {
            switch (item) {
            case 2: im2col_2(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case 4: im2col_4(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case 8: im2col_8(&c, (const void *)from, begin, end, tap, (void *)to); break;
            default: im2col_16(&c, (const void *)from, begin, end, tap, (void *)to); break;
            }
        }
}

/* WIDTH numbers per element: 2 for complex. */
#define COL2IM(name, T, WIDTH)                                                                          \
    static void name(const fac_conv *c, const T *restrict col, int64_t begin, int64_t end, int64_t tap, \
                     T *restrict large) {                                                               \
        EACH_RUN(s, c, begin, end, tap) {                                                               \
            int64_t at = s.at - begin;                                                                  \
            if (s.stride == 1)                                                                          \
                for (int64_t x = s.lo * WIDTH; x < s.hi * WIDTH; x++)                                   \
                    large[s.from * WIDTH + x] += col[at * WIDTH + x];                                   \
            else                                                                                        \
                for (int64_t x = s.lo; x < s.hi; x++)                                                   \
                    for (int64_t w = 0; w < WIDTH; w++)                                                 \
                        large[(s.from + x * s.stride) * WIDTH + w] += col[(at + x) * WIDTH + w];        \
        }                                                                                               \
    }
COL2IM(col2im_i16, uint16_t, 1)
COL2IM(col2im_i32, uint32_t, 1)
COL2IM(col2im_i64, uint64_t, 1)
COL2IM(col2im_f32, float, 1)
COL2IM(col2im_f64, double, 1)
COL2IM(col2im_c64, float, 2)
COL2IM(col2im_c128, double, 2)

void FAC_ISA_NAME(fac__col2im)(const fac_conv *conv, fac_dtype dtype, const void *col, int64_t channels, int64_t begin,
                               int64_t end, void *large) {
    fac_conv c = rows_last(conv);
    size_t item = fac__dtype_size(dtype);
    const char *from = col;
    char *to = large;
    for (int64_t k = 0; k < channels; k++, to += (size_t)c.large_count * item)
        for (int64_t tap = 0; tap < c.taps; tap++, from += (size_t)(end - begin) * item) {
            switch (dtype) {
            case FAC_I16: col2im_i16(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_I32: col2im_i32(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_I64: col2im_i64(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_F64: col2im_f64(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_C64: col2im_c64(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_C128: col2im_c128(&c, (const void *)from, begin, end, tap, (void *)to); break;
            default: col2im_f32(&c, (const void *)from, begin, end, tap, (void *)to); break;
            }
        }
}

/* ---- depthwise ---- */

#define DEPTHWISE(SUF, T)                                                                                             \
    static void to_small_##SUF(const fac_conv *c, const T *restrict w, const T *restrict large, const T *bias,        \
                               T *restrict small) {                                                                   \
        for (int64_t i = 0; i < c->small_count; i++) small[i] = bias ? *bias : 0;                                     \
        for (int64_t tap = 0; tap < c->taps; tap++) EACH_RUN(s, c, 0, c->small_count, tap) {                          \
                if (s.stride == 1)                                                                                    \
                    for (int64_t x = s.lo; x < s.hi; x++) small[s.at + x] += w[tap] * large[s.from + x];              \
                else                                                                                                  \
                    for (int64_t x = s.lo; x < s.hi; x++) small[s.at + x] += w[tap] * large[s.from + x * s.stride];   \
            }                                                                                                         \
    }                                                                                                                 \
    static void to_large_##SUF(const fac_conv *c, const T *restrict w, const T *restrict small, const T *bias,        \
                               T *restrict large) {                                                                   \
        for (int64_t i = 0; i < c->large_count; i++) large[i] = bias ? *bias : 0;                                     \
        for (int64_t tap = 0; tap < c->taps; tap++) EACH_RUN(s, c, 0, c->small_count, tap) {                          \
                if (s.stride == 1)                                                                                    \
                    for (int64_t x = s.lo; x < s.hi; x++) large[s.from + x] += w[tap] * small[s.at + x];              \
                else                                                                                                  \
                    for (int64_t x = s.lo; x < s.hi; x++) large[s.from + x * s.stride] += w[tap] * small[s.at + x];   \
            }                                                                                                         \
    }                                                                                                                 \
    /* Products are summed in the lanes of one vector, which are then added pairwise. */                              \
    static void to_weight_##SUF(const fac_conv *c, const T *restrict small, const T *restrict large, T *restrict w) { \
        enum { LANES = FAC_VECTOR_BYTES / sizeof(T) };                                                                \
        for (int64_t tap = 0; tap < c->taps; tap++) {                                                                 \
            T lanes[LANES] = {0};                                                                                     \
            EACH_RUN(s, c, 0, c->small_count, tap) {                                                                  \
                int64_t x = s.lo;                                                                                     \
                for (; s.stride == 1 && x + LANES <= s.hi; x += LANES)                                                \
                    for (int64_t l = 0; l < LANES; l++) lanes[l] += small[s.at + x + l] * large[s.from + x + l];      \
                for (; x < s.hi; x++) lanes[x % LANES] += small[s.at + x] * large[s.from + x * s.stride];             \
            }                                                                                                         \
            for (int64_t n = LANES / 2; n > 0; n /= 2)                                                                \
                for (int64_t l = 0; l < n; l++) lanes[l] += lanes[l + n];                                             \
            w[tap] += lanes[0];                                                                                       \
        }                                                                                                             \
    }
DEPTHWISE(f32, float)
DEPTHWISE(f64, double)

void FAC_ISA_NAME(fac__depthwise_to_small)(const fac_conv *conv, fac_dtype dtype, const void *weight, const void *large,
                                           const void *bias, void *small) {
    fac_conv c = rows_last(conv);
    if (dtype == FAC_F64)
        to_small_f64(&c, weight, large, bias, small);
    else
        to_small_f32(&c, weight, large, bias, small);
}

void FAC_ISA_NAME(fac__depthwise_to_large)(const fac_conv *conv, fac_dtype dtype, const void *weight, const void *small,
                                           const void *bias, void *large) {
    fac_conv c = rows_last(conv);
    if (dtype == FAC_F64)
        to_large_f64(&c, weight, small, bias, large);
    else
        to_large_f32(&c, weight, small, bias, large);
}

void FAC_ISA_NAME(fac__depthwise_to_weight)(const fac_conv *conv, fac_dtype dtype, const void *small, const void *large,
                                            void *weight) {
    fac_conv c = rows_last(conv);
    if (dtype == FAC_F64)
        to_weight_f64(&c, small, large, weight);
    else
        to_weight_f32(&c, small, large, weight);
}
