/* Numbers as arguments, and single elements in memory. The rule of conversion is said here and in core/truncate.h: floating to
   integral numbers as there; integers wrap; 16-bit floats are rounded from f32; complex numbers lose their imaginary part but
   in a truth value. Loops over elements (the CPU's casts, CUDA's copies) follow it bit by bit. */
#include "core/scalar.h"

#define FAC_TRUNCATE_FN static inline
#define FAC_FROM double
#define FAC_TRUNCATE(name) f64_##name
#include "core/truncate.h"

static double float_of(fac_scalar s) {
    double x;
    memcpy(&x, &s.bits, sizeof x);
    return x;
}

static const double *complex_of(fac_scalar s) { return (const double *)(intptr_t)s.bits; }

double fac__scalar_f64(fac_scalar s) {
    if (s.kind == FAC_KIND_FLOAT) return float_of(s);
    if (s.kind == FAC_KIND_COMPLEX) return complex_of(s)[0];
    return (double)s.bits;
}

int64_t fac__scalar_i64(fac_scalar s) {
    if (s.kind == FAC_KIND_FLOAT || s.kind == FAC_KIND_COMPLEX) return f64_to_i64(fac__scalar_f64(s));
    return s.bits;
}

void fac__scalar_c128(fac_scalar s, double out[2]) {
    double im = s.kind == FAC_KIND_COMPLEX ? complex_of(s)[1] : 0;
    out[0] = fac__scalar_f64(s);
    out[1] = im;
}

fac_dtype fac__scalar_dtype(fac_scalar s) {
    switch (s.kind) {
    case FAC_KIND_BOOL: return FAC_BOOL;
    case FAC_KIND_INT: return FAC_I64;
    case FAC_KIND_FLOAT: return fac_default_dtype();
    case FAC_KIND_COMPLEX: return fac__complex_of(fac_default_dtype());
    default: return FAC_DTYPE_DEFAULT;
    }
}

static bool is_true(fac_scalar s) {
    if (s.kind == FAC_KIND_COMPLEX) return complex_of(s)[0] != 0 || complex_of(s)[1] != 0;
    return s.kind == FAC_KIND_FLOAT ? float_of(s) != 0 : s.bits != 0;
}

#define STORE(T, value)            \
    do {                           \
        T x_ = (T)(value);         \
        memcpy(p, &x_, sizeof x_); \
    } while (0)

static bool is_whole(fac_scalar s) { return s.kind == FAC_KIND_INT || s.kind == FAC_KIND_BOOL; }

/* Halves are rounded from this: what is wider is rounded twice, as PyTorch does. */
static float to_f32(fac_scalar s) { return is_whole(s) ? (float)s.bits : (float)fac__scalar_f64(s); }

/* An integer narrower than an int64_t: the low bits of a whole number, a floating one converted by core/truncate.h. */
#define STORE_WHOLE(T, truncate) STORE(T, is_whole(s) ? (T)s.bits : truncate(fac__scalar_f64(s)))

void fac__store(void *p, fac_dtype d, fac_scalar s) {
    double c[2];
    switch (d) {
    case FAC_BOOL: STORE(uint8_t, is_true(s)); break;
    case FAC_U8: STORE_WHOLE(uint8_t, f64_to_u8); break;
    case FAC_I8: STORE_WHOLE(int8_t, f64_to_i8); break;
    case FAC_I16: STORE_WHOLE(int16_t, f64_to_i16); break;
    case FAC_I32: STORE_WHOLE(int32_t, f64_to_i32); break;
    case FAC_I64: STORE(int64_t, fac__scalar_i64(s)); break;
    case FAC_F16: STORE(uint16_t, fac__f32_to_f16(to_f32(s))); break;
    case FAC_BF16: STORE(uint16_t, fac__f32_to_bf16(to_f32(s))); break;
    case FAC_F32: STORE(float, to_f32(s)); break;
    case FAC_F64: STORE(double, fac__scalar_f64(s)); break;
    case FAC_C64:
        fac__scalar_c128(s, c);
        memcpy(p, (const float[2]){to_f32(s), (float)c[1]}, 8);
        break;
    case FAC_C128:
        fac__scalar_c128(s, c);
        memcpy(p, c, sizeof c);
        break;
    default:
        if (fac_dtype_is_float8(d)) *(uint8_t *)p = fac__f32_to_f8(d, to_f32(s));
        break;
    }
}

static fac_scalar load_int(const void *p, fac_dtype d) {
    int64_t x = 0;
    switch (d) {
    case FAC_U8: x = *(const uint8_t *)p; break;
    case FAC_I8: x = *(const int8_t *)p; break;
    case FAC_I16: x = *(const int16_t *)p; break;
    case FAC_I32: x = *(const int32_t *)p; break;
    default: x = *(const int64_t *)p; break;
    }
    return fac_scalar_i_(x);
}

fac_scalar fac__load(const void *p, fac_dtype d, double re_im[2]) {
    const float *f = p;
    switch (d) {
    case FAC_BOOL: return fac_scalar_b_(*(const uint8_t *)p != 0);
    case FAC_F16: return fac_scalar_f_((double)fac__f16_to_f32(*(const uint16_t *)p));
    case FAC_BF16: return fac_scalar_f_((double)fac__bf16_to_f32(*(const uint16_t *)p));
    case FAC_F32: return fac_scalar_f_((double)*f);
    case FAC_F64: return fac_scalar_f_(*(const double *)p);
    case FAC_C64:
        re_im[0] = (double)f[0];
        re_im[1] = (double)f[1];
        return fac_scalar_c_(re_im);
    case FAC_C128: memcpy(re_im, p, 2 * sizeof(double)); return fac_scalar_c_(re_im);
    default:
        return fac_dtype_is_float8(d) ? fac_scalar_f_((double)fac__f8_to_f32(d, *(const uint8_t *)p)) : load_int(p, d);
    }
}

void fac__convert(void *dst, fac_dtype to, const void *src, fac_dtype from) {
    double re_im[2];
    fac__store(dst, to, fac__load(src, from, re_im));
}
