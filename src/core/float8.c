/* 8-bit floats by the numbers of each format. source: OCP 8-bit Floating Point Specification 1.0 (e4m3fn, e5m2), OCP Microscaling
   Formats 1.0 (e8m0fnu), Noune et al. 2022 (the fnuz formats); overflow as in PyTorch's c10/util/Float8_*.h */
#include "core/scalar.h"
#include <math.h>

/* A code is a sign, an exponent and `bits` of the mantissa. Codes above `most`, less the sign, are infinite or no numbers. */
typedef struct format {
    int bits, bias;
    uint8_t most, inf, nan; /* inf: what overflow gives, and infinity */
    bool unsigned_zero;     /* there is no -0, and its code is the one NaN */
} format;

static const format formats[] = {
    [FAC_F8_E4M3FN - FAC_F8_E4M3FN] = {3, 7, 0x7e, 0x7e, 0x7f, false},
    [FAC_F8_E5M2 - FAC_F8_E4M3FN] = {2, 15, 0x7b, 0x7c, 0x7f, false},
    [FAC_F8_E4M3FNUZ - FAC_F8_E4M3FN] = {3, 8, 0x7f, 0x80, 0x80, true},
    [FAC_F8_E5M2FNUZ - FAC_F8_E4M3FN] = {2, 16, 0x7f, 0x80, 0x80, true},
};

/* ---- e8m0fnu: a power of two, 2^(code - 127) ------------------------------------------------------------------------------- */

static float power_of(uint8_t code) { return code == 0xff ? NAN : ldexpf(1, code - 127); }

/* The sign is lost. From 1.5 on a mantissa rounds up, but half of the least power does not. */
static uint8_t power_code(uint32_t bits) {
    const uint32_t e = bits >> 23 & 0xff, mantissa = bits & 0x7fffff;
    if (e == 0xff) return 0xff;
    const bool up = mantissa > 0x400000 || (mantissa == 0x400000 && e > 0);
    return (uint8_t)(e + up);
}

/* ---- all others --------------------------------------------------------------------------------------------------------------- */

float fac__f8_to_f32(fac_dtype d, uint8_t code) {
    if (d == FAC_F8_E8M0FNU) return power_of(code);
    const format *f = &formats[d - FAC_F8_E4M3FN];
    const int magnitude = code & 0x7f, e = magnitude >> f->bits, mantissa = magnitude & ((1 << f->bits) - 1);
    const float sign = code & 0x80 ? -1.0f : 1.0f;
    if (f->unsigned_zero && code == 0x80) return NAN;
    if (magnitude > f->most) return f->inf == magnitude && f->inf != f->nan ? sign * INFINITY : copysignf(NAN, sign);
    const int whole = e ? mantissa + (1 << f->bits) : mantissa;
    return sign * ldexpf((float)whole, (e ? e : 1) - f->bias - f->bits);
}

/* |x| in units of the last place that the format has at its exponent, rounded to nearest even; a carry moves to the next
   exponent by itself, as codes count on. */
static int rounded_code(const format *f, float x) {
    int e;
    (void)frexpf(x, &e); /* x in [2^(e-1), 2^e) */
    const int exponent = e - 1 + f->bias, least = exponent < 1 ? 1 : exponent;
    const int whole = (int)rint(ldexp((double)x, f->bits + f->bias - least));
    return exponent < 1 ? whole : (exponent << f->bits) + whole - (1 << f->bits);
}

uint8_t fac__f32_to_f8(fac_dtype d, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (d == FAC_F8_E8M0FNU) return power_code(bits);
    const format *f = &formats[d - FAC_F8_E4M3FN];
    const uint8_t sign = f->unsigned_zero ? 0 : bits >> 24 & 0x80;
    if (isnan(x)) return (uint8_t)(sign | f->nan);
    if (fabsf(x) >= 0x1p17f) return (uint8_t)(sign | f->inf);
    const int code = x == 0 ? 0 : rounded_code(f, fabsf(x));
    if (code > f->most) return (uint8_t)(sign | f->inf);
    return (uint8_t)(code ? (unsigned)code | (bits >> 24 & 0x80) : sign);
}
