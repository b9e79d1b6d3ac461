/* Factories that the host computes element by element, in double precision, so that each element is rounded once: windows, and the
   frequencies of Fourier transforms. */
#include "core/tensor_make.h"
#include "ops/call.h"
#include "ops/composite/below.h"
#include "ops/composite/factory.h"
#include "ops/composite/view.h"
#include "ops_gen.h"
#include <math.h>

static const double TURN = 6.28318530717958647693;

/* What elements become that were multiples of a step, or cosines of them; numbers are their kind's. */
typedef void (*elements_fn)(double *v, int64_t count, const double *numbers);

typedef struct sequence {
    double step;
    bool of_cosines;
    elements_fn make; /* NULL: they stay as they are, and of cosines c become numbers[0] - numbers[1] c */
    enum { ALL, MIRRORED, NEGATED_FROM_END } after; /* what follows the first half of n */
} sequence;

/* What an operator in place answers is what it was given. */
static fac_status in_place(fac_status st, fac_tensor *const *same) {
    if (st == FAC_OK) fac__unref(*same);
    return st;
}
/* The first `count` multiples of the step, or their cosines, which lie where they go; by the CPU's loops where there is nothing else to
   make of them. */
static fac_status multiples(fac_tensor *wide, int64_t count, const sequence *s, const double *numbers) {
    fac_tensor *part, *same = NULL;
    FAC_TRY(fac__narrow_view(wide, 0, 0, count, &part));
    const fac_keyset k = fac__dense_keys(part);
    const fac_scalar step = fac_scalar_f_(s->step);
    fac_status st = in_place(fac__redispatch__arange_(k, part, fac_scalar_i_(0), step, &same), &same);
    if (st == FAC_OK && s->of_cosines) st = in_place(fac__redispatch_cos_(k, part, &same), &same);
    if (st == FAC_OK && s->of_cosines && !s->make) {
        st = in_place(fac__redispatch_mul__Scalar(k, part, fac_scalar_f_(-numbers[1]), &same), &same);
        if (st == FAC_OK)
            st = in_place(fac__redispatch_add__Scalar(k, part, fac_scalar_f_(numbers[0]), fac_scalar_i_(1), &same),
                          &same);
    }
    fac__unref(part);
    return st;
}

/* to[k] = from[-k], four at a time if they are floats; those of common sizes without a call for each. */
static void turn(char *to, const char *from, int64_t n, int64_t item) {
    typedef uint32_t four __attribute__((vector_size(16)));
    int64_t k = 0;
    for (; item == sizeof(float) && k + 4 <= n; k += 4) {
        four v;
        memcpy(&v, from - (k + 3) * item, sizeof v);
        v = __builtin_shufflevector(v, v, 3, 2, 1, 0);
        memcpy(to + k * item, &v, sizeof v);
    }
    for (; item == 8 && k < n; k++) memcpy(to + k * 8, from - k * 8, 8);
    for (; item == 2 && k < n; k++) memcpy(to + k * 2, from - k * 2, 2);
    for (; k < n; k++) memcpy(to + k * item, from - k * item, (size_t)item);
}

/* Elements of t on the CPU from number `half` on: the one at `from` and those before it. */
static void mirror(fac_tensor *t, int64_t half, int64_t from) {
    const int64_t item = fac__item_size(t);
    char *v = fac__data(t);
    if (half < t->numel) turn(v + half * item, v + from * item, t->numel - half, item);
}

static fac_status copy_first(fac_tensor *t, fac_tensor *wide) {
    fac_tensor *first;
    FAC_TRY(fac__narrow_view(t, 0, 0, wide->numel, &first));
    const fac_status st = fac__copy_below(first, wide);
    fac__unref(first);
    return st;
}

/* The elements of t from number `half` on are those before n - half, turned around and negated. */
static fac_status mirror_negated(fac_tensor *t, int64_t half, int64_t n) {
    fac_tensor *part, *same = NULL;
    mirror(t, half, n - half);
    if (half >= t->numel) return FAC_OK;
    FAC_TRY(fac__narrow_view(t, 0, half, t->numel - half, &part));
    const fac_status st = in_place(fac__redispatch_neg_(fac__dense_keys(part), part, &same), &same);
    fac__unref(part);
    return st;
}

/* Multiples that stay as they are, on the CPU: each is rounded where it goes. */
static fac_status fill_multiples(fac_tensor *t, const sequence *s, int64_t n) {
    const int64_t half = s->after ? n / 2 + n % 2 : t->numel;
    FAC_TRY(multiples(t, fac__min(t->numel, n / 2 + 1), s, NULL));
    return s->after == NEGATED_FROM_END ? mirror_negated(t, half, n) : FAC_OK;
}

static fac_status fill(fac_tensor *t, const sequence *s, int64_t n, const double *numbers) {
    fac_tensor *wide = NULL;
    const bool here = t->device.type == FAC_CPU; /* which mirrors what is rounded already */
    if (here && !s->make && !s->of_cosines && s->after != MIRRORED && fac_dtype_is_floating((fac_dtype)t->dtype))
        return fill_multiples(t, s, n);
    const int64_t count = t->numel, made = fac__min(count, n / 2 + 1), half = s->after ? n / 2 + n % 2 : count;
    const int64_t kept = here && s->after == MIRRORED ? made : count;
    FAC_TRY(fac__empty(&kept, 1, FAC_F64, fac_device_make(FAC_CPU, 0), &wide));
    double *v = fac__data(wide);
    fac_status st = multiples(wide, made, s, numbers);
    if (st == FAC_OK) {
        if (s->make) s->make(v, made, numbers);
        if (s->after == MIRRORED && !here) mirror(wide, half, n - 1 - half);
        if (s->after == NEGATED_FROM_END) st = mirror_negated(wide, half, n);
    }
    if (st == FAC_OK) st = copy_first(t, wide);
    if (st == FAC_OK && s->after == MIRRORED && here) mirror(t, half, n - 1 - half);
    fac__unref(wide);
    return st;
}

/* `count` elements, of a sequence of n. */
static fac_status tabulate(const fac_factory *f, int64_t count, const sequence *s, int64_t n, const double *numbers,
                           fac_tensor **out) {
    fac_tensor *t = NULL;
    FAC_TRY(fac__factory_empty(f, FAC_INTS(count), FAC_CONTIGUOUS, &t));
    fac_status st = t->device.type == FAC_META ? FAC_OK : fill(t, s, n, numbers);
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

static fac_status frequencies(fac_factory f, const char *name, int64_t n, double d, bool half, fac_tensor **out) {
    FAC_TRY(resolve(&f, name));
    FAC_CHECK(n >= 0, FAC_ERR_ARGUMENT, "%s requires a non-negative number of points, got n=%lld", name, (long long)n);
    /* 0, 1, ... below n / 2, and from there on k - n */
    const sequence s = {.step = 1 / ((double)n * d), .after = half ? ALL : NEGATED_FROM_END};
    return tabulate(&f, half ? n / 2 + 1 : n, &s, n, NULL, out);
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

/* The cosine of twice the angle is 2 cos^2 - 1. */
static void blackman(double *v, int64_t count, const double *numbers) {
    (void)numbers;
    for (int64_t k = 0; k < count; k++) v[k] = 0.42 - 0.5 * v[k] + 0.08 * (2 * v[k] * v[k] - 1);
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
static void kaiser(double *v, int64_t count, const double *numbers) {
    for (int64_t k = 0; k < count; k++) {
        const double x = v[k] - 1;
        v[k] = bessel_i0(numbers[0] * sqrt(fmax(0, 1 - x * x))) / numbers[1];
    }
}

typedef struct window {
    const char *name;
    elements_fn make;
    bool of_cosines;
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
    const int64_t n = length + periodic;
    const double turns = w->of_cosines ? TURN : 2;
    const sequence s = {turns / (double)(n - 1), w->of_cosines, w->make, MIRRORED};
    return tabulate(&f, length, &s, n, w->numbers, out);
}

static const window bartlett_window = {.name = "bartlett_window"},
                    blackman_window = {.name = "blackman_window", .make = blackman, .of_cosines = true},
                    hann_window = {.name = "hann_window", .of_cosines = true, .numbers = {0.5, 0.5}};
static window hamming_window(double alpha, double beta) {
    return (window){.name = "hamming_window", .of_cosines = true, .numbers = {alpha, beta}};
}
static window kaiser_window(double beta) {
    return (window){.name = "kaiser_window", .make = kaiser, .numbers = {beta, bessel_i0(beta)}};
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
