/* Factories that the host computes element by element, in double precision, so that each element is rounded once: windows, and the
   frequencies of Fourier transforms. */
#include "core/tensor_make.h"
#include "ops/call.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops_gen.h"
#include <math.h>

static const double TURN = 6.28318530717958647693;

/* Element k of n, with the numbers that its kind has. */
typedef double (*element_fn)(int64_t k, int64_t n, const double *numbers);

static fac_status fill(fac_tensor *t, element_fn element, int64_t n, const double *numbers, bool mirrored) {
    fac_tensor *wide = NULL;
    const int64_t count = t->numel;
    FAC_TRY(fac__empty(&count, 1, FAC_F64, fac_device_make(FAC_CPU, 0), &wide));
    double *v = fac__data(wide);
    for (int64_t k = 0; k < count; k++) {
        const bool again = mirrored && 2 * k > n - 1;
        v[k] = again ? v[n - 1 - k] : element(k, n, numbers);
    }
    fac_status st = fac__copy_below(t, wide);
    fac__unref(wide);
    return st;
}

/* `count` elements, of a sequence of n. Mirrored: the second half is the first one backwards. */
static fac_status tabulate(const fac_factory *f, int64_t count, element_fn element, int64_t n, const double *numbers,
                           bool mirrored, fac_tensor **out) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__factory_empty(f, FAC_INTS(count), FAC_CONTIGUOUS, &t));
    fac_status st = t->device.type == FAC_META ? FAC_OK : fill(t, element, n, numbers, mirrored);
    if (st == FAC_OK)
        *out = t;
    else
        fac__unref(t);
    return st;
}

static fac_status resolve(fac_factory *f, const char *name) {
    FAC_TRY(fac__factory_resolve(f, fac_default_dtype()));
    FAC_CHECK(!fac_dtype_is_integral(f->dtype, true), FAC_ERR_DTYPE,
              "%s requires a floating point or complex dtype, but got %s", name, fac_dtype_name(f->dtype));
    return FAC_OK;
}

/* ---- frequencies --------------------------------------------------------------------------------------------------------- */

/* 0, 1, ... below n / 2, and from there on k - n. */
static double frequency(int64_t k, int64_t n, const double *d) {
    return (double)(k < n / 2 + n % 2 ? k : k - n) * (1 / ((double)n * *d));
}
static double half_frequency(int64_t k, int64_t n, const double *d) { return (double)k * (1 / ((double)n * *d)); }

static fac_status frequencies(fac_factory f, const char *name, int64_t n, double d, bool half, fac_tensor **out) {
    FAC_TRY(resolve(&f, name));
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "%s requires a non-negative number of points, got n=%lld", name, (long long)n);
    return tabulate(&f, half ? n / 2 + 1 : n, half ? half_frequency : frequency, n, &d, false, out);
}

/* What an out form makes: of the dtype and on the device of the tensor that it is copied to. */
static fac_factory like(const fac_tensor *out) {
    return FACTORY((fac_dtype)out->dtype, FAC_STRIDED, out->device, (fac_opt_num){0});
}
/* `made` is set by the call that gives `st`, and so is read after it. */
static fac_status give_out(fac_status st, fac_tensor *const *made, fac_tensor *given, fac_tensor **out) {
    FAC_TRY(st);
    st = fac__copy_to_outs(&given, made, 1);
    fac__unref(*made);
    if (st == FAC_OK) *out = fac__ref(given);
    return st;
}

#define FREQUENCIES(name, half)                                                                                       \
    fac_status fft_##name##_explicit(const fac_call_info *c, int64_t n, double d, fac_dtype dtype, fac_layout layout, \
                                     fac_device device, fac_opt_num pin_memory, fac_tensor **out) {                   \
        (void)c;                                                                                                      \
        return frequencies(FACTORY(dtype, layout, device, pin_memory), #name, n, d, half, out);                       \
    }                                                                                                                 \
    fac_status fft_##name##_out_composite(const fac_call_info *c, int64_t n, double d, fac_tensor *given,             \
                                          fac_tensor **out) {                                                         \
        (void)c;                                                                                                      \
        fac_tensor *made = NULL;                                                                                      \
        return give_out(frequencies(like(given), #name, n, d, half, &made), &made, given, out);                       \
    }
FREQUENCIES(fftfreq, false)
FREQUENCIES(rfftfreq, true)

/* ---- windows -------------------------------------------------------------------------------------------------------------- */

static double bartlett(int64_t k, int64_t n, const double *numbers) {
    (void)numbers;
    return 2 * (double)k / (double)(n - 1);
}
/* numbers: alpha, beta. */
static double hamming(int64_t k, int64_t n, const double *numbers) {
    return numbers[0] - numbers[1] * cos(TURN * (double)k / (double)(n - 1));
}
static double blackman(int64_t k, int64_t n, const double *numbers) {
    (void)numbers;
    const double x = TURN * (double)k / (double)(n - 1);
    return 0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x);
}

/* The modified Bessel function of order zero by its power series, the sum of (x x / 4)^k / (k!)^2: no term is negative. DLMF
   10.25.2. */
static double bessel_i0(double x) {
    const double quarter = x * x / 4;
    double sum = 1, term = 1;
    for (double k = 1; term > sum * 0x1p-54; k++) {
        term *= quarter / (k * k);
        sum += term;
    }
    return sum;
}
/* numbers: beta, I0(beta). */
static double kaiser(int64_t k, int64_t n, const double *numbers) {
    const double x = 2 * (double)k / (double)(n - 1) - 1;
    return bessel_i0(numbers[0] * sqrt(fmax(0, 1 - x * x))) / numbers[1];
}

typedef struct window {
    const char *name;
    element_fn element;
    double numbers[2];
} window;

/* A periodic window is the beginning of one that is longer by one. */
static fac_status make_window(fac_factory f, const window *w, int64_t length, bool periodic, fac_tensor **out) {
    FAC_TRY(resolve(&f, w->name));
    FAC_CHECK(length >= 0, FAC_ERR_ARGUMENT, "%s requires non-negative window_length, got window_length=%lld", w->name,
              (long long)length);
    FAC_CHECK(length < INT64_MAX / 16, FAC_ERR_OVERFLOW, "%lld elements do not fit the address space",
              (long long)length);
    if (length == 1) {
        fac_tensor *t = NULL;
        FAC_TRY(fac__factory_empty(&f, FAC_INTS(1), FAC_CONTIGUOUS, &t));
        fac_status st = fac__fill_below(t, fac_scalar_i_(1));
        if (st == FAC_OK)
            *out = t;
        else
            fac__unref(t);
        return st;
    }
    return tabulate(&f, length, w->element, length + periodic, w->numbers, true, out);
}

static const window bartlett_window = {.name = "bartlett_window", .element = bartlett},
                    blackman_window = {.name = "blackman_window", .element = blackman},
                    hann_window = {.name = "hann_window", .element = hamming, .numbers = {0.5, 0.5}};
static window hamming_window(double alpha, double beta) {
    return (window){.name = "hamming_window", .element = hamming, .numbers = {alpha, beta}};
}
static window kaiser_window(double beta) {
    return (window){.name = "kaiser_window", .element = kaiser, .numbers = {beta, bessel_i0(beta)}};
}

/* An operator whose own arguments are in `list`, and its out form: a window and whether it is periodic. */
#define LIST(...) __VA_ARGS__
#define WINDOW(name, out_name, list, shape, periodic)                                                                  \
    fac_status name##_explicit(const fac_call_info *c, int64_t window_length, list fac_dtype dtype, fac_layout layout, \
                               fac_device device, fac_opt_num pin_memory, fac_tensor **out) {                          \
        (void)c;                                                                                                       \
        const window w = shape;                                                                                        \
        return make_window(FACTORY(dtype, layout, device, pin_memory), &w, window_length, periodic, out);              \
    }                                                                                                                  \
    fac_status out_name##_composite(const fac_call_info *c, int64_t window_length, list fac_tensor *given,             \
                                    fac_tensor **out) {                                                                \
        (void)c;                                                                                                       \
        const window w = shape;                                                                                        \
        fac_tensor *made = NULL;                                                                                       \
        return give_out(make_window(like(given), &w, window_length, periodic, &made), &made, given, out);              \
    }
WINDOW(bartlett_window, bartlett_window_out, , bartlett_window, true)
WINDOW(bartlett_window_periodic, bartlett_window_periodic_out, LIST(bool periodic, ), bartlett_window, periodic)
WINDOW(blackman_window, blackman_window_out, , blackman_window, true)
WINDOW(blackman_window_periodic, blackman_window_periodic_out, LIST(bool periodic, ), blackman_window, periodic)
WINDOW(hann_window, hann_window_out, , hann_window, true)
WINDOW(hann_window_periodic, hann_window_periodic_out, LIST(bool periodic, ), hann_window, periodic)
WINDOW(hamming_window, hamming_window_out, , hamming_window(0.54, 0.46), true)
WINDOW(hamming_window_periodic, hamming_window_periodic_out, LIST(bool periodic, ), hamming_window(0.54, 0.46),
       periodic)
WINDOW(hamming_window_periodic_alpha, hamming_window_periodic_alpha_out, LIST(bool periodic, double alpha, ),
       hamming_window(alpha, 0.46), periodic)
WINDOW(hamming_window_periodic_alpha_beta, hamming_window_periodic_alpha_beta_out,
       LIST(bool periodic, double alpha, double beta, ), hamming_window(alpha, beta), periodic)
WINDOW(kaiser_window, kaiser_window_out, , kaiser_window(12), true)
WINDOW(kaiser_window_periodic, kaiser_window_periodic_out, LIST(bool periodic, ), kaiser_window(12), periodic)
WINDOW(kaiser_window_beta, kaiser_window_beta_out, LIST(bool periodic, double beta, ), kaiser_window(beta), periodic)
