/* Indexing: elements are moved by size. An index out of range gives zeros, or adds to nothing (bounds.h). */
#include "bounds.h"
#include "number.h"

/* out[o, i, n] = x[o, index[i], n]: rows of n elements of `item` bytes, without gaps. */
KERNEL(index_select, (OUT, char, out), (IN, char, x), (IN, char, index), (VAL, int64_t, outer), (VAL, int64_t, count),
       (VAL, int64_t, size), (VAL, int64_t, n), (VAL, int, item), (VAL, int, index_dtype), (VAL, k_bounds, bounds)) {
    KLOOP(i, outer * count * n) {
        const int64_t at = i / n % count, o = i / n / count;
        const int64_t k = k_load_i64(index + at * (index_dtype == K_I64 ? 8 : 4), index_dtype);
        const char *from = x + ((o * size + k) * n + i % n) * item;
        char *to = out + i * item;
        if (!k_in_bounds(&bounds, k, size))
            for (int b = 0; b < item; b++) to[b] = 0;
        else if (item == 4)
            *(uint32_t *)(void *)to = *(const uint32_t *)(const void *)from;
        else if (item == 8)
            *(uint64_t *)(void *)to = *(const uint64_t *)(const void *)from;
        else if (item == 2)
            *(uint16_t *)(void *)to = *(const uint16_t *)(const void *)from;
        else
            for (int b = 0; b < item; b++) to[b] = from[b];
    }
}

/* How often each row is named. */
KERNEL(index_count, (IO, int, times), (IN, char, index), (VAL, int64_t, count), (VAL, int64_t, size),
       (VAL, int, index_dtype), (VAL, k_bounds, bounds)) {
    KLOOP(i, count) {
        const int64_t k = k_load_i64(index + i * (index_dtype == K_I64 ? 8 : 4), index_dtype);
        if (k_in_bounds(&bounds, k, size)) atomicAdd(&times[k], 1);
    }
}

/* Gradient of an embedding: rows of g are added, atomically and so in no fixed order, to the rows of dw that the indices name.
   padding: the row that gets nothing. times, if not NULL: each row is divided by how often it occurs. */
#define K_EMBEDDING_BACKWARD(T, suffix, LOAD)                                                                          \
    KERNEL(index_embedding_backward_##suffix, (IO, T, dw), (IN, char, g), (IN, char, index), (IN, int, times),         \
           (VAL, int64_t, count), (VAL, int64_t, size), (VAL, int64_t, n), (VAL, int64_t, padding), (VAL, int, dtype), \
           (VAL, int, index_dtype), (VAL, k_bounds, bounds)) {                                                         \
        const int64_t item = dtype == K_F64 ? 8 : dtype == K_F32 ? 4 : 2;                                              \
        KLOOP(i, count *n) {                                                                                           \
            const int64_t k = k_load_i64(index + i / n * (index_dtype == K_I64 ? 8 : 4), index_dtype);                 \
            if (!k_in_bounds(&bounds, k, size) || k == padding) continue;                                              \
            const T v = LOAD(g + i * item, dtype);                                                                     \
            atomicAdd(&dw[k * n + i % n], times ? v / (T)times[k] : v);                                                \
        }                                                                                                              \
    }
K_EMBEDDING_BACKWARD(float, f32, k_load_f32)
K_EMBEDDING_BACKWARD(double, f64, k_load_f64)

/* arange: start + i step, in integers or in double; linspace from both ends; to a power of `base` if that is not 0. */
KERNEL(index_arange, (OUT, char, out), (VAL, int64_t, n), (VAL, int64_t, stride), (VAL, int, dtype), (VAL, int, whole),
       (VAL, int64_t, start_i), (VAL, int64_t, step_i), (VAL, double, start), (VAL, double, step)) {
    KLOOP(i, n) {
        if (whole)
            k_store_i64(out + i * stride, dtype, (int64_t)((uint64_t)start_i + (uint64_t)i * (uint64_t)step_i));
        else
            k_store_f64(out + i * stride, dtype, start + (double)i * step);
    }
}
KERNEL(index_linspace, (OUT, char, out), (VAL, int64_t, n), (VAL, int64_t, stride), (VAL, int, dtype),
       (VAL, double, start), (VAL, double, end), (VAL, double, step), (VAL, double, base)) {
    KLOOP(i, n) {
        const double v = i < n / 2 ? start + (double)i * step : end - (double)(n - 1 - i) * step;
        k_store_f64(out + i * stride, dtype, base != 0 ? pow(base, v) : v);
    }
}
