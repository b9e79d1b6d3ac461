/* Inner loops of reading through indices. An element is loaded by itself: the processors at hand gather no faster. Short rows have
   loops of their own, whose copies are a few moves. */
#include "backend/cpu/kernels/gather.h"
#include "backend/cpu/kernels/items.h"

/* The sign of v - low or of size - 1 - v tells. */
bool FAC_ISA_NAME(fac__indices_within)(const int64_t *v, int64_t step, int64_t n, int64_t low, int64_t size) {
    const uint64_t first = (uint64_t)low, last = (uint64_t)size - 1;
    uint64_t signs = 0;
    if (step == 1)
        for (int64_t i = 0; i < n; i++) signs |= ((uint64_t)v[i] - first) | (last - (uint64_t)v[i]);
    else
        for (int64_t i = 0; i < n; i++, v += step) signs |= ((uint64_t)*v - first) | (last - (uint64_t)*v);
    return signs >> 63 == 0;
}

void FAC_ISA_NAME(fac__fold_index)(int64_t *out, const int64_t *v, int64_t n, int64_t size, int64_t stride,
                                   bool first) {
    if (first)
        for (int64_t i = 0; i < n; i++) out[i] = (v[i] + (v[i] >> 63 & size)) * stride;
    else
        for (int64_t i = 0; i < n; i++) out[i] += (v[i] + (v[i] >> 63 & size)) * stride;
}

/* Four elements are loaded before one is stored. */
#define GATHER(T)                                                                                       \
    do {                                                                                                \
        T *o = (T *)(void *)out;                                                                        \
        const T *s = (const T *)(const void *)src;                                                      \
        int64_t i = 0;                                                                                  \
        if (out_step == 1 && index_step == 1 && src_step == 0 && step == 1) {                           \
            for (; i + 4 <= n; i += 4) {                                                                \
                const T a = s[index[i]], b = s[index[i + 1]], c = s[index[i + 2]], d = s[index[i + 3]]; \
                o[i] = a, o[i + 1] = b, o[i + 2] = c, o[i + 3] = d;                                     \
            }                                                                                           \
            for (; i < n; i++) o[i] = s[index[i]];                                                      \
        } else                                                                                          \
            for (; i < n; i++) o[i * out_step] = s[i * src_step + index[i * index_step] * step];        \
    } while (0)
void FAC_ISA_NAME(fac__gather_varying)(size_t item, char *out, int64_t out_step, const int64_t *index,
                                       int64_t index_step, const char *src, int64_t src_step, int64_t step, int64_t n) {
    FAC_ITEM_SWITCH(item, GATHER)
}

/* The processor foresees what follows within a row, but not which row is next. */
enum { FAR = 12 };
#define ROWS(BYTES)                                                             \
    for (int64_t i = begin; i < end; i++, out += (BYTES)) {                     \
        if (i + FAR < rows) __builtin_prefetch(src + index[i + FAR] * (BYTES)); \
        memcpy(out, src + index[i] * (BYTES), (BYTES));                         \
    }                                                                           \
    return true
bool FAC_ISA_NAME(fac__gather_short_rows)(char *out, const char *src, const int64_t *index, int64_t rows, int64_t row,
                                          int64_t begin, int64_t end) {
    out += begin * row;
    switch (row) {
    case 1: ROWS(1);
    case 2: ROWS(2);
    case 4: ROWS(4);
    case 8: ROWS(8);
    case 16: ROWS(16);
    case 32: ROWS(32);
    case 48: ROWS(48);
    case 64: ROWS(64);
    case 96: ROWS(96);
    case 128: ROWS(128);
    default: return false;
    }
}
