/* How exact the elementary functions are: over all 2^32 numbers of float, or every n-th, all of f16 and bf16, and random doubles.
   Prints a row for each function and dtype; exit status 1 if a result is farther off than the function's bound.
   The error of a result is its distance from the exact value in units in the last place (ULP) of a number of that size; a
   correctly rounded one is at most 0.5 off. Subnormal values, whose last place is that of the smallest normal number, count apart. The
   exact value comes from the C library, in double for float, in long double for double. For float it is asked where Facula's own double
   does not decide: that one is within 4,096 units of its last place (which the rows of doubles show), so that a float to which all of
   that range rounds is rounded correctly. One number in 61 is judged by the C library whatever the double says. */
#include "accuracy.h"
#include <errno.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, ALWAYS = 61 };
static const double DOUBT = 0x1p-40; /* 4,096 units of a double's last place */

/* The worst of the inputs that a worker has seen: of normal values where it was, of subnormal ones how far off. */
typedef struct worst {
    double error, at, got, below;
    long long seen, wrong; /* numbers; those that are not rounded correctly */
} worst;

typedef struct kind {
    const char *name;
    fac_dtype dtype;
    int digits, least; /* bits of the significand; exponent of the smallest normal number */
    double largest;
} kind;
static const kind kinds[] = {{"f32", FAC_F32, 24, -126, FLT_MAX},
                             {"f64", FAC_F64, 53, -1022, DBL_MAX},
                             {"f16", FAC_F16, 11, -14, 65504},
                             {"bf16", FAC_BF16, 8, -126, 0x1.fep127}};

typedef struct job {
    const accuracy_function *f;
    const kind *k;
    uint64_t stride, numbers; /* inputs are number * stride, as bits; of double they are drawn at random */
    int worker, workers;
    bool progress, failed;
    worst worst;
} job;

static void count(worst *w, double error, bool is_subnormal, double at, double got) {
    w->wrong += error > 0.5;
    if (is_subnormal)
        w->below = error > w->below ? error : w->below;
    else if (error > w->error)
        w->error = error, w->at = at, w->got = got;
}

/* The distance from the exact value in units in its last place. What overflowed counts as the next power of two. */
static double distance(const kind *k, double got, long double exact) {
    if (isnan(got) || isnan(exact)) return isnan(got) && isnan(exact) ? 0 : INFINITY;
    if (isinf(exact)) return got == (double)exact ? 0 : INFINITY;
    const int exponent = exact == 0 ? k->least : ilogbl(exact) < k->least ? k->least : ilogbl(exact);
    const long double value = isinf(got) ? copysignl(2 * ldexpl(1, ilogb(k->largest)), got) : got;
    if (isinf(got) && fabsl(exact) >= fabsl(value)) return !signbit(got) == !signbit(exact) ? 0 : INFINITY;
    return (double)(fabsl(value - exact) / ldexpl(1, exponent - k->digits + 1));
}

static bool is_subnormal(const kind *k, long double exact) { return fabsl(exact) < ldexpl(1, k->least); }

/* Most results are rounded correctly, which is quickly seen: fast is the function of the same numbers in double. */
static void judge_f32(job *j, const float *in, const float *got, const double *fast, int n) {
    for (int i = 0; i < n; i++) {
        const float low = (float)(fast[i] - fast[i] * DOUBT), high = (float)(fast[i] + fast[i] * DOUBT);
        const bool decided = ((low == got[i]) & (high == got[i])) | ((fast[i] != fast[i]) & (got[i] != got[i]));
        if (decided && i % ALWAYS) continue;
        const double exact = j->f->exact(in[i]);
        const bool same = (float)exact == got[i] || (isnan(exact) && isnan(got[i]));
        if (!same) count(&j->worst, distance(j->k, got[i], exact), is_subnormal(j->k, exact), in[i], got[i]);
    }
    j->worst.seen += n;
}

static void judge_f64(job *j, const double *in, const double *got, int n) {
    for (int i = 0; i < n; i++) {
        const long double exact = j->f->wide(in[i]);
        const bool same = (double)exact == got[i] || (isnan((double)exact) && isnan(got[i]));
        if (!same) count(&j->worst, distance(j->k, got[i], exact), is_subnormal(j->k, exact), in[i], got[i]);
    }
    j->worst.seen += n;
}

/* Halves, widened to float without loss. */
static void judge_half(job *j, const float *in, const float *got, int n) {
    for (int i = 0; i < n; i++) {
        const double exact = j->f->exact(in[i]);
        count(&j->worst, distance(j->k, got[i], exact), is_subnormal(j->k, exact), in[i], got[i]);
    }
    j->worst.seen += n;
}

/* SplitMix64 (Steele, Lea, Flood 2014): number n of a sequence. */
static uint64_t draw(uint64_t n) {
    uint64_t z = (n + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Doubles are of every exponent in turn with those near 1 as often again, where functions vary most. */
static uint64_t bits_of(const job *j, uint64_t number) {
    if (j->k->dtype != FAC_F64) return number * j->stride;
    const uint64_t bits = draw(number), exponent = 1023 - 12 + (bits >> 52 & 15);
    return number & 1 ? bits : (bits & 0x800fffffffffffffu) | exponent << 52;
}

static void fill(const job *j, void *data, uint64_t first, int n) {
    for (int i = 0; i < n; i++) {
        const uint64_t bits = bits_of(j, first + (uint64_t)i);
        if (j->k->dtype == FAC_F64)
            memcpy((uint64_t *)data + i, &bits, 8);
        else if (j->k->dtype == FAC_F32)
            memcpy((uint32_t *)data + i, &(uint32_t){(uint32_t)bits}, 4);
        else
            memcpy((uint16_t *)data + i, &(uint16_t){(uint16_t)bits}, 2);
    }
}

static bool is_half(const kind *k) { return k->dtype == FAC_F16 || k->dtype == FAC_BF16; }

/* In a scope of its caller's. */
static bool run_chunk(job *j, fac_tensor *in, uint64_t first, int n) {
    fill(j, fac_tensor_data(in), first, n);
    fac_tensor *some = fac_narrow(in, 0, 0, n), *got = j->f->call(some);
    if (is_half(j->k)) some = fac_to(some, .dtype = FAC_F32), got = fac_to(got, .dtype = FAC_F32);
    fac_tensor *fast = j->k->dtype == FAC_F32 ? j->f->call(fac_to(some, .dtype = FAC_F64)) : got;
    if (!some || !got || !fast) return false;
    const void *x = fac_tensor_data(some), *y = fac_tensor_data(got);
    if (j->k->dtype == FAC_F64)
        judge_f64(j, x, y, n);
    else if (is_half(j->k))
        judge_half(j, x, y, n);
    else
        judge_f32(j, x, y, fac_tensor_data(fast), n);
    return true;
}

static void show_progress(const job *j, uint64_t done) {
    if (j->progress && j->worker == 0)
        fprintf(stderr, "\r%-12s %-5s %3d %%", j->f->name, j->k->name,
                (int)(100.0 * (double)done / (double)j->numbers));
}

static void *work(void *context) {
    job *j = context;
    FAC_SCOPE(all);
    fac_tensor *in = fac_empty(FAC_SHAPE(CHUNK), .dtype = j->k->dtype);
    for (uint64_t at = (uint64_t)j->worker * CHUNK; in && at < j->numbers && !j->failed;
         at += (uint64_t)j->workers * CHUNK) {
        const uint64_t left = j->numbers - at;
        FAC_SCOPE(scope);
        j->failed = !run_chunk(j, in, at, left < CHUNK ? (int)left : CHUNK);
        show_progress(j, at);
    }
    j->failed = j->failed || !in;
    if (j->failed) fprintf(stderr, "%s: %s\n", j->f->name, fac_error_message());
    return NULL;
}

enum { MAX_WORKERS = 64 };

static void merge(worst *all, const worst *one) {
    all->seen += one->seen;
    all->wrong += one->wrong;
    if (one->below > all->below) all->below = one->below;
    if (one->error > all->error) all->error = one->error, all->at = one->at, all->got = one->got;
}

/* A half is rounded from a float, which may lie on the other side of the middle between two halves; gelu's in bfloat16 is a fit of
   less than a float's digits. */
static double allowed(const kind *k, const accuracy_function *f, double bound) {
    const bool fit = k->dtype == FAC_BF16 && strcmp(f->name, "gelu") == 0;
    return !is_half(k) ? bound : fit ? 0.505 : 0.5 + ldexp(bound, k->digits - 24);
}

/* False if a call failed or a result is too far off. */
static bool measure(const accuracy_function *f, const kind *k, uint64_t stride, uint64_t numbers, int workers) {
    job jobs[MAX_WORKERS];
    pthread_t threads[MAX_WORKERS];
    for (int i = 0; i < workers; i++) {
        jobs[i] = (job){f, k, stride, numbers, i, workers, isatty(2) != 0, false, {0, 0, 0, 0, 0, 0}};
        if (i == 0 || pthread_create(&threads[i], NULL, work, &jobs[i]) == 0) continue;
        fputs("accuracy: a thread could not be started\n", stderr);
        exit(1);
    }
    work(&jobs[0]);
    worst all = {0};
    bool failed = false;
    for (int i = 0; i < workers; i++) {
        if (i > 0) pthread_join(threads[i], NULL);
        merge(&all, &jobs[i].worst);
        failed = failed || jobs[i].failed;
    }
    const double bound = allowed(k, f, k->dtype == FAC_F64 ? f->bound64 : f->bound), below = allowed(k, f, f->below);
    const bool within = !failed && all.error <= bound && all.below <= below;
    if (isatty(2)) fprintf(stderr, "\r%-24s\r", "");
    printf("%-12s %-5s %12lld %10.4f %7.4g %10.4f %7.4g %10.1f  %-13.9g %-13.9g %s\n", f->name, k->name, all.seen,
           all.error > 0.5 ? all.error : 0.5, bound, all.below > 0.5 ? all.below : 0.5, below,
           1e6 * (double)all.wrong / (double)all.seen, all.at, all.got, within ? "ok" : "TOO FAR OFF");
    fflush(stdout);
    return within;
}

static const char help[] =
    "usage: accuracy [--stride N] [--doubles N] [FUNCTION...]\n\n"
    "Prints how far the results of elementary functions are from the exact values, in units in the last place (ULP), at most\n"
    "and as allowed, of normal and of subnormal values; how many of a million are not rounded correctly; and the worst input\n"
    "with its result.\n"
    "Exit status 1 if one is too far off.\n\n"
    "  --stride N   every N-th number of float instead of all 2^32\n"
    "  --doubles N  so many random doubles, 2^24 if not given\n";

static bool number_of(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    *out = text ? strtoull(text, &end, 10) : 0;
    return text && *text >= '1' && *text <= '9' && !*end && !errno;
}

static bool is_wanted(const char *name, char **names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return n == 0;
}

static bool are_known(char **names, int n) {
    for (int i = 0; i < n; i++) {
        const accuracy_function *f = accuracy_functions;
        while (f->name && strcmp(f->name, names[i]) != 0) f++;
        if (!f->name) return fprintf(stderr, "accuracy: there is no function '%s'\n", names[i]), false;
    }
    return true;
}

int main(int argc, char **argv) {
    uint64_t stride = 1, doubles = 1 << 24;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--help") == 0) return fputs(help, stdout), 0;
        uint64_t *place = strcmp(argv[at], "--stride") == 0    ? &stride
                          : strcmp(argv[at], "--doubles") == 0 ? &doubles
                                                               : NULL;
        if (!place || !number_of(argv[at + 1], place)) return fputs(help, stderr), 2;
    }
    if (!are_known(argv + at, argc - at)) return 2;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int workers = cores < 1 ? 1 : cores > MAX_WORKERS ? MAX_WORKERS : (int)cores;
    if (fac_set_num_threads(1) != FAC_OK) return fprintf(stderr, "%s\n", fac_error_message()), 1;
    printf("%-12s %-5s %12s %10s %7s %10s %7s %10s  %-13s %s\n", "function", "dtype", "numbers", "worst ULP", "allowed",
           "subnormal", "allowed", "wrong ppm", "at", "result");
    bool ok = true;
    for (const accuracy_function *f = accuracy_functions; f->name; f++) {
        if (!is_wanted(f->name, argv + at, argc - at)) continue;
        ok &= measure(f, &kinds[0], stride, (UINT64_C(1) << 32) / stride, workers);
        ok &= measure(f, &kinds[1], 1, doubles, workers);
        for (int k = 2; k < 4; k++) ok &= measure(f, &kinds[k], 1, 1 << 16, workers);
    }
    return ok ? 0 : 1;
}
