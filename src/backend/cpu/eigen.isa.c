/* Small symmetric matrices: Householder's reflections make them tridiagonal, and QL steps with implicit shifts diagonal (Bowdler, Martin,
   Reinsch and Wilkinson 1968). All arithmetic is in f64, for f32 too.

   Columns lie `ld` elements apart, whole vectors, with zeros behind the last row; the lanes of a vector are rows. Matrices are kept whole,
   both triangles, so that every sum is one over columns. */
#include "backend/cpu/eigen.h"
#include "backend/cpu/simd.h"
#include <math.h>

#define LANES FAC_LANES_F64
#define MOST 0x1p300     /* the largest number of a matrix lies between this and its inverse, or is scaled to */
#define NOTHING 0x1p-480 /* no more than that cannot be told from zero beside it; its square is a normal number */
typedef int64_t vi64 __attribute__((vector_size(FAC_VECTOR_BYTES)));

typedef struct work {
    int n, ld;
    double *a, *z; /* [n][ld]; z: NULL if no vectors are wanted */
    double *v, *w; /* [ld]: a reflection, and what a matrix makes of it */
    double *d, *e; /* [ld]: the diagonal, and what is beside it */
    double *c, *s; /* [ld]: a step's rotations */
} work;

static fac_vf64 load(const double *at) { return fac_load_f64(at); }
static fac_vf64 splat(double x) { return fac_splat_f64(x); }
static vi64 rows_from(int first) {
    vi64 v = {0};
    for (int i = 0; i < LANES; i++) v[i] = first + i;
    return v;
}

/* ---- to and from the matrix ------------------------------------------------------------------------------------------- */

/* What an eigenvector is multiplied with: the first of its numbers that is nearly the largest becomes positive. A matrix that differs a
   little so has vectors that differ a little; `nearly`, since the largest are often of one size, as in (1, -1). */
static double sign_of(const double *v, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = __builtin_fabs(v[i]) > most ? __builtin_fabs(v[i]) : most;
    int first = 0;
    while (first + 1 < n && __builtin_fabs(v[first]) < 0.9 * most) first++;
    return __builtin_copysign(1.0, v[first]);
}

/* The triangle that is read, into both; returns the size of the largest number. And values and vectors, from the smallest value on. */
#define CONVERT(T)                                                                             \
    static double enter_##T(const fac_eigen *p, const work *k) {                               \
        double most = 0;                                                                       \
        for (int j = 0; j < k->n; j++) {                                                       \
            const T *from = (const T *)p->a + j * p->lda;                                      \
            const int begin = p->upper ? 0 : j, end = p->upper ? j + 1 : k->n;                 \
            for (int i = begin; i < end; i++) {                                                \
                const double x = from[i], size = __builtin_fabs(x);                            \
                most = size > most ? size : most;                                              \
                k->a[(int64_t)j * k->ld + i] = k->a[(int64_t)i * k->ld + j] = x;               \
            }                                                                                  \
            for (int i = k->n; i < k->ld; i++) k->a[(int64_t)j * k->ld + i] = 0;               \
        }                                                                                      \
        return most;                                                                           \
    }                                                                                          \
    static void leave_##T(const fac_eigen *p, const work *k, const int *order, double scale) { \
        for (int j = 0; j < k->n; j++) ((T *)p->w)[j] = (T)(k->d[order[j]] * scale);           \
        for (int j = 0; p->v && j < k->n; j++) {                                               \
            const double *from = k->z + (int64_t)order[j] * k->ld, sign = sign_of(from, k->n); \
            for (int i = 0; i < k->n; i++) ((T *)p->v)[j * p->ldv + i] = (T)(sign * from[i]);  \
        }                                                                                      \
    }
CONVERT(float)
CONVERT(double)
#undef CONVERT

/* ---- tridiagonal ------------------------------------------------------------------------------------------------------ */

/* The columns of m from `first` on, times the numbers of v: rows `row` to row + LANES - 1. */
static fac_vf64 times(const work *k, const double *m, int first, int row) {
    fac_vf64 x = splat(0), y = x;
    int j = first;
    for (; j + 1 < k->n; j += 2) {
        x = fac_fma_f64(load(m + (int64_t)j * k->ld + row), splat(k->v[j]), x);
        y = fac_fma_f64(load(m + (int64_t)(j + 1) * k->ld + row), splat(k->v[j + 1]), y);
    }
    if (j < k->n) x = fac_fma_f64(load(m + (int64_t)j * k->ld + row), splat(k->v[j]), x);
    return x + y;
}

/* The reflection I - tau v v^T that leaves one number, e[c], of column c below the diagonal; returns tau, 0 if nothing is to be done. */
static double reflection(const work *k, int c) {
    const double *x = k->a + (int64_t)c * k->ld;
    const double first = x[c + 1];
    fac_vf64 sum = splat(0);
    for (int i = (c + 1) / LANES * LANES; i < k->ld; i += LANES) {
        const fac_vf64 rest = (fac_vf64)((vi64)load(x + i) & (rows_from(i) > c + 1 - (vi64){0}));
        fac_store_f64(k->v + i, rest);
        sum = fac_fma_f64(rest, rest, sum);
    }
    const double others = fac_sum_f64(sum);
    k->e[c] = first;
    if (others < NOTHING * NOTHING) return 0;
    const double size = -__builtin_copysign(__builtin_sqrt(fac_fma1_f64(first, first, others)), first);
    k->e[c] = size;
    k->v[c + 1] = first - size;
    return 1 / (size * (size - first));
}

/* a = H a H in rows and columns after c, and z = z H. */
static void reflect(const work *k, int c, double tau) {
    const int start = (c + 1) / LANES * LANES;
    fac_vf64 dots = splat(0);
    for (int i = start; i < k->ld; i += LANES) {
        const fac_vf64 all = times(k, k->a, c + 1, i) * splat(tau),
                       w = (fac_vf64)((vi64)all & (rows_from(i) > c - (vi64){0}));
        fac_store_f64(k->w + i, w);
        dots = fac_fma_f64(w, load(k->v + i), dots);
    }
    const fac_vf64 share = splat(tau * fac_sum_f64(dots) / 2);
    for (int i = start; i < k->ld; i += LANES)
        fac_store_f64(k->w + i, fac_fma_f64(-share, load(k->v + i), load(k->w + i)));
    for (int i = start; i < k->ld; i += LANES) {
        const fac_vf64 v = load(k->v + i), w = load(k->w + i);
        for (int j = c + 1; j < k->n; j++) {
            double *at = k->a + (int64_t)j * k->ld + i;
            fac_store_f64(at, fac_fma_f64(-v, splat(k->w[j]), fac_fma_f64(-w, splat(k->v[j]), load(at))));
        }
    }
    if (!k->z) return;
    for (int i = 0; i < k->ld; i += LANES) {
        const fac_vf64 w = times(k, k->z, c + 1, i) * splat(-tau);
        for (int j = c + 1; j < k->n; j++) {
            double *at = k->z + (int64_t)j * k->ld + i;
            fac_store_f64(at, fac_fma_f64(w, splat(k->v[j]), load(at)));
        }
    }
}

static void make_tridiagonal(const work *k) {
    const int n = k->n;
    if (k->z) {
        memset(k->z, 0, (size_t)n * (size_t)k->ld * sizeof(double));
        for (int i = 0; i < n; i++) k->z[(int64_t)i * k->ld + i] = 1;
    }
    for (int c = 0; c < n - 2; c++) {
        const double tau = reflection(k, c);
        if (tau != 0) reflect(k, c, tau);
    }
    for (int i = 0; i < n; i++) k->d[i] = k->a[(int64_t)i * k->ld + i];
    if (n > 1) k->e[n - 2] = k->a[(int64_t)(n - 2) * k->ld + n - 1];
}

/* ---- diagonal ------------------------------------------------------------------------------------------------------------ */

/* One step on rows l to m, whose rotations stay in c and s. */
static void step(const work *k, int l, int m) {
    double *d = k->d, *e = k->e;
    const double half = (d[l + 1] - d[l]) / (2 * e[l]), root = __builtin_sqrt(fac_fma1_f64(half, half, 1));
    double g = d[m] - d[l] + e[l] / (half + __builtin_copysign(root, half)), c = 1, s = 1, p = 0;
    for (int i = m - 1; i >= l; i--) {
        const double f = s * e[i], b = c * e[i], square = fac_fma1_f64(g, g, f * f);
        const bool none = square < NOTHING * NOTHING;
        const double r = none ? 1 : __builtin_sqrt(square);
        c = none ? 1 : g / r;
        s = none ? 0 : f / r;
        if (i < m - 1) e[i + 1] = none ? 0 : r;
        g = d[i + 1] - p;
        const double turn = fac_fma1_f64(d[i] - g, s, 2 * (c * b));
        p = s * turn;
        d[i + 1] = g + p;
        g = fac_fma1_f64(c, turn, -b);
        k->c[i] = c;
        k->s[i] = s;
    }
    d[l] -= p;
    e[l] = g;
}

/* Two rows that are left alone, by one rotation: so a matrix whose eigenvalues are exact numbers, as that of ones, gets these. */
static void finish_pair(const work *k, int l) {
    double *d = k->d, *e = k->e;
    const double half = (d[l + 1] - d[l]) / (2 * e[l]), root = __builtin_sqrt(fac_fma1_f64(half, half, 1)),
                 tangent = 1 / (half + __builtin_copysign(root, half));
    d[l] -= tangent * e[l];
    d[l + 1] += tangent * e[l];
    e[l] = 0;
    k->c[l] = 1 / __builtin_sqrt(fac_fma1_f64(tangent, tangent, 1));
    k->s[l] = tangent * k->c[l];
}

static void rotate(const work *k, int l, int m) {
    for (int row = 0; row < k->ld; row += LANES) {
        double *at = k->z + (int64_t)m * k->ld + row;
        fac_vf64 x = load(at);
        for (int i = m - 1; i >= l; i--, at -= k->ld) {
            const fac_vf64 y = load(at - k->ld), c = splat(k->c[i]), s = splat(k->s[i]);
            fac_store_f64(at, fac_fma_f64(c, x, s * y));
            x = fac_fma_f64(-s, x, c * y);
        }
        fac_store_f64(at, x);
    }
}

/* What is beside the diagonal counts as nothing if it is `least` of its neighbours. */
static bool make_diagonal(const work *k, double least) {
    int steps = 30 * k->n;
    for (int l = 0; l < k->n; l++)
        for (;;) {
            int m = l;
            for (; m + 1 < k->n; m++) {
                const double beside = __builtin_fabs(k->d[m]) + __builtin_fabs(k->d[m + 1]);
                if (__builtin_fabs(k->e[m]) <= fac_fma1_f64(least, beside, NOTHING)) break;
            }
            if (m == l) break;
            if (steps-- == 0) return false;
            if (m == l + 1)
                finish_pair(k, l);
            else
                step(k, l, m);
            if (k->z) rotate(k, l, m);
        }
    return true;
}

bool FAC_ISA_NAME(fac__eigen_symmetric)(const fac_eigen *p, void *room) {
    const int n = p->n, ld = (int)fac__div_up(n, FAC_EIGEN_LANES) * FAC_EIGEN_LANES;
    double *at = room, scale = 1;
    work k = {.n = n,
              .ld = ld,
              .v = at,
              .w = at + ld,
              .d = at + 2 * ld,
              .e = at + 3 * ld,
              .c = at + 4 * ld,
              .s = at + 5 * ld,
              .a = at + 6 * ld};
    if (p->v) k.z = k.a + (int64_t)n * ld;
    const double most = p->dtype == FAC_F64 ? enter_double(p, &k) : enter_float(p, &k);
    if (most > 0 && (most > MOST || most < 1 / MOST)) {
        int exponent;
        (void)frexp(most, &exponent);
        scale = ldexp(1, exponent - 1);
        for (int64_t i = 0; i < (int64_t)n * ld; i++) k.a[i] /= scale;
    }
    make_tridiagonal(&k);
    /* f32 has 24 bits, and what is left out is squared in the next step. */
    if (!make_diagonal(&k, p->dtype == FAC_F64 ? 0x1p-53 : 0x1p-32)) return false;
    int order[FAC_EIGEN_MOST];
    for (int i = 0; i < n; i++) {
        int to = i;
        for (; to > 0 && k.d[order[to - 1]] > k.d[i]; to--) order[to] = order[to - 1];
        order[to] = i;
    }
    if (p->dtype == FAC_F64)
        leave_double(p, &k, order, scale);
    else
        leave_float(p, &k, order, scale);
    return true;
}
