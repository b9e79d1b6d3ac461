/* Tiles: short runs of elements converted to the type in which a kernel accumulates. Kernels that cannot read a tensor in
   place (another dtype, a stride, a mapping) go through a tile that stays in L1. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_TILE_H
#define FAC_SRC_BACKEND_CPU_KERNELS_TILE_H

#include "backend/cpu/loops.h"
#include "iter/reduction.h"

#define FAC_TILE 1024 /* elements of the widest kind: 16 KiB */

typedef union fac_tile_buf {
    float f32[FAC_TILE];
    double f64[FAC_TILE];
    int64_t i64[FAC_TILE];
    double c128[2 * FAC_TILE];
} fac_tile_buf __attribute__((aligned(64)));

/* One element of any kind. */
typedef union fac_acc_value {
    float f32;
    double f64;
    int64_t i64;
    double c128[2];
} fac_acc_value;

static inline size_t fac__acc_size(fac_acc k) { return k == FAC_ACC_F32 ? 4 : k == FAC_ACC_C128 ? 16 : 8; }
/* True if elements of d can be read as kind k in place. */
static inline bool fac__acc_is(fac_acc k, fac_dtype d) {
    return (k == FAC_ACC_F32 && d == FAC_F32) || (k == FAC_ACC_F64 && d == FAC_F64) ||
           (k == FAC_ACC_I64 && d == FAC_I64) || (k == FAC_ACC_C128 && d == FAC_C128);
}

extern const uint8_t fac__acc_dtype[FAC_ACC_COUNT]; /* the dtype of a kind's elements */

/* Converts n elements of dtype d, `stride` elements apart, to kind k at dst. Complex to a real kind takes the real part. */
static inline void fac__tile_load(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n) {
    fac__casts[fac__acc_dtype[k]][d](dst, 1, src, stride, n);
}
/* Converts n elements of kind k to dtype d, `stride` elements apart at dst. To bool: non-zero. */
static inline void fac__tile_store(fac_acc k, const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n) {
    fac__casts[d][fac__acc_dtype[k]](dst, stride, src, 1, n);
}
/* As fac__tile_load; then maps each element; p is the exponent of FAC_MAP_POW. */
void fac__tile_load_map(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_tile_map map,
                        double p);
/* As fac__tile_load by way of dtype `via`: each element is converted to it first. */
void fac__tile_load_as(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_dtype via);

#endif
