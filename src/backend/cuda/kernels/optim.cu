/* Fused optimiser steps over the flat memory of a parameter and its buffers: each element read and written once, and none
   after an index out of range, since the gradient may be made of zeros that stand for something else. */
#include "bounds.h"
#include "number.h"
#include "steps.h"

#define K_SGD(T, suffix)                                                                                    \
    KERNEL(optim_sgd_##suffix, (IO, T, p), (IN, T, g), (IO, T, buffer), (VAL, int64_t, n), (VAL, k_sgd, s), \
           (VAL, k_bounds, bounds)) {                                                                       \
        const T lr = (T)s.lr, decay = (T)s.weight_decay, mu = (T)s.momentum, sign = (T)s.sign;              \
        const T keep = s.first ? 0 : mu, in = s.first ? 1 : (T)(1 - s.dampening);                           \
        if (k_bounds_failed(&bounds)) return;                                                               \
        KLOOP(i, n) {                                                                                       \
            const T d = sign * g[i] + decay * p[i];                                                         \
            if (!buffer) {                                                                                  \
                p[i] -= lr * d;                                                                             \
                continue;                                                                                   \
            }                                                                                               \
            const T old = s.first ? 0 : buffer[i], b = keep * old + in * d;                                 \
            buffer[i] = b;                                                                                  \
            p[i] -= lr * (s.nesterov ? d + mu * b : b);                                                     \
        }                                                                                                   \
    }
K_SGD(float, f32)
K_SGD(double, f64)

#define K_ADAM(T, suffix, SQRT)                                                                                      \
    KERNEL(optim_adam_##suffix, (IO, T, p), (IN, T, g), (IO, T, m), (IO, T, v), (IO, T, largest), (VAL, int64_t, n), \
           (VAL, k_adam, s), (VAL, k_bounds, bounds)) {                                                              \
        const T b1 = (T)s.beta1, b2 = (T)s.beta2, c1 = (T)(1 - s.beta1), c2 = (T)(1 - s.beta2), eps = (T)s.eps;      \
        const T step = (T)(s.lr / s.correction1), root = (T)s.correction2_sqrt, sign = (T)s.sign;                    \
        const T shrink = (T)(s.decoupled ? 1 - s.lr * s.weight_decay : 1);                                           \
        const T decay = (T)(s.decoupled ? 0 : s.weight_decay);                                                       \
        if (k_bounds_failed(&bounds)) return;                                                                        \
        KLOOP(i, n) {                                                                                                \
            const T d = sign * g[i] + decay * p[i];                                                                  \
            const T mi = b1 * m[i] + c1 * d, vi = b2 * v[i] + c2 * d * d;                                            \
            T top = vi;                                                                                              \
            m[i] = mi;                                                                                               \
            v[i] = vi;                                                                                               \
            if (largest) largest[i] = top = largest[i] > vi ? largest[i] : vi;                                       \
            p[i] = shrink * p[i] - step * mi / (SQRT(top) / root + eps);                                             \
        }                                                                                                            \
    }
K_ADAM(float, f32, sqrtf)
K_ADAM(double, f64, sqrt)
