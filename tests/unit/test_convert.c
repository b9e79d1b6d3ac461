/* The one rule of conversion between dtypes: loops over elements agree bit by bit with single elements (fac__convert), for any
   strides. What single elements become is tested in test_dtype.c. */
#include "backend/cpu/loops.h"

#include "support/support.h"
#include <math.h>

enum { N = 1101, MOST_APART = 3, WIDEST = 16 }; /* more than the pieces in which casts work */

/* Numbers at the ends of ranges and between values of narrow dtypes. */
static const double numbers[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 -2.9,
                                 127.5,
                                 128,
                                 -129,
                                 255,
                                 256,
                                 32767.5,
                                 -32769,
                                 65504,
                                 65520,
                                 0x1p31,
                                 -0x1p31,
                                 0x1p32,
                                 0x1p63,
                                 -0x1p63,
                                 1e30,
                                 -1e300,
                                 NAN,
                                 INFINITY,
                                 -INFINITY,
                                 0x1p-24,
                                 0x1p-149,
                                 1 + 0x1p-11 + 0x1p-40,
                                 1 + 0x1p-8 - 0x1p-40,
                                 3.3,
                                 -0x1p24 - 1};

/* Element i of a dtype: a number, or every integer's pattern of bits. */
static void make_element(char *p, fac_dtype d, int64_t i) {
    const double v = numbers[(size_t)i % FAC_COUNT(numbers)], parts[2] = {v, i % 5 ? -v : 0};
    const uint64_t bits = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1) >> i % 60;
    if (fac_dtype_is_complex(d))
        fac__store(p, d, fac_scalar_c_(parts));
    else if (fac_dtype_is_floating(d))
        fac__store(p, d, fac_scalar_f_(v));
    else
        memcpy(p, &bits, fac__dtype_size(d)); /* a bool may be any byte but 0 */
}

static bool same(const char *a, const char *b, fac_dtype d) {
    double x[2] = {0, 0}, y[2] = {0, 0};
    if (memcmp(a, b, fac__dtype_size(d)) == 0) return true;
    const fac_scalar s = fac__load(a, d, x), t = fac__load(b, d, y);
    if (s.kind == FAC_KIND_FLOAT) return isnan(fac__scalar_f64(s)) && isnan(fac__scalar_f64(t));
    if (s.kind != FAC_KIND_COMPLEX) return false;
    return (x[0] == y[0] || (isnan(x[0]) && isnan(y[0]))) && (x[1] == y[1] || (isnan(x[1]) && isnan(y[1])));
}

static void compare(fac_dtype to, fac_dtype from, int64_t ds, int64_t ss) {
    static _Alignas(64) char src[N * MOST_APART * WIDEST], dst[N * MOST_APART * WIDEST], untouched[sizeof dst];
    const int64_t in = fac__dtype_size(from), out = fac__dtype_size(to);
    memset(dst, 0x5a, sizeof dst);
    memset(untouched, 0x5a, sizeof untouched);
    for (int64_t i = 0; i < N * ss; i++) make_element(src + i * in, from, i);
    fac__casts[to][from](dst, ds, src, ss, N);
    for (int64_t i = 0; i < N * ds; i++) {
        _Alignas(WIDEST) char one[WIDEST];
        memcpy(one, untouched, sizeof one);
        if (i % ds == 0) fac__convert(one, to, src + i / ds * ss * in, from);
        if (!same(dst + i * out, one, to))
            fail_msg("%s to %s, strides %lld and %lld: element %lld differs", fac_dtype_name(from), fac_dtype_name(to),
                     (long long)ss, (long long)ds, (long long)i);
    }
}

static void convert_loops_agree_with_single_elements(void **state) {
    (void)state;
    for (int to = FAC_BOOL; to < FAC_DTYPE_COUNT; to++)
        for (int from = FAC_BOOL; from < FAC_DTYPE_COUNT; from++)
            for (int64_t ds = 1; ds <= MOST_APART; ds++)
                for (int64_t ss = 1; ss <= MOST_APART; ss++) compare((fac_dtype)to, (fac_dtype)from, ds, ss);
}

FAC_TEST_MAIN(FAC_TEST(convert_loops_agree_with_single_elements))
