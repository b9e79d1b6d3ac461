/* Element types: names, sizes, the promotion lattice, casting rules. */
#include "core/scalar.h"
#include <float.h>

enum { KIND_NONE, KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_COMPLEX, KIND_FLOAT8, KIND_QUANTIZED };

static const struct {
    const char *names[4]; /* PyTorch's first, then other spellings */
    uint8_t kind;
} table[FAC_DTYPE_END] = {
    [FAC_DTYPE_DEFAULT] = {{"default"}, KIND_NONE},
    [FAC_BOOL] = {{"bool"}, KIND_BOOL},
    [FAC_U8] = {{"uint8", "u8", "byte"}, KIND_INT},
    [FAC_I8] = {{"int8", "i8", "char"}, KIND_INT},
    [FAC_I16] = {{"int16", "i16", "short"}, KIND_INT},
    [FAC_I32] = {{"int32", "i32", "int"}, KIND_INT},
    [FAC_I64] = {{"int64", "i64", "long"}, KIND_INT},
    [FAC_F16] = {{"float16", "f16", "half"}, KIND_FLOAT},
    [FAC_BF16] = {{"bfloat16", "bf16"}, KIND_FLOAT},
    [FAC_F32] = {{"float32", "f32", "float"}, KIND_FLOAT},
    [FAC_F64] = {{"float64", "f64", "double"}, KIND_FLOAT},
    [FAC_C64] = {{"complex64", "c64", "cfloat"}, KIND_COMPLEX},
    [FAC_C128] = {{"complex128", "c128", "cdouble"}, KIND_COMPLEX},
    [FAC_F8_E4M3FN] = {{"float8_e4m3fn"}, KIND_FLOAT8},
    [FAC_F8_E5M2] = {{"float8_e5m2"}, KIND_FLOAT8},
    [FAC_F8_E4M3FNUZ] = {{"float8_e4m3fnuz"}, KIND_FLOAT8},
    [FAC_F8_E5M2FNUZ] = {{"float8_e5m2fnuz"}, KIND_FLOAT8},
    [FAC_F8_E8M0FNU] = {{"float8_e8m0fnu"}, KIND_FLOAT8},
    [FAC_QINT8] = {{"qint8"}, KIND_QUANTIZED},
    [FAC_QUINT8] = {{"quint8"}, KIND_QUANTIZED},
    [FAC_QINT32] = {{"qint32"}, KIND_QUANTIZED},
};

const uint8_t fac__item_sizes[FAC_DTYPE_END] = {
    [FAC_BOOL] = 1,        [FAC_U8] = 1,         [FAC_I8] = 1,        [FAC_I16] = 2,     [FAC_I32] = 4,
    [FAC_I64] = 8,         [FAC_F16] = 2,        [FAC_BF16] = 2,      [FAC_F32] = 4,     [FAC_F64] = 8,
    [FAC_C64] = 8,         [FAC_C128] = 16,      [FAC_F8_E4M3FN] = 1, [FAC_F8_E5M2] = 1, [FAC_F8_E4M3FNUZ] = 1,
    [FAC_F8_E5M2FNUZ] = 1, [FAC_F8_E8M0FNU] = 1, [FAC_QINT8] = 1,     [FAC_QUINT8] = 1,  [FAC_QINT32] = 4,
};

static bool valid(fac_dtype d) {
    return (unsigned)d < FAC_DTYPE_COUNT || ((unsigned)d < FAC_DTYPE_END && fac__item_sizes[d]);
}
static uint8_t kind(fac_dtype d) { return valid(d) ? table[d].kind : KIND_NONE; }

const char *fac_dtype_name(fac_dtype d) { return valid(d) ? table[d].names[0] : "invalid"; }

size_t fac_dtype_size(fac_dtype d) { return fac__dtype_size(d); }

double fac__dtype_largest(fac_dtype d) {
    switch (d) {
    case FAC_F16: return 65504;
    case FAC_BF16: return 0x1.fep127;
    case FAC_F32:
    case FAC_C64: return FLT_MAX;
    default: return DBL_MAX;
    }
}

bool fac_dtype_is_floating(fac_dtype d) { return kind(d) == KIND_FLOAT; }

bool fac_dtype_is_float8(fac_dtype d) { return kind(d) == KIND_FLOAT8; }

bool fac_dtype_is_quantized(fac_dtype d) { return kind(d) == KIND_QUANTIZED; }

bool fac_dtype_is_complex(fac_dtype d) { return kind(d) == KIND_COMPLEX; }

bool fac_dtype_is_integral(fac_dtype d, bool with_bool) {
    return kind(d) == KIND_INT || (with_bool && kind(d) == KIND_BOOL);
}

fac_dtype fac_dtype_parse(const char *text) {
    const char *bare = text && strncmp(text, "torch.", 6) == 0 ? text + 6 : text;
    for (int d = FAC_BOOL; bare && d < FAC_DTYPE_END; d++)
        for (size_t i = 0; i < FAC_COUNT(table[d].names) && table[d].names[i]; i++)
            if (strcmp(table[d].names[i], bare) == 0) return (fac_dtype)d;
    FAC_FAIL(
        FAC_ERR_DTYPE,
        "'%s' names no dtype; expected one of bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, "
        "float64, complex64, complex128, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu, qint8, "
        "quint8, qint32",
        text ? text : "(null)");
    return FAC_DTYPE_DEFAULT;
}

/* ---- promotion ------------------------------------------------------------------------------------------------------ */

#define BL FAC_BOOL
#define U8 FAC_U8
#define I8 FAC_I8
#define IS FAC_I16
#define II FAC_I32
#define IL FAC_I64
#define FH FAC_F16
#define FB FAC_BF16
#define FF FAC_F32
#define FD FAC_F64
#define CF FAC_C64
#define CD FAC_C128
/* source: torch.promote_types; test_dtype compares each entry with PyTorch's. */
static const uint8_t join[FAC_DTYPE_COUNT - 1][FAC_DTYPE_COUNT - 1] = {
    /*      BL  U8  I8  IS  II  IL  FH  FB  FF  FD  CF  CD */
    /*BL*/ {BL, U8, I8, IS, II, IL, FH, FB, FF, FD, CF, CD},
    /*U8*/ {U8, U8, IS, IS, II, IL, FH, FB, FF, FD, CF, CD},
    /*I8*/ {I8, IS, I8, IS, II, IL, FH, FB, FF, FD, CF, CD},
    /*IS*/ {IS, IS, IS, IS, II, IL, FH, FB, FF, FD, CF, CD},
    /*II*/ {II, II, II, II, II, IL, FH, FB, FF, FD, CF, CD},
    /*IL*/ {IL, IL, IL, IL, IL, IL, FH, FB, FF, FD, CF, CD},
    /*FH*/ {FH, FH, FH, FH, FH, FH, FH, FF, FF, FD, CF, CD},
    /*FB*/ {FB, FB, FB, FB, FB, FB, FF, FB, FF, FD, CF, CD},
    /*FF*/ {FF, FF, FF, FF, FF, FF, FF, FF, FF, FD, CF, CD},
    /*FD*/ {FD, FD, FD, FD, FD, FD, FD, FD, FD, FD, CD, CD},
    /*CF*/ {CF, CF, CF, CF, CF, CF, CF, CF, CF, CD, CF, CD},
    /*CD*/ {CD, CD, CD, CD, CD, CD, CD, CD, CD, CD, CD, CD},
};

fac_dtype fac_promote_types(fac_dtype a, fac_dtype b) {
    if (!valid(a) || a == FAC_DTYPE_DEFAULT) return b;
    if (!valid(b) || b == FAC_DTYPE_DEFAULT) return a;
    if (FAC_LIKELY(a < FAC_DTYPE_COUNT && b < FAC_DTYPE_COUNT)) return (fac_dtype)join[a - 1][b - 1];
    if (a == b) return a;
    FAC_FAIL(FAC_ERR_DTYPE, "%s and %s have no common dtype: convert one of them with to, or with dequantize",
             fac_dtype_name(a), fac_dtype_name(b));
    return FAC_DTYPE_DEFAULT;
}

bool fac_can_cast(fac_dtype from, fac_dtype to) {
    const bool floating = fac_dtype_is_floating(from) || kind(from) == KIND_FLOAT8;
    if (kind(from) == KIND_QUANTIZED || kind(to) == KIND_QUANTIZED) return from == to;
    if (fac_dtype_is_complex(from) && !fac_dtype_is_complex(to)) return false;
    if (floating && fac_dtype_is_integral(to, false)) return false;
    return from == FAC_BOOL || to != FAC_BOOL;
}

/* What a number or 0-dim tensor of type `low` makes of the higher-ranking `high`: only its category counts. */
static fac_dtype yield_to(fac_dtype high, fac_dtype low) {
    uint8_t h = kind(high), l = kind(low);
    if (h >= KIND_FLOAT8 || l >= KIND_FLOAT8) return fac_promote_types(high, low);
    if (h == KIND_COMPLEX) return high;
    if (h == KIND_FLOAT) return l == KIND_COMPLEX ? fac__complex_of(high) : high;
    if (h <= KIND_BOOL || l >= KIND_FLOAT) return fac_promote_types(high, low);
    return high;
}

void fac__promote_tensor(fac_promotion *p, const fac_tensor *t) {
    fac_dtype d = (fac_dtype)t->dtype;
    if (t->ndim > 0) {
        p->dim = fac_promote_types(p->dim, d);
    } else if (t->flags & FAC_TF_WRAPPED) {
        if (kind(d) == KIND_FLOAT) d = fac_default_dtype();
        if (kind(d) == KIND_COMPLEX) d = fac__complex_of(fac_default_dtype());
        p->wrapped = fac_promote_types(p->wrapped, d);
    } else {
        p->zero = fac_promote_types(p->zero, d);
    }
}

void fac__promote_scalar(fac_promotion *p, fac_scalar s) {
    p->wrapped = fac_promote_types(p->wrapped, fac__scalar_dtype(s));
}

fac_dtype fac__promote_result(const fac_promotion *p) { return yield_to(p->dim, yield_to(p->zero, p->wrapped)); }

/* ---- the default ---------------------------------------------------------------------------------------------------- */

static atomic_int default_dtype = FAC_F32;

fac_dtype fac_default_dtype(void) { return (fac_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed); }

fac_status fac_set_default_dtype(fac_dtype d) {
    FAC_CHECK(fac_dtype_is_floating(d), FAC_ERR_DTYPE, "the default dtype must be a floating type, not %s",
              fac_dtype_name(d));
    atomic_store_explicit(&default_dtype, (int)d, memory_order_relaxed);
    return FAC_OK;
}
