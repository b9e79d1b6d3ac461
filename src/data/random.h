/* A small random sequence for choosing samples: SplitMix64 (Steele, Lea, Flood 2014). Its state is one number, so that
   an order depends on a seed alone and can be taken up anywhere. */
#ifndef FAC_SRC_DATA_RANDOM_H
#define FAC_SRC_DATA_RANDOM_H

#include <stdint.h>

static inline uint64_t fac__split_mix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Evenly distributed in [0, n), n > 0: draws that would favour small results are thrown away. */
static inline int64_t fac__split_mix_below(uint64_t *state, int64_t n) {
    uint64_t bound = (uint64_t)n, favoured = -bound % bound, x;
    do x = fac__split_mix(state);
    while (x < favoured);
    return (int64_t)(x % bound);
}

#endif
