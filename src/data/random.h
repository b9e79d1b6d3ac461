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

/* The numbers 0 ... n - 1, any order as likely as any other. */
static inline void fac__split_mix_order(uint64_t *state, int64_t *order, int64_t n) {
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) { /* Fisher, Yates 1938; Durstenfeld 1964 */
        int64_t j = fac__split_mix_below(state, i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

#endif
