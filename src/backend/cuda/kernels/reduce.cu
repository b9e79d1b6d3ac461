/* Reductions. Folds accumulate in float (16- and 32-bit floats), double, int64_t or a pair of doubles. Long folds are cut in parts
   by shape alone; each part's result has a place of its own, and a second launch folds those in order, so that results do not
   depend on the order in which blocks run. */
#include "fold.h"
#include "number.h"

#define K_MAPPED(T, ABS, POW, f, x)                                   \
    ((f)->map == K_MAP_NONE          ? (x)                            \
     : (f)->map == K_MAP_NAN_TO_ZERO ? ((x) != (x) ? (T)0 : (x))      \
     : (f)->map == K_MAP_ABS         ? ABS(x)                         \
     : (f)->map == K_MAP_SQUARE      ? (x) * (x)                      \
     : (f)->map == K_MAP_POW         ? (T)POW((double)ABS(x), (f)->p) \
                                     : (T)((x) != 0))
KDEV_CALL double k_finished(const k_fold *f, double x) {
    if (f->finish == K_FINISH_DIV) return x / f->finish_p;
    if (f->finish == K_FINISH_SQRT) return sqrt(x);
    return f->finish == K_FINISH_ROOT ? pow(x, 1.0 / f->finish_p) : x;
}

KDEV_CALL float k_fold_element_f32(const k_fold *f, const char *address) {
    const float x = k_round(k_load_f32(address, f->in_dtype), f->via);
    return K_MAPPED(float, fabsf, pow, f, x);
}
KDEV_CALL double k_fold_element_f64(const k_fold *f, const char *address) {
    const double x = k_load_f64(address, f->in_dtype);
    return K_MAPPED(double, fabs, pow, f, x);
}
KDEV_CALL int64_t k_fold_element_i64(const k_fold *f, const char *address) {
    if (f->map == K_MAP_NONZERO || f->via == K_BOOL) return k_load_bool(address, f->in_dtype);
    if (f->in_dtype >= K_F16) return k_truncate(k_load_f64(address, f->in_dtype), f->via);
    const int64_t x = k_load_i64(address, f->in_dtype);
    if (f->via == K_U8) return (uint8_t)x;
    if (f->via == K_I8) return (int8_t)x;
    if (f->via == K_I16) return (int16_t)x;
    return f->via == K_I32 ? (int32_t)x : x;
}

#define FAC_T float
#define FAC_FN(name) k_##name##_f32
#define K_NAME(name) reduce_##name##_f32
#define K_ELEMENT k_fold_element_f32
#define K_LOWEST (-INFINITY)
#define K_HIGHEST INFINITY
#define K_FINISH(f, x) ((f)->finish ? (float)k_finished(f, x) : (x))
#define K_STORE k_store_f32
#include "reduce_body.h"

#define FAC_T double
#define FAC_FN(name) k_##name##_f64
#define K_NAME(name) reduce_##name##_f64
#define K_ELEMENT k_fold_element_f64
#define K_LOWEST (-INFINITY)
#define K_HIGHEST INFINITY
#define K_FINISH(f, x) k_finished(f, x)
#define K_STORE k_store_f64
#include "reduce_body.h"

#define FAC_T int64_t
#define FAC_FN(name) k_##name##_i64
#define K_NAME(name) reduce_##name##_i64
#define K_ELEMENT k_fold_element_i64
#define K_LOWEST INT64_MIN
#define K_HIGHEST INT64_MAX
#define K_FINISH(f, x) (x)
#define K_STORE k_store_i64
#include "reduce_body.h"

/* Sums and products of complex numbers, a thread for each part of each output. */
KERNEL(reduce_fold_threads_c128, (VAL, k_fold, f)) {
    KLOOP(i, f.n_out * f.parts) {
        const int64_t o = i % f.n_out, q = i / f.n_out;
        const int64_t end = (q + 1) * f.part < f.n_fold ? (q + 1) * f.part : f.n_fold;
        const char *base = f.in + k_at(f.kept_ndim, f.kept_size, f.kept_in, o);
        double re = f.op == K_PROD ? 1 : 0, im = 0;
        for (int64_t j = q * f.part; j < end; j++) {
            const k_complex z = k_load_complex(base + k_at(f.fold_ndim, f.fold_size, f.fold_in, j), f.in_dtype);
            const double product = re * z.re - im * z.im;
            im = f.op == K_PROD ? re * z.im + im * z.re : im + z.im;
            re = f.op == K_PROD ? product : re + z.re;
        }
        k_complex z;
        z.re = f.parts > 1 ? re : k_finished(&f, re);
        z.im = f.parts > 1 ? im : k_finished(&f, im);
        if (f.parts > 1)
            k_store_complex(f.out + (q * f.n_out + o) * 16, K_C128, z);
        else
            k_store_complex(f.out + k_at(f.kept_ndim, f.kept_size, f.kept_out, o), f.out_dtype, z);
    }
}
