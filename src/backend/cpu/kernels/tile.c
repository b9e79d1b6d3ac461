#include "backend/cpu/kernels/tile_isa.h"
#include "backend/cpu/loops.h"

#define CAST_AT_ONCE 64

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

void fac__tile_load_as(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_dtype via) {
    _Alignas(16) char raw[CAST_AT_ONCE * 16], cast[CAST_AT_ONCE * 16];
    size_t item = fac__dtype_size(d);
    for (int64_t i = 0; i < n; i += CAST_AT_ONCE) {
        int64_t m = fac__min(CAST_AT_ONCE, n - i);
        fac__tile_gather(item, raw, (const char *)src + i * stride * (int64_t)item, stride, m);
        fac__casts[via][d](cast, raw, m);
        fac__tile_load(k, (char *)dst + (size_t)i * fac__acc_size(k), cast, via, 1, m);
    }
}
