/* Cross products of real vectors in one walk over both operands, whatever their layout. Products are rounded before they are
   subtracted, so an element does not depend on how the walk is cut. */
#include "backend/cpu/parallel.h"
#include "iter/nest.h"
#include "ops_gen.h"

typedef struct job {
    fac_nest nest;   /* of the vectors: the result, then the operands */
    int64_t part[3]; /* from one element of a vector to the next */
    char *data[3];
    bool wide; /* double */
} job;

/* n vectors, `step` apart. */
#define CROSS(T)                                                                                                     \
    static inline __attribute__((always_inline)) void walk_##T(T *restrict out, const T *restrict a,                 \
                                                               const T *restrict b, const int64_t *part, int64_t to, \
                                                               int64_t of_a, int64_t of_b, int64_t n) {              \
        T *restrict y = out + part[0], *restrict z = y + part[0];                                                    \
        const T *a1 = a + part[1], *a2 = a1 + part[1], *b1 = b + part[2], *b2 = b1 + part[2];                        \
        for (int64_t i = 0; i < n; i++) {                                                                            \
            const int64_t p = i * of_a, q = i * of_b;                                                                \
            const T u = a1[p] * b2[q] - a2[p] * b1[q], v = a2[p] * b[q] - a[p] * b2[q],                              \
                    w = a[p] * b1[q] - a1[p] * b[q];                                                                 \
            out[i * to] = u, y[i * to] = v, z[i * to] = w;                                                           \
        }                                                                                                            \
    }                                                                                                                \
    static void cross_##T(T *out, const T *a, const T *b, const int64_t *part, const int64_t *step, int64_t n) {     \
        if (step[0] == 1 && step[1] == 1 && step[2] == 1)                                                            \
            walk_##T(out, a, b, part, 1, 1, 1, n);                                                                   \
        else                                                                                                         \
            walk_##T(out, a, b, part, step[0], step[1], step[2], n);                                                 \
    }
CROSS(float)
CROSS(double)

static fac_status run(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t step[3] = {fac__nest_step(&j->nest, 0), fac__nest_step(&j->nest, 1), fac__nest_step(&j->nest, 2)};
    fac_cursor c;
    fac__nest_seek(&j->nest, 3, begin, &c);
    for (int64_t i = begin, n; i < end; i += n, fac__nest_advance(&j->nest, 3, n, &c)) {
        void *at[3];
        n = fac__min(fac__nest_run(&j->nest, &c), end - i);
        for (int k = 0; k < 3; k++) at[k] = j->data[k] + c.offset[k] * (j->wide ? 8 : 4);
        if (j->wide)
            cross_double(at[0], at[1], at[2], j->part, step, n);
        else
            cross_float(at[0], at[1], at[2], j->part, step, n);
    }
    return FAC_OK;
}

fac_status _linalg_cross_cpu(fac_structured *s, fac_tensor *self, fac_tensor *other, int64_t dim) {
    fac_tensor *const t[3] = {s->out[0], self, other};
    const int64_t *strides[3] = {t[0]->strides, t[1]->strides, t[2]->strides};
    job j = {.wide = self->dtype == FAC_F64};
    if (self->numel == 0) return FAC_OK;
    for (int k = 0; k < 3; k++) j.part[k] = strides[k][dim], j.data[k] = fac__data(t[k]);
    fac__nest_build(&j.nest, self->sizes, self->ndim, ~(UINT64_C(1) << dim), 3, strides, false);
    return fac__parallel_for(0, j.nest.count, fac__grain(FAC_GRAIN, 6), run, &j);
}
