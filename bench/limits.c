/* What one core of this machine can do at most, against which sweep_report.py holds each row: fused multiply-adds of float32, and bytes
   moved by a[i] = b[i] + s * c[i] over working sets of several sizes.

       fma<TAB>1e9 operations a second
       triad<TAB>bytes of the three arrays<TAB>1e9 bytes a second, twice read and once written */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAINS = 12, LANES = 16, ROUNDS = 1 << 16, REPEATS = 9 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_LEVEL __attribute__((target_clones("avx512f", "avx2,fma", "default"), optimize("O3,fp-contract=fast")))
#else
#define EACH_LEVEL
#pragma STDC FP_CONTRACT ON
#endif

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Enough chains that do not wait for each other. */
EACH_LEVEL static float multiply_add(float start) {
    lanes a[CHAINS], b, c;
    for (int k = 0; k < LANES; k++) b[k] = 0.999f, c[k] = start;
    for (int i = 0; i < CHAINS; i++) a[i] = c + (float)i;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < CHAINS; i++) a[i] = a[i] * b + c;
    float sum = 0;
    for (int i = 0; i < CHAINS; i++)
        for (int k = 0; k < LANES; k++) sum += a[i][k];
    return sum;
}

EACH_LEVEL static void triad(float *restrict a, const float *restrict b, const float *restrict c, size_t n, float s) {
    for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

static double best_fma(void) {
    volatile float keep = 1e-3f;
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        const double begin = now();
        keep = multiply_add(keep * 1e-3f);
        const double took = now() - begin;
        if (took < best) best = took;
    }
    return 2.0 * CHAINS * LANES * ROUNDS / best * 1e-9;
}

static double best_triad(size_t bytes) {
    const size_t n = bytes / 3 / sizeof(float), runs = 1 + ((size_t)1 << 24) / bytes;
    float *a = calloc(3 * n, sizeof *a), *b = a + n, *c = b + n;
    if (!a) return 0;
    for (size_t i = 0; i < 3 * n; i++) a[i] = 1;
    double best = 1e9;
    for (int k = 0; k < REPEATS; k++) {
        const double begin = now();
        for (size_t r = 0; r < runs; r++) triad(a, b, c, n, (float)k);
        const double took = (now() - begin) / (double)runs;
        if (took < best) best = took;
    }
    free(a);
    return 3.0 * (double)n * sizeof(float) / best * 1e-9;
}

int main(void) {
    printf("fma\t%.1f\n", best_fma());
    for (size_t bytes = 1 << 14; bytes <= 1 << 27; bytes *= 2) printf("triad\t%zu\t%.1f\n", bytes, best_triad(bytes));
    return 0;
}
