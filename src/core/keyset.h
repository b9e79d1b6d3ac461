/* Dispatch keys: a key set is 16 backend bits below 48 functionality bits. The highest functionality wins, on the
   highest backend. Public names are in facula/dispatch.h. */
#ifndef FAC_SRC_CORE_KEYSET_H
#define FAC_SRC_CORE_KEYSET_H

#include <facula/dispatch.h>

#define FAC_BACKEND_BITS 16
#define FAC_BACKEND_MASK ((fac_keyset)0xffff)
static inline fac_keyset fac__backend_bit(fac_backend b) { return (fac_keyset)1 << (unsigned)b; }
static inline fac_keyset fac__func_bit(fac_functionality f) {
    return (fac_keyset)1 << (FAC_BACKEND_BITS + (unsigned)f);
}
/* Highest functionality in the set, or -1 if it has none. */
static inline int fac__keyset_func(fac_keyset ks) {
    fac_keyset high = ks >> FAC_BACKEND_BITS;
    return high ? 63 - __builtin_clzll(high) : -1;
}
/* Highest backend in the set, or -1 if it has none. */
static inline int fac__keyset_backend(fac_keyset ks) {
    fac_keyset low = ks & FAC_BACKEND_MASK;
    return low ? 63 - __builtin_clzll(low) : -1;
}
/* All functionality bits strictly below f, and all backends: what redispatch below f keeps. */
static inline fac_keyset fac__below(fac_functionality f) { return (fac__func_bit(f) - 1); }

#define FAC_KS_AUTOGRAD (fac__func_bit(FAC_KEY_AUTOGRAD))
#define FAC_KS_ADINPLACEORVIEW (fac__func_bit(FAC_KEY_AD_INPLACE_OR_VIEW))
#define FAC_KS_DENSE (fac__func_bit(FAC_KEY_DENSE))
/* Keys of tensors whose elements in memory are not what is meant. */
#define FAC_KS_NOT_PLAIN (fac__func_bit(FAC_KEY_CONJUGATE) | fac__func_bit(FAC_KEY_QUANTIZED))

#endif
