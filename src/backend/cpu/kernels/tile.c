#include "backend/cpu/kernels/tile_isa.h"

void fac__tile_load(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    FAC_ISA_PICK(fac__tile_load)(k, dst, src, d, stride, n);
}

void fac__tile_load_map(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_tile_map map,
                        double p) {
    FAC_ISA_PICK(fac__tile_load_map)(k, dst, src, d, stride, n, map, p);
}

void fac__tile_store(fac_acc k, const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    FAC_ISA_PICK(fac__tile_store)(k, src, dst, d, stride, n);
}

void fac__tile_narrow(fac_acc k, void *tile, int64_t n, fac_dtype d) {
    if (fac__acc_is(k, d)) return;
    char scratch[64 * 16];
    size_t item = fac__acc_size(k);
    for (int64_t i = 0; i < n; i += 64) {
        char *at = (char *)tile + (size_t)i * item;
        int64_t m = fac__min(64, n - i);
        fac__tile_store(k, at, scratch, d, 1, m);
        fac__tile_load(k, at, scratch, d, 1, m);
    }
}

#define GATHER(T)                                             \
    do {                                                      \
        const T *s = src;                                     \
        T *d = dst;                                           \
        for (int64_t i = 0; i < n; i++) d[i] = s[i * stride]; \
    } while (0)

typedef struct item16 {
    uint64_t v[2];
} item16;

void fac__tile_gather(size_t item, void *dst, const void *src, int64_t stride, int64_t n) {
    if (stride == 1) {
        memcpy(dst, src, (size_t)n * item);
        return;
    }
    switch (item) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    case 8: GATHER(uint64_t); break;
    default: GATHER(item16); break;
    }
}
