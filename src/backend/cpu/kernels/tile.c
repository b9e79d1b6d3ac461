/* Loads and stores tiles: conversions between a tensor's dtype and the one in which a kernel accumulates. */
#include "backend/cpu/kernels/tile.h"
#include "backend/cpu/kernels/tile_isa.h"

const uint8_t fac__acc_dtype[FAC_ACC_COUNT] = {
    [FAC_ACC_F32] = FAC_F32, [FAC_ACC_F64] = FAC_F64, [FAC_ACC_I64] = FAC_I64, [FAC_ACC_C128] = FAC_C128};

void fac__tile_load_as(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_dtype via) {
    enum { PIECE = 256, WIDEST = 16 }; /* elements; bytes of the widest */
    _Alignas(WIDEST) char middle[PIECE * WIDEST];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = fac__min(PIECE, n - i);
        fac__casts[via][d](middle, 1, (const char *)src + i * stride * fac__dtype_size(d), stride, m);
        fac__tile_load(k, (char *)dst + (size_t)i * fac__acc_size(k), middle, via, 1, m);
    }
}

void fac__tile_load_map(fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_tile_map map,
                        double p) {
    if (map == FAC_MAP_NONZERO) {
        FAC_ISA_PICK(fac__tile_nonzero)(dst, src, d, stride, n);
        return;
    }
    if (map == FAC_MAP_BITS) {
        fac__tile_load(fac_dtype_is_floating(d) ? FAC_ACC_F64 : FAC_ACC_I64, dst, src, d, stride, n);
        return;
    }
    const bool in_place =
        stride == 1 && map != FAC_MAP_NONE && (k == FAC_ACC_F32 || k == FAC_ACC_F64) && fac__acc_is(k, d);
    if (fac_dtype_is_complex(d) && k != FAC_ACC_C128)
        FAC_ISA_PICK(fac__tile_modulus)(k, dst, src, d, stride, n);
    else if (!in_place)
        fac__tile_load(k, dst, src, d, stride, n);
    FAC_ISA_PICK(fac__tile_map)(k, dst, in_place ? src : dst, n, map, p);
}
