/* Inner loops of masks: elements are packed and unpacked without a branch, which a mask that follows no pattern would mispredict. With
   AVX-512, 16 elements of 4 bytes, or 8 of 8, go through the instructions that compress and expand a register. */
#include "backend/cpu/kernels/masked.h"
#include "backend/cpu/kernels/items.h"
#include "backend/cpu/simd.h"
#include <string.h>

/* 64 flags, 0 or 1 each, as bits: a product moves those of 8 bytes side by side. */
static inline uint64_t bits_of(const uint8_t *flags) {
#if FAC_ISA_LEVEL >= 2
    const __m512i v = _mm512_loadu_si512(flags);
    return _mm512_test_epi8_mask(v, v);
#else
    uint64_t bits = 0;
    for (int k = 0; k < 8; k++) {
        uint64_t part = 0;
        for (int i = 0; i < 8; i++) part |= (uint64_t)flags[8 * k + i] << (8 * i);
        bits |= ((part * UINT64_C(0x0102040810204080)) >> 56) << (8 * k);
    }
    return bits;
#endif
}

/* Flags of n elements, whose type is T. Comparisons are of values: a zero's sign does not count. */
#define FLAGS(T, NOT_ZERO)                  \
    do {                                    \
        const T *s_ = src;                  \
        for (int64_t i = 0; i < n; i++) {   \
            const T x = s_[i];              \
            flags[i] = (uint8_t)(NOT_ZERO); \
        }                                   \
    } while (0)
typedef struct flag_pair32 {
    float re, im;
} flag_pair32;
typedef struct flag_pair64 {
    double re, im;
} flag_pair64;
static inline void flags_of(uint8_t *flags, const void *src, fac_dtype d, int64_t n) {
    switch (fac__dtype_size(d)) {
    case 1: FLAGS(uint8_t, x != 0); break;
    case 2:
        if (d == FAC_I16)
            FLAGS(uint16_t, x != 0);
        else
            FLAGS(uint16_t, (x & 0x7fff) != 0);
        break;
    case 4:
        if (d == FAC_F32)
            FLAGS(float, x != 0);
        else
            FLAGS(uint32_t, x != 0);
        break;
    case 8:
        if (d == FAC_F64)
            FLAGS(double, x != 0);
        else if (d == FAC_C64)
            FLAGS(flag_pair32, (x.re != 0) | (x.im != 0));
        else
            FLAGS(uint64_t, x != 0);
        break;
    default: FLAGS(flag_pair64, (x.re != 0) | (x.im != 0)); break;
    }
}

int64_t FAC_ISA_NAME(fac__nonzero_bits)(uint64_t *bits, const void *src, fac_dtype d, int64_t n) {
    enum { TILE = 512 };
    uint8_t flags[TILE];
    const char *from = src;
    int64_t total = 0;
    for (int64_t i = 0; i < n; i += TILE, from += TILE * (int64_t)fac__dtype_size(d)) {
        const int64_t m = n - i < TILE ? n - i : TILE, words = (m + 63) / 64;
        if (m < TILE) memset(flags, 0, sizeof flags);
        flags_of(flags, from, d, m);
        for (int64_t k = 0; k < words; k++) {
            bits[k] = bits_of(flags + 64 * k);
            total += __builtin_popcountll(bits[k]);
        }
        bits += words;
    }
    return total;
}

int64_t FAC_ISA_NAME(fac__count_true)(const uint8_t *mask, int64_t n) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += mask[i] != 0;
    return total;
}

#if FAC_ISA_LEVEL >= 2
static inline __mmask16 flags16(const uint8_t *mask) {
    const __m128i m = _mm_loadu_si128((const void *)mask);
    return _mm_test_epi8_mask(m, m);
}
static inline __mmask8 flags8(const uint8_t *mask) {
    const __m128i m = _mm_loadl_epi64((const void *)mask);
    return (__mmask8)_mm_test_epi8_mask(m, m);
}

/* Both return how many of the n elements they did. */
static int64_t pack_4(uint32_t **list, const uint32_t *from, const uint8_t *mask, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __mmask16 k = flags16(mask + i);
        const int count = __builtin_popcount(k);
        const __m512i v = _mm512_maskz_compress_epi32(k, _mm512_loadu_si512(from + i));
        _mm512_mask_storeu_epi32(*list, (__mmask16)((1u << count) - 1), v);
        *list += count;
    }
    return i;
}
static int64_t unpack_4(uint32_t *to, const uint32_t **list, const uint8_t *mask, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __mmask16 k = flags16(mask + i);
        const int count = __builtin_popcount(k);
        const __m512i v = _mm512_maskz_loadu_epi32((__mmask16)((1u << count) - 1), *list);
        _mm512_storeu_si512(to + i, _mm512_mask_expand_epi32(_mm512_loadu_si512(to + i), k, v));
        *list += count;
    }
    return i;
}
static int64_t pack_8(uint64_t **list, const uint64_t *from, const uint8_t *mask, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __mmask8 k = flags8(mask + i);
        const int count = __builtin_popcount(k);
        const __m512i v = _mm512_maskz_compress_epi64(k, _mm512_loadu_si512(from + i));
        _mm512_mask_storeu_epi64(*list, (__mmask8)((1u << count) - 1), v);
        *list += count;
    }
    return i;
}
static int64_t unpack_8(uint64_t *to, const uint64_t **list, const uint8_t *mask, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __mmask8 k = flags8(mask + i);
        const int count = __builtin_popcount(k);
        const __m512i v = _mm512_maskz_loadu_epi64((__mmask8)((1u << count) - 1), *list);
        _mm512_storeu_si512(to + i, _mm512_mask_expand_epi64(_mm512_loadu_si512(to + i), k, v));
        *list += count;
    }
    return i;
}
#endif

/* An element whose flag is not set is written to the list too, and then over; where the list is full, all is done. */
#define PACK(T)                                                                    \
    do {                                                                           \
        T *l = (T *)(void *)list;                                                  \
        const T *s = (const T *)(const void *)from;                                \
        for (; i < n && packed < room; i++) l[packed] = s[i], packed += !!mask[i]; \
    } while (0)
int64_t FAC_ISA_NAME(fac__pack_true)(size_t item, char *list, int64_t room, const char *from, const uint8_t *mask,
                                     int64_t n) {
    int64_t i = 0, packed = 0;
#if FAC_ISA_LEVEL >= 2
    if (item == 4) {
        uint32_t *l = (void *)list;
        i = pack_4(&l, (const void *)from, mask, n);
        packed = ((const char *)l - list) >> 2;
    } else if (item == 8) {
        uint64_t *l = (void *)list;
        i = pack_8(&l, (const void *)from, mask, n);
        packed = ((const char *)l - list) >> 3;
    }
#endif
    FAC_ITEM_SWITCH(item, PACK)
    return packed;
}

#define UNPACK(T)                                         \
    do {                                                  \
        T *d = (T *)(void *)to;                           \
        const T *l = (const T *)(const void *)list;       \
        for (; i < n; i++) {                              \
            const T *value = mask[i] ? l + taken : d + i; \
            d[i] = *value;                                \
            taken += !!mask[i];                           \
        }                                                 \
    } while (0)
int64_t FAC_ISA_NAME(fac__unpack_true)(size_t item, char *to, const char *list, const uint8_t *mask, int64_t n) {
    int64_t i = 0, taken = 0;
#if FAC_ISA_LEVEL >= 2
    if (item == 4) {
        const uint32_t *l = (const void *)list;
        i = unpack_4((void *)to, &l, mask, n);
        taken = ((const char *)l - list) >> 2;
    } else if (item == 8) {
        const uint64_t *l = (const void *)list;
        i = unpack_8((void *)to, &l, mask, n);
        taken = ((const char *)l - list) >> 3;
    }
#endif
    FAC_ITEM_SWITCH(item, UNPACK)
    return taken;
}
