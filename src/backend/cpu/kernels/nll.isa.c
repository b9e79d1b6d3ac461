/* Points of a tile side by side: nothing here depends on a neighbour. */
#include "backend/cpu/kernels/nll.h"

#define CLASSES(NAME, T)                                                                                   \
    static inline bool NAME(const T *restrict t, int64_t step, int64_t n, int64_t classes, int64_t ignore, \
                            int64_t *restrict out) {                                                       \
        int64_t bad = 0;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                  \
            const int64_t c = (int64_t)t[i * step], ignored = c == ignore;                                 \
            bad |= (ignored == 0) & ((c < 0) | (c >= classes));                                            \
            out[i] = ignored ? -1 : c;                                                                     \
        }                                                                                                  \
        return !bad;                                                                                       \
    }
CLASSES(classes_i64, int64_t)
CLASSES(classes_u8, uint8_t)
bool FAC_ISA_NAME(fac__nll_classes_i64)(const int64_t *t, int64_t step, int64_t n, int64_t classes, int64_t ignore,
                                        int64_t *out) {
    return step == 1 ? classes_i64(t, 1, n, classes, ignore, out) : classes_i64(t, step, n, classes, ignore, out);
}
bool FAC_ISA_NAME(fac__nll_classes_u8)(const uint8_t *t, int64_t step, int64_t n, int64_t classes, int64_t ignore,
                                       int64_t *out) {
    return classes_u8(t, step, n, classes, ignore, out);
}

#define PICK(T)                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                             \
        const T *at = (const T *)(const void *)p + i * step + (t[i] < 0 ? 0 : t[i]) * class_step; \
        if (t[i] >= 0)                                                                            \
            ((T *)out)[i] = *at;                                                                  \
        else                                                                                      \
            memset((T *)out + i, 0, sizeof(T));                                                   \
    }
void FAC_ISA_NAME(fac__nll_pick)(size_t item, const char *p, int64_t step, int64_t class_step, const int64_t *t,
                                 int64_t n, void *out) {
    FAC_ITEM_SWITCH(item, PICK)
}

#define PUT(T)                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                      \
        if (t[i] >= 0) ((T *)(void *)p)[i * step + t[i] * class_step] = ((const T *)x)[i]; \
    }
void FAC_ISA_NAME(fac__nll_put)(size_t item, char *p, int64_t step, int64_t class_step, const int64_t *t, int64_t n,
                                const void *x) {
    FAC_ITEM_SWITCH(item, PUT)
}
