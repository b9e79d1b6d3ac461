/* The variants of the tile conversions, one per instruction set. */
#ifndef FAC_SRC_BACKEND_CPU_KERNELS_TILE_ISA_H
#define FAC_SRC_BACKEND_CPU_KERNELS_TILE_ISA_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/tile.h"

FAC_ISA_DECLARE(void, fac__tile_load, (fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n));
FAC_ISA_DECLARE(void, fac__tile_load_map,
                (fac_acc k, void *dst, const void *src, fac_dtype d, int64_t stride, int64_t n, fac_tile_map map,
                 double p));
FAC_ISA_DECLARE(void, fac__tile_store, (fac_acc k, const void *src, void *dst, fac_dtype d, int64_t stride, int64_t n));

#endif
