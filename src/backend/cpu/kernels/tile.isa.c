/* What happens to elements on their way into tiles; conversions are those of cast.isa.c. */
#include "backend/cpu/kernels/tile_isa.h"
#include <math.h>

typedef struct re_im32 {
    float re, im;
} re_im32;
typedef struct re_im64 {
    double re, im;
} re_im64;

#define RUN(T, D, EXPR)                       \
    do {                                      \
        const T *s_ = src;                    \
        D *d_ = dst;                          \
        if (stride == 1) {                    \
            for (int64_t i = 0; i < n; i++) { \
                T x = s_[i];                  \
                d_[i] = (D)(EXPR);            \
            }                                 \
        } else {                              \
            for (int64_t i = 0; i < n; i++) { \
                T x = s_[i * stride];         \
                d_[i] = (D)(EXPR);            \
            }                                 \
        }                                     \
    } while (0)

void FAC_ISA_NAME(fac__tile_nonzero)(int64_t *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    switch (fac__dtype_size(d)) {
    case 1: RUN(uint8_t, int64_t, x != 0); break;
    case 2:
        if (d == FAC_I16)
            RUN(uint16_t, int64_t, x != 0);
        else
            RUN(uint16_t, int64_t, (x & 0x7fff) != 0); /* the sign of a 16-bit float's zero does not count */
        break;
    case 4:
        if (d == FAC_F32)
            RUN(float, int64_t, x != 0);
        else
            RUN(uint32_t, int64_t, x != 0);
        break;
    case 8:
        if (d == FAC_F64)
            RUN(double, int64_t, x != 0);
        else if (d == FAC_C64)
            RUN(re_im32, int64_t, x.re != 0 || x.im != 0);
        else
            RUN(uint64_t, int64_t, x != 0);
        break;
    default: RUN(re_im64, int64_t, x.re != 0 || x.im != 0); break;
    }
}

void FAC_ISA_NAME(fac__tile_modulus)(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    if (d == FAC_C64 && k == FAC_ACC_F32)
        RUN(re_im32, float, hypotf(x.re, x.im));
    else if (d == FAC_C64)
        RUN(re_im32, double, hypot((double)x.re, (double)x.im));
    else if (k == FAC_ACC_F32)
        RUN(re_im64, float, hypot(x.re, x.im));
    else
        RUN(re_im64, double, hypot(x.re, x.im));
}

/* x may be out. */
#define MAP(T, ABS, POWER)                                                                                       \
    static void map_##T(T *out, const T *x, int64_t n, fac_tile_map map, T p) {                                  \
        switch (map) {                                                                                           \
        case FAC_MAP_NAN_TO_ZERO: FAC_IVDEP for (int64_t i = 0; i < n; i++) out[i] = x[i] == x[i] ? x[i] : (T)0; \
            break;                                                                                               \
        case FAC_MAP_ABS: FAC_IVDEP for (int64_t i = 0; i < n; i++) out[i] = ABS(x[i]); break;                   \
        case FAC_MAP_SQUARE: FAC_IVDEP for (int64_t i = 0; i < n; i++) out[i] = x[i] * x[i]; break;              \
        case FAC_MAP_POW:                                                                                        \
            for (int64_t i = 0; i < n; i++) out[i] = POWER(ABS(x[i]), p);                                        \
            break;                                                                                               \
        default: break;                                                                                          \
        }                                                                                                        \
    }
MAP(float, fabsf, powf)
MAP(double, fabs, pow)

void FAC_ISA_NAME(fac__tile_map)(fac_acc k, void *tile, const void *src, int64_t n, fac_tile_map map, double p) {
    if (k == FAC_ACC_F32)
        map_float(tile, src, n, map, (float)p);
    else if (k == FAC_ACC_F64)
        map_double(tile, src, n, map, p);
}

/* A quotient or root of floats that is rounded to double and then to float is the one that is rounded once. */
static void finish_f32(float *x, int64_t n, fac_finish finish, double p) {
    if (finish == FAC_FINISH_SQRT) {
        for (int64_t i = 0; i < n; i++) x[i] = sqrtf(x[i]);
    } else if (finish == FAC_FINISH_ROOT) {
        for (int64_t i = 0; i < n; i++) x[i] = (float)pow((double)x[i], 1.0 / p);
    } else if ((double)(float)p == p) {
        for (int64_t i = 0; i < n; i++) x[i] /= (float)p;
    } else {
        for (int64_t i = 0; i < n; i++) x[i] = (float)((double)x[i] / p);
    }
}

static void finish_f64(double *x, int64_t n, fac_finish finish, double p) {
    if (finish == FAC_FINISH_SQRT) {
        for (int64_t i = 0; i < n; i++) x[i] = sqrt(x[i]);
    } else if (finish == FAC_FINISH_ROOT) {
        for (int64_t i = 0; i < n; i++) x[i] = pow(x[i], 1.0 / p);
    } else {
        for (int64_t i = 0; i < n; i++) x[i] /= p;
    }
}

void FAC_ISA_NAME(fac__tile_finish)(fac_acc k, void *acc, int64_t n, fac_finish finish, double p) {
    if (k == FAC_ACC_F32)
        finish_f32(acc, n, finish, p);
    else
        finish_f64(acc, k == FAC_ACC_C128 ? 2 * n : n, finish, p);
}
