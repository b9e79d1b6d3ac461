/* The strided copy under every other: loops for one side without gaps vectorise, the general one cannot. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/cpu.h"

#define COPY(T)                                                                        \
    do {                                                                               \
        const int64_t size = sizeof(T);                                                \
        T *d = (T *)(void *)dst;                                                       \
        const T *s = (const T *)(const void *)src;                                     \
        if (to == size) {                                                              \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[i * (from / size)];     \
        } else if (from == size) {                                                     \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i];       \
        } else {                                                                       \
            for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i * (from / size)]; \
        }                                                                              \
    } while (0)

#define COPY_ROWS(T) \
    for (; rows > 0; rows--, dst += to_row, src += from_row) COPY(T)

void FAC_ISA_NAME(fac__items_copy_rows)(size_t item, char *dst, int64_t to, const char *src, int64_t from, int64_t n,
                                        int64_t rows, int64_t to_row, int64_t from_row) {
    if (to == (int64_t)item && from == (int64_t)item)
        for (; rows > 0; rows--, dst += to_row, src += from_row) memcpy(dst, src, (size_t)n * item);
    else
        FAC_ITEM_SWITCH(item, COPY_ROWS)
}
