/* Fused optimiser steps, vectorised by the compiler: plain elementwise arithmetic in the parameter's dtype. */
#include "backend/cpu/kernels/optim.h"
#include <math.h>

#define SGD(T, suffix)                                                                                             \
    void FAC_ISA_NAME(fac__sgd_##suffix)(T *restrict p, const T *restrict g, T *restrict buf, int64_t n,           \
                                         const fac_sgd_step *s) {                                                  \
        const T lr = (T)s->lr, wd = (T)s->weight_decay, mu = (T)s->momentum, sign = (T)s->sign;                    \
        const T keep = s->first ? 0 : mu, in = s->first ? 1 : (T)(1 - s->dampening), ahead = s->nesterov ? mu : 0; \
        if (!buf) {                                                                                                \
            for (int64_t i = 0; i < n; i++) p[i] -= lr * (sign * g[i] + wd * p[i]);                                \
            return;                                                                                                \
        }                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            const T d = sign * g[i] + wd * p[i], old = s->first ? 0 : buf[i], b = keep * old + in * d;             \
            buf[i] = b;                                                                                            \
            p[i] -= lr * (s->nesterov ? d + ahead * b : b);                                                        \
        }                                                                                                          \
    }

#define ADAM(T, suffix, SQRT)                                                                                        \
    static inline T denominator_##suffix(T v, T root, T eps) { return SQRT(v) / root + eps; }                        \
    void FAC_ISA_NAME(fac__adam_##suffix)(T *restrict p, const T *restrict g, T *restrict m, T *restrict v,          \
                                          T *restrict max, int64_t n, const fac_adam_step *s) {                      \
        const T b1 = (T)s->beta1, b2 = (T)s->beta2, c1 = (T)(1 - s->beta1), c2 = (T)(1 - s->beta2), eps = (T)s->eps; \
        const T step = (T)(s->lr / s->correction1), root = (T)s->correction2_sqrt, sign = (T)s->sign;                \
        const T shrink = (T)(s->decoupled ? 1 - s->lr * s->weight_decay : 1),                                        \
                wd = (T)(s->decoupled ? 0 : s->weight_decay);                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                            \
            const T d = sign * g[i] + wd * p[i];                                                                     \
            const T mi = b1 * m[i] + c1 * d, vi = b2 * v[i] + c2 * d * d;                                            \
            m[i] = mi;                                                                                               \
            v[i] = vi;                                                                                               \
            T top = vi;                                                                                              \
            if (max) max[i] = top = max[i] > vi ? max[i] : vi;                                                       \
            p[i] = shrink * p[i] - step * mi / denominator_##suffix(top, root, eps);                                 \
        }                                                                                                            \
    }

#define ADAGRAD(T, suffix, SQRT)                                                                             \
    void FAC_ISA_NAME(fac__adagrad_##suffix)(T *restrict p, const T *restrict g, T *restrict sum, int64_t n, \
                                             const fac_adagrad_step *s) {                                    \
        const T lr = (T)s->lr, wd = (T)s->weight_decay, eps = (T)s->eps, sign = (T)s->sign;                  \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T d = sign * g[i] + wd * p[i], all = sum[i] + d * d;                                       \
            sum[i] = all;                                                                                    \
            p[i] -= lr * d / (SQRT(all) + eps);                                                              \
        }                                                                                                    \
    }

#define UNSCALE(T, suffix)                                                                             \
    void FAC_ISA_NAME(fac__unscale_##suffix)(T *restrict g, int64_t n, T scale) {                      \
        for (int64_t i = 0; i < n; i++) g[i] /= scale;                                                 \
    }                                                                                                  \
    bool FAC_ISA_NAME(fac__scale_and_test_##suffix)(T *restrict g, int64_t n, T factor) {              \
        int bad = 0;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                              \
            const T x = g[i];                                                                          \
            bad |= !(x - x == 0); /* infinity less itself, as what is not a number, is not a number */ \
            g[i] = x * factor;                                                                         \
        }                                                                                              \
        return bad;                                                                                    \
    }

SGD(float, f32)
SGD(double, f64)
ADAM(float, f32, sqrtf)
ADAM(double, f64, sqrt)
ADAGRAD(float, f32, sqrtf)
ADAGRAD(double, f64, sqrt)
UNSCALE(float, f32)
UNSCALE(double, f64)
