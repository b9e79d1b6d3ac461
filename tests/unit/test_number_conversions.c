/* Floating to integral numbers, NaN and infinities included: every way that leads from one to the other gives the same. The
   ways are conversion of long, strided and single elements, reductions and scans with a dtype, reading, and the same on a
   simulated device. */
#include "support/cuda.h"
#include "support/support.h"

#include <facula/facula.h>
#include <math.h>
#include <stdlib.h>

static const double numbers[] = {
    NAN,           INFINITY, -INFINITY, 0.0,          -0.0,          0.9,           -0.9,
    1.5,           -1.0,     127.0,     128.0,        -128.0,        -129.0,        255.0,
    256.0,         300.0,    -300.0,    32767.0,      32768.0,       -32768.0,      -32769.,
    65504.0,       40000.0,  70000.0,   2147483520.0, 0x1p31,        -0x1p31,       -0x1.2p31,
    0x1.fffffep31, 3e9,      -3e9,      0x1p32 + 512, 0x1.fffffep62, 0x1p63,        -0x1p63,
    -0x1.2p63,     1e30,     -1e30,     2147483647.0, 2147483648.5,  -2147483649.0,
};
enum { N = FAC_COUNT(numbers), COPIES = 37 };

static const fac_dtype floats[] = {FAC_F16, FAC_BF16, FAC_F32, FAC_F64};
static const fac_dtype integers[] = {FAC_U8, FAC_I8, FAC_I16, FAC_I32, FAC_I64};

/* The rule once more, by way of the widest types. */
static int64_t expected(double x, fac_dtype d) {
    static const int bits_of[FAC_DTYPE_COUNT] = {
        [FAC_U8] = 8, [FAC_I8] = 8, [FAC_I16] = 16, [FAC_I32] = 32, [FAC_I64] = 64};
    const int bits = bits_of[d];
    const long double range = bits == 64 ? 0x1p63L : 0x1p31L, t = truncl((long double)x);
    if (isnan(x)) return 0;
    const int64_t high = d == FAC_U8 ? UINT8_MAX : (int64_t)(((uint64_t)1 << (bits - 1)) - 1),
                  low = d == FAC_U8 ? 0 : -high - 1;
    if ((long double)x >= range) return high;
    if ((long double)x < -range) return low;
    const uint64_t span = bits == 64 ? 0 : (uint64_t)1 << bits, value = (uint64_t)(int64_t)t;
    if (bits == 64) return (int64_t)value;
    const int64_t wrapped = (int64_t)(value & (span - 1));
    return wrapped > high ? wrapped - (int64_t)span : wrapped;
}

static int failed;

static void compare(const char *way, fac_tensor *got, const double *x, fac_dtype from, fac_dtype to, int64_t each) {
    int64_t values[N * COPIES];
    assert_no_error();
    assert_int_equal(fac_tensor_dtype(got), to);
    assert_int_equal(fac_tensor_numel(got), N * each);
    assert_ok(fac_tensor_read(got, FAC_I64, values, (size_t)(N * each)));
    for (int64_t i = 0; i < N * each; i++) {
        const int64_t want = expected(x[i / each], to);
        if (values[i] == want) continue;
        failed++;
        print_error("%s: %s %.17g to %s gives %lld, not %lld\n", way, fac_dtype_name(from), x[i / each],
                    fac_dtype_name(to), (long long)values[i], (long long)want);
    }
}

/* The numbers as `from` holds them, each `each` times in a row: a matrix [N, each]. */
static fac_tensor *matrix(fac_dtype from, int64_t each, double *x) {
    fac_tensor *column = fac_to_dtype(fac_tensor_from(numbers, FAC_F64, FAC_INTS(N, 1)), from);
    assert_ok(fac_tensor_read(column, FAC_F64, x, N));
    return fac_contiguous(fac_expand(column, FAC_INTS(N, each)));
}

static void each_way(const char *where, fac_device device, fac_dtype from, fac_dtype to) {
    FAC_SCOPE(s);
    double x[N];
    fac_tensor *one = fac_to_device(matrix(from, 1, x), device, from),
               *many = fac_to_device(matrix(from, COPIES, x), device, from);
    fac_tensor *target = fac_zeros(FAC_SHAPE(N, COPIES), .dtype = to, .device = device);
    char way[64];
#define WAY(name) (snprintf(way, sizeof way, "%s, %s", where, name), way)
    compare(WAY("to"), fac_to_dtype(many, to), x, from, to, COPIES);
    compare(WAY("to, one"), fac_to_dtype(one, to), x, from, to, 1);
    compare(WAY("to, strided"), fac_to_dtype(fac_slice(many, 1, .step = 2), to), x, from, to, (COPIES + 1) / 2);
    compare(WAY("copy_"), fac_copy_(target, many), x, from, to, COPIES);
    compare(WAY("sum"), fac_sum(one, .dim = 1, .dtype = to), x, from, to, 1);
    compare(WAY("sum of columns"),
            fac_sum(fac_transpose(fac_contiguous(fac_transpose(one, 0, 1)), 0, 1), .dim = 1, .dtype = to), x, from, to,
            1);
    compare(WAY("prod"), fac_prod_dim(one, 1, .dtype = to), x, from, to, 1);
#undef WAY
}

static void conversions_follow_one_rule(void **state) {
    (void)state;
    failed = 0;
    for (size_t i = 0; i < FAC_COUNT(floats); i++)
        for (size_t k = 0; k < FAC_COUNT(integers); k++)
            each_way("cpu", fac_device_make(FAC_CPU, -1), floats[i], integers[k]);
    assert_int_equal(failed, 0);
}

/* What only the CPU has a kernel for. */
static void conversions_in_scans_and_reads_follow_the_rule(void **state) {
    (void)state;
    failed = 0;
    for (size_t i = 0; i < FAC_COUNT(floats); i++)
        for (size_t k = 0; k < FAC_COUNT(integers); k++) {
            FAC_SCOPE(s);
            double x[N];
            const fac_dtype from = floats[i], to = integers[k];
            fac_tensor *one = matrix(from, 1, x), *read = fac_empty(FAC_SHAPE(N), .dtype = to);
            compare("cumsum", fac_cumsum(one, 1, .dtype = to), x, from, to, 1);
            compare("cumprod", fac_cumprod(one, 1, .dtype = to), x, from, to, 1);
            assert_ok(fac_tensor_read(one, to, fac_tensor_data(read), N));
            compare("read", read, x, from, to, 1);
        }
    assert_int_equal(failed, 0);
}

static void conversions_of_an_item_follow_the_rule(void **state) {
    (void)state;
    FAC_SCOPE(s);
    for (int i = 0; i < N; i++)
        assert_true(fac_item_int(fac_tensor_from(&numbers[i], FAC_F64, FAC_INTS())) == expected(numbers[i], FAC_I64));
}

static void conversions_on_a_device_follow_the_rule(void **state) {
    (void)state;
    failed = 0;
    for (size_t i = 0; i < FAC_COUNT(floats); i++)
        for (size_t k = 0; k < FAC_COUNT(integers); k++)
            each_way("cuda", fac_device_make(FAC_CUDA, 0), floats[i], integers[k]);
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        FAC_TEST(conversions_follow_one_rule),
        FAC_TEST(conversions_in_scans_and_reads_follow_the_rule),
        FAC_TEST(conversions_of_an_item_follow_the_rule),
        FAC_CUDA_TEST(conversions_on_a_device_follow_the_rule),
    };
    (void)setenv("FACULA_CUDA", "sim:2", 0);
    return support_run(tests, FAC_COUNT(tests), NULL);
}
