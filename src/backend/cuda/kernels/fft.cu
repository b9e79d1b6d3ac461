/* What Fourier transforms need beside cuFFT: the scale, the other half of what came of real numbers, and inputs whose mirrored
   ends are real. Complex numbers are pairs of T. */
#include "fft.h"

/* x[n] times a number. */
#define K_FFT_SCALE(T, suffix) \
    KERNEL(fft_scale_##suffix, (IO, T, x), (VAL, int64_t, n), (VAL, double, by)) { KLOOP(i, n) x[i] *= (T)by; }
K_FFT_SCALE(float, f32)
K_FFT_SCALE(double, f64)

/* out [*, n0, n1, n2] of half [*, n0, n1, n2 / 2 + 1]: a point beyond the half is the conjugate of its mirror image in all three. */
#define K_FFT_MIRROR(T, suffix)                                                              \
    KERNEL(fft_mirror_##suffix, (OUT, T, out), (IN, T, half), (VAL, k_fft, g)) {             \
        const int64_t points = g.n[2] / 2 + 1;                                               \
        KLOOP(e, g.elements) {                                                               \
            int64_t k = e % g.n[2], r = e / g.n[2], j = r % g.n[1], i = r / g.n[1] % g.n[0]; \
            const int64_t array = r / g.n[1] / g.n[0];                                       \
            const int mirrored = k >= points;                                                \
            if (mirrored) {                                                                  \
                i = i ? g.n[0] - i : 0;                                                      \
                j = j ? g.n[1] - j : 0;                                                      \
                k = g.n[2] - k;                                                              \
            }                                                                                \
            const T *from = half + 2 * (((array * g.n[0] + i) * g.n[1] + j) * points + k);   \
            out[2 * e] = from[0];                                                            \
            out[2 * e + 1] = mirrored ? -from[1] : from[1];                                  \
        }                                                                                    \
    }
K_FFT_MIRROR(float, f32)
K_FFT_MIRROR(double, f64)

/* half [lines, n / 2 + 1]: the imaginary parts of the first point, and of the last if n is even, become zero. */
#define K_FFT_ENDS(T, suffix)                                                            \
    KERNEL(fft_ends_##suffix, (IO, T, half), (VAL, int64_t, lines), (VAL, int64_t, n)) { \
        KLOOP(i, lines) {                                                                \
            T *line = half + 2 * i * (n / 2 + 1);                                        \
            line[1] = 0;                                                                 \
            if (n % 2 == 0) line[2 * (n / 2) + 1] = 0;                                   \
        }                                                                                \
    }
K_FFT_ENDS(float, f32)
K_FFT_ENDS(double, f64)
