#include "backend/cpu/im2col.h"
#include "backend/cpu/simd.h"

/* Rows are short, so that a call per row would cost as much as the copying. */
static inline void copy_bytes(void *to, const void *from, int64_t n) {
    if (n < FAC_VECTOR_BYTES) {
        memcpy(to, from, (size_t)n);
        return;
    }
    /* Whole vectors, the last of them ending at the end. */
    for (int64_t i = 0; i < n; i += FAC_VECTOR_BYTES) {
        int64_t at = fac__min(i, n - FAC_VECTOR_BYTES);
        memcpy((char *)to + at, (const char *)from + at, FAC_VECTOR_BYTES);
    }
}

/* A run of small positions in one row (the last dimension), and what one tap of the kernel makes of it. */
typedef struct run {
    int64_t x, n; /* first position along the row, length */
    int64_t from; /* offset of the row's start in the large side; meant if `inside` */
    bool inside;  /* the row of the large side exists: it is not padding */
} run;

/* Decodes small position p for tap (t0, t1): the run from p to the row's end or `end`. */
static run run_at(const fac_conv *c, int64_t p, int64_t end, int64_t t0, int64_t t1) {
    int last = FAC_CONV_DIMS - 1;
    int64_t x = p % c->small_size[last], row = p / c->small_size[last];
    int64_t z1 = row % c->small_size[1] * c->stride[1] + t1 * c->dilation[1] - c->padding[1];
    int64_t z0 = row / c->small_size[1] * c->stride[0] + t0 * c->dilation[0] - c->padding[0];
    run r = {x, fac__min(c->small_size[last] - x, end - p), (z0 * c->large_size[1] + z1) * c->large_size[last], true};
    r.inside = z0 >= 0 && z0 < c->large_size[0] && z1 >= 0 && z1 < c->large_size[1];
    return r;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/* The positions x of a run for which x * stride + shift lies in [0, size) are [*lo, *hi). */
static void valid(const run *r, int64_t stride, int64_t shift, int64_t size, int64_t *lo, int64_t *hi) {
    int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    int64_t past = shift >= size ? 0 : (size - shift + stride - 1) / stride;
    *lo = clamp(first, r->x, r->x + r->n);
    *hi = r->inside ? clamp(past, *lo, r->x + r->n) : *lo;
}

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

#define IM2COL(name, E)                                                                                                \
    static void name(const fac_conv *c, const E *large, int64_t begin, int64_t end, int64_t tap, E *col) {             \
        int64_t t2 = tap % c->kernel[2], t1 = tap / c->kernel[2] % c->kernel[1], t0 = tap / c->kernel[2] / c->kernel[1]; \
        int64_t stride = c->stride[2], shift = t2 * c->dilation[2] - c->padding[2];                                    \
        for (int64_t p = begin; p < end;) {                                                                            \
            run r = run_at(c, p, end, t0, t1);                                                                         \
            int64_t lo, hi;                                                                                            \
            valid(&r, stride, shift, c->large_size[2], &lo, &hi);                                                      \
            int64_t to = p - begin - r.x, from = r.from + shift;                                                       \
            if (lo > r.x) memset(col + (to + r.x), 0, (size_t)(lo - r.x) * sizeof(E));                                 \
            if (stride == 1 && hi > lo)                                                                                \
                copy_bytes(col + (to + lo), large + (from + lo), (hi - lo) * (int64_t)sizeof(E));                      \
            else                                                                                                       \
                for (int64_t x = lo; x < hi; x++) col[to + x] = large[from + x * stride];                              \
            if (hi < r.x + r.n) memset(col + (to + hi), 0, (size_t)(r.x + r.n - hi) * sizeof(E));                      \
            p += r.n;                                                                                                  \
        }                                                                                                              \
    }
typedef struct item16 {
    uint64_t lo, hi;
} item16;
IM2COL(im2col_2, uint16_t)
IM2COL(im2col_4, uint32_t)
IM2COL(im2col_8, uint64_t)
IM2COL(im2col_16, item16)

void FAC_ISA_NAME(fac__im2col)(const fac_conv *conv, size_t item, const void *large, int64_t channels, int64_t begin, int64_t end, void *col) {
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
#define COL2IM(name, T, WIDTH)                                                                                         \
    static void name(const fac_conv *c, const T *col, int64_t begin, int64_t end, int64_t tap, T *large) {             \
        int64_t t2 = tap % c->kernel[2], t1 = tap / c->kernel[2] % c->kernel[1], t0 = tap / c->kernel[2] / c->kernel[1]; \
        int64_t stride = c->stride[2], shift = t2 * c->dilation[2] - c->padding[2];                                    \
        for (int64_t p = begin; p < end;) {                                                                            \
            run r = run_at(c, p, end, t0, t1);                                                                         \
            int64_t lo, hi;                                                                                            \
            valid(&r, stride, shift, c->large_size[2], &lo, &hi);                                                      \
            int64_t from = p - begin - r.x, to = r.from + shift;                                                       \
            if (stride == 1)                                                                                           \
                for (int64_t x = lo * WIDTH; x < hi * WIDTH; x++) large[to * WIDTH + x] += col[from * WIDTH + x];      \
            else                                                                                                       \
                for (int64_t x = lo; x < hi; x++)                                                                      \
                    for (int64_t w = 0; w < WIDTH; w++) large[(to + x * stride) * WIDTH + w] += col[(from + x) * WIDTH + w]; \
            p += r.n;                                                                                                  \
        }                                                                                                              \
    }
COL2IM(col2im_f32, float, 1)
COL2IM(col2im_f64, double, 1)
COL2IM(col2im_c64, float, 2)
COL2IM(col2im_c128, double, 2)

void FAC_ISA_NAME(fac__col2im)(const fac_conv *conv, fac_dtype dtype, const void *col, int64_t channels, int64_t begin, int64_t end, void *large) {
    fac_conv c = rows_last(conv);
    size_t item = fac_dtype_size(dtype);
    const char *from = col;
    char *to = large;
    for (int64_t k = 0; k < channels; k++, to += (size_t)c.large_count * item)
        for (int64_t tap = 0; tap < c.taps; tap++, from += (size_t)(end - begin) * item) {
            switch (dtype) {
            case FAC_F64: col2im_f64(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_C64: col2im_c64(&c, (const void *)from, begin, end, tap, (void *)to); break;
            case FAC_C128: col2im_c128(&c, (const void *)from, begin, end, tap, (void *)to); break;
            default: col2im_f32(&c, (const void *)from, begin, end, tap, (void *)to); break;
            }
        }
}
