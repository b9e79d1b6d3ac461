/* The strided copy under every other: loops for one side without gaps vectorise, the general one cannot. One element spread over a row
   and a row from its end to its start have loops of their own, rows of two to four elements are moved without one. */
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/cpu.h"

#define COPY(T)                                                                        \
    do {                                                                               \
        const int64_t size = sizeof(T);                                                \
        T *d = (T *)(void *)dst;                                                       \
        const T *s = (const T *)(const void *)src;                                     \
        if (to == size && from == 0) {                                                 \
            const T v = *s;                                                            \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = v;                        \
        } else if (to == size && from == -size) {                                      \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[-i];                    \
        } else if (to == size) {                                                       \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i] = s[i * (from / size)];     \
        } else if (from == size) {                                                     \
            FAC_IVDEP for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i];       \
        } else {                                                                       \
            for (int64_t i = 0; i < n; i++) d[i * (to / size)] = s[i * (from / size)]; \
        }                                                                              \
    } while (0)

#define EACH_ROW for (; rows > 0; rows--, dst += to_row, src += from_row)
#define SHORT_ROWS(T, N)                                                                 \
    EACH_ROW {                                                                           \
        T v[N];                                                                          \
        for (int k = 0; k < (N); k++) v[k] = *(const T *)(const void *)(src + k * from); \
        for (int k = 0; k < (N); k++) *(T *)(void *)(dst + k * to) = v[k];               \
    }                                                                                    \
    break
#define COPY_ROWS(T)            \
    switch (rows > 1 ? n : 0) { \
    case 2: SHORT_ROWS(T, 2);   \
    case 3: SHORT_ROWS(T, 3);   \
    case 4: SHORT_ROWS(T, 4);   \
    default: EACH_ROW COPY(T);  \
    }

void FAC_ISA_NAME(fac__items_copy_rows)(size_t item, char *dst, int64_t to, const char *src, int64_t from, int64_t n,
                                        int64_t rows, int64_t to_row, int64_t from_row) {
    if (to == (int64_t)item && from == (int64_t)item && n > 4)
        for (; rows > 0; rows--, dst += to_row, src += from_row) memcpy(dst, src, (size_t)n * item);
    else
        FAC_ITEM_SWITCH(item, COPY_ROWS)
}
