/* Fourier transforms, their gradients and plans against the definition in double precision; frames and windows. */
#include "backend/cpu/fft/fft.h"
#include "grad_cases.h"
#include <complex.h>

enum { MOST = 4200 };
static const double TURN = 6.28318530717958647693;

/* Values that repeat nowhere and lie in [-1, 1]. */
static double value(int64_t i) { return fmod(0.6180339887 * (double)(i + 1) + 0.29 * (double)(i % 7), 2.0) - 1; }

static fac_tensor *complex_tensor(fac_dtype d, fac_ints sizes) {
    int64_t n = 1;
    for (size_t i = 0; i < sizes.n; i++) n *= sizes.v[i];
    double *v = malloc((size_t)n * 16 + 1);
    for (int64_t i = 0; i < 2 * n; i++) v[i] = value(i);
    fac_tensor *t = fac_to_dtype(fac_tensor_from(v, FAC_C128, sizes), d);
    free(v);
    return t;
}
static fac_tensor *real_tensor(fac_dtype d, fac_ints sizes) {
    return fac_contiguous(fac_real(complex_tensor(d == FAC_F64 ? FAC_C128 : FAC_C64, sizes)));
}

static void read_complex(fac_tensor *t, double complex *out, size_t n) {
    assert_no_error();
    assert_non_null(t);
    assert_ok(fac_tensor_read(t, FAC_C128, out, n));
}

/* out[k] = scale * the sum over j of in[j] exp(sign 2 pi i j k / n). */
static void define(const double complex *in, int64_t n, int sign, double scale, double complex *out) {
    static double cosine[MOST], sine[MOST];
    for (int64_t j = 0; j < n; j++) {
        cosine[j] = cos(TURN * (double)j / (double)n);
        sine[j] = sign * sin(TURN * (double)j / (double)n);
    }
    for (int64_t k = 0; k < n; k++) {
        double re = 0, im = 0;
        for (int64_t j = 0, at = 0; j < n; j++) { /* at = j * k % n */
            re += creal(in[j]) * cosine[at] - cimag(in[j]) * sine[at];
            im += creal(in[j]) * sine[at] + cimag(in[j]) * cosine[at];
            at += at + k < n ? k : k - n;
        }
        out[k] = scale * re + scale * im * I;
    }
}

/* The first m numbers differ by no more than `tolerance` of the norm. */
static void expect_near(const double complex *got, const double complex *want, int64_t m, double tolerance, int64_t n) {
    double error = 0, norm = 0;
    for (int64_t k = 0; k < m; k++) {
        const double complex d = got[k] - want[k];
        error += creal(d) * creal(d) + cimag(d) * cimag(d);
        norm += creal(want[k]) * creal(want[k]) + cimag(want[k]) * cimag(want[k]);
    }
    if (!(sqrt(error) <= tolerance * sqrt(norm) + 1e-300))
        fail_msg("length %lld is off by %g of %g", (long long)n, sqrt(error), sqrt(norm));
}

/* Room for one comparison. */
typedef struct room {
    double complex in[MOST], want[MOST], got[20 * MOST];
} room;

/* Powers of two, odd ones, primes with a pass, primes with none, and twice those. */
static const int64_t lengths[] = {1,   2,   3,   4,   5,    6,    7,    8,    9,    10,   11,   12,  13,  14,
                                  15,  16,  17,  19,  24,   30,   32,   37,   61,   64,   67,   74,  96,  97,
                                  112, 100, 101, 128, 134,  143,  169,  202,  243,  256,  257,  343, 384, 400,
                                  500, 512, 625, 997, 1000, 1018, 1024, 1280, 1331, 2048, 3721, 4096};

static void expect_transform(room *r, fac_dtype d, int64_t n, int64_t lines, double tolerance) {
    FAC_SCOPE(s);
    fac_tensor *x = complex_tensor(d, FAC_INTS(lines, n));
    fac_tensor *line = fac_select(x, 0, lines - 1);
    read_complex(line, r->in, (size_t)n);
    define(r->in, n, -1, 1, r->want);
    read_complex(fac_select(fac_fft_fft(x), 0, lines - 1), r->got, (size_t)n);
    expect_near(r->got, r->want, n, tolerance, n);
    define(r->in, n, 1, 1 / (double)n, r->want);
    read_complex(fac_select(fac_fft_ifft(x), 0, lines - 1), r->got, (size_t)n);
    expect_near(r->got, r->want, n, tolerance, n);
}

static void S239_fft_is_its_definition_at_every_length(void **state) {
    (void)state;
    room *r = malloc(sizeof *r);
    for (size_t i = 0; i < FAC_COUNT(lengths); i++)
        for (int64_t lines = 1; lines <= 19; lines += 18) {
            expect_transform(r, FAC_C128, lengths[i], lines, 4e-15);
            expect_transform(r, FAC_C64, lengths[i], lines, 1e-6);
        }
    free(r);
}

static void expect_real_transforms(room *r, fac_dtype d, int64_t n, int64_t lines, double tolerance) {
    FAC_SCOPE(s);
    const int64_t half = n / 2 + 1;
    fac_tensor *x = real_tensor(d, FAC_INTS(lines, n));
    read_complex(fac_select(x, 0, lines - 1), r->in, (size_t)n);
    define(r->in, n, -1, 1, r->want);
    read_complex(fac_select(fac_fft_rfft(x), 0, lines - 1), r->got, (size_t)half);
    expect_near(r->got, r->want, half, tolerance, n);
    read_complex(fac_select(fac_fft_fft(x), 0, lines - 1), r->got, (size_t)n);
    expect_near(r->got, r->want, n, tolerance, n);
    read_complex(fac_select(fac_fft_irfft(fac_fft_rfft(x), .n = n), 0, lines - 1), r->got, (size_t)n);
    expect_near(r->got, r->in, n, 2 * tolerance, n);
    define(r->in, n, 1, 1 / (double)n, r->want);
    read_complex(fac_select(fac_fft_ihfft(x), 0, lines - 1), r->got, (size_t)half);
    expect_near(r->got, r->want, half, tolerance, n);
    read_complex(fac_select(fac_fft_hfft(fac_fft_ihfft(x), .n = n), 0, lines - 1), r->got, (size_t)n);
    expect_near(r->got, r->in, n, 2 * tolerance, n);
}

static void S239_transforms_of_real_numbers_are_the_definition_at_every_length(void **state) {
    (void)state;
    room *r = malloc(sizeof *r);
    for (size_t i = 0; i < FAC_COUNT(lengths); i++)
        for (int64_t lines = 1; lines <= 19; lines += 18) {
            expect_real_transforms(r, FAC_F64, lengths[i], lines, 4e-15);
            expect_real_transforms(r, FAC_F32, lengths[i], lines, 1e-6);
        }
    free(r);
}

/* Long lines, whose parts threads share: a single frequency has one point, and what went forth comes back. */
static void S239_long_lines_are_transformed(void **state) {
    (void)state;
    const int64_t long_lengths[] = {1 << 16, 3 << 15, 65537, 1 << 18};
    for (size_t i = 0; i < FAC_COUNT(long_lengths); i++) {
        FAC_SCOPE(s);
        const int64_t n = long_lengths[i];
        fac_tensor *k = fac_arange(FAC_SCALAR((double)n), .dtype = FAC_F64);
        fac_tensor *x = fac_cos(fac_mul(k, FAC_SCALAR(TURN * 3 / (double)n)));
        fac_tensor *y = fac_fft_rfft(x);
        assert_near(fac_item(fac_real(fac_select(y, 0, 3))), (double)n / 2, 1e-7 * (double)n);
        assert_near(fac_item(fac_sum(fac_abs(y))), (double)n / 2, 1e-7 * (double)n);
        fac_tensor *z = complex_tensor(FAC_C64, FAC_INTS(n));
        assert_true(fac_item(fac_amax(fac_abs(fac_sub(fac_fft_ifft(fac_fft_fft(z)), z)))) < 2e-6);
        assert_true(fac_item(fac_amax(fac_abs(fac_sub(fac_fft_irfft(y, .n = n), x)))) < 1e-13);
    }
}

static void expect_same(fac_tensor *a, fac_tensor *b, double tolerance) {
    assert_no_error();
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(fac_tensor_ndim(a), fac_tensor_ndim(b));
    for (int i = 0; i < fac_tensor_ndim(a); i++) assert_int_equal(fac_tensor_size(a, i), fac_tensor_size(b, i));
    if (fac_tensor_numel(a)) assert_near(fac_item(fac_amax(fac_abs(fac_sub(a, b)))), 0, tolerance);
}

static void S239_fft_of_several_dimensions_is_one_after_the_other(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_tensor(FAC_C128, FAC_INTS(5, 18, 33)), *r = real_tensor(FAC_F64, FAC_INTS(5, 18, 33));
    fac_tensor *rows = fac_fft_fft(x, .dim = 2), *both = fac_fft_fft(rows, .dim = 1),
               *all = fac_fft_fft(both, .dim = 0);
    expect_same(fac_fft_fft2(x), both, 1e-11);
    expect_same(fac_fft_fftn(x), all, 1e-11);
    expect_same(fac_fft_fftn(x, .dims = FAC_INTS(0, -1)), fac_fft_fft(rows, .dim = 0), 1e-11);
    expect_same(fac_fft_ifftn(all), x, 1e-13);
    expect_same(fac_fft_ifft2(both), x, 1e-13);
    fac_tensor *half = fac_narrow(fac_fft_fftn(r), 2, 0, 17);
    expect_same(fac_fft_rfftn(r), half, 1e-11);
    expect_same(fac_fft_irfftn(half, .ss = FAC_INTS(5, 18, 33)), r, 1e-13);
    expect_same(fac_fft_irfft2(fac_fft_rfft2(r), .ss = FAC_INTS(18, 33)), r, 1e-13);
    expect_same(fac_fft_hfftn(fac_fft_ihfftn(r), .ss = FAC_INTS(5, 18, 33)), r, 1e-13);
    expect_same(fac_fft_hfft2(fac_fft_ihfft2(r), .ss = FAC_INTS(18, 33)), r, 1e-13);
    expect_same(fac_fft_ihfftn(r), fac_narrow(fac_fft_ifftn(r), 2, 0, 17), 1e-13);
}

static void S239_norms_scale_by_the_number_of_points(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_tensor(FAC_C128, FAC_INTS(4, 9)), *y = fac_fft_fft2(x);
    expect_same(fac_fft_fft2(x, .norm = "forward"), fac_div(y, FAC_SCALAR(36)), 1e-13);
    expect_same(fac_fft_fft2(x, .norm = "ortho"), fac_div(y, FAC_SCALAR(6)), 1e-13);
    expect_same(fac_fft_ifft2(y, .norm = "forward"), fac_mul(x, FAC_SCALAR(36)), 1e-12);
    expect_same(fac_fft_ifft2(y, .norm = "ortho"), fac_mul(x, FAC_SCALAR(6)), 1e-12);
    expect_same(fac_fft_hfft(x, .n = 16, .norm = "ortho"), fac_div(fac_fft_hfft(x, .n = 16), FAC_SCALAR(4)), 1e-13);
}

static void S239_sizes_cut_or_fill_with_zeros(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = complex_tensor(FAC_C128, FAC_INTS(3, 10)), *zeros = fac_zeros_like(x);
    expect_same(fac_fft_fft(x, .n = 7), fac_fft_fft(fac_narrow(x, 1, 0, 7)), 0);
    expect_same(fac_fft_fft(x, .n = 20), fac_fft_fft(fac_cat(FAC_TENSORS(x, zeros), .dim = 1)), 1e-13);
    expect_same(fac_fft_fftn(x, .ss = FAC_INTS(2, -1)), fac_fft_fft2(fac_narrow(x, 0, 0, 2)), 1e-13);
}

static void S239_any_layout_is_read_and_written(void **state) {
    (void)state;
    FAC_SCOPE(s);
    for (int64_t n = 4; n <= 1024; n *= 4)
        for (int64_t lines = 3; lines <= 40; lines += 37) {
            fac_tensor *x = complex_tensor(FAC_C128, FAC_INTS(n, lines, 2)), *columns = fac_select(x, 2, 1);
            fac_tensor *want = fac_fft_fft(fac_contiguous(fac_t(columns)));
            expect_same(fac_t(fac_fft_fft(columns, .dim = 0)), want, 1e-10);
            fac_tensor *gaps = fac_select(fac_zeros(FAC_SHAPE(n, lines, 3), .dtype = FAC_C128), 2, 1);
            fac_fft_fft_out(gaps, columns, .dim = 0);
            expect_same(fac_t(gaps), want, 1e-10);
            fac_tensor *r = fac_real(columns), *half = fac_fft_rfft(r, .dim = 0);
            expect_same(fac_t(half), fac_fft_rfft(fac_contiguous(fac_t(r))), 1e-10);
            expect_same(fac_fft_irfft(half, .dim = 0), r, 1e-13);
            fac_fft_fft_out(columns, columns, .dim = 0);
            expect_same(fac_t(columns), want, 1e-10);
        }
}

static void one_impulse_has_a_flat_spectrum_exactly(void **state) {
    (void)state;
    for (size_t i = 0; i < FAC_COUNT(lengths); i++) {
        if (lengths[i] == 67 || lengths[i] == 74 || lengths[i] == 97) continue;
        FAC_SCOPE(s);
        int64_t n = lengths[i], prime = 2;
        for (int64_t left = n; left > 1;) left % prime ? prime++ : (left /= prime);
        if (prime > FAC_FFT_PRIME) continue; /* chirps round */
        fac_tensor *x = fac_zeros(FAC_SHAPE(n));
        fac_fill_(fac_select(x, 0, 0), FAC_SCALAR(1));
        fac_tensor *ones = fac_ones(FAC_SHAPE(n), .dtype = FAC_C64);
        expect_same(fac_fft_fft(x), ones, 0);
        expect_same(fac_fft_fft(fac_to_dtype(x, FAC_C64)), ones, 0);
    }
}

static void a_line_that_is_not_finite_spoils_no_other(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const int64_t sizes[] = {8, 101, 1024};
    for (size_t i = 0; i < FAC_COUNT(sizes); i++) {
        fac_tensor *x = real_tensor(FAC_F32, FAC_INTS(20, sizes[i]));
        fac_fill_(fac_select(fac_select(x, 0, 3), 0, 1), FAC_SCALAR(NAN));
        fac_fill_(fac_select(fac_select(x, 0, 5), 0, 1), FAC_SCALAR(INFINITY));
        fac_tensor *bad = fac_logical_not(fac_isfinite(fac_abs(fac_fft_rfft(x))));
        fac_tensor *lines = fac_any_dim(bad, 1);
        assert_int_equal(fac_item_int(fac_sum(lines)), 2);
        assert_true(fac_item(fac_select(lines, 0, 3)) == 1 && fac_item(fac_select(lines, 0, 5)) == 1);
    }
}

static void tensors_without_elements_have_empty_transforms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *y = fac_fft_fft(fac_zeros(FAC_SHAPE(0, 4)));
    assert_no_error();
    assert_int_equal(fac_tensor_size(y, 0), 0);
    assert_int_equal(fac_tensor_dtype(y), FAC_C64);
    y = fac_fft_rfft2(fac_zeros(FAC_SHAPE(0, 3, 6)));
    assert_int_equal(fac_tensor_size(y, 2), 4);
    y = fac_fft_irfftn(fac_zeros(FAC_SHAPE(0, 3, 4), .dtype = FAC_C64), .dims = FAC_INTS(1, 2));
    assert_int_equal(fac_tensor_size(y, 2), 6);
    y = fac_fft_fftn(fac_tensor_from((const float[]){2}, FAC_F32, (fac_ints){0}));
    assert_int_equal(fac_tensor_ndim(y), 0);
    assert_true(fac_item(fac_real(y)) == 2);
}

static void expect_bits(fac_tensor *(*make)(void)) {
    static const int counts[] = {2, 3, 7};
    FAC_SCOPE(s);
    assert_ok(fac_set_num_threads(1));
    fac_tensor *one = make();
    assert_no_error();
    const size_t bytes = (size_t)fac_tensor_numel(one) * fac_dtype_size(fac_tensor_dtype(one));
    for (size_t i = 0; i < FAC_COUNT(counts); i++) {
        assert_ok(fac_set_num_threads(counts[i]));
        assert_memory_equal(fac_tensor_data(one), fac_tensor_data(make()), bytes);
    }
}
static fac_tensor *long_line(void) { return fac_fft_fft(complex_tensor(FAC_C64, FAC_INTS(2, 100000))); }
static fac_tensor *long_real_line(void) { return fac_fft_rfft(real_tensor(FAC_F32, FAC_INTS(131072))); }
static fac_tensor *long_prime(void) { return fac_fft_ifft(complex_tensor(FAC_C64, FAC_INTS(100003))); }
static fac_tensor *many_lines(void) { return fac_fft_rfft(real_tensor(FAC_F32, FAC_INTS(300, 1000))); }
static fac_tensor *many_dims(void) { return fac_fft_fftn(complex_tensor(FAC_C64, FAC_INTS(40, 64, 33))); }
static void bits_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    const int threads = fac_num_threads();
    expect_bits(long_line);
    expect_bits(long_real_line);
    expect_bits(long_prime);
    expect_bits(many_lines);
    expect_bits(many_dims);
    assert_ok(fac_set_num_threads(threads));
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------ */

#define PAIRS(t) fac_view_as_complex(t)
#define PARTS(t) fac_view_as_real(fac_resolve_conj(t))
#define CASES(X)                                                                                  \
    X(fft, 1, "2,5,2", -1, 1, out[0] = PARTS(fac_fft_fft(PAIRS(x[0]))))                           \
    X(ifft, 1, "2,6,2", -1, 1, out[0] = PARTS(fac_fft_ifft(PAIRS(x[0]), .norm = "ortho")))        \
    X(fft_real, 1, "2,6", -1, 1, out[0] = PARTS(fac_fft_fft(x[0], .n = 4)))                       \
    X(rfft, 1, "2,6", -1, 1, out[0] = PARTS(fac_fft_rfft(x[0], .norm = "ortho")))                 \
    X(rfft_odd, 1, "5,2", -1, 1, out[0] = PARTS(fac_fft_rfft(x[0], .dim = 0)))                    \
    X(irfft, 1, "4,2", -1, 1, out[0] = fac_fft_irfft(PAIRS(x[0])))                                \
    X(irfft_odd, 1, "2,3,2", -1, 1, out[0] = fac_fft_irfft(PAIRS(x[0]), .n = 5))                  \
    X(irfft_one, 1, "2,1,2", -1, 1, out[0] = fac_fft_irfft(PAIRS(x[0]), .n = 1))                  \
    X(hfft, 1, "2,3,2", -1, 1, out[0] = fac_fft_hfft(PAIRS(x[0]), .norm = "forward"))             \
    X(ihfft, 1, "2,5", -1, 1, out[0] = PARTS(fac_fft_ihfft(x[0])))                                \
    X(fftn, 1, "2,3,2,2", -1, 1, out[0] = PARTS(fac_fft_fftn(PAIRS(x[0]))))                       \
    X(rfftn, 1, "3,4", -1, 1, out[0] = PARTS(fac_fft_rfftn(x[0])))                                \
    X(irfftn, 1, "3,3,2", -1, 1, out[0] = fac_fft_irfftn(PAIRS(x[0]), .ss = FAC_INTS(3, 5)))      \
    X(hfftn, 1, "3,3,2", -1, 1, out[0] = fac_fft_hfftn(PAIRS(x[0])))                              \
    X(ihfft2, 1, "3,4", -1, 1, out[0] = PARTS(fac_fft_ihfft2(x[0])))                              \
    X(stft, 1, "9;4", 0.2, 1,                                                                     \
      out[0] = PARTS(fac_stft(x[0], 4, .hop_length = 2, .window = x[1], .return_complex = true))) \
    X(istft, 1, "3,3,2;4", 0.2, 1, out[0] = fac_istft(PAIRS(x[0]), 4, .hop_length = 2, .window = x[1]))

CASES(GRAD_FN)
static const grad_case cases[] = {CASES(GRAD_ROW)};

static void S239_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), false);
}
static void S239_second_gradients_agree_with_differences(void **state) {
    (void)state;
    grad_run(cases, FAC_COUNT(cases), true);
}

/* ---- what is refused --------------------------------------------------------------------------------------------------------- */

static void arguments_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 4)), *z = fac_zeros(FAC_SHAPE(2, 4), .dtype = FAC_C64);
    assert_null(fac_fft_fft(x, .n = 0));
    assert_error(FAC_ERR_ARGUMENT, "Invalid number of data points (0) specified");
    assert_null(fac_fft_irfft(fac_zeros(FAC_SHAPE(1))));
    assert_error(FAC_ERR_ARGUMENT, "Invalid number of data points (0) specified");
    assert_null(fac_fft_fft(x, .norm = "x"));
    assert_error(FAC_ERR_ARGUMENT, "Invalid normalization mode: \"x\"");
    assert_null(fac_fft_fft(x, .dim = 2));
    assert_error(FAC_ERR_INDEX, "Dimension out of range");
    assert_null(fac_fft_fft(fac_sum(x)));
    assert_error(FAC_ERR_INDEX, "Dimension specified as -1 but tensor has no dimensions");
    assert_null(fac_fft_rfft(z));
    assert_error(FAC_ERR_DTYPE, "rfft expects a real input tensor, but got");
    assert_null(fac_fft_fft(fac_to_dtype(x, FAC_F16)));
    assert_error(FAC_ERR_DTYPE, "Unsupported dtype");
    assert_null(fac_fft_fftn(x, .dims = FAC_INTS(0, -2)));
    assert_error(FAC_ERR_ARGUMENT, "FFT dims must be unique");
    assert_null(fac_fft_fftn(x, .ss = FAC_INTS(1, 2), .dims = FAC_INTS(0)));
    assert_error(FAC_ERR_ARGUMENT, "When given, dim and shape arguments must have the same length");
    assert_null(fac_fft_fftn(x, .ss = FAC_INTS(1, 2, 3)));
    assert_error(FAC_ERR_ARGUMENT, "Got shape with 3 values but input tensor only has 2 dimensions.");
    assert_null(fac_fft_rfftn(fac_sum(x)));
    assert_error(FAC_ERR_ARGUMENT, "rfftn must transform at least one axis");
}

/* An operator without a public function, by name. */
static fac_tensor *inner(const char *name, fac_tensor *x, fac_ints dim, int64_t norm, fac_value last) {
    fac_value args[] = {fac_value_tensor(x), fac_value_ints(dim.v, dim.n), fac_value_int(norm), last}, result = {0};
    fac_status st = fac_call(name, args, FAC_COUNT(args), &result);
    for (size_t k = 0; k < FAC_COUNT(args); k++) fac_value_release(&args[k]);
    if (st || fac_scope_take(&result, 1)) return NULL;
    return fac_value_as_tensor(result);
}
static fac_tensor *c2c(fac_tensor *x, fac_ints dim, int64_t norm) {
    return inner("aten::_fft_c2c", x, dim, norm, fac_value_bool(true));
}
static fac_tensor *r2c(fac_tensor *x, fac_ints dim) { return inner("aten::_fft_r2c", x, dim, 0, fac_value_bool(true)); }
static fac_tensor *c2r(fac_tensor *x, int64_t points) {
    return inner("aten::_fft_c2r", x, FAC_INTS(1), 0, fac_value_int(points));
}

static void inner_operators_check_what_they_are_given(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_zeros(FAC_SHAPE(2, 4)), *z = fac_zeros(FAC_SHAPE(2, 4), .dtype = FAC_C64);
    assert_null(c2c(x, FAC_INTS(1), 0));
    assert_error(FAC_ERR_DTYPE, "expected a complex tensor");
    assert_null(c2c(z, FAC_INTS(1, -1), 0));
    assert_error(FAC_ERR_ARGUMENT, "appears multiple times");
    assert_null(c2c(z, FAC_INTS(1), 3));
    assert_error(FAC_ERR_ARGUMENT, "Unsupported normalization type: 3");
    assert_null(r2c(z, FAC_INTS(1)));
    assert_error(FAC_ERR_DTYPE, "Unsupported dtype");
    const fac_ints none = {(const int64_t[]){0}, 0};
    assert_null(r2c(x, none));
    assert_error(FAC_ERR_ARGUMENT, "at least one dimension");
    assert_null(c2r(z, 9));
    assert_error(FAC_ERR_SHAPE, "9 points are made of 5, but dimension 1 has 4");
    assert_non_null(c2r(z, 7));
}

/* ---- plans -------------------------------------------------------------------------------------------------------------------- */

static void plans_are_kept_within_a_bound(void **state) {
    (void)state;
    fac_fft_plan *p, *q;
    assert_ok(fac__fft_plan_take(FAC_FFT_COMPLEX, FAC_F32, 1000, &p));
    assert_ok(fac__fft_plan_take(FAC_FFT_COMPLEX, FAC_F32, 1000, &q));
    assert_ptr_equal(p, q);
    for (int64_t n = 1; n < 3 * FAC_FFT_KEPT; n++) {
        assert_ok(fac__fft_plan_take(FAC_FFT_COMPLEX, FAC_F32, n, &q));
        fac__fft_plan_give(q);
        assert_in_range(fac__fft_plans_kept(), 1, FAC_FFT_KEPT);
    }
    assert_int_equal(p->n, 1000); /* in use, so it stayed */
    fac__fft_plan_give(p);
    fac__fft_plan_give(p);
    fac__fft_plans_trim();
    assert_int_equal(fac__fft_plans_kept(), 0);
}

static fac_status transform_once(void *context) {
    FAC_SCOPE(s);
    fac_tensor *x = *(fac_tensor **)context;
    return fac_fft_irfft2(fac_fft_rfft2(x), .ss = FAC_INTS(3, 67)) ? FAC_OK : fac_error();
}
static void transforms_survive_every_failed_allocation(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = real_tensor(FAC_F32, FAC_INTS(3, 67));
    support_fail_each_allocation(transform_once, &x);
}

/* ---- windows and frequencies ----------------------------------------------------------------------------------------------------- */

static void values_are(fac_tensor *t, const double *want, size_t n, double tolerance) {
    double got[16];
    assert_no_error();
    assert_non_null(t);
    assert_int_equal(fac_tensor_numel(t), (int64_t)n);
    assert_ok(fac_tensor_read(t, FAC_F64, got, n));
    for (size_t i = 0; i < n; i++) assert_near(got[i], want[i], tolerance);
}

static void windows_have_their_closed_forms(void **state) {
    (void)state;
    FAC_SCOPE(s);
    const double h = sqrt(0.5);
    values_are(fac_hann_window(4, .dtype = FAC_F64), (const double[]){0, 0.5, 1, 0.5}, 4, 1e-16);
    values_are(fac_hann_window_periodic(5, false, .dtype = FAC_F64), (const double[]){0, 0.5, 1, 0.5, 0}, 5, 1e-16);
    values_are(fac_hamming_window(4, .dtype = FAC_F64), (const double[]){0.08, 0.54, 1, 0.54}, 4, 1e-16);
    values_are(fac_hamming_window_periodic_alpha_beta(8, true, 1, 2, .dtype = FAC_F64),
               (const double[]){-1, 1 - 2 * h, 1, 1 + 2 * h, 3, 1 + 2 * h, 1, 1 - 2 * h}, 8, 1e-15);
    values_are(fac_blackman_window(4, .dtype = FAC_F64), (const double[]){0, 0.34, 1, 0.34}, 4, 2e-16);
    values_are(fac_bartlett_window(4, .dtype = FAC_F64), (const double[]){0, 0.5, 1, 0.5}, 4, 0);
    values_are(fac_bartlett_window_periodic(4, false, .dtype = FAC_F64), (const double[]){0, 2. / 3, 2. / 3, 0}, 4,
               1e-16);
    /* By mpmath. */
    values_are(fac_kaiser_window(4, .dtype = FAC_F64),
               (const double[]){5.27734413201e-5, 0.215672744759, 1, 0.215672744759}, 4, 1e-12);
    values_are(fac_kaiser_window_beta(3, false, 0, .dtype = FAC_F64), (const double[]){1, 1, 1}, 3, 0);
    values_are(fac_hann_window(1), (const double[]){1}, 1, 0);
    values_are(fac_hann_window(0), NULL, 0, 0);
    fac_tensor *out = fac_empty(FAC_INTS(0), .dtype = FAC_F64);
    assert_non_null(fac_hann_window_out(4, out));
    values_are(out, (const double[]){0, 0.5, 1, 0.5}, 4, 1e-16);
}

static void windows_refuse_integers_and_negative_lengths(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_hann_window(-5));
    assert_error(FAC_ERR_ARGUMENT, "hann_window requires non-negative window_length, got window_length=-5");
    assert_null(fac_kaiser_window(5, .dtype = FAC_I64));
    assert_error(FAC_ERR_DTYPE, "kaiser_window requires a floating point or complex dtype");
    assert_null(fac_fft_fftfreq(-1));
    assert_error(FAC_ERR_ARGUMENT, "non-negative number of points");
    assert_null(fac_fft_fftfreq(3, .dtype = FAC_I64));
    assert_error(FAC_ERR_DTYPE, "fftfreq requires a floating point or complex dtype");
}

static void S239_frequencies_are_those_of_the_points(void **state) {
    (void)state;
    FAC_SCOPE(s);
    values_are(fac_fft_fftfreq(5), (const double[]){0, 0.2, 0.4, -0.4, -0.2}, 5, 1e-7);
    values_are(fac_fft_fftfreq(4, .d = 0.5, .dtype = FAC_F64), (const double[]){0, 0.5, -1, -0.5}, 4, 0);
    values_are(fac_fft_rfftfreq(5), (const double[]){0, 0.2, 0.4}, 3, 1e-7);
    values_are(fac_fft_rfftfreq(4), (const double[]){0, 0.25, 0.5}, 3, 0);
    values_are(fac_fft_fftfreq(0), NULL, 0, 0);
    for (int64_t n = 1; n <= 16; n++) { /* each is the nearest one of its dtype */
        double want[16];
        for (int64_t k = 0; k < n; k++)
            want[k] = (double)(float)((double)(k < n - n / 2 ? k : k - n) * (1 / (double)n));
        values_are(fac_fft_fftfreq(n), want, (size_t)n, 0);
    }
    values_are(fac_fft_fftshift(fac_fft_fftfreq(4)), (const double[]){-0.5, -0.25, 0, 0.25}, 4, 0);
    values_are(fac_fft_ifftshift(fac_fft_fftshift(fac_fft_fftfreq(5))), (const double[]){0, 0.2, 0.4, -0.4, -0.2}, 5,
               1e-7);
}

/* ---- frames ------------------------------------------------------------------------------------------------------------------------ */

static void stft_is_the_transform_of_each_windowed_frame(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = real_tensor(FAC_F64, FAC_INTS(2, 40)), *window = fac_hann_window(6, .dtype = FAC_F64);
    fac_tensor *y =
        fac_stft(x, 8, .hop_length = 3, .win_length = 6, .window = window, .center = false, .return_complex = true);
    assert_no_error();
    assert_int_equal(fac_tensor_size(y, 1), 5);
    assert_int_equal(fac_tensor_size(y, 2), 11);
    fac_tensor *zero = fac_zeros(FAC_SHAPE(1), .dtype = FAC_F64), *wide = fac_cat(FAC_TENSORS(zero, window, zero));
    for (int64_t f = 0; f < 11; f++)
        expect_same(fac_select(y, 2, f), fac_fft_rfft(fac_mul(fac_narrow(x, 1, 3 * f, 8), wide)), 1e-14);
    /* Centred, the first frame lies around the first element. */
    fac_tensor *z = fac_stft(x, 8, .window = fac_ones(FAC_SHAPE(8), .dtype = FAC_F64), .pad_mode = "constant",
                             .return_complex = true);
    fac_tensor *first =
        fac_cat(FAC_TENSORS(fac_zeros(FAC_SHAPE(2, 4), .dtype = FAC_F64), fac_narrow(x, 1, 0, 4)), .dim = 1);
    expect_same(fac_select(z, 2, 0), fac_fft_rfft(first), 1e-14);
    fac_tensor *aligned = fac_stft(x, 8, .hop_length = 3, .win_length = 6, .center = false, .return_complex = true,
                                   .align_to_window = true);
    assert_int_equal(fac_tensor_size(aligned, 2), 1 + (40 - 6) / 3);
    expect_same(fac_real(fac_select(fac_select(aligned, 2, 0), 1, 0)), fac_sum(fac_narrow(x, 1, 0, 6), .dim = 1),
                1e-13);
}

static void istft_gives_the_signal_back(void **state) {
    (void)state;
    for (int normalized = 0; normalized < 2; normalized++)
        for (int onesided = 0; onesided < 2; onesided++) {
            FAC_SCOPE(s);
            fac_tensor *x = real_tensor(FAC_F64, FAC_INTS(2, 50)), *w = fac_hamming_window(10, .dtype = FAC_F64);
            fac_tensor *y = fac_stft(x, 16, .hop_length = 4, .win_length = 10, .window = w, .normalized = normalized,
                                     .onesided = onesided, .return_complex = true);
            expect_same(fac_istft(y, 16, .hop_length = 4, .win_length = 10, .window = w, .normalized = normalized,
                                  .onesided = onesided, .length = 50),
                        x, 1e-13);
        }
}

static void frames_that_do_not_fit_are_refused(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = real_tensor(FAC_F32, FAC_INTS(20)), *y = complex_tensor(FAC_C64, FAC_INTS(5, 9));
    assert_null(fac_stft(x, 8));
    assert_error(FAC_ERR_ARGUMENT, "stft requires the return_complex parameter be given for real inputs");
    assert_null(fac_stft(x, 30, .center = false, .return_complex = true));
    assert_error(FAC_ERR_ARGUMENT, "expected 0 < n_fft < 20, but got n_fft=30");
    assert_null(fac_stft(x, 8, .hop_length = 0, .return_complex = true));
    assert_error(FAC_ERR_ARGUMENT, "expected hop_length > 0, but got hop_length=0");
    assert_null(fac_stft(x, 8, .win_length = 9, .return_complex = true));
    assert_error(FAC_ERR_ARGUMENT, "expected 0 < win_length <= n_fft, but got win_length=9");
    assert_null(fac_stft(x, 8, .window = fac_ones(FAC_SHAPE(5)), .return_complex = true));
    assert_error(FAC_ERR_SHAPE, "expected a 1D window tensor of size equal to win_length=8");
    assert_null(fac_stft(fac_to_dtype(x, FAC_I64), 8, .return_complex = true));
    assert_error(FAC_ERR_DTYPE, "expected a tensor of floating point or complex values");
    assert_null(fac_istft(x, 8));
    assert_error(FAC_ERR_DTYPE, "istft requires a complex-valued input tensor");
    assert_null(fac_istft(y, 16));
    assert_error(FAC_ERR_SHAPE, "to match n_fft / 2 + 1 when onesided=True, but got 5");
    assert_null(fac_istft(y, 8, .hop_length = 9));
    assert_error(FAC_ERR_ARGUMENT, "expected 0 < hop_length <= win_length");
    assert_null(fac_istft(y, 8, .window = fac_zeros(FAC_SHAPE(8))));
    assert_error(FAC_ERR_ARGUMENT, "window overlap add min");
}

/* What complex numbers become lies as they do. */
static void transforms_lie_as_what_is_transformed(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(3, 20, 12), .dtype = FAC_C128), *turned = fac_transpose(x, 1, 2);
    for (int64_t dim = 0; dim < 3; dim++) {
        fac_tensor *y = fac_fft_fft(turned, .dim = dim), *z = fac_fft_ifft2(turned);
        assert_true(fac_tensor_strides(y).v[1] == 1);
        assert_true(fac_tensor_strides(z).v[1] == 1);
        expect_same(y, fac_fft_fft(fac_contiguous(turned), .dim = dim), 1e-12);
        expect_same(z, fac_fft_ifft2(fac_contiguous(turned)), 1e-12);
    }
    assert_no_error();
}

/* Images that fit in a cache are transformed one after the other: the same numbers as of one dimension after the other. */
static void transforms_of_images_are_those_of_their_dimensions(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_tensor *x = fac_randn(FAC_SHAPE(2, 23, 64, 96)), *lines = fac_fft_rfft(x), *want = fac_fft_fft(lines, .dim = 2);
    fac_tensor *strided = fac_transpose(fac_contiguous(fac_transpose(x, 1, 3)), 1, 3);
    assert_true(fac_equal(fac_view_as_real(fac_fft_rfft2(x)), fac_view_as_real(want)));
    assert_true(
        fac_allclose(fac_view_as_real(fac_fft_rfft2(strided)), fac_view_as_real(want), .rtol = 0, .atol = 1e-3));
    fac_tensor *both = fac_fft_fftn(want, .dims = FAC_INTS(1, 2, 3));
    fac_tensor *each = fac_fft_fft(fac_fft_fft(fac_fft_fft(want), .dim = 2), .dim = 1);
    assert_true(fac_equal(fac_view_as_real(both), fac_view_as_real(each)));
    fac_tensor *back = fac_fft_irfft2(want);
    assert_true(fac_allclose(back, x, .rtol = 0, .atol = 1e-5));
    assert_true(fac_equal(back, fac_fft_irfft2(fac_clone(want))));
    assert_no_error();
}

FAC_TEST_MAIN(
    FAC_TEST(transforms_of_images_are_those_of_their_dimensions), FAC_TEST(S239_fft_is_its_definition_at_every_length),
    FAC_TEST(S239_transforms_of_real_numbers_are_the_definition_at_every_length),
    FAC_TEST(S239_long_lines_are_transformed), FAC_TEST(S239_fft_of_several_dimensions_is_one_after_the_other),
    FAC_TEST(S239_norms_scale_by_the_number_of_points), FAC_TEST(S239_sizes_cut_or_fill_with_zeros),
    FAC_TEST(S239_any_layout_is_read_and_written), FAC_TEST(one_impulse_has_a_flat_spectrum_exactly),
    FAC_TEST(a_line_that_is_not_finite_spoils_no_other), FAC_TEST(tensors_without_elements_have_empty_transforms),
    FAC_TEST(bits_are_the_same_for_any_number_of_threads), FAC_TEST(S239_gradients_agree_with_differences),
    FAC_TEST(S239_second_gradients_agree_with_differences), FAC_TEST(arguments_that_do_not_fit_are_refused),
    FAC_TEST(inner_operators_check_what_they_are_given), FAC_TEST(plans_are_kept_within_a_bound),
    FAC_TEST(transforms_survive_every_failed_allocation), FAC_TEST(windows_have_their_closed_forms),
    FAC_TEST(windows_refuse_integers_and_negative_lengths), FAC_TEST(S239_frequencies_are_those_of_the_points),
    FAC_TEST(stft_is_the_transform_of_each_windowed_frame), FAC_TEST(istft_gives_the_signal_back),
    FAC_TEST(frames_that_do_not_fit_are_refused), FAC_TEST(transforms_lie_as_what_is_transformed))
